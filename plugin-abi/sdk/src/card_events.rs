//! What happens to cards, as plugins read it: [`CardEvents`], and the three ways to get them.
//!
//! * [`PluginContext::card_events`] reads a page and returns at once.
//! * [`PluginContext::next_card_events`] waits for the first event.
//! * [`PluginContext::follow_card_events`] hands every page to a function, for as long as the plugin runs.
//!
//! A manifest with `"requires": ["card-events"]` keeps the plugin out of hosts that have none of them.

use std::{future::Future, time::Duration};

use cardinal_plugin_abi::Slice;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{Level, PluginContext, Result, context::parse};

/// How long one question of [`PluginContext::next_card_events`] lasts at most: the host's own bound.
const WAIT: Duration = Duration::from_secs(30);
/// Events that [`PluginContext::follow_card_events`] takes at a time.
const PAGE_SIZE: u32 = 200;
/// How long it pauses after an error, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// A page of what happened to cards, oldest first.
///
/// Deal with the items, then keep the `cursor`, best in the transaction that writes what was made of them: then each
/// event has its effect once.
///
/// ```
/// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
/// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// # let ctx = host.context();
/// # cardinal_plugin::block_on(async {
/// let first = ctx.card_events(None, 100).await?;
/// if first.restart {
///     // nothing was read before: look at all cards
/// }
/// let next = ctx.card_events(Some(first.cursor), 100).await?;
/// assert!(next.items.is_empty() && !next.restart);
/// # Ok::<(), cardinal_plugin::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CardEvents {
    /// The events. Those of one card come in the order of its versions.
    pub items: Vec<CardEvent>,
    /// Where to go on. Reading on from an older cursor gives the events behind it again.
    pub cursor: i64,
    /// Whether what happened before `cursor` is unknown here, because nothing was read before, or so long ago that the
    /// host has forgotten it (7 days, or a million events). There are no items then: look at all cards
    /// ([`list_cards`](PluginContext::list_cards)) and go on from `cursor`.
    #[serde(default)]
    pub restart: bool,
}

/// Something that happened to a card. It says that the card has changed, not how: read the card to see what it is now.
///
/// ```
/// use cardinal_plugin::{CardChange, CardEvent, json, serde_json};
///
/// let event: CardEvent = serde_json::from_value(json!({
///     "id": 7, "type": "card.enriched", "at": "2026-01-01T00:00:00Z", "version": 2,
///     "card_id": "0190d3a0-0000-7000-8000-000000000001", "source_key": "supplier:shop", "kind": "supplier",
/// }))?;
/// assert_eq!((event.what, event.plugin()), (CardChange::Enriched, Some("supplier")));
/// assert_eq!(event.rest["kind"], "supplier");
/// # Ok::<(), cardinal_plugin::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CardEvent {
    /// The event's number. Later events have higher ones; numbers may be missing.
    pub id: i64,
    /// What happened.
    #[serde(rename = "type")]
    pub what: CardChange,
    /// When it happened, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// The card; `None` for [`CardChange::Bulk`].
    #[serde(default)]
    pub card_id: Option<Uuid>,
    /// The version that the card has had since then.
    #[serde(default)]
    pub version: Option<i64>,
    /// What else the host says: `actor` (`{kind, id, name}`), `source_key` and `kind` of a source, `action` and `cards`
    /// of a bulk action.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl CardEvent {
    /// Returns the plugin whose source was written or removed; `None` for other events.
    ///
    /// A plugin that writes to the cards that it follows skips its own events with it, or it follows itself for ever.
    ///
    /// ```
    /// use cardinal_plugin::{CardEvent, json, serde_json};
    ///
    /// let written: CardEvent = serde_json::from_value(json!({
    ///     "id": 7, "type": "card.enriched", "at": "2026-01-01T00:00:00Z", "source_key": "ratings:shop",
    /// }))?;
    /// assert_eq!(written.plugin(), Some("ratings"));
    /// let created = json!({ "id": 8, "type": "card.created", "at": "2026-01-01T00:00:00Z" });
    /// assert_eq!(serde_json::from_value::<CardEvent>(created)?.plugin(), None);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// ```
    pub fn plugin(&self) -> Option<&str> {
        self.rest.get("source_key")?.as_str()?.split_once(':').map(|(plugin, _)| plugin)
    }
}

/// What happened to a card.
///
/// A host may report changes that this SDK does not know, as [`Unknown`](Self::Unknown). Treat them like
/// [`Updated`](Self::Updated): look at the card again.
///
/// ```
/// use cardinal_plugin::CardChange;
///
/// /// Whether there is still a card to look at.
/// fn is_there(change: CardChange) -> bool {
///     !matches!(change, CardChange::Deleted | CardChange::Purged)
/// }
/// assert!(is_there(CardChange::Enriched) && is_there(CardChange::Unknown));
/// assert!(!is_there(CardChange::Purged));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CardChange {
    /// The card was created.
    #[serde(rename = "card.created")]
    Created,
    /// The card's own fields were changed.
    #[serde(rename = "card.updated")]
    Updated,
    /// A plugin wrote a source.
    #[serde(rename = "card.enriched")]
    Enriched,
    /// A source was removed.
    #[serde(rename = "card.source-removed")]
    SourceRemoved,
    /// The card was deleted. It can still be restored.
    #[serde(rename = "card.deleted")]
    Deleted,
    /// A deleted card is back.
    #[serde(rename = "card.restored")]
    Restored,
    /// The card is gone for good, its sources included. Rows of the plugin's tables that refer to it with `ON DELETE
    /// CASCADE` are gone, too.
    #[serde(rename = "card.purged")]
    Purged,
    /// One action changed more than 500 cards, which are not named. Look at all cards.
    #[serde(rename = "card.bulk")]
    Bulk,
    /// Something that this SDK does not know.
    #[serde(other)]
    Unknown,
}

impl PluginContext {
    /// Reads what has happened to cards since `after`: the [`cursor`](CardEvents::cursor) of the page before, or `None`
    /// at the first time. Returns at once, with an empty page when nothing has happened.
    ///
    /// A page has at most `limit` events; below 1 counts as 1, above 500 as 500. An event can be read about a second
    /// after its change. A reader that keeps its cursor after it has dealt with a page gets each event at least once,
    /// whatever stops in between.
    ///
    /// Outside a call the plugin reads as its service user. In a call the caller needs the right to read cards.
    ///
    /// ```
    /// use cardinal_plugin::{CardChange, PluginContext, Router, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, test_card};
    ///
    /// let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let ctx = host.context();
    /// let first = block_on(ctx.card_events(None, 100)).unwrap();
    /// assert!(first.restart, "look at all cards, then go on");
    ///
    /// let lamp = host.add_card(test_card("Lamp", json!({})));
    /// let page = block_on(ctx.card_events(Some(first.cursor), 100)).unwrap();
    /// assert_eq!((page.items[0].what, page.items[0].card_id), (CardChange::Created, Some(lamp)));
    /// assert!(block_on(ctx.card_events(Some(page.cursor), 100)).unwrap().items.is_empty());
    /// ```
    ///
    /// # Errors
    /// * 403 `insufficient-scope` for a call with neither `plugin:<name>:read` nor `cards:read`
    /// * [`Error::is_retryable`](crate::Error::is_retryable) when the host has no database at the moment
    /// * [`Error::is_cancelled`](crate::Error::is_cancelled) when the call is over or the plugin has been stopped
    pub fn card_events(
        &self,
        after: Option<i64>,
        limit: u32,
    ) -> impl Future<Output = Result<CardEvents>> + Send + use<> {
        self.ask_for_events(after, limit, Duration::ZERO)
    }

    /// Reads like [`card_events`](Self::card_events), but waits up to 30 seconds for the first event. The page is empty
    /// when none came.
    ///
    /// ```
    /// use cardinal_plugin::{CardChange, json, testing::test_card};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # cardinal_plugin::block_on(async {
    /// let begin = ctx.next_card_events(None, 100).await?.cursor; // at once: a first reader has to look at all cards
    /// host.add_card(test_card("Lamp", json!({})));
    /// let page = ctx.next_card_events(Some(begin), 100).await?;
    /// assert_eq!(page.items[0].what, CardChange::Created);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of [`card_events`](Self::card_events).
    pub fn next_card_events(
        &self,
        after: Option<i64>,
        limit: u32,
    ) -> impl Future<Output = Result<CardEvents>> + Send + use<> {
        self.ask_for_events(after, limit, WAIT)
    }

    fn ask_for_events(
        &self,
        after: Option<i64>,
        limit: u32,
        wait: Duration,
    ) -> impl Future<Output = Result<CardEvents>> + Send + use<> {
        let query = json!({ "after": after, "limit": limit, "wait_ms": wait.as_millis() as u64 }).to_string();
        let answer = (self.core.host.card_events())(self.core.ctx, self.call_id(), Slice::text(&query));
        async { parse(answer.await, "page of card events") }
    }

    /// Hands every page of events from `after` on to `handle`, until the plugin is stopped. It is for a task of the
    /// plugin's own, and reads as the service user, 200 events at a time.
    ///
    /// `handle` gets one page at a time. A page that it fails on is logged and comes again, after a second at first and
    /// a minute at most. What it has not dealt with when the plugin stops comes again, too, if `handle` keeps the
    /// cursor.
    ///
    /// The future ends only when the plugin is stopped, so run it with [`spawn`](Self::spawn), never in a handler.
    ///
    /// ```
    /// use cardinal_plugin::{CardEvents, PluginContext, Result};
    ///
    /// fn begin(ctx: &PluginContext) {
    ///     let own = ctx.as_plugin();
    ///     ctx.spawn(async move {
    ///         let after = kept_cursor(&own).await.unwrap_or_default();
    ///         own.follow_card_events(after, |page| deal_with(own.clone(), page)).await;
    ///     });
    /// }
    ///
    /// async fn deal_with(ctx: PluginContext, page: CardEvents) -> Result<()> {
    ///     if page.restart { /* look at all cards */ }
    ///     for event in page.items { /* look at event.card_id */ }
    ///     let conn = ctx.get_plugin_conn().await?;
    ///     conn.execute("UPDATE place SET cursor = $1", &[&page.cursor]).await?;
    ///     Ok(())
    /// }
    ///
    /// async fn kept_cursor(ctx: &PluginContext) -> Result<Option<i64>> {
    ///     let conn = ctx.get_plugin_conn().await?;
    ///     let row = conn.query_opt("SELECT cursor FROM place", &[]).await?;
    ///     Ok(row.map(|row| row.get(0)))
    /// }
    /// ```
    pub async fn follow_card_events<H, F>(&self, mut after: Option<i64>, mut handle: H)
    where
        H: FnMut(CardEvents) -> F + Send,
        F: Future<Output = Result<()>> + Send,
    {
        let own = self.as_plugin();
        let mut pause = FIRST_PAUSE;
        loop {
            let read = match own.next_card_events(after, PAGE_SIZE).await {
                Ok(page) if page.items.is_empty() && !page.restart => Ok(page.cursor),
                Ok(page) => {
                    let cursor = page.cursor;
                    handle(page).await.map(|()| cursor)
                }
                Err(error) => Err(error),
            };
            match read {
                Ok(cursor) => (after, pause) = (Some(cursor), FIRST_PAUSE),
                Err(error) if error.is_cancelled() => return,
                Err(error) => {
                    let fields = json!({ "error": format!("{error:?}"), "after": after });
                    own.log_with(Level::Warn, "card events were not dealt with; they come again", &fields);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            }
        }
    }
}
