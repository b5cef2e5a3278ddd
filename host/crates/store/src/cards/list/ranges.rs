//! Lists of many groups. A merge of that many ranges takes longer to begin than the page takes to read, so each range
//! is read by itself, up to a place that all of them share: below it nothing is missing.

use super::{
    PageQuery,
    base::{Base, CARDS, checks, is_by_time, is_selective, last_id, range, range_behind},
    bounded::{PlanMode, Statement},
    conditions::Conditions,
    groups::{GroupList, NUMBER_NOW, picked_in_sql},
    places::Key,
};
use crate::error::StoreError;
use cardinal_cards::filter::Filter;

/// Groups whose ranges say where to read to. They have most of the cards.
const SAMPLED: usize = 16;
/// A group says it only where so many of its rows are passed, if any group does: the first place of all is taken, and
/// that of a few rows would be one by chance.
const MIN_PASSED: i32 = 40;

/// A list along the ranges of all groups that the filter picks. The last column says that it has been read to its end,
/// or as far as the page can need: rows that have to be looked at one by one are read for about `steps` steps.
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
        Some(since) => {
            let last = format!("${}::timestamptz", query.bind(since));
            (range_behind(&mut query, wanted)?, base.or("shared", &last, descending))
        }
        None => (proposed.clone(), base.or_last("shared", descending)),
    };
    let fits = fits(&mut query, wanted, groups);
    let expected = steps.and_then(|steps| expected_place(&mut query, wanted, groups, steps)).unwrap_or_default();
    let mut sampled = sampled(wanted, groups, steps);
    if sampled.iter().any(|(_, passed)| *passed >= MIN_PASSED) {
        sampled.retain(|(_, passed)| *passed >= MIN_PASSED);
    }
    let (sampled, passed): (Vec<i32>, Vec<i32>) = sampled.into_iter().unzip();
    let (sampled, passed, all) = (query.bind(sampled), query.bind(passed), query.bind(groups.picked(wanted.filter)));
    let limit = query.bind(wanted.rows());
    let [of_w, of_p] = ["w", "p"].map(|row| base.order(row, descending));
    let (read, table, until) = (base.columns(false), base.table, base.until("w", descending));
    let sql = format!(
        "WITH shared AS MATERIALIZED (SELECT w.* FROM (SELECT w.* FROM unnest(${sampled}::integer[], ${passed}::integer[]) g (id, passed) CROSS JOIN LATERAL \
         (SELECT {read} FROM {table} w WHERE w.card_group = g.id{proposed} ORDER BY {of_w} OFFSET g.passed LIMIT 1) w{expected}) w \
         ORDER BY {of_w} LIMIT 1), \
         until AS MATERIALIZED (SELECT {last}, NOT EXISTS (SELECT FROM shared) AS is_end) \
         SELECT {columns}, {NUMBER_NOW}, u.is_end FROM until u LEFT JOIN ((SELECT w.* FROM unnest(${all}::integer[]) g (id) CROSS JOIN LATERAL \
         (SELECT {read} FROM {table} w WHERE w.card_group = g.id{range} AND {until}{fits} ORDER BY {of_w} LIMIT ${limit}) w \
         ORDER BY {of_w} LIMIT ${limit}) p CROSS JOIN {CARDS}) ON true ORDER BY {of_p}"
    );
    Ok(Statement { sql, query, planned: if steps.is_some() { PlanMode::Walk } else { PlanMode::LongWalk } })
}

/// Where the list of all cards should be after so many steps, as a row of a UNION. Groups that lie at this end of it
/// alone, as the newest cards' may, need not be among those that say where to read to, and are as large as they are. A
/// filter by groups may pick none of the cards up to there, and would seem to pick few.
fn expected_place(query: &mut Conditions, wanted: &PageQuery<'_>, groups: &GroupList, steps: u32) -> Option<String> {
    if !(Filter { q: None, updated_since: None, ..wanted.filter.clone() }).is_open() {
        return None;
    }
    let (held, descending) = (groups.estimate(wanted.filter).max(1), wanted.descending());
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let share = f64::from(steps) / held as f64;
    Some(match groups.places.behind(wanted.sort.column, wanted.place, descending, share)? {
        Key::Text(text) => {
            format!(" UNION ALL SELECT ${}::text COLLATE \"C\", {}, 0", query.bind(text), last_id(descending))
        }
        Key::Id(id) => format!(" UNION ALL SELECT ${}::uuid, 0", query.bind(id)),
    })
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
    groups.picked(wanted.filter).len() > SAMPLED
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

/// Groups, and how many rows of each are passed before the place that it proposes. The first place of all is taken:
/// where every row counts, a page's worth of one group is enough. None for a walk to the end.
pub(super) fn sampled(wanted: &PageQuery<'_>, groups: &GroupList, steps: Option<u32>) -> Vec<(i32, i32)> {
    let (mut largest, mut all) = (groups.largest(wanted.filter, SAMPLED), groups.estimate(wanted.filter));
    if largest.is_empty() {
        // Nobody has looked at their sizes yet.
        largest = groups.picked(wanted.filter).into_iter().map(|id| (id, 1)).collect();
        all = i64::try_from(largest.len()).unwrap_or(i64::MAX);
    }
    let page = i32::try_from(wanted.limit).unwrap_or(i32::MAX);
    if !is_selective(wanted, groups) {
        return largest.iter().map(|(id, _)| (*id, page)).collect();
    }
    let Some(steps) = steps else { return Vec::new() };
    let (steps, all) = (i64::from(steps), all.max(1));
    let passed = |cards: i64| i32::try_from(cards.saturating_mul(steps) / all).unwrap_or(i32::MAX).max(1);
    largest.iter().map(|(id, cards)| (*id, passed(*cards))).collect()
}
