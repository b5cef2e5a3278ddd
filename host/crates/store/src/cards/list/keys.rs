//! The keys of searches: what `card_word_keys` makes of a card's lines, and what of it a search asks its index for. The
//! first three characters of a title and of an SKU have keys of their own, so that the index knows what has the text
//! elsewhere.

use super::{conditions::Conditions, conditions::is_short, key_frequencies::FrequencyList};
use cardinal_cards::filter::{ANYWHERE_FROM, Column};

/// Where in the lines the text may stand.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Anywhere,
    /// Not at the beginning of the title or the SKU alone.
    NotFirstIn(Column),
}

impl Place {
    /// What the key of the text's first characters has before these.
    pub(super) const fn before_first(self) -> &'static [&'static str] {
        match self {
            Self::Anywhere => &["", "\n", "\n\n"],
            Self::NotFirstIn(Column::Sku) => &["", "\n"],
            Self::NotFirstIn(_) => &["", "\n\n"],
        }
    }
}

/// Which keys of a text are sought.
#[derive(Debug, PartialEq)]
pub(super) struct SoughtKeys {
    /// One of those that its first characters may have.
    pub(super) first: bool,
    /// Those behind so many characters.
    pub(super) others: Vec<i32>,
}

/// In some databases the only character that may be less than one in small letters.
pub(super) const DOT_ABOVE: char = '\u{307}';

/// That rows `w` of the words have the keys of a search for `text`, which is not the same as having the text: of three
/// characters or more, as many as rule out most.
pub(super) fn has_keys(query: &mut Conditions, text: &str, place: Place, frequencies: &FrequencyList) -> String {
    // In the index's collation, or it is not used.
    let keys = "public.card_word_keys(w.words)";
    let at = query.bind(text.to_owned());
    if is_short(text) {
        return format!(
            r#"{keys} @> (SELECT ARRAY[left(lower(E'\n' || ${at}::text COLLATE "default") COLLATE "C", {ANYWHERE_FROM})])"#
        );
    }
    if text.chars().filter(|letter| *letter != DOT_ABOVE).count() < ANYWHERE_FROM {
        return "true".to_owned();
    }
    let SoughtKeys { first, others } = frequencies.sought(text, place);
    let sought = format!(r#"(SELECT lower(${at}::text COLLATE "default") COLLATE "C" AS text) t"#);
    let mut conditions = Vec::new();
    if !others.is_empty() {
        let others = query.bind(others);
        // Behind a line's end there may be one of the other keys.
        let others = format!(
            r"ARRAY(SELECT substr(t.text, n + 1, 3) FROM unnest(${others}::integer[]) n WHERE n < length(t.text) - 2 AND substr(t.text, n, 1) <> E'\n')"
        );
        conditions.push(format!("{keys} @> (SELECT {others} FROM {sought})"));
    }
    if first {
        let firsts = query.bind(place.before_first().iter().map(|before| (*before).to_owned()).collect::<Vec<_>>());
        let firsts = format!("ARRAY(SELECT before || left(t.text, 3) FROM unnest(${firsts}::text[]) before)");
        conditions.push(format!("{keys} && (SELECT {firsts} FROM {sought})"));
    }
    conditions.join(" AND ")
}
