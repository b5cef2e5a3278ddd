//! A reader of server-sent events, as strict as a browser's.

use std::time::Duration;

use http::Method;
use http::response::Parts;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use crate::client::Client;

/// Longer than any event that a test waits for takes.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// An open stream.
#[derive(Debug)]
pub struct EventStream {
    pub head: Parts,
    body: Incoming,
    read: String,
    /// What a client that comes back sends as `Last-Event-ID`.
    pub last_id: Option<String>,
    /// Comments that came, heartbeats among them.
    pub comments: usize,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    pub id: Option<i64>,
    pub kind: String,
    pub data: Value,
}

impl Sent {
    pub fn card(&self) -> Option<&str> {
        self.data["card_id"].as_str()
    }

    pub fn version(&self) -> i64 {
        self.data["version"].as_i64().unwrap()
    }
}

impl EventStream {
    /// Opens `/v1/admin/events` with this query.
    pub async fn open(client: &Client, query: &str, last_id: Option<&str>) -> EventStream {
        EventStream::open_narrow(client, query, last_id, None).await
    }

    /// With a receive buffer of this size.
    pub async fn open_narrow(client: &Client, query: &str, last_id: Option<&str>, buffer: Option<u32>) -> EventStream {
        EventStream::try_open(client, query, last_id, buffer).await.unwrap()
    }

    /// # Errors
    /// The host can't be reached, or doesn't let the client in.
    pub async fn try_open(
        client: &Client,
        query: &str,
        last_id: Option<&str>,
        buffer: Option<u32>,
    ) -> anyhow::Result<EventStream> {
        EventStream::try_follow(client, &format!("/v1/admin/events{query}"), last_id, buffer).await
    }

    /// Opens any path that is read live.
    pub async fn follow(client: &Client, path: &str, last_id: Option<&str>) -> EventStream {
        EventStream::try_follow(client, path, last_id, None).await.unwrap()
    }

    /// # Errors
    /// As [`try_open`](Self::try_open).
    pub async fn try_follow(
        client: &Client,
        path: &str,
        last_id: Option<&str>,
        buffer: Option<u32>,
    ) -> anyhow::Result<EventStream> {
        let mut call = client.call(Method::GET, path).header("accept", "text/event-stream");
        if let Some(id) = last_id {
            call = call.header("last-event-id", id);
        }
        let (head, body) = call.open(buffer).await?.into_parts();
        anyhow::ensure!(head.status == 200, "{head:?}");
        Ok(EventStream { head, body, read: String::new(), last_id: last_id.map(str::to_owned), comments: 0 })
    }

    /// The next event; `None` at the end of the stream.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn try_next(&mut self) -> anyhow::Result<Option<Sent>> {
        loop {
            while let Some((block, rest)) = self.read.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.read = rest;
                if let Some(sent) = self.take(&block) {
                    return Ok(Some(sent));
                }
            }
            match tokio::time::timeout(READ_TIMEOUT, self.body.frame()).await? {
                None => return Ok(None),
                Some(frame) => {
                    let frame = frame?;
                    if let Some(data) = frame.data_ref() {
                        self.read.push_str(std::str::from_utf8(data)?);
                    }
                }
            }
        }
    }

    /// The next event; there has to be one.
    pub async fn next(&mut self) -> Sent {
        self.try_next().await.unwrap().expect("the stream goes on")
    }

    /// Waits until the host has answered with the first block, which it sends at once.
    pub async fn greeted(mut self) -> EventStream {
        while self.comments == 0 {
            let frame = tokio::time::timeout(READ_TIMEOUT, self.body.frame()).await.unwrap().unwrap().unwrap();
            self.read.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
            if let Some((block, rest)) = self.read.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                assert_eq!(self.take(&block), None, "an event before the greeting");
                self.read = rest;
            }
        }
        self
    }

    /// The next event of this kind; others are passed over.
    pub async fn next_of(&mut self, kind: &str) -> Sent {
        loop {
            let sent = self.next().await;
            if sent.kind == kind {
                return sent;
            }
            assert_ne!(sent.kind, "closed", "{sent:?}");
        }
    }

    /// The events of one card up to one that `last` picks.
    pub async fn of_card(&mut self, card: &str, last: impl Fn(&Sent) -> bool) -> Vec<Sent> {
        let mut found = Vec::new();
        loop {
            let sent = self.next().await;
            if sent.card() != Some(card) {
                continue;
            }
            let is_last = last(&sent);
            found.push(sent);
            if is_last {
                return found;
            }
        }
    }

    fn take(&mut self, block: &str) -> Option<Sent> {
        let (mut kind, mut data, mut id) = (None, None, None);
        for line in block.lines() {
            match line.split_once(':').map(|(name, value)| (name, value.strip_prefix(' ').unwrap_or(value))) {
                Some(("", _)) => self.comments += 1,
                Some(("id", value)) => id = Some(value.to_owned()),
                Some(("event", value)) => kind = Some(value.to_owned()),
                Some(("data", value)) => data = Some(serde_json::from_str(value).unwrap()),
                Some(("retry", value)) => drop(value.parse::<u32>().unwrap()),
                _ => panic!("no line of an event stream: {line:?} in {block:?}"),
            }
        }
        if let Some(id) = &id {
            let (old, new) = (self.last_id.as_deref().map(number), number(id));
            assert!(
                old.is_none_or(|old| old < new) || kind.as_deref() == Some("reset"),
                "{id} after {:?}",
                self.last_id
            );
            self.last_id = Some(id.clone());
        }
        // A block without data is no event.
        data.map(|data| Sent {
            id: id.as_deref().map(number),
            kind: kind.unwrap_or_else(|| "message".to_owned()),
            data,
        })
    }
}

fn number(id: &str) -> i64 {
    id.parse().unwrap_or_else(|error| panic!("{id:?} is no number: {error}"))
}
