//! Pages of cards by keyset: page 10,000 costs what page 1 costs.
//!
//! Lists are read from `card_list_index` and `card_times`, which hold each group of cards in each order, and searches
//! from `card_words` as well; see `sql/migrations/0019_card_lists.sql`. A filter picks groups, and a *walk* merges
//! their ranges in the list's order: what it reads is the page. A search looks at each card on its way, so a walk may
//! find little; it is given up after a bounded number of steps. A *gathering* collects all that fits by the filter's
//! own index and sorts it: quick where little fits. A walk to the end of the list is the last resort, a fraction of a
//! second for a million cards. `selection` says when which, and `walks` how far a walk goes. Searches of one or two
//! characters match beginnings, which lie together in the orders of title and SKU: `beginnings` reads them there, and
//! `first_words` does so for longer ones where many cards begin with them.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::sync::OnceCell;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::cards::{COLUMNS, COLUMNS_WITHOUT_ATTRIBUTES, from_row};
use crate::error::StoreError;
use cardinal_cards::{
    card::Card,
    filter::{Column, Filter, Sort},
    page::Place,
};
use cardinal_database::{
    bounded_rows::Rows,
    pool::{Connection, Pool},
};

mod base;
mod beginnings;
mod bounded;
mod conditions;
mod digest;
mod ends;
mod first_words;
mod groups;
mod key_frequencies;
mod keys;
mod letters;
mod parts;
mod places;
mod ranges;
mod selection;
mod statements;
mod walks;

use bounded::too_long;
pub use conditions::Conditions;
pub use digest::Digest;
use groups::{GroupList, Groups};
use key_frequencies::KeyFrequencies;
use letters::Letters;

/// Up to this many an estimate of all cards is exact.
const COUNTED: i64 = 1_000;
/// How often a page is read again because a group was added meanwhile.
const MAX_REREADS: u32 = 5;
/// Columns behind those of the card: how many groups there were, and what the statement says of its end.
const NUMBER_OF_GROUPS: usize = 9;
const ENDING: usize = 10;

/// How many cards a filter picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub cards: i64,
    /// Whether they were counted; else it is what the planner thinks.
    pub exact: bool,
}

impl Count {
    /// The same where so many are known to be there.
    fn at_least(self, cards: i64) -> Self {
        let cards = if self.exact { self.cards } else { self.cards.max(cards) };
        Self { cards, ..self }
    }
}

/// A page in list order, and whether there is more in the direction that was read.
pub struct Page {
    pub cards: Vec<Card>,
    pub more: bool,
    /// How many cards the filter picks, as well as it is known now.
    pub count: Count,
}

/// What page is asked for.
pub struct PageQuery<'a> {
    pub filter: &'a Filter,
    pub sort: Sort,
    pub place: Option<&'a Place>,
    pub limit: u32,
    /// Without them the cards' attributes are empty.
    pub with_attributes: bool,
}

/// What lists have found out about the cards and go by.
#[derive(Default)]
pub struct Knowledge {
    groups: Groups,
    key_frequencies: KeyFrequencies,
    letters: Letters,
}

/// The page; `known` is what an earlier one has found out about the filter.
pub async fn page(
    pool: &Pool,
    knowledge: &Knowledge,
    wanted: &PageQuery<'_>,
    known: Option<Count>,
    now: OffsetDateTime,
) -> Result<Page, StoreError> {
    let client = pool.get().await?;
    if wanted.filter.is_open() && wanted.sort.column != Column::UpdatedAt {
        let (found, count) = open_list(&client, wanted, known).await?;
        pool.note_message(found.max_row_bytes);
        return Ok(wanted.page(client, found, count));
    }
    let groups = &knowledge.groups;
    let mut list = match groups.known(now) {
        Some(list) => list,
        None => groups.renew(&client, now).await?,
    };
    for _ in 0..MAX_REREADS {
        let (changed, worded, hits) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        let reading = Reading { client: &client, wanted, groups: &list, knowledge, now, changed, worded, hits };
        if let Some((found, count)) = reading.page(known).await? {
            pool.note_message(found.max_row_bytes);
            return Ok(wanted.page(client, found, count));
        }
        list = groups.renew(&client, now).await?;
    }
    Err(too_long())
}

/// The list of all cards that are not deleted, along an index of theirs: nothing that could turn out to be long.
async fn open_list(
    client: &Connection,
    wanted: &PageQuery<'_>,
    known: Option<Count>,
) -> Result<(FoundCards, Count), StoreError> {
    let count = match known {
        Some(count) => count,
        None => all(client).await?,
    };
    Ok((FoundCards::all(statements::open_list(wanted)?.rows_at_once(client).await?), count))
}

/// A page that is being read, as if there were these groups and no others.
struct Reading<'a> {
    client: &'a Connection,
    wanted: &'a PageQuery<'a>,
    groups: &'a GroupList,
    knowledge: &'a Knowledge,
    now: OffsetDateTime,
    /// What the planner expects of cards that have changed since the time that is asked for, whatever else the filter
    /// asks.
    changed: OnceCell<i64>,
    /// What it expects of cards that have the words, in any group.
    worded: OnceCell<i64>,
    /// What the first cards of the list say of that, whenever they have changed.
    hits: OnceCell<i64>,
}

/// What a walk has come upon.
struct FoundCards {
    cards: Vec<Row>,
    is_cut: bool,
    bytes: usize,
    /// The bytes of the largest row.
    max_row_bytes: usize,
    /// The page is full, or the list has ended.
    is_complete: bool,
    /// Where the walk has ended before that: behind this place it can go on.
    reached: Option<Place>,
    /// How many rows the walk has looked at, or should have.
    steps: u32,
}

impl FoundCards {
    /// All that the page has.
    fn all(rows: Rows) -> Self {
        let Rows { rows: cards, is_cut, bytes, max_row_bytes } = rows;
        Self { cards, is_cut, bytes, max_row_bytes, is_complete: true, reached: None, steps: 0 }
    }
}

/// There are other groups by now.
struct GroupsChange;

impl Reading<'_> {
    /// None when there are other groups by now.
    async fn page(&self, known: Option<Count>) -> Result<Option<(FoundCards, Count)>, StoreError> {
        if !base::is_selective(self.wanted, self.groups) {
            let Ok(walked) = self.walk(self.wanted, None, 0).await? else { return Ok(None) };
            let count = match known {
                Some(count) => count,
                None => self.expected().await?,
            };
            return Ok(Some((walked, count)));
        }
        match self.few_changed(known).await? {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => {}
            Err(GroupsChange) => return Ok(None),
        }
        let known = match known {
            Some(count) => count,
            None => self.expected().await?,
        };
        self.selected(known).await
    }

    fn is_outdated(&self, row: &Row) -> bool {
        row.get::<_, i64>(NUMBER_OF_GROUPS) != self.groups.number
    }
}

/// The end of a list is a row without a card.
fn has_card(row: &Row) -> bool {
    row.get::<_, Option<Uuid>>(0).is_some()
}

impl PageQuery<'_> {
    fn back(&self) -> bool {
        self.place.is_some_and(|place| place.back)
    }

    /// What is left of the page behind `place`, when so many of its cards have been found.
    fn rest<'b>(&'b self, place: &'b Place, found: usize) -> PageQuery<'b> {
        let limit = self.limit.saturating_sub(u32::try_from(found).unwrap_or(u32::MAX));
        PageQuery { place: Some(place), limit, ..*self }
    }

    fn columns(&self) -> &'static str {
        if self.with_attributes { COLUMNS } else { COLUMNS_WITHOUT_ATTRIBUTES }
    }

    /// Which way the list is read.
    fn descending(&self) -> bool {
        self.sort.descending != self.back()
    }

    /// One more than the page has, which says whether there is more.
    fn rows(&self) -> i64 {
        i64::from(self.limit) + 1
    }

    fn page(&self, client: Connection, found: FoundCards, count: Count) -> Page {
        if found.is_cut {
            drop(client.detach());
        }
        let mut cards: Vec<Card> = found.cards.iter().map(from_row).collect();
        let (limit, read) = (self.limit as usize, i64::try_from(cards.len()).unwrap_or(i64::MAX));
        let more = found.is_cut || cards.len() > limit;
        cards.truncate(limit);
        if self.back() {
            cards.reverse();
        }
        let count = if count.exact { count } else { Count { cards: count.cards.max(read), exact: false } };
        Page { cards, more, count }
    }
}

/// The place of `card` in the list.
pub(crate) fn place_for(card: &Card, column: Column, back: bool) -> Result<Place, StoreError> {
    let value = match column {
        Column::Title => card.title.clone(),
        Column::Sku => card.sku.clone(),
        Column::CreatedAt => String::new(),
        Column::UpdatedAt => card.updated_at.format(&Rfc3339).map_err(StoreError::internal)?,
    };
    Ok(Place { value, id: card.id, back })
}

/// How many cards the filter picks, counted one by one; none when that takes too long.
pub async fn count(pool: &Pool, filter: &Filter) -> Result<Option<i64>, StoreError> {
    let rows = statements::count(filter).rows(&pool.get().await?).await?;
    Ok(rows.and_then(|found| found.rows.first().map(|row| row.get(0))))
}

/// The digest of the ids that a filter picks; none when that takes too long.
pub async fn digest(pool: &Pool, filter: &Filter) -> Result<Option<Digest>, StoreError> {
    let rows = statements::digest(filter).rows(&pool.get().await?).await?;
    Ok(rows.and_then(|found| found.rows.first().map(|row| Digest(row.get(0)))))
}

/// How many cards there are: counted up to [`COUNTED`], what the planner thinks above.
async fn all(client: &Connection) -> Result<Count, StoreError> {
    let sql = format!(
        "SELECT count(*) FROM (SELECT 1 FROM public.master_cards c WHERE c.deleted_at IS NULL LIMIT {COUNTED}) AS counted"
    );
    let cards: i64 = client.query_one(&client.prepare_cached(&sql).await?, &[]).await?.get(0);
    if cards < COUNTED {
        return Ok(Count { cards, exact: true });
    }
    let sql = "EXPLAIN (FORMAT JSON) SELECT 1 FROM public.master_cards c WHERE c.deleted_at IS NULL";
    let plan = client.query_one(sql, &[]).await?.get(0);
    Ok(Count { cards: planned_rows(&plan).max(cards), exact: false })
}

fn planned_rows(plan: &serde_json::Value) -> i64 {
    plan.pointer("/0/Plan/Plan Rows").and_then(serde_json::Value::as_i64).unwrap_or_default()
}
