//! Cards as everybody reads them (the admin API, plugins and MCP clients), and as plugins write them.

use std::io;

use bytes::Bytes;
use futures_util::Stream;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::error::StoreError;
use crate::{
    card_estimates::Estimates,
    card_list::{self, Wanted},
    card_sources::{Entry, Written},
};
use cardinal_base::{clock::Clock, page::Cursors};
use cardinal_cards::{
    card::{Card, PartialCard},
    filter::{Filter, ListQuery, Sort},
};
use cardinal_database::pool::Pool;

mod export;
mod turns;

pub use export::Format;

use export::Exports;
use turns::Turns;
pub use turns::Unwritten;

/// The cards.
pub struct Catalogue {
    pool: Pool,
    turns: Turns,
    exports: Exports,
    cursors: Cursors,
    estimates: Estimates,
    clock: Clock,
}

/// A page of cards as readers get it.
#[derive(Serialize, JsonSchema)]
pub struct CardPage {
    items: Items,
    next_cursor: Option<String>,
    prev_cursor: Option<String>,
    total_estimate: i64,
    /// Only when it was asked for; null when counting took too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Option<i64>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Items {
    Whole(Vec<Card>),
    /// With some of the members.
    Cut(#[schemars(with = "Vec<CardPart>")] Vec<PartialCard>),
}

/// A card with the members that were asked for.
#[derive(JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
#[allow(dead_code, reason = "a description of `PartialCard`")]
struct CardPart {
    id: Uuid,
}

impl Catalogue {
    /// Within a runtime, which is where writers are served that had to wait.
    pub fn new(pool: Pool, cursors: Cursors, clock: Clock) -> Self {
        let turns = Turns::new(pool.clone(), Handle::current());
        Self { pool, turns, exports: Exports::default(), cursors, estimates: Estimates::default(), clock }
    }

    /// Writes source `key` of a card.
    pub async fn enrich(&self, card: Uuid, key: &str, entry: &Entry<'_>) -> Result<Written, Unwritten> {
        self.turns.enrich(card, key, entry).await
    }

    /// The card, 404 when it is not there or deleted.
    pub async fn card(&self, id: Uuid) -> Result<Card, StoreError> {
        crate::cards::get(&self.pool, id).await?.ok_or(StoreError::NotFound("card"))
    }

    /// The page that a query asks for.
    pub async fn page(&self, query: &ListQuery) -> Result<CardPage, StoreError> {
        let (filter, sort, limit) = (query.filter()?, query.sort()?, query.limit()?);
        let (fields, exact) = (query.fields()?, query.exact_count()?);
        let place = match &query.cursor {
            Some(cursor) => Some(self.cursors.open(&(&filter, sort), cursor)?),
            None => None,
        };
        let now = self.clock.now();
        let known = self.estimates.of(&filter, now)?;
        let wanted = Wanted { filter: &filter, sort, place: place.as_ref(), limit };
        let page = card_list::page(&self.pool, &wanted, known).await?;
        self.estimates.learn(&filter, page.count, known, now)?;
        let back = place.as_ref().is_some_and(|place| place.back);
        // Where the reader comes from there is more; on the other side the page itself knows.
        let has_next = back || page.more;
        let has_previous = if back { page.more } else { place.is_some() };
        Ok(CardPage {
            next_cursor: self.edge(&filter, sort, page.cards.last().filter(|_| has_next), false)?,
            prev_cursor: self.edge(&filter, sort, page.cards.first().filter(|_| has_previous), true)?,
            total_estimate: page.count.cards,
            total: if exact { Some(card_list::count(&self.pool, &filter).await?) } else { None },
            items: match fields {
                None => Items::Whole(page.cards),
                Some(fields) => {
                    Items::Cut(page.cards.into_iter().map(|card| PartialCard::new(card, &fields)).collect())
                }
            },
        })
    }

    /// All cards that a query picks, whatever page it asks for, piece by piece.
    pub async fn export(
        &self,
        query: &ListQuery,
        format: Format,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>, StoreError> {
        self.exports.begin(&self.pool, query, format).await
    }

    fn edge(&self, filter: &Filter, sort: Sort, card: Option<&Card>, back: bool) -> Result<Option<String>, StoreError> {
        let Some(card) = card else { return Ok(None) };
        let place = card_list::place_of(card, sort.column, back)?;
        Ok(Some(self.cursors.seal(&(filter, sort), &place)?))
    }
}
