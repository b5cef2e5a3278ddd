//! Searches of three characters or more in the order of titles or SKUs, for what most of those begin with that have it.
//! A walk from the list's beginning meets none of these for long, and to gather all of them takes 2 µs each; but they
//! lie together. What has the text elsewhere is gathered, by keys that say so.

use super::{
    PageQuery,
    base::{Base, CARDS, LIST, MIN_ID, WORDS},
    bounded::{PlanMode, Statement},
    conditions::{Conditions, has_text},
    ends::sampled,
    groups::{GroupList, NUMBER_NOW},
    key_frequencies::FrequencyList,
    keys::{self, has_keys},
    letters::Spellings,
};
use crate::error::StoreError;
use cardinal_cards::filter::{Column, Filter};

/// How many letters of a text are looked for in each spelling; of those that follow, nothing is known.
pub(super) const MAX_LETTERS: usize = 16;
/// From so many ranges on this is given up.
const MAX_RANGES: usize = 32;
/// Of so many cards in the ranges, three quarters have to have the text: to gather fewer takes no longer.
const SAMPLE: u32 = 500;
const SAMPLE_OF_RANGE: u32 = 100;
/// The groups that they are of where the cards themselves do not say it.
const SAMPLED_GROUPS: usize = 16;
/// With more groups it takes too long to look in each for a spelling.
const MAX_DELETED_GROUPS: usize = 200;
/// Below this many cards that begin with the text, they are counted: 0.1 µs each.
pub(super) const COUNTED: i64 = 2_500;

/// What is asked for.
pub(super) struct Search<'a> {
    pub(super) wanted: &'a PageQuery<'a>,
    pub(super) groups: &'a GroupList,
    pub(super) text: &'a str,
    /// Those of all its letters, or of the first ones.
    pub(super) spellings: Spellings,
    /// Below this many may be found elsewhere.
    pub(super) max_found: i64,
}

impl Search<'_> {
    /// The list along the ranges of the text, as far as titles or SKUs begin with it, and what is found elsewhere. The
    /// last column is none where that is too much, or few begin with the text: nothing else has been read then. Else it
    /// says how many the first page's filter picks, or [`COUNTED`] where it is more, and of other pages nothing of use.
    pub(super) fn page(&self, frequencies: &FrequencyList) -> Result<Statement, StoreError> {
        let &Self { wanted, groups, text, max_found, .. } = self;
        let (base, descending, key) = (Base::new(wanted.sort.column), wanted.descending(), self.column());
        let mut query = Conditions::none();
        let fits = has_text(&mut query, text);
        let behind = match wanted.place {
            Some(place) => query.behind(wanted.sort.column, &format!("w.{key}"), "w.card_id", place, descending)?,
            None => "true".to_owned(),
        };
        let (ranges, is_worth) = (self.ranges(&mut query), self.is_worth(&mut query, &fits));
        let to_read = self.to_read(&mut query);
        let has_keys = has_keys(&mut query, text, keys::Place::NotFirstIn(wanted.sort.column), frequencies);
        let all = query.bind(groups.picked(wanted.filter));
        let own = if self.is_open() { self.own_of_all(&mut query) } else { self.own(&mut query, &fits, all) };
        let number = if wanted.place.is_none() { self.number(&fits, all) } else { "0::bigint".to_owned() };
        let limit = query.bind(wanted.rows());
        let (direction, of_p) = (if descending { "DESC" } else { "ASC" }, base.order("p", descending));
        let columns = wanted.columns();
        let sql = format!(
            "WITH RECURSIVE {ranges}, {is_worth}, {to_read}, \
             found AS MATERIALIZED (SELECT w.{key}, w.card_id, w.card_group FROM {WORDS} w \
               WHERE (SELECT is_worth FROM worth) AND {has_keys} AND {fits} LIMIT {max_found}), \
             few AS MATERIALIZED (SELECT (SELECT is_worth FROM worth) AND (SELECT count(*) FROM found) < {max_found} AS are_found), \
             {own}, \
             p AS (SELECT w.{key}, w.card_id FROM own w UNION \
               SELECT w.{key}, w.card_id FROM found w WHERE (SELECT are_found FROM few) AND w.card_group = ANY(${all}) AND {behind} \
               ORDER BY {key} {direction}, card_id {direction} LIMIT ${limit}) \
             SELECT {columns}, {NUMBER_NOW}, CASE WHEN (SELECT are_found FROM few) THEN {number} END FROM (SELECT 1) one \
             LEFT JOIN (p CROSS JOIN {CARDS}) ON true ORDER BY {of_p}"
        );
        Ok(Statement { sql, query, planned: PlanMode::Part })
    }

    /// Whether it does not take long to find out in which spellings there are cards.
    pub(super) fn is_possible(&self) -> bool {
        let filter = self.wanted.filter;
        !filter.deleted || self.groups.picked(filter).len() <= MAX_DELETED_GROUPS
    }

    fn column(&self) -> &'static str {
        if self.wanted.sort.column == Column::Title { "title" } else { "sku" }
    }

    /// Whether a card in the ranges has the text for certain.
    fn is_whole(&self) -> bool {
        usize::try_from(self.spellings.letters).is_ok_and(|letters| letters == self.text.chars().count())
    }

    /// Whether all cards of the ranges are picked that are not deleted.
    fn is_open(&self) -> bool {
        self.is_whole() && Filter { q: None, ..self.wanted.filter.clone() }.is_open()
    }

    /// The ranges in which cards begin with the text, letter by letter: most spellings have no card, and so none that
    /// begins with them has.
    fn ranges(&self, query: &mut Conditions) -> String {
        let (key, filter) = (self.column(), self.wanted.filter);
        let Spellings { letters, at, forms, behind } = self.spellings.clone();
        let (letters, at, forms, behind) = (query.bind(letters), query.bind(at), query.bind(forms), query.bind(behind));
        // Ordered, so that no plan looks at all cards.
        let exists = if filter.deleted {
            let all = query.bind(self.groups.picked(filter));
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
    fn is_worth(&self, query: &mut Conditions, fits: &str) -> String {
        let (key, deleted) = (self.column(), self.wanted.filter.deleted);
        let (fits, from) = if self.is_whole() && !deleted {
            ("true", self.cards_of_ranges(SAMPLE))
        } else {
            let any = Filter { deleted, ..Filter::default() };
            let largest: Vec<i32> = self.groups.largest(&any, SAMPLED_GROUPS).into_iter().map(|(id, _)| id).collect();
            let largest = query.bind(largest);
            let from = format!(
                "ranges r CROSS JOIN unnest(${largest}::integer[]) g (id) CROSS JOIN LATERAL \
                 (SELECT w.words FROM {LIST} w WHERE w.card_group = g.id AND w.{key} >= r.first AND w.{key} < r.behind \
                 ORDER BY w.{key}, w.card_id LIMIT {SAMPLE_OF_RANGE}) w"
            );
            (fits, format!("(SELECT w.words FROM {from} LIMIT {SAMPLE}) w"))
        };
        let enough = SAMPLE / 4 * 3;
        format!(
            "worth AS MATERIALIZED (SELECT NOT EXISTS (SELECT FROM spelled s GROUP BY s.letters HAVING count(*) >= {MAX_RANGES}) \
             AND (SELECT count(*) FILTER (WHERE {fits}) FROM {from}) >= {enough} AS is_worth)"
        )
    }

    /// Of each range behind the page's place where reading begins, behind which id, and the other end.
    fn to_read(&self, query: &mut Conditions) -> String {
        let descending = self.wanted.descending();
        let (near, far) = if descending { ("behind", "first") } else { ("first", "behind") };
        let Some(place) = self.wanted.place else {
            return format!(
                "to_read AS MATERIALIZED (SELECT r.{near} AS begins, {MIN_ID} AS after, r.{far} AS last FROM ranges r)"
            );
        };
        let value = format!(r#"${}::text COLLATE "C""#, query.bind(place.value.clone()));
        let id = query.bind(place.id);
        let (is_within, is_over) = if descending {
            (format!("{value} < r.behind"), format!("{value} < r.first"))
        } else {
            (format!("{value} >= r.first"), format!("{value} >= r.behind"))
        };
        format!(
            "to_read AS MATERIALIZED (SELECT CASE WHEN {is_within} THEN {value} ELSE r.{near} END AS begins, \
             CASE WHEN {is_within} THEN ${id} ELSE {MIN_ID} END AS after, r.{far} AS last FROM ranges r WHERE NOT {is_over})"
        )
    }

    /// The first cards of the ranges, of each group up to a place that all share.
    fn own(&self, query: &mut Conditions, fits: &str, all: usize) -> String {
        let (wanted, key) = (self.wanted, self.column());
        let (base, descending) = (Base::new(wanted.sort.column), wanted.descending());
        let (sampled, _): (Vec<i32>, Vec<i32>) = sampled(wanted, self.groups, Some(1)).into_iter().unzip();
        let (sampled, page) = (query.bind(sampled), query.bind(i64::from(wanted.limit)));
        let (of_w, or_last) = (base.order("w", descending), base.or_last("shared", descending));
        let limit = query.bind(wanted.rows());
        let until = if descending { ">=" } else { "<=" };
        let by_key = format!("w.card_group = g.id AND {} AND {fits}", self.is_behind("w.card_id"));
        format!(
            "shared AS MATERIALIZED (SELECT w.* FROM to_read r CROSS JOIN unnest(${sampled}::integer[]) g (id) CROSS JOIN LATERAL \
               (SELECT w.{key}, w.card_id FROM {LIST} w WHERE {by_key} ORDER BY {of_w} OFFSET ${page} LIMIT 1) w \
               WHERE (SELECT are_found FROM few) ORDER BY {of_w} LIMIT 1), \
             until AS MATERIALIZED (SELECT {or_last}), \
             own AS (SELECT w.{key}, w.card_id FROM to_read r CROSS JOIN unnest(${all}::integer[]) g (id) CROSS JOIN LATERAL \
               (SELECT w.{key}, w.card_id FROM {LIST} w WHERE {by_key} AND w.{key} {until} (SELECT key FROM until) \
               ORDER BY {of_w} LIMIT ${limit}) w WHERE (SELECT are_found FROM few))"
        )
    }

    /// The same of all cards that are not deleted.
    fn own_of_all(&self, query: &mut Conditions) -> String {
        let (key, limit) = (self.column(), query.bind(self.wanted.rows()));
        let direction = if self.wanted.descending() { "DESC" } else { "ASC" };
        format!(
            "own AS (SELECT w.{key}, w.card_id FROM to_read r CROSS JOIN LATERAL (SELECT w.{key}, w.id AS card_id FROM public.master_cards w \
               WHERE w.deleted_at IS NULL AND {} ORDER BY w.{key} {direction}, w.id {direction} LIMIT ${limit}) w \
               WHERE (SELECT are_found FROM few))",
            self.is_behind("w.id")
        )
    }

    /// That a row lies in the part of range `r` that is read. A comparison of rows and one of the key towards the same
    /// end would not be combined: each range has one of each.
    fn is_behind(&self, id: &str) -> String {
        let (key, [compare, to]) = (self.column(), if self.wanted.descending() { ["<", ">="] } else { [">", "<"] });
        format!("(w.{key}, {id}) {compare} (r.begins, r.after) AND w.{key} {to} r.last")
    }

    /// How many cards have the text, as far as they are counted.
    fn number(&self, fits: &str, all: usize) -> String {
        let key = self.column();
        let begin = if self.is_open() {
            format!("(SELECT count(*) FROM {})", self.cards_of_ranges(COUNTED))
        } else {
            format!(
                "(SELECT count(*) FROM (SELECT FROM ranges r CROSS JOIN unnest(${all}::integer[]) g (id) CROSS JOIN LATERAL \
                 (SELECT FROM {LIST} w WHERE w.card_group = g.id AND w.{key} >= r.first AND w.{key} < r.behind AND {fits} \
                 ORDER BY w.{key}, w.card_id LIMIT {COUNTED}) w LIMIT {COUNTED}) w)"
            )
        };
        format!(
            "{begin} + (SELECT count(*) FROM found w WHERE w.card_group = ANY(${all}) \
             AND NOT EXISTS (SELECT FROM ranges r WHERE w.{key} >= r.first AND w.{key} < r.behind))"
        )
    }

    /// Up to so many cards of the ranges that are not deleted.
    fn cards_of_ranges(&self, max: impl std::fmt::Display) -> String {
        let key = self.column();
        format!(
            "(SELECT FROM ranges r CROSS JOIN LATERAL (SELECT FROM public.master_cards c WHERE c.deleted_at IS NULL \
             AND c.{key} >= r.first AND c.{key} < r.behind ORDER BY c.{key}, c.id LIMIT {max}) c LIMIT {max}) c"
        )
    }
}
