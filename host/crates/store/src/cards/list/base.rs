//! What lists are read from, and what parts of their statements say of it.

use super::{
    PageQuery,
    conditions::{Conditions, has_text},
    groups::{GroupList, IS_NOT_MIXED, source_conditions},
};
use crate::error::StoreError;
use cardinal_cards::filter::{Column, Filter};

/// The table that has the list's order in an index behind the group.
pub(super) struct Base {
    pub(super) table: &'static str,
    /// What rows are sorted by before the card's id.
    pub(super) key: Option<&'static str>,
    /// An end of the list: the key, and the id, that come behind all others in ascending and in descending order.
    ends: [&'static str; 2],
    /// Keys behind those of all cards, in the same orders.
    last: [&'static str; 2],
}

pub(super) const LIST: &str = "public.card_list_index";
pub(super) const WORDS: &str = "public.card_words";
pub(super) const TIMES: &str = "public.card_times";
const NO_ID: &str = "NULL::uuid";
pub(super) const MIN_ID: &str = "'00000000-0000-0000-0000-000000000000'::uuid";
const MAX_ID: &str = "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid";
/// Behind every title and SKU: longer than any, of the highest character.
const LAST_TEXT: &str = "repeat(chr(1114111), 501)";

/// Behind those of all cards.
pub(super) const fn last_id(descending: bool) -> &'static str {
    if descending { MIN_ID } else { MAX_ID }
}

impl Base {
    pub(super) const fn new(column: Column) -> Self {
        match column {
            Column::Title => Self {
                table: LIST,
                key: Some("title"),
                ends: ["NULL::text AS title", "''::text AS title"],
                last: [LAST_TEXT, "''::text"],
            },
            Column::Sku => Self {
                table: LIST,
                key: Some("sku"),
                ends: ["NULL::text AS sku", "''::text AS sku"],
                last: [LAST_TEXT, "''::text"],
            },
            Column::CreatedAt => Self { table: LIST, key: None, ends: ["", ""], last: ["", ""] },
            Column::UpdatedAt => Self {
                table: TIMES,
                key: Some("updated_at"),
                ends: ["NULL::timestamptz AS updated_at", "'-infinity'::timestamptz AS updated_at"],
                last: ["'infinity'::timestamptz", "'-infinity'::timestamptz"],
            },
        }
    }

    /// What comes behind the key of every card, or else its id.
    pub(super) fn last(&self, descending: bool) -> &'static str {
        if self.key.is_some() { self.last[usize::from(descending)] } else { last_id(descending) }
    }

    /// The columns of rows `w`.
    pub(super) fn columns(&self, with_words: bool) -> String {
        let key = self.key.map(|key| format!("w.{key}, ")).unwrap_or_default();
        format!("{key}w.card_id, w.card_group{}", if with_words { ", w.words" } else { "" })
    }

    /// A row that is read when all others of the list have been.
    pub(super) fn end(&self, descending: bool, with_words: bool) -> String {
        let key = if self.key.is_some() { format!("{}, ", self.ends[usize::from(descending)]) } else { String::new() };
        let id = if descending { MIN_ID } else { NO_ID };
        format!(
            "SELECT {key}{id} AS card_id, NULL::integer AS card_group{}",
            if with_words { ", NULL::text AS words" } else { "" }
        )
    }

    /// That row `row` lies no further than the place of the one row of `place`.
    pub(super) fn until(&self, row: &str, place: &str, descending: bool) -> String {
        let compare = if descending { ">=" } else { "<=" };
        match self.key {
            Some(key) => {
                format!(
                    "({row}.{key}, {row}.card_id) {compare} ((SELECT key FROM {place}), (SELECT card_id FROM {place}))"
                )
            }
            None => format!("{row}.card_id {compare} (SELECT card_id FROM {place})"),
        }
    }

    /// The key of the place `u`, NULL where the list has none.
    pub(super) fn key_of_place(&self) -> &'static str {
        if self.key.is_some() { "u.key" } else { "NULL::text" }
    }

    /// The place of the one row of `from`, or that behind all others.
    pub(super) fn or_last(&self, from: &str, descending: bool) -> String {
        self.or(from, self.last[usize::from(descending)], descending)
    }

    /// The place of the one row of `from`, or that behind all with the key `last`.
    pub(super) fn or(&self, from: &str, last: &str, descending: bool) -> String {
        let id = format!("coalesce((SELECT card_id FROM {from}), {}) AS card_id", last_id(descending));
        match self.key {
            Some(key) => format!("coalesce((SELECT {key} FROM {from}), {last}) AS key, {id}"),
            None => id,
        }
    }

    pub(super) fn order(&self, row: &str, descending: bool) -> String {
        let direction = if descending { "DESC" } else { "ASC" };
        let key = self.key.map(|key| format!("{row}.{key} {direction}, ")).unwrap_or_default();
        format!("{key}{row}.card_id {direction}")
    }
}

/// Whether rows of the list's order have to be looked at one by one, so that many may be passed over.
pub(super) fn is_selective(wanted: &PageQuery<'_>, groups: &GroupList) -> bool {
    let filter = wanted.filter;
    filter.q.is_some() || groups.may_be_mixed(filter) || filter.updated_since.is_some() && !is_by_time(wanted)
}

pub(super) fn is_by_time(wanted: &PageQuery<'_>) -> bool {
    wanted.sort.column == Column::UpdatedAt
}

/// Whether nearly every look at a row takes a look at another table; a search looks there for what has its words.
pub(super) fn looks_elsewhere(wanted: &PageQuery<'_>, groups: &GroupList) -> bool {
    let filter = wanted.filter;
    groups.may_be_mixed(filter) || !is_by_time(wanted) && filter.q.is_none() && filter.updated_since.is_some()
}

/// What rows `w` of the order have to fulfil one by one.
pub(super) fn checks(query: &mut Conditions, wanted: &PageQuery<'_>, groups: &GroupList) -> Vec<String> {
    let filter = wanted.filter;
    let mut checks = Vec::new();
    if let Some(text) = &filter.q {
        checks.push(has_text(query, text));
    }
    if !is_by_time(wanted) {
        // It looks at the words first.
        checks.extend(has_changed(query, filter, "w"));
    }
    if groups.may_be_mixed(filter) {
        checks.push(format!("({IS_NOT_MIXED} OR {})", source_conditions(query, filter)));
    }
    checks
}

/// That a row's card has changed since the time that is asked for, looked up one by one.
pub(super) fn has_changed(query: &mut Conditions, filter: &Filter, row: &str) -> Option<String> {
    let at = query.bind(filter.updated_since?);
    // No EXISTS: the planner would gather all that have changed.
    Some(format!("(SELECT t.updated_at FROM {TIMES} t WHERE t.card_id = {row}.card_id) >= ${at}"))
}

/// Where in a group's range of the index the page begins, of rows `w`.
pub(super) fn range(query: &mut Conditions, wanted: &PageQuery<'_>) -> Result<String, StoreError> {
    let mut range = range_behind(query, wanted)?;
    if let Some(since) = wanted.filter.updated_since.filter(|_| is_by_time(wanted)) {
        range.push_str(&format!(" AND w.updated_at >= ${}", query.bind(since)));
    }
    Ok(range)
}

/// The same but for the oldest change that is asked for.
pub(super) fn range_behind(query: &mut Conditions, wanted: &PageQuery<'_>) -> Result<String, StoreError> {
    let base = Base::new(wanted.sort.column);
    let mut range = String::new();
    if let Some(place) = wanted.place {
        let key = base.key.map(|key| format!("w.{key}")).unwrap_or_default();
        let behind = query.behind(wanted.sort.column, &key, "w.card_id", place, wanted.descending())?;
        range.push_str(&format!(" AND {behind}"));
    }
    Ok(range)
}

/// The cards of rows `p`.
pub(super) const CARDS: &str = "LATERAL (SELECT * FROM public.master_cards c WHERE c.id = p.card_id OFFSET 0) c";
