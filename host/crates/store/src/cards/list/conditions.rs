//! A filter as a WHERE clause.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::error::StoreError;
use cardinal_base::page::PageError;
use cardinal_cards::{
    filter::{ANYWHERE_FROM, Column, Filter},
    page::Place,
};

type Param = (Box<dyn ToSql + Send + Sync>, Type);

/// A value whose type in the database is known without asking.
pub(crate) trait TypedValue: ToSql + Send + Sync + 'static {
    const TYPE: Type;
}

impl TypedValue for String {
    const TYPE: Type = Type::TEXT;
}

impl TypedValue for &'static str {
    const TYPE: Type = Type::TEXT;
}

impl TypedValue for Uuid {
    const TYPE: Type = Type::UUID;
}

impl TypedValue for i64 {
    const TYPE: Type = Type::INT8;
}

impl TypedValue for i32 {
    const TYPE: Type = Type::INT4;
}

impl TypedValue for bool {
    const TYPE: Type = Type::BOOL;
}

impl TypedValue for Vec<i32> {
    const TYPE: Type = Type::INT4_ARRAY;
}

impl TypedValue for Vec<Uuid> {
    const TYPE: Type = Type::UUID_ARRAY;
}

impl TypedValue for Vec<String> {
    const TYPE: Type = Type::TEXT_ARRAY;
}

impl TypedValue for OffsetDateTime {
    const TYPE: Type = Type::TIMESTAMPTZ;
}

/// Title and SKU as lines of one text, as `card_words` has them. The database's own collation folds the case
/// of every script; that of the columns knows ASCII only.
const SEARCHED: &str = r#"lower((E'\n' || c.title || E'\n' || c.sku) COLLATE "default")"#;

/// A WHERE clause on cards `c` and its parameters; also what exports and bulk actions pick by.
pub struct Conditions {
    pub(crate) sql: String,
    params: Vec<Param>,
}

impl Conditions {
    /// True of what the filter picks, by whatever plan.
    pub(crate) fn from_filter(filter: &Filter) -> Self {
        let mut query = Self::without_search(filter);
        if let Some(text) = &filter.q {
            query.contains(text);
        }
        query
    }

    /// No condition yet.
    pub(super) fn none() -> Self {
        Self { sql: String::new(), params: Vec::new() }
    }

    fn without_search(filter: &Filter) -> Self {
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
        query
    }

    fn contains(&mut self, text: &str) {
        self.add(&format!(r#"{SEARCHED} LIKE lower(?::text COLLATE "default")"#), pattern(text));
    }

    /// The condition that a row lies behind `place` in a list by `column`, whose column of that row is `value`.
    pub(super) fn behind(
        &mut self,
        column: Column,
        value: &str,
        id: &str,
        place: &Place,
        descending: bool,
    ) -> Result<String, StoreError> {
        let compare = if descending { "<" } else { ">" };
        let bound = match column {
            Column::CreatedAt => {
                let at = self.bind(place.id);
                return Ok(format!("{id} {compare} ${at}"));
            }
            Column::UpdatedAt => {
                let at = OffsetDateTime::parse(&place.value, &Rfc3339).map_err(|_| PageError::Cursor)?;
                self.bind(at)
            }
            Column::Title | Column::Sku => self.bind(place.value.clone()),
        };
        let at = self.bind(place.id);
        Ok(format!("({value}, {id}) {compare} (${bound}, ${at})"))
    }

    /// Adds a condition whose every `?` is the one parameter.
    pub(crate) fn add(&mut self, condition: &str, value: impl TypedValue) {
        let at = self.bind(value);
        self.sql.push_str(" AND ");
        self.sql.push_str(&condition.replace('?', &format!("${at}")));
    }

    pub(crate) fn bind<T: TypedValue>(&mut self, value: T) -> usize {
        self.params.push((Box::new(value), T::TYPE));
        self.params.len()
    }

    /// The parameters of a statement that is prepared.
    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.params.iter().map(|(value, _)| &**value as &(dyn ToSql + Sync)).collect()
    }

    /// The parameters of one that is not.
    pub(crate) fn typed(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.params.iter().map(|(value, of)| (&**value as &(dyn ToSql + Sync), of.clone())).collect()
    }
}

/// That a search for `text` finds rows `w`. What is sought is worked out once and not for each row; to look for it
/// takes less time than LIKE does.
pub(super) fn has_text(query: &mut Conditions, text: &str) -> String {
    let at = query.bind(keyed(text));
    format!(r#"strpos(w.words, (SELECT lower(${at}::text COLLATE "default") COLLATE "C")) > 0"#)
}

/// What the words of a card are LIKE that a search finds. Three characters or more match anywhere, fewer match
/// beginnings: the index of searches knows no shorter keys.
pub(super) fn pattern(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    if is_short(text) { format!("%\n{escaped}%") } else { format!("%{escaped}%") }
}

/// The text that the words of such a card have.
fn keyed(text: &str) -> String {
    if is_short(text) { format!("\n{text}") } else { text.to_owned() }
}

pub(super) fn is_short(text: &str) -> bool {
    text.chars().count() < ANYWHERE_FROM
}
