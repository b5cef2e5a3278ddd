//! The newest events, once for all readers of a host. A reader keeps no more than its place in them.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::event::{Numbered, Topics};

/// Events that are kept, and bytes of them: who is further behind is too slow.
const EVENTS: usize = 4_096;
const BYTES: usize = 8 << 20;
/// Bytes that a reader takes at once, rounded up to whole events.
const PORTION: usize = 64 << 10;

/// A run of events without a gap.
#[derive(Debug, Default)]
pub struct Recent {
    events: VecDeque<Numbered>,
    /// The number of the last one, or where the run begins.
    head: i64,
    bytes: usize,
}

/// What there is for a reader after its place.
#[derive(Debug, PartialEq, Eq)]
pub enum Portion {
    /// Events of its topics, perhaps none, up to this place.
    Some(Bytes, i64),
    /// Nothing yet.
    Nothing,
    /// What comes next for it is not here any more.
    Gone,
}

impl Recent {
    pub fn head(&self) -> i64 {
        self.head
    }

    /// Forgets everything; the next event is the one after `head`.
    pub fn restart(&mut self, head: i64) {
        *self = Self { head, ..Self::default() };
    }

    /// Adds what comes after the head. What does not follow it without a gap makes the run begin anew.
    pub fn add(&mut self, events: Vec<Numbered>) {
        for event in events {
            if event.id != self.head + 1 {
                self.restart(event.id - 1);
            }
            self.head = event.id;
            self.bytes += event.text.len();
            self.events.push_back(event);
            while self.events.len() > EVENTS || self.bytes > BYTES {
                let Some(oldest) = self.events.pop_front() else { break };
                self.bytes -= oldest.text.len();
            }
        }
    }

    pub fn portion(&self, place: i64, topics: Topics) -> Portion {
        if place >= self.head {
            return Portion::Nothing;
        }
        let Some(missing) = self.events.front().map(|first| place + 1 - first.id) else { return Portion::Gone };
        match usize::try_from(missing) {
            Ok(from) => portion(self.events.range(from..), place, topics),
            Err(_) => Portion::Gone,
        }
    }
}

/// The events of these topics, as many as go at once.
pub fn portion<'e>(events: impl Iterator<Item = &'e Numbered>, mut place: i64, topics: Topics) -> Portion {
    let mut text = BytesMut::new();
    for event in events {
        if topics.holds(event.topic) {
            text.extend_from_slice(&event.text);
        }
        place = event.id;
        if text.len() >= PORTION {
            break;
        }
    }
    Portion::Some(text.freeze(), place)
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::{super::event::Topic, *};

    fn event(id: i64, topic: Topic) -> Numbered {
        Numbered::new(id, topic, "x", OffsetDateTime::UNIX_EPOCH, "{}")
    }

    fn cards() -> Topics {
        Topics::default().with(Topic::Card)
    }

    fn recent(ids: std::ops::RangeInclusive<i64>) -> Recent {
        let mut recent = Recent::default();
        recent.restart(ids.start() - 1);
        recent.add(ids.map(|id| event(id, Topic::Card)).collect());
        recent
    }

    #[test]
    fn a_reader_gets_what_comes_after_its_place() {
        let recent = recent(11..=13);
        let Portion::Some(text, place) = recent.portion(11, cards()) else { panic!() };
        let text = std::str::from_utf8(&text).unwrap();
        assert!(text.starts_with("id: 12\n") && text.contains("\nid: 13\n") && place == 13, "{text}");
        assert_eq!(recent.portion(13, cards()), Portion::Nothing);
        assert_eq!(recent.portion(99, cards()), Portion::Nothing);
        assert_eq!(recent.portion(9, cards()), Portion::Gone);
    }

    #[test]
    fn other_topics_are_passed_over() {
        let recent = recent(1..=3);
        assert_eq!(recent.portion(0, Topics::default().with(Topic::Job)), Portion::Some(Bytes::new(), 3));
    }

    #[test]
    fn it_is_bounded_and_takes_no_gap() {
        let mut full = recent(1..=5_000);
        assert_eq!(full.events.len(), EVENTS);
        assert_eq!(full.portion(5_000 - EVENTS as i64 - 1, cards()), Portion::Gone);
        full.add(vec![event(6_000, Topic::Card)]);
        assert_eq!((full.events.len(), full.head()), (1, 6_000));
        assert_eq!(full.portion(5_000, cards()), Portion::Gone);
    }
}
