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

impl TypedValue for OffsetDateTime {
    const TYPE: Type = Type::TIMESTAMPTZ;
}

/// Title and SKU as lines of one text, as the index `master_cards_search` has them. The database's own collation folds
/// the case of every script; that of the columns knows ASCII only.
const SEARCHED: &str = r#"lower((E'\n' || c.title || E'\n' || c.sku) COLLATE "default")"#;

/// The keys of the index `master_cards_search`: three characters each, and the status behind two line ends, where no
/// text has any.
const KEYS: &str = r#"(public.card_search_keys(lower((E'\n' || c.title || E'\n' || c.sku) COLLATE "default")) || (E'\n\n' || c.status))"#;

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

    /// The same, so that the search goes by its index: where many cards are expected, that is the slower way.
    pub(crate) fn indexed(filter: &Filter) -> Self {
        let mut query = Self::from_filter(filter);
        if let Some(text) = &filter.q {
            let keyed = if is_short(text) { format!("\n{text}") } else { text.clone() };
            let keys = r#"public.card_search_keys(lower(?::text COLLATE "default"))"#;
            query.add(&format!("{KEYS} @> {keys}"), keyed);
            if let Some(status) = filter.status {
                query.add(&format!(r"{KEYS} @> ARRAY[E'\n\n' || ?::text]"), status);
            }
        }
        query
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

    /// Three characters or more match anywhere, fewer match beginnings: a short word anywhere
    /// would read the whole table.
    fn contains(&mut self, text: &str) {
        let escaped = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        let pattern = if is_short(text) { format!("%\n{escaped}%") } else { format!("%{escaped}%") };
        self.add(&format!(r#"{SEARCHED} LIKE lower(?::text COLLATE "default")"#), pattern);
    }

    /// Only what lies behind `place`, where `value` is what the list is sorted by.
    pub(super) fn behind(
        &mut self,
        by: Column,
        value: &str,
        place: &Place,
        descending: bool,
    ) -> Result<(), StoreError> {
        let compare = if descending { "<" } else { ">" };
        let bound = match by {
            Column::CreatedAt => {
                self.add(&format!("c.id {compare} ?"), place.id);
                return Ok(());
            }
            Column::UpdatedAt => {
                let at = OffsetDateTime::parse(&place.value, &Rfc3339).map_err(|_| PageError::Cursor)?;
                self.bind(at)
            }
            Column::Title | Column::Sku => self.bind(place.value.clone()),
        };
        let id = self.bind(place.id);
        self.sql.push_str(&format!(" AND ({value}, c.id) {compare} (${bound}, ${id})"));
        Ok(())
    }

    /// The conditions from here on, apart from those before; the parameters go on counting.
    pub(super) fn split(&mut self) -> String {
        std::mem::replace(&mut self.sql, "true".to_owned())
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

fn is_short(text: &str) -> bool {
    text.chars().count() < ANYWHERE_FROM
}
