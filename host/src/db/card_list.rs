//! Pages of cards by keyset: page 10,000 costs what page 1 costs.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio_postgres::types::ToSql;

use super::cards::{COLUMNS, from_row};
use super::pool::Pool;
use crate::{
    cards::{
        card::Card,
        filter::{ANYWHERE_FROM, Column, Filter, Sort},
        page::Place,
    },
    http::{
        codes,
        error::{ApiError, ApiResult},
    },
};

type Param = Box<dyn ToSql + Send + Sync>;

/// A page in list order, and whether there is more in the direction that was read.
pub struct Page {
    pub cards: Vec<Card>,
    pub more: bool,
}

/// The page of `limit` cards from `place` on.
pub async fn page(pool: &Pool, filter: &Filter, sort: Sort, place: Option<&Place>, limit: u32) -> ApiResult<Page> {
    let mut query = Conditions::of(filter);
    let back = place.is_some_and(|place| place.back);
    let descending = sort.descending != back;
    if let Some(place) = place {
        query.behind(sort.column, place, descending)?;
    }
    let direction = if descending { "DESC" } else { "ASC" };
    let order = match column(sort.column) {
        Some(column) => format!("{column} {direction}, c.id {direction}"),
        None => format!("c.id {direction}"),
    };
    let limit_at = query.bind(i64::from(limit) + 1);
    let sql =
        format!("SELECT {COLUMNS} FROM public.master_cards c WHERE {} ORDER BY {order} LIMIT ${limit_at}", query.sql);
    let client = pool.get().await?;
    let statement = client.prepare_cached(&sql).await?;
    let rows = client.query(&statement, &query.references()).await?;
    let more = rows.len() > limit as usize;
    let mut cards: Vec<Card> = rows.iter().take(limit as usize).map(from_row).collect();
    if back {
        cards.reverse();
    }
    Ok(Page { cards, more })
}

/// The place of `card` in the list.
pub fn place_of(card: &Card, column: Column, back: bool) -> ApiResult<Place> {
    let value = match column {
        Column::Title => card.title.clone(),
        Column::Sku => card.sku.clone(),
        Column::CreatedAt => String::new(),
        Column::UpdatedAt => card.updated_at.format(&Rfc3339).map_err(ApiError::internal)?,
    };
    Ok(Place { value, id: card.id, back })
}

/// How many cards the filter picks, counted one by one.
pub async fn count(pool: &Pool, filter: &Filter) -> ApiResult<i64> {
    let query = Conditions::of(filter);
    let client = pool.get().await?;
    let sql = format!("SELECT count(*) FROM public.master_cards c WHERE {}", query.sql);
    Ok(client.query_one(&client.prepare_cached(&sql).await?, &query.references()).await?.get(0))
}

/// About how many cards the filter picks: counted up to [`COUNTED`], the planner's estimate above.
pub async fn estimate(pool: &Pool, filter: &Filter) -> ApiResult<i64> {
    let query = Conditions::of(filter);
    let client = pool.get().await?;
    let sql = format!(
        "SELECT count(*) FROM (SELECT 1 FROM public.master_cards c WHERE {} LIMIT {COUNTED}) AS counted",
        query.sql
    );
    let counted: i64 = client.query_one(&client.prepare_cached(&sql).await?, &query.references()).await?.get(0);
    if counted < COUNTED {
        return Ok(counted);
    }
    let sql = format!("EXPLAIN (FORMAT JSON) SELECT 1 FROM public.master_cards c WHERE {}", query.sql);
    let plan: serde_json::Value = client.query_one(&sql, &query.references()).await?.get(0);
    let rows = plan.pointer("/0/Plan/Plan Rows").and_then(serde_json::Value::as_i64);
    Ok(rows.unwrap_or(counted).max(counted))
}

/// Up to this many an estimate is exact.
const COUNTED: i64 = 1_000;

fn column(column: Column) -> Option<&'static str> {
    match column {
        Column::Title => Some("c.title"),
        Column::Sku => Some("c.sku"),
        Column::UpdatedAt => Some("c.updated_at"),
        Column::CreatedAt => None,
    }
}

/// A WHERE clause on cards `c` and its parameters; also what exports and bulk actions pick by.
pub(super) struct Conditions {
    pub(super) sql: String,
    params: Vec<Param>,
}

impl Conditions {
    pub(super) fn of(filter: &Filter) -> Self {
        let deleted = if filter.deleted { "c.deleted_at IS NOT NULL" } else { "c.deleted_at IS NULL" };
        let mut query = Self { sql: deleted.to_owned(), params: Vec::new() };
        if let Some(status) = filter.status {
            query.add("c.status = ?", status);
        }
        if let Some(since) = filter.updated_since {
            query.add("c.updated_at >= ?", since);
        }
        if let Some(kind) = &filter.kind {
            query.add(
                "EXISTS (SELECT 1 FROM public.card_source_index s WHERE s.card_id = c.id AND s.kind = ?)",
                kind.clone(),
            );
        }
        if let Some(plugin) = &filter.plugin {
            query.add(
                "EXISTS (SELECT 1 FROM public.card_source_index s WHERE s.card_id = c.id AND s.plugin = ?)",
                plugin.clone(),
            );
        }
        if let Some(kind) = &filter.missing_kind {
            query.add(
                "NOT EXISTS (SELECT 1 FROM public.card_source_index s WHERE s.card_id = c.id AND s.kind = ?)",
                kind.clone(),
            );
        }
        if let Some(text) = &filter.q {
            query.search(text);
        }
        query
    }

    /// Three characters or more match anywhere, fewer match beginnings: a short word anywhere
    /// would read the whole table.
    fn search(&mut self, text: &str) {
        let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        let anywhere = text.chars().count() >= ANYWHERE_FROM;
        let pattern = if anywhere { format!("%{escaped}%") } else { format!("{escaped}%") };
        self.add("(c.title ILIKE ? OR c.sku ILIKE ?)", pattern);
    }

    fn behind(&mut self, by: Column, place: &Place, descending: bool) -> ApiResult<()> {
        let compare = if descending { "<" } else { ">" };
        let Some(column) = column(by) else {
            self.add(&format!("c.id {compare} ?"), place.id);
            return Ok(());
        };
        let value = match by {
            Column::UpdatedAt => {
                let at =
                    OffsetDateTime::parse(&place.value, &Rfc3339).map_err(|_| ApiError::new(&codes::INVALID_CURSOR))?;
                self.bind(at)
            }
            _ => self.bind(place.value.clone()),
        };
        let id = self.bind(place.id);
        self.sql.push_str(&format!(" AND ({column}, c.id) {compare} (${value}, ${id})"));
        Ok(())
    }

    /// Adds a condition whose every `?` is the one parameter.
    pub(super) fn add(&mut self, condition: &str, value: impl ToSql + Send + Sync + 'static) {
        let at = self.bind(value);
        self.sql.push_str(" AND ");
        self.sql.push_str(&condition.replace('?', &format!("${at}")));
    }

    pub(super) fn bind(&mut self, value: impl ToSql + Send + Sync + 'static) -> usize {
        self.params.push(Box::new(value));
        self.params.len()
    }

    pub(super) fn references(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect()
    }
}
