//! What happens to cards, as plugins read it.

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

/// Some of what happened to cards, in its order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CardEvents {
    /// The events; of one card in the order of its versions.
    pub items: Vec<CardEvent>,
    /// Where to go on. Keep it once the events are dealt with: reading on from an older one gives them again.
    pub cursor: i64,
    /// What happened before `cursor` is not known here, because nothing was read before, or so long ago that the host has
    /// forgotten it (7 days, or a million events). There are no items; look at all cards
    /// ([`list_cards`](PluginContext::list_cards)), then go on.
    #[serde(default)]
    pub restart: bool,
}

/// Something that happened to a card.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CardEvent {
    /// Its number; later events have higher ones.
    pub id: i64,
    /// What happened.
    #[serde(rename = "type")]
    pub what: CardChange,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// The card; none for [`CardChange::Bulk`].
    #[serde(default)]
    pub card_id: Option<Uuid>,
    /// The card's version since then.
    #[serde(default)]
    pub version: Option<i64>,
    /// What else the host says: `actor` (`{kind, id, name}`), `source_key` and `kind` of a source, `action` and `cards`
    /// of a bulk action.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl CardEvent {
    /// The plugin whose source was written or removed. A plugin that writes to the cards that it follows skips its own.
    pub fn plugin(&self) -> Option<&str> {
        self.rest.get("source_key")?.as_str()?.split_once(':').map(|(plugin, _)| plugin)
    }
}

/// What happened to a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CardChange {
    /// It was made.
    #[serde(rename = "card.created")]
    Created,
    /// Its own fields were changed.
    #[serde(rename = "card.updated")]
    Updated,
    /// A plugin wrote a source.
    #[serde(rename = "card.enriched")]
    Enriched,
    /// A source was removed.
    #[serde(rename = "card.source-removed")]
    SourceRemoved,
    /// It was deleted and can be restored.
    #[serde(rename = "card.deleted")]
    Deleted,
    /// It is back.
    #[serde(rename = "card.restored")]
    Restored,
    /// It is gone for good.
    #[serde(rename = "card.purged")]
    Purged,
    /// More than 500 cards were changed by one action, and are not named. Look at all cards.
    #[serde(rename = "card.bulk")]
    Bulk,
    /// Something that this SDK does not know.
    #[serde(other)]
    Unknown,
}

impl PluginContext {
    /// What has happened to cards since `after`, the [`cursor`](CardEvents::cursor) of the page before; at most `limit`
    /// events, 1 to 500. Each event is given at least once to a reader that keeps its cursor after it has dealt with the
    /// page, whatever stops in between. An event is there about a second after its change.
    ///
    /// Outside a call the plugin reads as its service user; in a call the caller needs the right to read cards.
    ///
    /// # Errors
    /// When the host refuses, or has no database just then.
    pub fn card_events(
        &self,
        after: Option<i64>,
        limit: u32,
    ) -> impl Future<Output = Result<CardEvents>> + Send + use<> {
        self.ask_for_events(after, limit, Duration::ZERO)
    }

    /// [`card_events`](Self::card_events) that waits for the first event: up to 30 seconds, then the page is empty.
    ///
    /// # Errors
    /// As above.
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

    /// Hands every page of events to `handle` from `after` on, until the plugin is stopped: for a task of the plugin's
    /// own. A page that `handle` fails on is logged and comes again, after a second at first and a minute at most; so does
    /// what was not dealt with before the plugin stopped, if `handle` keeps the cursor.
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
