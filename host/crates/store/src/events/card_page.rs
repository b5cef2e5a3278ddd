//! Events of cards by pages, for readers that keep their place themselves: plugins.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use super::Events;
use crate::{
    error::StoreError,
    event_log::{self, card_event::CardEventPage},
};

/// Events on a page when the reader says nothing, and at most.
const DEFAULT_LIMIT: i64 = 100;
const MAX_LIMIT: i64 = 500;
/// The longest that a reader may wait for the first event of a page.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Which page is wanted. Values beyond the bounds count as the bounds.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct CardEventQuery {
    /// The `cursor` of the page before.
    pub after: Option<i64>,
    pub limit: Option<i64>,
    pub wait_ms: Option<u64>,
}

impl Events {
    /// The page that `query` asks for. It may be empty when nobody waited for an event, or none came in time.
    pub async fn card_page(&self, query: &CardEventQuery) -> Result<CardEventPage, StoreError> {
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let until = Instant::now() + Duration::from_millis(query.wait_ms.unwrap_or(0)).min(MAX_WAIT);
        let mut head = self.head();
        let mut after = query.after;
        loop {
            head.borrow_and_update(); // before the look, or what comes in between would be waited for in vain
            let page = event_log::card_page(&self.pool, after, limit).await?;
            if !page.items.is_empty() || page.restart || Instant::now() >= until {
                return Ok(page);
            }
            after = Some(page.cursor);
            tokio::select! {
                changed = head.changed() => if changed.is_err() { return Ok(page) },
                () = tokio::time::sleep_until(until) => return Ok(page),
                () = self.stopped() => return Ok(page),
            }
        }
    }
}
