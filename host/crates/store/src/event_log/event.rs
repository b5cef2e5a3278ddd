//! What an event is, before and after it has its number.

use std::fmt::Write as _;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use cardinal_base::scope;
use cardinal_observe::recent::Entry;

/// What an event is about; readers choose by it, and may be let in to some of them only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    Card,
    Plugin,
    Job,
    Approval,
}

impl Topic {
    pub const ALL: [Self; 4] = [Self::Card, Self::Plugin, Self::Job, Self::Approval];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Card => "card",
            Self::Plugin => "plugin",
            Self::Job => "job",
            Self::Approval => "approval",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.name() == name)
    }

    /// What a reader of the topic has to hold.
    pub const fn scope(self) -> &'static str {
        match self {
            Self::Card => "cards:read",
            Self::Plugin => "plugins:read",
            Self::Job => "jobs:read",
            Self::Approval => scope::APPROVE,
        }
    }
}

/// Some of the topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topics(u8);

impl Topics {
    #[must_use]
    pub fn all() -> Self {
        Topic::ALL.into_iter().fold(Self::default(), Self::with)
    }

    #[must_use]
    pub const fn with(self, topic: Topic) -> Self {
        Self(self.0 | 1 << topic as u8)
    }

    pub const fn holds(self, topic: Topic) -> bool {
        self.0 & 1 << topic as u8 != 0
    }

    /// Those that are among the others, too.
    #[must_use]
    pub const fn among(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Topic::ALL.into_iter().filter(move |topic| self.holds(*topic)).map(Topic::name)
    }
}

/// Something that happened and that readers are to be told of. Cards' events are made by the database itself, from the
/// lines of their history.
#[derive(Clone, Debug)]
pub struct Event {
    pub topic: Topic,
    /// What happened, without its topic: `finished`.
    pub what: &'static str,
    /// An object: which one it is, and what readers need to decide whether to look. Every reader of the topic sees it.
    pub data: Value,
}

impl Event {
    pub fn new(topic: Topic, what: &'static str, data: Value) -> Self {
        Self { topic, what, data }
    }

    /// `job.finished`
    pub fn kind(&self) -> String {
        format!("{}.{}", self.topic.name(), self.what)
    }
}

/// An event as it is read, with its number.
#[derive(Clone, Debug)]
pub struct NumberedEvent {
    pub id: i64,
    pub topic: Topic,
    /// As it is sent, its number included.
    pub text: Bytes,
}

impl NumberedEvent {
    /// `data` is an object on one line, as PostgreSQL writes it.
    pub(crate) fn new(id: i64, topic: Topic, kind: &str, at: OffsetDateTime, data: &str) -> Self {
        let mut text = String::with_capacity(data.len() + 160);
        let at = at.format(&Rfc3339).unwrap_or_default();
        let rest = data.trim_start().trim_start_matches('{').trim_start();
        let comma = if rest.starts_with('}') { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "id: {id}\nevent: {kind}\ndata: {{\"type\":\"{kind}\",\"topic\":\"{}\",\"at\":\"{at}\"{comma}{rest}\n\n",
            topic.name()
        );
        Self { id, topic, text: text.into() }
    }
}

impl Entry for NumberedEvent {
    fn id(&self) -> i64 {
        self.id
    }

    fn size(&self) -> usize {
        self.text.len()
    }

    fn write(&self, out: &mut BytesMut) {
        out.extend_from_slice(&self.text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_one_object_on_one_line() {
        let at = OffsetDateTime::UNIX_EPOCH;
        let event = NumberedEvent::new(7, Topic::Card, "card.updated", at, r#"{"version": 2}"#);
        let text = std::str::from_utf8(&event.text).unwrap();
        let expected = "id: 7\nevent: card.updated\ndata: {\"type\":\"card.updated\",\"topic\":\"card\",\
                        \"at\":\"1970-01-01T00:00:00Z\",\"version\": 2}\n\n";
        assert_eq!(text, expected);
        let event = NumberedEvent::new(8, Topic::Job, "job.begun", at, "{}");
        let data = std::str::from_utf8(&event.text).unwrap().lines().nth(2).unwrap().strip_prefix("data: ").unwrap();
        assert_eq!(serde_json::from_str::<Value>(data).unwrap()["topic"], "job");
    }

    #[test]
    fn topics_are_known_by_their_names() {
        for topic in Topic::ALL {
            assert_eq!(Topic::named(topic.name()), Some(topic));
        }
        assert_eq!(Topic::named("cards"), None);
        let two = Topics::default().with(Topic::Job).with(Topic::Card);
        assert_eq!(two.names().collect::<Vec<_>>(), ["card", "job"]);
        assert!(!two.holds(Topic::Plugin));
        assert_eq!(Event::new(Topic::Job, "finished", Value::Null).kind(), "job.finished");
    }
}
