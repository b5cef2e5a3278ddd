//! Cards as everybody reads them (the admin API, plugins and MCP clients), and as plugins write them.

use std::{collections::HashMap, io};

use bytes::Bytes;
use futures_util::Stream;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::{
    cards::{
        self,
        estimates::Estimates,
        list::{Digest, Knowledge, PageQuery},
        sources::{Entry, WriteOutcome},
    },
    error::StoreError,
};
use cardinal_base::{clock::Clock, page::Cursors};
use cardinal_cards::{
    card::{Card, PartialCard},
    fields::Fields,
    filter::{Filter, ListQuery, Sort},
};
use cardinal_database::pool::Pool;

mod enrichment_queue;
mod export;
mod history;

pub use export::Format;
pub use history::History;

pub use enrichment_queue::EnrichError;
use enrichment_queue::EnrichmentQueue;
use export::Exports;

/// Where more cards are expected nobody counts them for the sake of saying how many there are.
const COUNTED_FOR_NOTE: i64 = 20_000;

/// The cards.
pub struct Catalogue {
    pool: Pool,
    enrichment_queue: EnrichmentQueue,
    exports: Exports,
    cursors: Cursors,
    estimates: Estimates,
    knowledge: Knowledge,
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

/// A page of cards, and what the cursors to its neighbours are made of.
pub struct Listing {
    pub cards: Vec<Card>,
    pub total_estimate: i64,
    is_exact: bool,
    filter: Filter,
    sort: Sort,
    has_next: bool,
    has_previous: bool,
}

impl Catalogue {
    /// Within a runtime, which is where writers are served that had to wait.
    pub fn new(pool: Pool, cursors: Cursors, clock: Clock) -> Self {
        let enrichment_queue = EnrichmentQueue::new(pool.clone(), Handle::current());
        let (exports, estimates, knowledge) = (Exports::default(), Estimates::default(), Knowledge::default());
        Self { pool, enrichment_queue, exports, cursors, estimates, knowledge, clock }
    }

    /// Writes source `key` of a card.
    pub async fn enrich(&self, card: Uuid, key: &str, entry: &Entry<'_>) -> Result<WriteOutcome, EnrichError> {
        self.enrichment_queue.enrich(card, key, entry).await
    }

    /// The card, 404 when it is not there or deleted.
    pub async fn card(&self, id: Uuid) -> Result<Card, StoreError> {
        cards::get(&self.pool, id).await?.ok_or(StoreError::NotFound("card"))
    }

    /// A card that is deleted, without its attributes.
    pub async fn deleted_card(&self, id: Uuid) -> Result<Option<Card>, StoreError> {
        cards::get_deleted(&self.pool, id).await
    }

    /// What a card's fields were at a version of its past.
    pub async fn fields_at(&self, id: Uuid, version: i64) -> Result<Option<Fields>, StoreError> {
        cards::fields_at(&self.pool, id, version).await
    }

    /// The kinds of these cards' sources.
    pub async fn kinds(&self, cards: &[Uuid]) -> Result<HashMap<Uuid, Vec<String>>, StoreError> {
        crate::kinds::for_cards(&self.pool, cards).await
    }

    /// The page that a query asks for.
    pub async fn page(&self, query: &ListQuery) -> Result<CardPage, StoreError> {
        let (fields, exact) = (query.page_fields()?, query.exact_count()?);
        let with_attributes = fields.as_ref().is_none_or(|fields| fields.contains(&"attributes"));
        let listing = self.list(query, with_attributes).await?;
        let total = if exact { Some(cards::list::count(&self.pool, &listing.filter).await?) } else { None };
        let first = listing.cards.first().filter(|_| listing.has_previous);
        Ok(CardPage {
            next_cursor: self.next_cursor(&listing, listing.cards.len())?,
            prev_cursor: self.edge(&listing.filter, listing.sort, first, true)?,
            total_estimate: total.flatten().unwrap_or(listing.total_estimate),
            total,
            items: match fields {
                None => Items::Whole(listing.cards),
                Some(fields) => Items::Cut(self.cut(listing.cards, &fields).await?),
            },
        })
    }

    /// Cards with these members alone.
    async fn cut(&self, cards: Vec<Card>, members: &[&str]) -> Result<Vec<PartialCard>, StoreError> {
        let mut actors = HashMap::new();
        if members.contains(&"updated_by") {
            let ids: Vec<Uuid> = cards.iter().map(|card| card.id).collect();
            actors = cards::history::last_actors(&self.pool, &ids).await?;
        }
        Ok(cards.into_iter().map(|card| PartialCard::new(card, members).with_actor(&mut actors)).collect())
    }

    /// The same page as cards. Without their attributes these are empty, and not read at all.
    pub async fn list(&self, query: &ListQuery, with_attributes: bool) -> Result<Listing, StoreError> {
        let (filter, sort, limit) = (query.filter()?, query.sort()?, query.limit()?);
        let place = match &query.cursor {
            Some(cursor) => Some(self.cursors.open(&(&filter, sort), cursor)?),
            None => None,
        };
        let now = self.clock.now();
        let known = self.estimates.get(&filter, now)?;
        let wanted = PageQuery { filter: &filter, sort, place: place.as_ref(), limit, with_attributes };
        let page = cards::list::page(&self.pool, &self.knowledge, &wanted, known, now).await?;
        self.estimates.learn(&filter, page.count, known, now)?;
        let back = place.as_ref().is_some_and(|place| place.back);
        let is_all = place.is_none() && !page.more;
        Ok(Listing {
            // Where the reader comes from there is more; on the other side the page itself knows.
            has_next: back || page.more,
            has_previous: if back { page.more } else { place.is_some() },
            total_estimate: if is_all { page.cards.len() as i64 } else { page.count.cards },
            is_exact: is_all || page.count.exact,
            cards: page.cards,
            filter,
            sort,
        })
    }

    /// How many cards a query's filter picks, counted one by one; none when that takes too long.
    pub async fn count(&self, query: &ListQuery) -> Result<Option<i64>, StoreError> {
        cards::list::count(&self.pool, &query.filter()?).await
    }

    /// Which cards a query's filter picks, as the digest of their ids; none when that takes too long.
    pub async fn digest(&self, query: &ListQuery) -> Result<Option<Digest>, StoreError> {
        cards::list::digest(&self.pool, &query.filter()?).await
    }

    /// How many of these cards are there.
    pub async fn count_existing(&self, cards: &[Uuid]) -> Result<i64, StoreError> {
        cards::count_existing(&self.pool, cards).await
    }

    /// How many cards a listing's filter picks; none where they are many, or counting them takes too long.
    pub async fn total(&self, listing: &Listing) -> Result<Option<i64>, StoreError> {
        match listing.total_estimate {
            total if listing.is_exact => Ok(Some(total)),
            total if total > COUNTED_FOR_NOTE => Ok(None),
            _ => cards::list::count(&self.pool, &listing.filter).await,
        }
    }

    /// The cursor of what follows the first `shown` cards of a page; none at the end of the list.
    pub fn next_cursor(&self, listing: &Listing, shown: usize) -> Result<Option<String>, StoreError> {
        let follows = listing.has_next || shown < listing.cards.len();
        let last = shown.checked_sub(1).and_then(|at| listing.cards.get(at)).filter(|_| follows);
        self.edge(&listing.filter, listing.sort, last, false)
    }

    /// All cards that a query picks, or those of `ids` among them, whatever page it asks for, piece by piece.
    pub async fn export(
        &self,
        query: &ListQuery,
        ids: Option<Vec<Uuid>>,
        format: Format,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>, StoreError> {
        self.exports.begin(&self.pool, query, ids, format).await
    }

    fn edge(&self, filter: &Filter, sort: Sort, card: Option<&Card>, back: bool) -> Result<Option<String>, StoreError> {
        let Some(card) = card else { return Ok(None) };
        let place = cards::list::place_for(card, sort.column, back)?;
        Ok(Some(self.cursors.seal(&(filter, sort), &place)?))
    }
}
