//! Where a walk along many groups ends: at a place that all of them share, so that nothing is missing before it, about
//! so many rows from where it begins.

use super::{
    PageQuery,
    base::{Base, is_selective},
    conditions::Conditions,
    groups::GroupList,
};

/// Groups whose ranges propose a place. They have most of the cards.
pub(super) const SAMPLED: usize = 16;
/// A group proposes one only where so many of its rows are passed, if any group does: that of a few rows would be one
/// by chance.
const MIN_PASSED: i32 = 40;
/// No group may have many more of a walk's rows than its share of all cards, as groups have that the newest cards alone
/// are in: up to one in so many is no harm, nor so many times its share.
const DENSE: i64 = 4;
const TIMES_SHARE: i64 = 2;
/// So many groups are looked at for that, the largest, 2 µs each.
const MAX_WATCHED: usize = 64;

/// A WITH clause whose last query, `until`, is the place, of rows `w` in `range`, and whether the list ends there: then
/// it is `last`. Half of the rows that should be passed lie before it, by what the largest groups say; or fewer where
/// that would be too many of one group, which `is_dense` says. Where every row counts, a page's worth of one group is
/// enough.
pub(super) fn until(
    query: &mut Conditions,
    wanted: &PageQuery<'_>,
    groups: &GroupList,
    steps: Option<u32>,
    [range, last]: [&str; 2],
) -> String {
    let (base, descending) = (Base::new(wanted.sort.column), wanted.descending());
    let mut sampled = sampled(wanted, groups, steps);
    if sampled.iter().any(|(_, passed)| *passed >= MIN_PASSED) {
        sampled.retain(|(_, passed)| *passed >= MIN_PASSED);
    }
    let all: i64 = sampled.iter().map(|(_, passed)| i64::from(*passed)).sum();
    let enough = query.bind(if steps.is_some() { all / 2 } else { 0 });
    let [sampled, watched] =
        [sampled, watched(wanted, groups, steps)].map(|groups| groups.into_iter().unzip::<_, _, Vec<_>, Vec<_>>());
    let [sampled, watched] = [sampled, watched]
        .map(|(ids, passed)| format!("unnest(${}::integer[], ${}::integer[])", query.bind(ids), query.bind(passed)));
    let (read, table, of_w) = (base.columns(false), base.table, base.order("w", descending));
    let shared = base.or_last("shared", descending);
    let within = base.until("w", "shared_until", descending);
    format!(
        "WITH proposed AS (SELECT w.*, sum(g.passed) OVER (ORDER BY {of_w}) AS so_far FROM {sampled} g (id, passed) CROSS JOIN LATERAL \
         (SELECT {read} FROM {table} w WHERE w.card_group = g.id{range} ORDER BY {of_w} OFFSET g.passed LIMIT 1) w), \
         shared AS MATERIALIZED (SELECT {read} FROM proposed w WHERE w.so_far >= ${enough} ORDER BY {of_w} LIMIT 1), \
         shared_until AS MATERIALIZED (SELECT {shared}), \
         dense AS MATERIALIZED (SELECT w.* FROM {watched} g (id, passed) CROSS JOIN LATERAL \
         (SELECT {read} FROM {table} w WHERE w.card_group = g.id{range} AND {within} ORDER BY {of_w} OFFSET g.passed LIMIT 1) w \
         ORDER BY {of_w} LIMIT 1), \
         nearest AS MATERIALIZED (SELECT w.* FROM (SELECT * FROM dense UNION ALL SELECT * FROM shared) w ORDER BY {of_w} LIMIT 1), \
         until AS MATERIALIZED (SELECT {}, NOT EXISTS (SELECT FROM nearest) AS is_end, EXISTS (SELECT FROM dense) AS is_dense)",
        base.or("nearest", last, descending)
    )
}

/// Groups, and how many rows of each are passed before the place that it proposes. None for a walk to the end.
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

/// Groups that may be dense, and how many rows of each may lie before the place: those that have as many.
fn watched(wanted: &PageQuery<'_>, groups: &GroupList, steps: Option<u32>) -> Vec<(i32, i32)> {
    let Some(steps) = steps.map(i64::from) else { return Vec::new() };
    let (all, least) = (groups.estimate(wanted.filter).max(1), (steps / DENSE).max(i64::from(MIN_PASSED)));
    let large = groups.by_size(wanted.filter).take_while(|(_, cards)| *cards >= least).take(MAX_WATCHED);
    let passed = |cards: i64| (cards.saturating_mul(steps).saturating_mul(TIMES_SHARE) / all).max(least);
    large.map(|(id, cards)| (id, i32::try_from(passed(cards)).unwrap_or(i32::MAX))).collect()
}
