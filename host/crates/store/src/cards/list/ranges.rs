//! Lists of many groups. A merge of that many ranges takes longer to begin than the page takes to read, so each range
//! is read by itself, up to a place that all of them share: below it nothing is missing.

use super::{
    PageQuery,
    base::{Base, CARDS, checks, is_by_time, range, range_behind},
    bounded::{PlanMode, Statement},
    conditions::Conditions,
    ends::{self, sampled},
    groups::{GroupList, NUMBER_NOW, picked_in_sql},
};
use crate::error::StoreError;

/// A list along the ranges of all groups that the filter picks. The last column says that it has been read to its end,
/// or as far as the page can need: rows that have to be looked at one by one are read for about `steps` steps, or for
/// as many as it says.
pub(super) fn walk(wanted: &PageQuery<'_>, groups: &GroupList, steps: Option<u32>) -> Result<Statement, StoreError> {
    if groups.may_be_mixed(wanted.filter) {
        return range_by_range(wanted, groups);
    }
    let (base, descending) = (Base::new(wanted.sort.column), wanted.descending());
    let (mut query, columns) = (Conditions::none(), wanted.columns());
    let proposed = range(&mut query, wanted)?;
    // PostgreSQL reads to the further of two ends: that of time is left to the place where all groups end.
    let oldest = wanted.filter.updated_since.filter(|_| is_by_time(wanted) && descending);
    let (range, last) = match oldest {
        Some(since) => (range_behind(&mut query, wanted)?, format!("${}::timestamptz", query.bind(since))),
        None => (proposed.clone(), base.last(descending).to_owned()),
    };
    let until = ends::until(&mut query, wanted, groups, steps, [&proposed, &last]);
    let fits = fits(&mut query, wanted, groups);
    let (all, limit) = (query.bind(groups.picked(wanted.filter)), query.bind(wanted.rows()));
    let [of_w, of_p] = ["w", "p"].map(|row| base.order(row, descending));
    let (read, table, key) = (base.columns(false), base.table, base.key_of_place());
    let within = base.until("w", "until", descending);
    let sql = format!(
        "{until} \
         SELECT {columns}, {NUMBER_NOW}, u.is_end, {key} AS reached_key, u.card_id AS reached_id, \
         CASE WHEN u.is_dense THEN (SELECT count(*) FROM unnest(${all}::integer[]) g (id) CROSS JOIN LATERAL \
         (SELECT FROM {table} w WHERE w.card_group = g.id{range} AND {within} OFFSET 0) w) END AS steps FROM until u LEFT JOIN ((SELECT w.* FROM unnest(${all}::integer[]) g (id) CROSS JOIN LATERAL \
         (SELECT {read} FROM {table} w WHERE w.card_group = g.id{range} AND {within}{fits} ORDER BY {of_w} LIMIT ${limit}) w \
         ORDER BY {of_w} LIMIT ${limit}) p CROSS JOIN {CARDS}) ON true ORDER BY {of_p}"
    );
    Ok(Statement { sql, query, planned: if steps.is_some() { PlanMode::Walk } else { PlanMode::LongWalk } })
}

/// The same of thousands of groups, some of them mixed: as much of each range as the page may need, which never ends
/// early.
fn range_by_range(wanted: &PageQuery<'_>, groups: &GroupList) -> Result<Statement, StoreError> {
    let (base, descending) = (Base::new(wanted.sort.column), wanted.descending());
    let (mut query, columns) = (Conditions::none(), wanted.columns());
    let range = range(&mut query, wanted)?;
    let fits = fits(&mut query, wanted, groups);
    let picked = picked_in_sql(&mut query, wanted.filter);
    let limit = query.bind(wanted.rows());
    let [of_w, of_p] = ["w", "p"].map(|row| base.order(row, descending));
    let sql = format!(
        "SELECT {columns}, {NUMBER_NOW}, true FROM (SELECT w.* FROM public.card_groups g CROSS JOIN LATERAL \
         (SELECT {} FROM {} w WHERE w.card_group = g.id{range}{fits} ORDER BY {of_w} LIMIT ${limit}) w \
         WHERE {picked} ORDER BY {of_w} LIMIT ${limit}) p JOIN {CARDS} ON true ORDER BY {of_p}",
        base.columns(false),
        base.table
    );
    Ok(Statement { sql, query, planned: PlanMode::LongWalk })
}

/// Whether there are so many groups that a probe of the largest costs less than the beginning of a walk.
pub(super) fn is_probed(wanted: &PageQuery<'_>, groups: &GroupList) -> bool {
    groups.picked(wanted.filter).len() > ends::SAMPLED
}

/// How many of the first rows fit, about `steps` of them, of the largest groups alone: this says how far to walk.
pub(super) fn probe(wanted: &PageQuery<'_>, groups: &GroupList, steps: u32) -> Result<Statement, StoreError> {
    let (base, descending) = (Base::new(wanted.sort.column), wanted.descending());
    let mut query = Conditions::none();
    let range = range(&mut query, wanted)?;
    let fits = fits(&mut query, wanted, groups);
    let (sampled, read): (Vec<i32>, Vec<i32>) = sampled(wanted, groups, Some(steps)).into_iter().unzip();
    let (sampled, read) = (query.bind(sampled), query.bind(read));
    let sql = format!(
        "SELECT count(*) FROM unnest(${sampled}::integer[], ${read}::integer[]) g (id, read) CROSS JOIN LATERAL \
         (SELECT {} FROM {} w WHERE w.card_group = g.id{range} ORDER BY {} LIMIT g.read) w WHERE true{fits}",
        base.columns(wanted.filter.q.is_some()),
        base.table,
        base.order("w", descending)
    );
    Ok(Statement { sql, query, planned: PlanMode::Walk })
}

/// What rows `w` have to fulfil one by one; in this form the planner makes no join of it.
fn fits(query: &mut Conditions, wanted: &PageQuery<'_>, groups: &GroupList) -> String {
    match checks(query, wanted, groups).as_slice() {
        [] => String::new(),
        checks => format!(" AND (w.card_group IS NULL OR ({}))", checks.join(" AND ")),
    }
}
