//! What happens to cards in a test, and who waits for it.
//!
//! Events are numbered from 1 in the order in which they are raised, and can be read at once: a host takes about a
//! second.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use cardinal_plugin_abi::{Bytes, Error, error as codes};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{FakeHost, lock, now};

/// Events on a page when the plugin does not say, and at most: the host's own bounds.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 500;

/// The events so far, and who waits for more.
#[derive(Default)]
pub(in crate::testing) struct Events {
    all: Vec<Value>,
    /// How many of them are forgotten.
    forgotten: usize,
    waiting: Vec<Waker>,
}

impl FakeHost {
    /// Lets those who follow know that something happened to a card.
    pub(in crate::testing) fn raise(&self, what: &str, card: &Value, more: &Value) {
        let mut events = lock(&self.events);
        let mut event = json!({
            "id": events.all.len() + 1, "type": what, "at": now(), "card_id": card["id"], "version": card["version"],
        });
        if let (Some(event), Some(more)) = (event.as_object_mut(), more.as_object()) {
            event.extend(more.clone());
        }
        events.all.push(event);
        events.waiting.drain(..).for_each(Waker::wake);
    }

    /// Forgets what has happened so far, as a host does after a week.
    pub(in crate::testing) fn forget_events(&self) {
        let mut events = lock(&self.events);
        events.forgotten = events.all.len();
    }

    /// Lets those who follow know of a change to more cards than are named one by one.
    pub(in crate::testing) fn raise_bulk(&self, action: &str, cards: usize) {
        self.raise("card.bulk", &json!({ "id": Option::<Uuid>::None }), &json!({ "action": action, "cards": cards }));
    }
}

/// Which page is asked for.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct EventQuery {
    after: Option<usize>,
    limit: Option<usize>,
    #[serde(default)]
    wait_ms: u64,
}

impl EventQuery {
    pub(super) fn read(query: &str) -> Result<Self, Error> {
        serde_json::from_str(query).map_err(|error| Error::new(codes::INVALID_ARGUMENT, format!("the query: {error}")))
    }

    /// The page, once there is one: a test's host does not grow tired of waiting.
    pub(super) fn page(self, host: Arc<FakeHost>) -> impl Future<Output = Result<Bytes, Error>> + Send {
        Page { wanted: self, host }
    }
}

struct Page {
    wanted: EventQuery,
    host: Arc<FakeHost>,
}

impl Future for Page {
    type Output = Result<Bytes, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut events = lock(&self.host.events);
        let last = events.all.len();
        let limit = self.wanted.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let known = |after: &usize| (events.forgotten..=last).contains(after);
        let Some(after) = self.wanted.after.filter(known) else {
            let page = json!({ "items": [], "cursor": last, "restart": true });
            return Poll::Ready(Ok(page.to_string().into()));
        };
        if after == last && self.wanted.wait_ms > 0 {
            events.waiting.push(cx.waker().clone());
            return Poll::Pending;
        }
        let end = last.min(after + limit);
        let page = json!({ "items": events.all[after..end], "cursor": end, "restart": false });
        Poll::Ready(Ok(page.to_string().into()))
    }
}
