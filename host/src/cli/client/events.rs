//! A stream of events (`text/event-stream`), as it comes in pieces.

/// What was read of a stream.
pub(crate) struct Events {
    rest: Vec<u8>,
    /// Bytes of an event that is still coming.
    limit: usize,
    /// The number of the last event that had one, to go on from.
    pub(crate) last_id: Option<String>,
}

/// An event that has data.
pub(crate) struct Event {
    /// Empty where the stream gives none, which means `message`.
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Events {
    /// A stream that goes on after the event of this number, with events of at most `limit` bytes.
    pub(crate) fn after(last_id: Option<String>, limit: usize) -> Self {
        Self { rest: Vec::new(), limit, last_id }
    }

    /// The events that are whole with these bytes; none when one takes too much memory.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Option<Vec<Event>> {
        self.rest.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some((length, gap)) = end_of_event(&self.rest) {
            let event: Vec<u8> = self.rest.drain(..length + gap).take(length).collect();
            events.extend(self.read(&String::from_utf8_lossy(&event)));
        }
        (self.rest.len() <= self.limit).then_some(events)
    }

    fn read(&mut self, event: &str) -> Option<Event> {
        let (mut name, mut data) = (String::new(), Vec::new());
        for line in event.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => data.push(value),
                "event" => name = value.to_owned(),
                "id" => self.last_id = Some(value.to_owned()),
                _ => {}
            }
        }
        let data = data.join("\n");
        (!data.trim().is_empty()).then_some(Event { name, data })
    }
}

/// How long the first event is, and how long the gap after it.
fn end_of_event(bytes: &[u8]) -> Option<(usize, usize)> {
    let gaps = [&b"\n\n"[..], b"\r\n\r\n"];
    let found = gaps.iter().filter_map(|gap| {
        let at = bytes.windows(gap.len()).position(|window| window == *gap)?;
        Some((at, gap.len()))
    });
    found.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let stream =
            ": still running\n\nid: 7\nevent: message\ndata: {\"a\":\ndata: 1}\n\ndata:{}\r\n\r\nid: 8\ndata: \n\n";
        for size in 1..stream.len() {
            let mut events = Events::after(None, stream.len());
            let read: Vec<Event> =
                stream.as_bytes().chunks(size).flat_map(|piece| events.take(piece).unwrap()).collect();
            let messages: Vec<&str> = read.iter().map(|event| &*event.data).collect();
            assert_eq!(messages, ["{\"a\":\n1}", "{}"], "{size}");
            assert_eq!((&*read[0].name, &*read[1].name), ("message", ""));
            assert_eq!(events.last_id.as_deref(), Some("8"));
        }
        assert!(Events::after(None, 8).take(b"data: 1234").is_none());
    }
}
