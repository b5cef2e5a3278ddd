//! Messages out of a stream of events.

/// Bytes of an event that is still coming. A host's largest is a result with text and object, and their escapes.
const EVENT_LIMIT: usize = 32 << 20;

/// What was read of a stream.
#[derive(Default)]
pub(super) struct Events {
    rest: Vec<u8>,
    /// The number of the last event that had one, to go on from.
    pub last_id: Option<String>,
}

impl Events {
    /// A stream that goes on after the event of this number.
    pub(super) fn after(last_id: Option<String>) -> Self {
        Self { rest: Vec::new(), last_id }
    }

    /// The messages that are whole with these bytes; none when an event takes too much memory.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<Vec<String>> {
        self.rest.extend_from_slice(bytes);
        let mut messages = Vec::new();
        while let Some((length, gap)) = end_of_event(&self.rest) {
            let event: Vec<u8> = self.rest.drain(..length + gap).take(length).collect();
            messages.extend(self.read(&String::from_utf8_lossy(&event)));
        }
        (self.rest.len() <= EVENT_LIMIT).then_some(messages)
    }

    fn read(&mut self, event: &str) -> Option<String> {
        let mut data: Vec<&str> = Vec::new();
        for line in event.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => data.push(value),
                "id" => self.last_id = Some(value.to_owned()),
                _ => {}
            }
        }
        let data = data.join("\n");
        (!data.trim().is_empty()).then_some(data)
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
            let mut events = Events::default();
            let messages: Vec<String> =
                stream.as_bytes().chunks(size).flat_map(|piece| events.take(piece).unwrap()).collect();
            assert_eq!(messages, ["{\"a\":\n1}", "{}"], "{size}");
            assert_eq!(events.last_id.as_deref(), Some("8"));
        }
    }
}
