//! The statements of lists. Each has after the card's columns the number of groups when it ran, and one more.

use std::sync::Arc;

use super::{
    Digest, PageQuery,
    base::{Base, CARDS, LIST, TIMES, WORDS, checks, has_changed, is_by_time, is_selective, range},
    bounded::{PlanMode, Statement},
    conditions::{Conditions, has_text, pattern},
    groups::{GroupList, IS_NOT_MIXED, NUMBER_NOW, picked_in_sql, source_conditions},
    key_frequencies::FrequencyList,
    keys::{self, has_keys},
    places::Key,
    ranges,
};
use crate::error::StoreError;
use cardinal_cards::filter::{Column, Filter};

/// Ranges that one statement merges; from there on each range is read by itself, see `ranges`. The more there are, the
/// longer a step takes, so that long walks merge few.
const MAX_MERGED: usize = 32;
const MAX_MERGED_IN_LONG_WALKS: usize = 4;

/// The first changes that are looked at to find out where a page of them ends at the latest.
const FIRST_CHANGES: u32 = 4_000;

/// Along an index of the cards themselves, which holds those that are not deleted in the list's order.
pub(super) fn open_list(wanted: &PageQuery<'_>) -> Result<Statement, StoreError> {
    let (column, columns, descending) = (wanted.sort.column, wanted.columns(), wanted.descending());
    let (mut query, base) = (Conditions::none(), Base::new(column));
    let key = base.key.map(|key| format!("c.{key}")).unwrap_or_default();
    let behind = match wanted.place {
        Some(place) => format!(" AND {}", query.behind(column, &key, "c.id", place, descending)?),
        None => String::new(),
    };
    let limit = query.bind(wanted.rows());
    let direction = if descending { "DESC" } else { "ASC" };
    let order = base.key.map(|key| format!("c.{key} {direction}, ")).unwrap_or_default();
    let sql = format!(
        "SELECT {columns} FROM public.master_cards c WHERE c.deleted_at IS NULL{behind} \
         ORDER BY {order}c.id {direction} LIMIT ${limit}"
    );
    Ok(Statement { sql, query, planned: PlanMode::Walk })
}

/// Along the order of the list, at most `steps` rows of it. The last column says that the list ends here.
pub(super) fn walk(wanted: &PageQuery<'_>, groups: &GroupList, steps: Option<u32>) -> Result<Statement, StoreError> {
    let mut picked = groups.picked(wanted.filter);
    let max_merged = if is_selective(wanted, groups) { MAX_MERGED_IN_LONG_WALKS } else { MAX_MERGED };
    if picked.len() > max_merged {
        return ranges::walk(wanted, groups, steps);
    }
    // So that there are few different statements; no card is in group 0.
    picked.resize(picked.len().max(1).next_power_of_two(), 0);
    let (base, descending) = (Base::new(wanted.sort.column), wanted.descending());
    let with_words = wanted.filter.q.is_some();
    let (mut query, columns) = (Conditions::none(), wanted.columns());
    let range = range(&mut query, wanted)?;
    let checks = checks(&mut query, wanted, groups);
    let mut merged = Vec::with_capacity(picked.len() + 1);
    for group in picked {
        merged.push(format!(
            "(SELECT {} FROM {} w WHERE w.card_group = ${}{range} ORDER BY {})",
            base.columns(with_words),
            base.table,
            query.bind(group),
            base.order("w", descending)
        ));
    }
    merged.push(format!("({})", base.end(descending, with_words)));
    let limit = query.bind(wanted.rows());
    let bound = steps.map(|steps| format!(" LIMIT {steps}")).unwrap_or_default();
    let fits = match checks.as_slice() {
        [] => "true".to_owned(),
        checks => format!("w.card_group IS NULL OR ({})", checks.join(" AND ")),
    };
    let (merged, [of_m, of_w, of_p]) =
        (merged.join(" UNION ALL "), ["m", "w", "p"].map(|row| base.order(row, descending)));
    let sql = format!(
        "SELECT {columns}, {NUMBER_NOW}, p.card_group IS NULL FROM (SELECT w.* FROM \
         (SELECT m.* FROM ({merged}) m ORDER BY {of_m}{bound}) w WHERE {fits} ORDER BY {of_w} LIMIT ${limit}) p \
         LEFT JOIN {CARDS} ON true ORDER BY p.card_group IS NULL, {of_p}"
    );
    Ok(Statement { sql, query, planned: if steps.is_some() { PlanMode::Walk } else { PlanMode::LongWalk } })
}

/// Whether the filter has an index by which all that it picks can be gathered.
pub(super) fn can_gather(filter: &Filter) -> bool {
    filter.q.is_some() || filter.updated_since.is_some()
}

/// What a gathering goes by.
pub(super) enum GatheringIndex {
    /// The time of changes.
    Times,
    /// The rare keys of the searched text; up to a place, if there is one, by the index of the list's order as well.
    Words { frequencies: Arc<FrequencyList>, until: Option<Key> },
    /// The same of all the list, and the time of changes of one after the other until the page is full.
    WordsThenTimes(Arc<FrequencyList>),
}

/// All that fits, sorted, or `max_found` that do; the last column says how many that is, whatever page is read, and
/// nothing of all by time: to keep and count them takes longer than to find them. Nor of those up to a place, or that a
/// page is filled from, which are not all.
pub(super) fn gathering(
    wanted: &PageQuery<'_>,
    groups: &GroupList,
    index: GatheringIndex,
    max_found: Option<i64>,
) -> Result<Statement, StoreError> {
    let mut query = Conditions::none();
    let bound = max_found.map(|max_found| format!(" LIMIT {max_found}")).unwrap_or_default();
    let hits = match (&wanted.filter.q, index) {
        (Some(text), GatheringIndex::WordsThenTimes(frequencies)) => {
            let at_any_time = PageQuery { filter: &Filter { updated_since: None, ..wanted.filter.clone() }, ..*wanted };
            let found = found_by_words(&mut query, &at_any_time, groups, text, &frequencies);
            let (has_changed, from) = (has_changed(&mut query, wanted.filter, "f"), format!("({found} OFFSET 0)"));
            Hits { has_changed, ..Hits::uncounted(from, PlanMode::Gathering) }
        }
        (Some(text), GatheringIndex::Words { frequencies, until }) => {
            let found = found_by_words(&mut query, wanted, groups, text, &frequencies);
            match until {
                None => Hits::counted(&format!("{found}{bound}"), PlanMode::Gathering),
                Some(until) => {
                    let found = format!("({found}{} OFFSET 0)", part(&mut query, wanted, until));
                    Hits::uncounted(found, PlanMode::Part)
                }
            }
        }
        (Some(_), GatheringIndex::Times) if max_found.is_some() => {
            let found = found_by_time(&mut query, wanted, groups, false);
            Hits::counted(&format!("{found}{bound}"), PlanMode::GatheringByTime)
        }
        _ => {
            let number = max_found.map(|_| {
                let found = found_by_time(&mut query, wanted, groups, false);
                format!("(SELECT count(*) FROM ({found}{bound}) f)")
            });
            let near = near_ones(&mut query, wanted, groups)?;
            // Not along another index.
            let from = format!("({}{bound} OFFSET 0)", found_by_time(&mut query, wanted, groups, true));
            Hits { with: near, number, ..Hits::uncounted(from, PlanMode::GatheringByTime) }
        }
    };
    hits.page(query, wanted)
}

/// What has been found, and where the page's rows are picked from.
struct Hits {
    /// A WITH clause.
    with: String,
    from: String,
    /// What each row has to fulfil besides, looked at in the list's order.
    has_changed: Option<String>,
    /// How many they are.
    number: Option<String>,
    planned: PlanMode,
}

impl Hits {
    fn counted(found: &str, planned: PlanMode) -> Self {
        let with = format!("found AS MATERIALIZED ({found}), ");
        let number = Some("(SELECT count(*) FROM found)".to_owned());
        Self { with, from: "found".to_owned(), has_changed: None, number, planned }
    }

    fn uncounted(from: String, planned: PlanMode) -> Self {
        Self { with: String::new(), from, has_changed: None, number: None, planned }
    }

    fn page(self, mut query: Conditions, wanted: &PageQuery<'_>) -> Result<Statement, StoreError> {
        let Self { with, from, has_changed, number, planned } = self;
        let number = number.as_deref().unwrap_or("NULL::bigint");
        let (column, descending, columns) = (wanted.sort.column, wanted.descending(), wanted.columns());
        let behind = match wanted.place {
            Some(place) => query.behind(column, "f.key", "f.card_id", place, descending)?,
            None => "true".to_owned(),
        };
        let direction = if descending { "DESC" } else { "ASC" };
        let order = format!("ORDER BY f.key {direction}, f.card_id {direction}");
        let (from, fits) = match has_changed {
            Some(has_changed) => (format!("(SELECT f.* FROM {from} f WHERE {behind} {order} OFFSET 0)"), has_changed),
            None => (from, behind),
        };
        let limit = query.bind(wanted.rows());
        let sql = format!(
            "WITH {with}p AS (SELECT f.key, f.card_id FROM {from} f WHERE {fits} {order} LIMIT ${limit}) \
             SELECT {columns}, {NUMBER_NOW}, {number} FROM (SELECT 1) one \
             LEFT JOIN (p CROSS JOIN {CARDS}) ON true ORDER BY p.key {direction}, p.card_id {direction}"
        );
        Ok(Statement { sql, query, planned })
    }
}

/// The ids of all that fits, and what they are sorted by; by the index of searches, whose rows have all but the time.
fn found_by_words(
    query: &mut Conditions,
    wanted: &PageQuery<'_>,
    groups: &GroupList,
    text: &str,
    frequencies: &FrequencyList,
) -> String {
    let filter = wanted.filter;
    let times = if filter.updated_since.is_some() || is_by_time(wanted) {
        format!(" JOIN {TIMES} t ON t.card_id = w.card_id")
    } else {
        String::new()
    };
    let mut conditions = vec![
        format!("w.card_group = ANY(${})", query.bind(groups.picked(filter))),
        has_keys(query, text, keys::Place::Anywhere, frequencies),
        has_text(query, text),
    ];
    conditions.extend(more_conditions(query, filter, groups, "t"));
    format!("SELECT w.card_id, {} AS key FROM {WORDS} w{times} WHERE {}", key(wanted, "t"), conditions.join(" AND "))
}

/// The part of the list from the page's place up to `until`, of rows `w`, by the list's column alone: an index on that
/// finds it. Both ends are said, so that the planner expects few.
fn part(query: &mut Conditions, wanted: &PageQuery<'_>, until: Key) -> String {
    let (column, [to, from]) = (list_column(wanted), if wanted.descending() { [">=", "<="] } else { ["<=", ">="] });
    let place = match (wanted.place, wanted.sort.column) {
        (Some(place), Column::CreatedAt) => format!("${}", query.bind(place.id)),
        (Some(place), _) => format!("${}", query.bind(place.value.clone())),
        (None, column) => Base::new(column).last(!wanted.descending()).to_owned(),
    };
    let until = match until {
        Key::Text(text) => query.bind(text),
        Key::Id(id) => query.bind(id),
    };
    format!(" AND w.{column} {from} {place} AND w.{column} {to} ${until}")
}

/// A page of the first changes: nothing of the list's page lies behind the last of these, so that most of what has
/// changed is neither searched nor sorted.
fn near_ones(query: &mut Conditions, wanted: &PageQuery<'_>, groups: &GroupList) -> Result<String, StoreError> {
    let (filter, descending) = (wanted.filter, wanted.descending());
    let (column, direction) = (list_column(wanted), if descending { "DESC" } else { "ASC" });
    let picked = query.bind(groups.picked(filter));
    let since = more_conditions(
        query,
        &Filter { q: None, kind: None, plugin: None, missing_kind: None, ..filter.clone() },
        groups,
        "w",
    );
    let mut conditions = match wanted.place {
        Some(place) => {
            vec![query.behind(wanted.sort.column, &format!("w.{column}"), "w.card_id", place, descending)?]
        }
        None => vec!["true".to_owned()],
    };
    conditions.extend(filter.q.as_deref().map(|text| has_text(query, text)));
    conditions.extend(more_conditions(query, &Filter { updated_since: None, ..filter.clone() }, groups, "w"));
    Ok(format!(
        "near AS MATERIALIZED (SELECT w.{column} AS key FROM (SELECT w.* FROM {TIMES} w WHERE w.card_group = ANY(${picked}) AND {} LIMIT {FIRST_CHANGES}) w \
         WHERE {} ORDER BY w.{column} {direction} OFFSET {} LIMIT 1), ",
        since.join(" AND "),
        conditions.join(" AND "),
        wanted.limit
    ))
}

fn list_column(wanted: &PageQuery<'_>) -> &'static str {
    Base::new(wanted.sort.column).key.unwrap_or("card_id")
}

/// The same by the index of times, which has all that is asked of a card.
fn found_by_time(query: &mut Conditions, wanted: &PageQuery<'_>, groups: &GroupList, near: bool) -> String {
    let filter = wanted.filter;
    let mut conditions = vec![format!("w.card_group = ANY(${})", query.bind(groups.picked(filter)))];
    if near {
        let compare = if wanted.descending() { ">=" } else { "<=" };
        // Without one all are near. In this form no other index is used for it.
        conditions.push(format!("(w.{} {compare} (SELECT key FROM near)) IS NOT FALSE", list_column(wanted)));
    }
    if let Some(text) = &filter.q {
        conditions.push(has_text(query, text));
    }
    conditions.extend(more_conditions(query, filter, groups, "w"));
    format!("SELECT w.card_id, {} AS key FROM {TIMES} w WHERE {}", key(wanted, "w"), conditions.join(" AND "))
}

/// What a gathering's rows `w` have to fulfil besides; `times` are the rows that have the time.
fn more_conditions(query: &mut Conditions, filter: &Filter, groups: &GroupList, times: &str) -> Vec<String> {
    let mut conditions = Vec::new();
    if let Some(since) = filter.updated_since {
        conditions.push(format!("{times}.updated_at >= ${}", query.bind(since)));
    }
    if groups.may_be_mixed(filter) {
        conditions.push(format!("({IS_NOT_MIXED} OR {})", source_conditions(query, filter)));
    }
    conditions
}

/// What a gathering is sorted by, before the id.
fn key(wanted: &PageQuery<'_>, times: &str) -> String {
    match wanted.sort.column {
        Column::Title => "w.title".to_owned(),
        Column::Sku => "w.sku".to_owned(),
        Column::UpdatedAt => format!("{times}.updated_at"),
        Column::CreatedAt => "0".to_owned(),
    }
}

/// What a list without searches counts or has estimated, of rows `w`.
fn counted(query: &mut Conditions, filter: &Filter, groups: &GroupList) -> String {
    let ids = query.bind(groups.picked(filter));
    match filter.updated_since.map(|since| query.bind(since)) {
        Some(since) => format!("{TIMES} w WHERE w.card_group = ANY(${ids}) AND w.updated_at >= ${since}"),
        None => format!("{LIST} w WHERE w.card_group = ANY(${ids})"),
    }
}

/// Counts what the groups hold of a filter without a search, up to `limit`.
pub(super) fn count_up_to(filter: &Filter, groups: &GroupList, limit: i64) -> Statement {
    let mut query = Conditions::none();
    let from = counted(&mut query, filter, groups);
    let sql = format!("SELECT count(*) FROM (SELECT FROM {from} LIMIT {limit}) counted");
    Statement { sql, query, planned: PlanMode::Each }
}

/// What the planner thinks that a filter picks.
pub(super) fn plan(filter: &Filter, groups: &GroupList) -> Statement {
    let mut query = Conditions::none();
    let from = match &filter.q {
        None => counted(&mut query, filter, groups),
        Some(text) => {
            let (ids, at) = (query.bind(groups.picked(filter)), query.bind(pattern(text)));
            format!(
                r#"{LIST} w WHERE w.card_group = ANY(${ids}) AND w.words LIKE lower(${at}::text COLLATE "default")"#
            )
        }
    };
    Statement { sql: format!("EXPLAIN (FORMAT JSON) SELECT 1 FROM {from}"), query, planned: PlanMode::Each }
}

/// What the planner thinks that a search for `text` alone picks.
pub(super) fn plan_of_words(text: &str) -> Statement {
    let mut query = Conditions::none();
    let at = query.bind(pattern(text));
    let sql = format!(
        r#"EXPLAIN (FORMAT JSON) SELECT 1 FROM {LIST} w WHERE w.words LIKE lower(${at}::text COLLATE "default")"#
    );
    Statement { sql, query, planned: PlanMode::Each }
}

/// Counts what a filter picks, one by one.
pub(super) fn count(filter: &Filter) -> Statement {
    aggregate_picked("count(*)", filter)
}

/// The digest of the ids that a filter picks.
pub(super) fn digest(filter: &Filter) -> Statement {
    aggregate_picked(&Digest::sql("w.card_id"), filter)
}

/// An aggregate of all that a filter picks, of rows `w`.
fn aggregate_picked(aggregate: &str, filter: &Filter) -> Statement {
    let mut query = Conditions::none();
    let picked = picked_in_sql(&mut query, filter);
    let mut sql = format!(
        "SELECT {aggregate} FROM {LIST} w WHERE w.card_group IN (SELECT g.id FROM public.card_groups g WHERE {picked})"
    );
    if let Some(text) = &filter.q {
        sql.push_str(&format!(" AND {}", has_text(&mut query, text)));
    }
    if let Some(since) = filter.updated_since {
        let at = query.bind(since);
        sql.push_str(&format!(" AND w.card_id IN (SELECT t.card_id FROM {TIMES} t WHERE t.updated_at >= ${at})"));
    }
    if filter.kind.is_some() || filter.plugin.is_some() || filter.missing_kind.is_some() {
        sql.push_str(&format!(" AND ({IS_NOT_MIXED} OR {})", source_conditions(&mut query, filter)));
    }
    Statement { sql, query, planned: PlanMode::Each }
}
