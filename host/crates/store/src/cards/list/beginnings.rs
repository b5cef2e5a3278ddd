//! Searches of one or two characters in the order of titles or SKUs. They match beginnings: what they find by the
//! column of the order lies together there, and only what they find by the other column, or by a line within, is
//! gathered.

use uuid::Uuid;

use super::{
    PageQuery,
    base::{Base, CARDS, LIST},
    bounded::{PlanMode, Statement},
    conditions::{Conditions, has_text},
    ends::sampled,
    groups::{GroupList, NUMBER_NOW},
    letters::TextRange,
};
use crate::error::StoreError;
use cardinal_cards::{filter::Column, page::Place};

/// The list along the `ranges` of the text, of each group up to a place that all share, and what is found elsewhere, at
/// most `max_found` cards. The last column says how many those are: with `max_found` of them the page may miss some.
pub(super) fn page(
    wanted: &PageQuery<'_>,
    groups: &GroupList,
    text: &str,
    ranges: Vec<TextRange>,
    max_found: i64,
) -> Result<Statement, StoreError> {
    let (base, descending, columns) = (Base::new(wanted.sort.column), wanted.descending(), wanted.columns());
    let (key, other) = if wanted.sort.column == Column::Title { ("title", "sku") } else { ("sku", "title") };
    let mut query = Conditions::none();
    let behind = match wanted.place {
        Some(place) => query.behind(wanted.sort.column, &format!("w.{key}"), "w.card_id", place, descending)?,
        None => "true".to_owned(),
    };
    let fits = has_text(&mut query, text);
    let (sampled, _): (Vec<i32>, Vec<i32>) = sampled(wanted, groups, Some(1)).into_iter().unzip();
    let (sampled, all) = (query.bind(sampled), query.bind(groups.picked(wanted.filter)));
    let (begins, after, last) = to_read(&ranges, wanted.place, descending);
    let (begins, after, last) = (query.bind(begins), query.bind(after), query.bind(last));
    let (first, end): (Vec<String>, Vec<String>) = ranges.into_iter().unzip();
    let (first, end) = (query.bind(first), query.bind(end));
    let (page, limit) = (query.bind(i64::from(wanted.limit)), query.bind(wanted.rows()));
    let [of_w, of_p] = ["w", "p"].map(|row| base.order(row, descending));
    let (direction, [compare, to, until]) =
        if descending { ("DESC", ["<", ">=", ">="]) } else { ("ASC", [">", "<", "<="]) };
    // A comparison of rows and one of the key towards the same end would not be combined: each range has one of each.
    let by_key = format!(
        "w.card_group = g.id AND (w.{key}, w.card_id) {compare} (r.begins, r.after) AND w.{key} {to} r.last AND {fits}"
    );
    let from_key = exists(wanted, &Span { column: key, to, last: "last", begins: "begins" });
    let from_other = exists(wanted, &Span { column: other, to: "<", last: "behind", begins: "first" });
    let or_last = base.or_last("shared", descending);
    let sql = format!(
        "WITH own AS MATERIALIZED (SELECT r.* FROM unnest(${begins}::text[], ${after}::uuid[], ${last}::text[]) r (begins, after, last){from_key}), \
         others AS MATERIALIZED (SELECT r.* FROM unnest(${first}::text[], ${end}::text[]) r (first, behind){from_other}), \
         found AS MATERIALIZED (SELECT w.card_id FROM (\
           SELECT w.card_id FROM others r CROSS JOIN unnest(${all}::integer[]) g (id) CROSS JOIN LATERAL \
           (SELECT w.card_id FROM {LIST} w WHERE w.card_group = g.id AND w.{other} >= r.first AND w.{other} < r.behind AND {fits} \
             ORDER BY w.{other}, w.card_id LIMIT {max_found}) w \
         UNION ALL SELECT w.card_id FROM unnest(${all}::integer[]) g (id) CROSS JOIN LATERAL \
           (SELECT w.card_id FROM {LIST} w WHERE w.card_group = g.id \
             AND (w.title LIKE E'%\\n%' OR w.sku LIKE E'%\\n%') AND {fits} ORDER BY w.card_id LIMIT {max_found}) w) w LIMIT {max_found}), \
         number AS MATERIALIZED (SELECT count(*) AS found FROM found), \
         elsewhere AS MATERIALIZED (SELECT w.{key}, w.card_id FROM number n CROSS JOIN found f CROSS JOIN LATERAL \
           (SELECT w.{key}, w.card_id FROM {LIST} w WHERE w.card_id = f.card_id OFFSET 0) w WHERE n.found < {max_found}), \
         shared AS MATERIALIZED (SELECT w.* FROM own r CROSS JOIN unnest(${sampled}::integer[]) g (id) CROSS JOIN LATERAL \
           (SELECT w.{key}, w.card_id FROM {LIST} w WHERE {by_key} ORDER BY {of_w} OFFSET ${page} LIMIT 1) w \
         ORDER BY {of_w} LIMIT 1), \
         until AS MATERIALIZED (SELECT {or_last}), \
         p AS (SELECT w.{key}, w.card_id FROM own r CROSS JOIN unnest(${all}::integer[]) g (id) CROSS JOIN LATERAL \
           (SELECT w.{key}, w.card_id FROM {LIST} w WHERE {by_key} AND w.{key} {until} (SELECT key FROM until) \
           ORDER BY {of_w} LIMIT ${limit}) w \
         UNION SELECT w.{key}, w.card_id FROM elsewhere w WHERE {behind} ORDER BY {key} {direction}, card_id {direction} LIMIT ${limit}) \
         SELECT {columns}, {NUMBER_NOW}, (SELECT found FROM number) FROM (SELECT 1) one \
         LEFT JOIN (p CROSS JOIN {CARDS}) ON true ORDER BY {of_p}"
    );
    Ok(Statement { sql, query, planned: PlanMode::Walk })
}

/// Of each range behind `place` where reading begins, behind which id, and the other end.
fn to_read(ranges: &[TextRange], place: Option<&Place>, descending: bool) -> (Vec<String>, Vec<Uuid>, Vec<String>) {
    let (mut begins, mut after, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (first, behind) in ranges {
        let (near, far) = if descending { (behind, first) } else { (first, behind) };
        let (key, id) = match place {
            Some(place) if descending && place.value < *first || !descending && place.value >= *behind => continue,
            Some(place) if descending && place.value < *behind || !descending && place.value >= *first => {
                (&place.value, place.id)
            }
            _ => (near, Uuid::nil()),
        };
        begins.push(key.clone());
        after.push(id);
        last.push(far.clone());
    }
    (begins, after, last)
}

/// The ranges of one column, by what their ends are called in the statement.
struct Span<'a> {
    column: &'a str,
    /// How the last value compares with the other end.
    to: &'a str,
    last: &'a str,
    begins: &'a str,
}

/// Leaves out ranges without any card, which most capitals' are; no index says so of cards that are deleted.
fn exists(wanted: &PageQuery<'_>, span: &Span<'_>) -> String {
    if wanted.filter.deleted {
        return String::new();
    }
    let Span { column, to, last, begins } = span;
    let from = if *to == "<" { ">=" } else { "<=" };
    format!(
        " WHERE EXISTS (SELECT FROM public.master_cards c WHERE c.deleted_at IS NULL AND c.{column} {from} r.{begins} \
         AND c.{column} {to} r.{last} ORDER BY c.{column}, c.id LIMIT 1)"
    )
}
