//! Pages of cards by keyset: page 10,000 costs what page 1 costs.
//!
//! Lists are read from `card_list_index` and `card_times`, which hold each group of cards in each order, and searches from
//! `card_words` as well; see `sql/migrations/0019_card_lists.sql`. A filter picks groups, and a *walk* merges their ranges in the list's order:
//! what it reads is the page. A search looks at each card on its way, so a walk may find little; it is given up after a
//! bounded number of steps. A *gathering* collects all that fits by the filter's own index and sorts it: quick where
//! little fits. A walk to the end of the list is the last resort, a fraction of a second for a million cards.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio_postgres::Row;
use uuid::Uuid;

use super::cards::{COLUMNS, COLUMNS_WITHOUT_ATTRIBUTES, from_row};
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

mod bounded;
mod conditions;
mod digest;
mod frequent_keys;
mod groups;
mod statements;

use bounded::{Statement, too_long};
pub use conditions::Conditions;
pub use digest::Digest;
use frequent_keys::FrequentKeys;
use groups::{GroupList, Groups};
use statements::GatheringIndex;

/// Steps of a walk that finds out how frequent a word is: 0.5 ms.
const PROBE: u32 = 2_000;
/// The longest walk that is begun where a gathering may be quicker: a step takes 0.2 µs.
const STEPS: u32 = 25_000;
/// The same where each step looks at another table, 1 µs.
const STEPS_ELSEWHERE: u32 = 4_000;
/// A walk is planned for so many times the steps that it should take: words do not lie evenly.
const MARGIN: f64 = 1.5;
/// Where this few cards fit, gathering them takes less than a walk.
const MAX_GATHERED: i64 = 2_500;
/// From here on a walk to the end of the list takes less than gathering.
const MIN_WALKED: i64 = 100_000;
/// Up to this many that groups hold, they are counted: 0.05 µs each.
const COUNTED_WHOLE: i64 = 20_000;
/// Up to this many an estimate of all cards is exact.
const COUNTED: i64 = 1_000;
/// How often a page is read again because a group was added meanwhile.
const READ_AGAIN: u32 = 5;
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
    frequent_keys: FrequentKeys,
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
        pool.note_message(found.largest);
        return Ok(wanted.page(client, found, count));
    }
    let Knowledge { groups, frequent_keys } = knowledge;
    let mut list = groups.known();
    if list.number == 0 {
        list = groups.renew(&client).await?;
    }
    for _ in 0..READ_AGAIN {
        let reading = Reading { client: &client, wanted, groups: &list, frequent_keys, now };
        if let Some((found, count)) = reading.page(known).await? {
            pool.note_message(found.largest);
            return Ok(wanted.page(client, found, count));
        }
        list = groups.renew(&client).await?;
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
    let Rows { rows, is_cut, largest } = statements::open_list(wanted)?.rows_at_once(client).await?;
    Ok((FoundCards { cards: rows, is_cut, largest, is_complete: true }, count))
}

/// A page that is being read, as if there were these groups and no others.
struct Reading<'a> {
    client: &'a Connection,
    wanted: &'a PageQuery<'a>,
    groups: &'a GroupList,
    frequent_keys: &'a FrequentKeys,
    now: OffsetDateTime,
}

/// What a walk has come upon.
struct FoundCards {
    cards: Vec<Row>,
    is_cut: bool,
    /// The bytes of the largest row.
    largest: usize,
    /// The page is full, or the list has ended.
    is_complete: bool,
}

/// There are other groups by now.
struct GroupsChange;

impl Reading<'_> {
    /// None when there are other groups by now.
    async fn page(&self, known: Option<Count>) -> Result<Option<(FoundCards, Count)>, StoreError> {
        if !statements::is_selective(self.wanted, self.groups) {
            let Ok(walked) = self.walk(None).await? else { return Ok(None) };
            let count = match known {
                Some(count) => count,
                None => self.expected().await?,
            };
            return Ok(Some((walked, count)));
        }
        let known = match known {
            Some(count) => count,
            None => self.expected().await?,
        };
        self.selected(known).await
    }

    /// A page of what is picked card by card.
    async fn selected(&self, known: Count) -> Result<Option<(FoundCards, Count)>, StoreError> {
        let can_gather = statements::can_gather(self.wanted.filter);
        if !can_gather || !known.exact || known.cards > MAX_GATHERED {
            let mut steps = self.first_steps(known);
            while let Some(most) = steps {
                let Ok(walked) = self.walk(Some(most)).await? else { return Ok(None) };
                if walked.is_complete {
                    return Ok(Some((walked, known)));
                }
                steps = match self.further_steps(most, walked.cards.len()) {
                    None if can_gather && most < STEPS && self.gathers_many().await? => Some(STEPS),
                    steps => steps,
                };
            }
        }
        if can_gather && known.cards < MIN_WALKED {
            match self.gather(known).await? {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(GroupsChange) => return Ok(None),
            }
        }
        let walked = self.walk(None).await?;
        Ok(walked.ok().map(|walked| (walked, known)))
    }

    fn most_steps(&self) -> u32 {
        if statements::looks_elsewhere(self.wanted, self.groups) { STEPS_ELSEWHERE } else { STEPS }
    }

    /// A walk that should find the page if the estimate is right, or else one that finds out.
    fn first_steps(&self, known: Count) -> Option<u32> {
        if known.cards >= MIN_WALKED { Some(self.most_steps()) } else { Some(PROBE) }
    }

    /// The steps that should find the page, when `found` were found in `steps`; none when they are too many.
    fn further_steps(&self, steps: u32, found: usize) -> Option<u32> {
        let (found, rows) = (u32::try_from(found).ok()?, self.wanted.limit + 1);
        let needed = f64::from(steps) * f64::from(rows) / f64::from(found.max(1)) * MARGIN;
        let most = self.most_steps();
        (found > 1 && steps < most && needed <= f64::from(most)).then_some(most)
    }

    /// Whether a gathering would read so much by its index, before it looks at the rest of the filter, that a longer walk
    /// is worth a try.
    async fn gathers_many(&self) -> Result<bool, StoreError> {
        let Some(text) = &self.wanted.filter.q else { return Ok(false) };
        Ok(self.planned(statements::plan_of_words(text)).await? > MAX_GATHERED)
    }

    /// Whether a gathering had better go by the time of changes than by words, where the filter asks for both.
    async fn goes_by_time(&self) -> Result<bool, StoreError> {
        let filter = self.wanted.filter;
        let (Some(text), Some(_)) = (&filter.q, filter.updated_since) else { return Ok(filter.q.is_none()) };
        let changed = Filter { q: None, ..filter.clone() };
        let (by_words, by_time) = (
            self.planned(statements::plan_of_words(text)).await?,
            self.planned(statements::plan(&changed, self.groups)).await?,
        );
        Ok(by_time < by_words)
    }

    async fn planned(&self, explain: Statement) -> Result<i64, StoreError> {
        let plan = explain.rows(self.client).await?;
        let plan: Option<serde_json::Value> = plan.and_then(|found| found.rows.first().map(|row| row.get(0)));
        Ok(plan.as_ref().map_or(0, planned_rows))
    }

    async fn walk(&self, steps: Option<u32>) -> Result<Result<FoundCards, GroupsChange>, StoreError> {
        let statement = statements::walk(self.wanted, self.groups, steps)?;
        let Rows { mut rows, is_cut, largest } = statement.rows(self.client).await?.ok_or_else(too_long)?;
        if rows.first().is_some_and(|row| self.is_outdated(row)) {
            return Ok(Err(GroupsChange));
        }
        let has_ended = rows.last().is_some_and(|row| row.get(ENDING));
        rows.retain(has_card);
        let is_full = is_cut || rows.len() > self.wanted.limit as usize;
        Ok(Ok(FoundCards { cards: rows, is_cut, largest, is_complete: steps.is_none() || is_full || has_ended }))
    }

    /// None when it takes too long.
    async fn gather(&self, known: Count) -> Result<Result<Option<(FoundCards, Count)>, GroupsChange>, StoreError> {
        let index = match self.goes_by_time().await? {
            true => GatheringIndex::Times,
            false => GatheringIndex::Words { frequent_keys: self.frequent_keys.get(self.client, self.now).await? },
        };
        let statement = statements::gathering(self.wanted, self.groups, index)?;
        let Some(Rows { mut rows, is_cut, largest }) = statement.rows(self.client).await? else { return Ok(Ok(None)) };
        if rows.first().is_some_and(|row| self.is_outdated(row)) {
            return Ok(Err(GroupsChange));
        }
        let count = rows.first().map_or(known, |row| Count { cards: row.get(ENDING), exact: true });
        rows.retain(has_card);
        Ok(Ok(Some((FoundCards { cards: rows, is_cut, largest, is_complete: true }, count))))
    }

    fn is_outdated(&self, row: &Row) -> bool {
        row.get::<_, i64>(NUMBER_OF_GROUPS) != self.groups.number
    }

    /// How many cards the filter picks, as well as can be known quickly.
    async fn expected(&self) -> Result<Count, StoreError> {
        let filter = self.wanted.filter;
        if filter.q.is_none() {
            let counting = statements::count_up_to(filter, self.groups, COUNTED_WHOLE + 1);
            let counted = counting.rows(self.client).await?.and_then(|found| found.rows.first().map(|row| row.get(0)));
            if let Some(cards) = counted
                && cards <= COUNTED_WHOLE
            {
                return Ok(Count { cards, exact: !self.groups.may_be_mixed(filter) });
            }
        }
        Ok(Count { cards: self.planned(statements::plan(filter, self.groups)).await?, exact: false })
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
pub fn place_of(card: &Card, column: Column, back: bool) -> Result<Place, StoreError> {
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
