//! Pages of cards by keyset: page 10,000 costs what page 1 costs.
//!
//! A filtered page is had in one of two ways. A *walk* goes along the order of the list and picks what fits: quick where
//! much fits, endless where little does. A *gathering* collects all that fits by the filter's own index and sorts it:
//! quick where little fits. Which it will be cannot be known beforehand (the cards of a kind may lie all at one end of
//! the list), so a walk is given up after a bounded number of steps, and then there is little enough to be gathered.

use time::format_description::well_known::Rfc3339;

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

use bounded::{PlanMode, Statement, too_long};
pub use conditions::Conditions;

/// How many cards of the list a walk looks at before it is given up: 2 ms when they are in memory.
const STEPS: u32 = 2_000;
/// The same along an index that holds all that the filter asks for, so that no card is read but those of the page: 0.5 µs
/// each, together 4 ms.
const STEPS_OF_INDEX: u32 = 8_000;
/// The same where each is looked up among the sources, 1.3 µs.
const STEPS_WITH_SOURCES: u32 = 2_500;
/// A card that is gathered takes 5 µs, a step 0.5 to 1.3 µs: so many steps for each card that fits.
const STEPS_A_CARD: i64 = 3;
/// A second's worth of steps.
const MAX_WALK: i64 = 1_000_000;
/// Where this few cards fit, a walk would not find a page of them within its steps.
const FEW: i64 = 2_000;
/// Up to this many that fit, they are gathered whole and thereby counted.
const COUNTED_WHOLE: i64 = 20_000;
/// From here on reading the table is quicker than going by the index of searches.
const COMMON: i64 = 100_000;
/// Up to this many an estimate of all cards is exact.
const COUNTED: i64 = 1_000;

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
pub struct Wanted<'a> {
    pub filter: &'a Filter,
    pub sort: Sort,
    pub place: Option<&'a Place>,
    pub limit: u32,
    /// Without them the cards' attributes are empty.
    pub with_attributes: bool,
}

/// The page; `known` is what an earlier one has found out about the filter.
pub async fn page(pool: &Pool, wanted: &Wanted<'_>, known: Option<Count>) -> Result<Page, StoreError> {
    if wanted.filter.is_open() && wanted.sort.column != Column::UpdatedAt {
        return straight(pool, wanted, known).await;
    }
    let client = pool.get().await?;
    let known = match known {
        Some(count) => count,
        None => expected(&client, wanted.filter).await?,
    };
    let may_be_many = known.cards > FEW || !known.exact && wanted.filter.q.is_some();
    if may_be_many && let Some(walk) = Statement::walk(wanted, STEPS, steps_of_index(wanted.filter))? {
        let found = walk.rows(&client).await?.ok_or_else(too_long)?;
        if found.is_cut || found.rows.len() > wanted.limit as usize {
            return Ok(wanted.page(client, &found, known));
        }
    }
    if known.cards >= COMMON
        && let Some(walk) = Statement::long_walk(wanted, known)?
    {
        let found = walk.rows(&client).await?.ok_or_else(too_long)?;
        if found.is_cut || found.rows.len() > wanted.limit as usize {
            return Ok(wanted.page(client, &found, known));
        }
    }
    let count_all = !known.exact && known.cards <= COUNTED_WHOLE;
    let gathering = Statement::gathering(wanted, known, count_all)?;
    let found = gathering.rows(&client).await?.ok_or_else(too_long)?;
    let counted = match found.rows.first() {
        Some(row) if count_all => row.get(9),
        None if wanted.place.is_none() => Some(0),
        _ => None,
    };
    let count = counted.map_or(known, |cards| Count { cards, exact: true });
    Ok(wanted.page(client, &found, count))
}

/// The whole list along an index: nothing that could turn out to be long.
async fn straight(pool: &Pool, wanted: &Wanted<'_>, known: Option<Count>) -> Result<Page, StoreError> {
    let statement = Statement::straight(wanted)?;
    let client = pool.get().await?;
    let known = match known {
        Some(count) => count,
        None => all(&client).await?,
    };
    let found = statement.rows_at_once(&client).await?;
    Ok(wanted.page(client, &found, known))
}

impl Wanted<'_> {
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

    fn order(&self, value: &str, id: &str) -> String {
        let direction = if self.descending() { "DESC" } else { "ASC" };
        match self.sort.column {
            Column::CreatedAt => format!("{id} {direction}"),
            _ => format!("{value} {direction}, {id} {direction}"),
        }
    }

    fn page(&self, client: Connection, found: &Rows, count: Count) -> Page {
        if found.is_cut {
            drop(client.detach());
        }
        let mut cards: Vec<Card> = found.rows.iter().map(from_row).collect();
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

impl Statement {
    fn straight(wanted: &Wanted<'_>) -> Result<Self, StoreError> {
        let (mut query, columns) = (Conditions::from_filter(wanted.filter), wanted.columns());
        let (column, order) = (column(wanted.sort.column), wanted.order(column(wanted.sort.column), "c.id"));
        if let Some(place) = wanted.place {
            query.behind(wanted.sort.column, column, place, wanted.descending())?;
        }
        let limit = query.bind(i64::from(wanted.limit) + 1);
        let sql =
            format!("SELECT {columns} FROM public.master_cards c WHERE {} ORDER BY {order} LIMIT ${limit}", query.sql);
        Ok(Self { sql, query, planned: PlanMode::Once })
    }

    /// Along the index of the list's order; none where there is no such index. Along that of a kind, a plugin or a
    /// status, where these hold ids in order, so that cards which lie together are found together.
    fn walk(wanted: &Wanted<'_>, most: u32, most_of_index: u32) -> Result<Option<Self>, StoreError> {
        let filter = wanted.filter;
        if filter.deleted || wanted.sort.column == Column::UpdatedAt {
            return Ok(None);
        }
        let mut query = Conditions::from_filter(filter);
        let conditions = query.split();
        let (column, columns) = (column(wanted.sort.column), wanted.columns());
        if let Some(place) = wanted.place {
            query.behind(wanted.sort.column, column, place, wanted.descending())?;
        }
        let by_id = wanted.sort.column == Column::CreatedAt;
        let of_source = [("kind", &filter.kind), ("plugin", &filter.plugin)];
        let of_source = of_source.into_iter().find_map(|(column, value)| Some((column, value.clone()?)));
        let limit = query.bind(i64::from(wanted.limit) + 1);
        let order = wanted.order(column, "c.id");
        // OFFSET 0 keeps the planner from joining what is beside it in another way than card by card, in order: it would
        // read a whole table for the sake of the steps, of which the page needs but the first.
        let fits = format!("CROSS JOIN LATERAL (SELECT true WHERE {conditions} OFFSET 0) fits");
        let sql = match of_source {
            Some((which, value)) if by_id => {
                let value = query.bind(value);
                let (behind, order) = (query.split().replace("c.id", "s.card_id"), wanted.order("", "s.card_id"));
                format!(
                    "SELECT {columns} FROM (SELECT DISTINCT s.card_id FROM public.card_source_index s \
                     WHERE s.{which} = ${value} AND {behind} ORDER BY {order} LIMIT {most}) s \
                     CROSS JOIN LATERAL (SELECT * FROM public.master_cards c WHERE c.id = s.card_id OFFSET 0) c {fits} \
                     ORDER BY {order} LIMIT ${limit}"
                )
            }
            _ if by_id => {
                if let Some(status) = filter.status {
                    query.add("c.status = ?", status);
                }
                let behind = query.split();
                format!(
                    "SELECT {columns} FROM (SELECT * FROM public.master_cards c WHERE c.deleted_at IS NULL AND {behind} \
                     ORDER BY {order} LIMIT {most}) c {fits} ORDER BY {order} LIMIT ${limit}"
                )
            }
            _ => {
                let (behind, more) = (query.split(), not_in_index(filter));
                format!(
                    "WITH page AS (SELECT c.id FROM (SELECT c.id, c.title, c.sku, c.status, {more} \
                     FROM public.master_cards c WHERE c.deleted_at IS NULL AND {behind} ORDER BY {order} LIMIT {most_of_index}) c \
                     {fits} ORDER BY {order} LIMIT ${limit}) \
                     SELECT {columns} FROM page JOIN public.master_cards c ON c.id = page.id ORDER BY {order}"
                )
            }
        };
        // Few may have the status, which the planner knows; a search walks all the same, as nobody knows of its words.
        let may_be_rare = by_id && filter.q.is_some() && filter.status.is_some();
        Ok(Some(Self { sql, query, planned: if may_be_rare { PlanMode::Each } else { PlanMode::Once } }))
    }

    /// A walk along an index, as long as it takes less time than gathering all these cards would: they are many, and lie
    /// together somewhere in the list.
    fn long_walk(wanted: &Wanted<'_>, known: Count) -> Result<Option<Self>, StoreError> {
        let is_indexed = matches!(wanted.sort.column, Column::Title | Column::Sku);
        if !is_indexed || wanted.filter.updated_since.is_some() {
            return Ok(None);
        }
        let steps = known.cards.saturating_mul(STEPS_A_CARD).clamp(0, MAX_WALK);
        Self::walk(wanted, STEPS, u32::try_from(steps).unwrap_or(STEPS))
    }

    /// All that fits, sorted; with `count_all` the tenth column says how many that is, whatever page is read.
    fn gathering(wanted: &Wanted<'_>, known: Count, count_all: bool) -> Result<Self, StoreError> {
        let filter = wanted.filter;
        let mut query =
            if known.cards < COMMON { Conditions::indexed(filter) } else { Conditions::from_filter(filter) };
        let (column, columns) = (column(wanted.sort.column), wanted.columns());
        let mut conditions = query.split();
        if let Some(place) = wanted.place {
            let value = if count_all { "c.place" } else { column };
            query.behind(wanted.sort.column, value, place, wanted.descending())?;
        }
        let behind = query.split();
        let mut page_of = "found c".to_owned();
        if count_all {
            page_of = format!("{page_of} WHERE {}", behind);
        } else {
            conditions.push_str(&format!(" AND {}", behind));
        }
        let (place_order, order) = (wanted.order("c.place", "c.id"), wanted.order(column, "c.id"));
        let limit = query.bind(i64::from(wanted.limit) + 1);
        let total = if count_all { "(SELECT count(*) FROM found)" } else { "NULL::bigint" };
        // Materialised, or the planner would walk after all, for the sake of the limit; where it has no index to walk
        // along, it may sort with all the processors there are.
        let kept =
            if wanted.sort.column == Column::UpdatedAt && !count_all { "NOT MATERIALIZED" } else { "MATERIALIZED" };
        let sql = format!(
            "WITH found AS {kept} (SELECT c.id, {column} AS place FROM public.master_cards c WHERE {conditions}), \
             page AS (SELECT c.id FROM {page_of} ORDER BY {place_order} LIMIT ${limit}) \
             SELECT {columns}, {total} FROM page JOIN public.master_cards c ON c.id = page.id ORDER BY {order}"
        );
        // A search of few cards goes by its index; which one another filter had better go by depends on how many fit.
        let by_search = filter.q.is_some() && known.exact && known.cards <= FEW && filter.picks_by_text_alone();
        Ok(Self { sql, query, planned: if by_search { PlanMode::Once } else { PlanMode::Each } })
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
    let query = Conditions::from_filter(filter);
    let sql = format!("SELECT count(*) FROM public.master_cards c WHERE {}", query.sql);
    let rows = Statement { sql, query, planned: PlanMode::Each }.rows(&pool.get().await?).await?;
    Ok(rows.and_then(|found| found.rows.first().map(|row| row.get(0))))
}

/// How many cards the planner thinks that a filter picks.
async fn expected(client: &Connection, filter: &Filter) -> Result<Count, StoreError> {
    let query = Conditions::from_filter(filter);
    let sql = format!("EXPLAIN (FORMAT JSON) SELECT 1 FROM public.master_cards c WHERE {}", query.sql);
    let rows = Statement { sql, query, planned: PlanMode::Each }.rows(client).await?;
    let plan = rows.and_then(|found| found.rows.first().map(|row| row.get(0)));
    Ok(Count { cards: plan.as_ref().map_or(0, planned_rows), exact: false })
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

/// How many entries of `master_cards_title` or `master_cards_sku` a walk looks at.
fn steps_of_index(filter: &Filter) -> u32 {
    match (filter.updated_since, filter.kind.as_ref().or(filter.plugin.as_ref()).or(filter.missing_kind.as_ref())) {
        (Some(_), _) => STEPS,
        (None, Some(_)) => STEPS_WITH_SOURCES,
        (None, None) => STEPS_OF_INDEX,
    }
}

/// What else the filter asks of a card: that it is not deleted, of which the index has no others, and a time, for which
/// the card itself has to be read.
fn not_in_index(filter: &Filter) -> &'static str {
    match filter.updated_since {
        Some(_) => "c.deleted_at, c.updated_at",
        None => "NULL::timestamptz AS deleted_at",
    }
}

/// What a list is sorted by before the id: nothing but the id where that is the order of creation.
fn column(column: Column) -> &'static str {
    match column {
        Column::Title => "c.title",
        Column::Sku => "c.sku",
        Column::UpdatedAt => "c.updated_at",
        Column::CreatedAt => "c.id",
    }
}
