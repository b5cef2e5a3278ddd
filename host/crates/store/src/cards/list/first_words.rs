//! Searches of three characters or more in the order of titles or SKUs, for what most of those begin with that have it.
//! A walk from the list's beginning meets none of these for long, and to gather all of them takes 2 µs each; but they
//! lie together. What has the text elsewhere is gathered, by keys that say so.

use super::{
    PageQuery,
    base::{Base, CARDS, LIST, WORDS},
    bounded::{PlanMode, Statement},
    conditions::{Conditions, has_text},
    groups::{GroupList, NUMBER_NOW},
    keys::{self, has_keys},
    letters::Spellings,
    ranges::sampled,
};
use crate::error::StoreError;
use cardinal_cards::filter::{Column, Filter};

/// How many letters of a text are looked for in each spelling; of those that follow, nothing is known.
pub(super) const MAX_LETTERS: usize = 16;
/// From so many ranges on this is given up.
const MAX_RANGES: usize = 32;
/// Fewer cards that begin with the text are not worth it: to gather them takes no longer.
const MIN_BEGIN: u32 = 500;
/// The cards of the ranges that are looked at to find out how many have the text, and of one group's in one range.
const SAMPLE: u32 = 1_000;
const SAMPLE_OF_RANGE: u32 = 200;
/// To look at every card of a deleted one's groups for a spelling, these have to be few.
const MAX_DELETED_GROUPS: usize = 200;

/// What is asked for.
pub(super) struct Search<'a> {
    pub(super) wanted: &'a PageQuery<'a>,
    pub(super) groups: &'a GroupList,
    pub(super) text: &'a str,
    pub(super) spellings: Spellings,
    pub(super) frequent_keys: Vec<String>,
    /// The most that may be found elsewhere, and one more.
    pub(super) max_found: i64,
}

impl Search<'_> {
    /// The list along the ranges of the text, as far as titles or SKUs begin with it, and what is found elsewhere. The
    /// last column says how many those are: with `max_found` of them the page may miss some. It says so as well where
    /// few begin with the text: nothing else has been read then.
    pub(super) fn page(self) -> Result<Statement, StoreError> {
        let Self { wanted, groups, text, spellings, frequent_keys, max_found } = self;
        let (base, descending, columns) = (Base::new(wanted.sort.column), wanted.descending(), wanted.columns());
        let key = column(wanted);
        let mut query = Conditions::none();
        let fits = has_text(&mut query, text);
        let behind = match wanted.place {
            Some(place) => query.behind(wanted.sort.column, &format!("w.{key}"), "w.card_id", place, descending)?,
            None => "true".to_owned(),
        };
        let ranges = ranges(&mut query, wanted, groups, spellings);
        let is_worth = is_worth(&mut query, wanted, groups, &fits);
        let own = to_read(&mut query, wanted);
        let has_keys = has_keys(&mut query, text, keys::Place::NotFirstIn(wanted.sort.column), frequent_keys);
        let (sampled, _): (Vec<i32>, Vec<i32>) = sampled(wanted, groups, Some(1)).into_iter().unzip();
        let (sampled, all) = (query.bind(sampled), query.bind(groups.picked(wanted.filter)));
        let (page, limit) = (query.bind(i64::from(wanted.limit)), query.bind(wanted.rows()));
        let [of_w, of_p] = ["w", "p"].map(|row| base.order(row, descending));
        let (direction, [compare, to, until]) =
            if descending { ("DESC", ["<", ">=", ">="]) } else { ("ASC", [">", "<", "<="]) };
        let by_key = format!(
            "w.card_group = g.id AND (w.{key}, w.card_id) {compare} (r.begins, r.after) AND w.{key} {to} r.last AND {fits}"
        );
        let or_last = base.or_last("shared", descending);
        let sql = format!(
            "WITH RECURSIVE {ranges}, {is_worth}, {own}, \
             found AS MATERIALIZED (SELECT w.{key}, w.card_id, w.card_group FROM {WORDS} w \
               WHERE (SELECT is_worth FROM worth) AND {has_keys} AND {fits} LIMIT {max_found}), \
             number AS MATERIALIZED (SELECT CASE WHEN (SELECT is_worth FROM worth) THEN (SELECT count(*) FROM found) ELSE {max_found} END AS found), \
             shared AS MATERIALIZED (SELECT w.* FROM own r CROSS JOIN unnest(${sampled}::integer[]) g (id) CROSS JOIN LATERAL \
               (SELECT w.{key}, w.card_id FROM {LIST} w WHERE {by_key} ORDER BY {of_w} OFFSET ${page} LIMIT 1) w \
               WHERE (SELECT found FROM number) < {max_found} ORDER BY {of_w} LIMIT 1), \
             until AS MATERIALIZED (SELECT {or_last}), \
             p AS (SELECT w.{key}, w.card_id FROM own r CROSS JOIN unnest(${all}::integer[]) g (id) CROSS JOIN LATERAL \
               (SELECT w.{key}, w.card_id FROM {LIST} w WHERE {by_key} AND w.{key} {until} (SELECT key FROM until) \
               ORDER BY {of_w} LIMIT ${limit}) w WHERE (SELECT found FROM number) < {max_found} \
             UNION SELECT w.{key}, w.card_id FROM found w WHERE w.card_group = ANY(${all}) AND {behind} \
               AND (SELECT found FROM number) < {max_found} ORDER BY {key} {direction}, card_id {direction} LIMIT ${limit}) \
             SELECT {columns}, {NUMBER_NOW}, (SELECT found FROM number) FROM (SELECT 1) one \
             LEFT JOIN (p CROSS JOIN {CARDS}) ON true ORDER BY {of_p}"
        );
        Ok(Statement { sql, query, planned: PlanMode::Part })
    }
}

/// Whether enough is known to be quick.
pub(super) fn is_possible(wanted: &PageQuery<'_>, groups: &GroupList) -> bool {
    !wanted.filter.deleted || groups.picked(wanted.filter).len() <= MAX_DELETED_GROUPS
}

fn column(wanted: &PageQuery<'_>) -> &'static str {
    if wanted.sort.column == Column::Title { "title" } else { "sku" }
}

/// The ranges in which cards begin with the text, letter by letter: most spellings have no card, and so none that begins
/// with them has.
fn ranges(query: &mut Conditions, wanted: &PageQuery<'_>, groups: &GroupList, spellings: Spellings) -> String {
    let key = column(wanted);
    let Spellings { letters, at, forms, behind } = spellings;
    let (at, forms, behind) = (query.bind(at), query.bind(forms), query.bind(behind));
    let letters = query.bind(letters);
    // Ordered, so that no plan looks at all cards.
    let exists = if wanted.filter.deleted {
        let all = query.bind(groups.picked(wanted.filter));
        format!(
            "SELECT FROM unnest(${all}::integer[]) g (id) CROSS JOIN LATERAL (SELECT FROM {LIST} w WHERE w.card_group = g.id \
             AND w.{key} >= s.begins || f.form AND w.{key} < s.begins || f.behind ORDER BY w.{key}, w.card_id LIMIT 1) w LIMIT 1"
        )
    } else {
        format!(
            "SELECT FROM public.master_cards c WHERE c.deleted_at IS NULL AND c.{key} >= s.begins || f.form \
             AND c.{key} < s.begins || f.behind ORDER BY c.{key}, c.id LIMIT 1"
        )
    };
    format!(
        r#"spelled (letters, begins, behind) AS (SELECT 0, '' COLLATE "C", '' COLLATE "C" UNION ALL SELECT n.* FROM (
           SELECT f.letter, s.begins || f.form, s.begins || f.behind FROM spelled s
             JOIN unnest(${at}::integer[], ${forms}::text[], ${behind}::text[]) f (letter, form, behind) ON f.letter = s.letters + 1
            WHERE EXISTS ({exists}) LIMIT {MAX_RANGES}) n),
         ranges AS MATERIALIZED (SELECT s.begins AS first, s.behind FROM spelled s WHERE s.letters = ${letters})"#
    )
}

/// Whether as many cards begin with the text as to make a gathering slow, and most of the ranges' do.
fn is_worth(query: &mut Conditions, wanted: &PageQuery<'_>, groups: &GroupList, fits: &str) -> String {
    let (key, any) = (column(wanted), Filter { deleted: wanted.filter.deleted, ..Filter::default() });
    let largest = groups.largest(&any, LARGEST).into_iter().map(|(id, _)| id).collect::<Vec<i32>>();
    let largest = query.bind(largest);
    format!(
        "worth AS MATERIALIZED (SELECT count(*) FILTER (WHERE {fits}) >= greatest({MIN_BEGIN}, count(*) * 3 / 4) \
           AND NOT EXISTS (SELECT FROM spelled s GROUP BY s.letters HAVING count(*) >= {MAX_RANGES}) AS is_worth \
         FROM (SELECT w.words FROM ranges r CROSS JOIN unnest(${largest}::integer[]) g (id) CROSS JOIN LATERAL \
           (SELECT w.words FROM {LIST} w WHERE w.card_group = g.id AND w.{key} >= r.first AND w.{key} < r.behind \
             ORDER BY w.{key}, w.card_id LIMIT {SAMPLE_OF_RANGE}) w LIMIT {SAMPLE}) w)"
    )
}

/// Groups that say how many cards begin with a text.
const LARGEST: usize = 16;

/// Of each range behind the page's place where reading begins, behind which id, and the other end.
fn to_read(query: &mut Conditions, wanted: &PageQuery<'_>) -> String {
    let (near, far) = if wanted.descending() { ("behind", "first") } else { ("first", "behind") };
    let no_id = "'00000000-0000-0000-0000-000000000000'::uuid";
    let Some(place) = wanted.place else {
        return format!(
            "own AS MATERIALIZED (SELECT r.{near} AS begins, {no_id} AS after, r.{far} AS last FROM ranges r)"
        );
    };
    let value = format!(r#"${}::text COLLATE "C""#, query.bind(place.value.clone()));
    let id = query.bind(place.id);
    let (is_within, is_over) = if wanted.descending() {
        (format!("{value} < r.behind"), format!("{value} < r.first"))
    } else {
        (format!("{value} >= r.first"), format!("{value} >= r.behind"))
    };
    format!(
        "own AS MATERIALIZED (SELECT CASE WHEN {is_within} THEN {value} ELSE r.{near} END AS begins, \
         CASE WHEN {is_within} THEN ${id} ELSE {no_id} END AS after, r.{far} AS last FROM ranges r WHERE NOT {is_over})"
    )
}
