//! The keys of searches: what `card_word_keys` makes of a card's lines, and what of it a search asks its index for. The
//! first three characters of a title and of an SKU have keys of their own, so that the index knows what has the text
//! elsewhere.
//!
//! The more cards have a key, the longer the index takes to read it: milliseconds for what a tenth of a million cards
//! has. Most keys rule out what their neighbours do, so that a search asks for the rare ones.

use super::{conditions::Conditions, conditions::is_short, key_frequencies::FrequencyList};
use cardinal_cards::filter::{ANYWHERE_FROM, Column};

/// Of so many keys side by side the rarest is sought before others.
const NEIGHBOURS: usize = 3;
/// The most that the shares of all sought keys may be together: 1.6 ms of the index, for a million cards.
const MAX_SHARES: f32 = 0.25;

/// Where in the lines the text may stand.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Anywhere,
    /// Not at the beginning of the title or the SKU alone.
    NotFirstIn(Column),
}

impl Place {
    /// What the key of the text's first characters has before these.
    const fn before_first(self) -> &'static [&'static str] {
        match self {
            Self::Anywhere => &["", "\n", "\n\n"],
            Self::NotFirstIn(Column::Sku) => &["", "\n"],
            Self::NotFirstIn(_) => &["", "\n\n"],
        }
    }
}

/// Which keys of a text are sought.
#[derive(Debug, PartialEq)]
struct SoughtKeys {
    /// One of those that its first characters may have.
    first: bool,
    /// Those behind so many characters.
    others: Vec<i32>,
}

/// In some databases the only character that may be less than one in small letters.
const DOT_ABOVE: char = '\u{307}';

/// That rows `w` of the words have the keys of a search for `text`, which is not the same as having the text: of three
/// characters or more, as many as rule out most.
pub(super) fn has_keys(query: &mut Conditions, text: &str, place: Place, frequencies: &FrequencyList) -> String {
    // In the index's collation, or it is not used.
    let keys = "public.card_word_keys(w.words)";
    if is_short(text) {
        let at = query.bind(text.to_owned());
        return format!(
            r#"{keys} @> (SELECT ARRAY[left(lower(E'\n' || ${at}::text COLLATE "default") COLLATE "C", {ANYWHERE_FROM})])"#
        );
    }
    // A parameter that no condition names would be an error.
    if text.chars().filter(|letter| *letter != DOT_ABOVE).count() < ANYWHERE_FROM {
        return "true".to_owned();
    }
    let SoughtKeys { first, others } = sought(frequencies, text, place);
    let at = query.bind(text.to_owned());
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

/// What to seek of a text that stands at `place`. The database has the last word on small letters: where it makes
/// others of the text than this does, a key may be less rare than it seems.
fn sought(frequencies: &FrequencyList, text: &str, place: Place) -> SoughtKeys {
    let letters: Vec<char> =
        text.chars().filter(|letter| *letter != DOT_ABOVE).filter_map(|letter| letter.to_lowercase().next()).collect();
    let keys = keys_of(frequencies, &letters, place);
    let rarest: Vec<Key> = keys.chunks(NEIGHBOURS).filter_map(rarest).collect();
    let others = keys.iter().copied().filter(|key| !rarest.contains(key)).collect();
    let (mut sought, mut shares) = (Vec::new(), 0.0);
    for key in [rarest, others].into_iter().flat_map(by_share) {
        if sought.is_empty() || shares + key.share <= MAX_SHARES {
            shares += key.share;
            sought.push(key.at);
        }
    }
    let is_first_needed = || match place {
        Place::Anywhere => letters.len() < text.chars().count() || letters.contains(&'\n'),
        Place::NotFirstIn(_) => keys.first().is_some_and(|first| first.share <= MAX_SHARES),
    };
    let first = sought.contains(&0) || is_first_needed();
    let mut others: Vec<i32> =
        sought.into_iter().filter(|at| *at > 0).filter_map(|at| i32::try_from(at).ok()).collect();
    others.sort_unstable();
    SoughtKeys { first, others }
}

/// The keys of these letters, but for those behind a line's end: the index may have them in another form.
fn keys_of(frequencies: &FrequencyList, letters: &[char], place: Place) -> Vec<Key> {
    let keys = letters.windows(ANYWHERE_FROM).enumerate();
    let keys = keys.filter(|(at, _)| at.checked_sub(1).and_then(|before| letters.get(before)) != Some(&'\n'));
    keys.map(|(at, key)| {
        let share =
            if at == 0 { share_of_first(frequencies, key, place) } else { frequencies.share(key.iter().copied()) };
        Key { at, share }
    })
    .collect()
}

fn share_of_first(frequencies: &FrequencyList, key: &[char], place: Place) -> f32 {
    let forms = place.before_first().iter().map(|before| before.chars().chain(key.iter().copied()));
    forms.map(|form| frequencies.share(form)).sum()
}

/// A key of a text, and about what share of all cards has it.
#[derive(Clone, Copy, PartialEq)]
struct Key {
    /// How many characters lie before it.
    at: usize,
    share: f32,
}

fn by_share(mut keys: Vec<Key>) -> Vec<Key> {
    keys.sort_by(|one, other| one.share.total_cmp(&other.share));
    keys
}

fn rarest(keys: &[Key]) -> Option<Key> {
    keys.iter().copied().min_by(|one, other| one.share.total_cmp(&other.share))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sought(text: &str, place: Place, shares: &[(&str, f32)]) -> SoughtKeys {
        let shares = shares.iter().map(|(key, share)| ((*key).to_owned(), *share)).collect();
        super::sought(&FrequencyList::new(shares), text, place)
    }

    fn keys(first: bool, others: &[i32]) -> SoughtKeys {
        SoughtKeys { first, others: others.to_vec() }
    }

    #[test]
    fn of_neighbours_the_rarest_is_sought_first() {
        let shares = [("ham", 0.09), ("amm", 0.08), ("mme", 0.09), ("mer", 0.09), ("er ", 0.24), ("r d", 0.09)];
        assert_eq!(sought("Hammer d", Place::Anywhere, &shares), keys(false, &[1, 3]), "a third would be too much");
        let shares = [("ham", 0.08), ("amm", 0.09), ("mme", 0.09), ("mer", 0.16)];
        assert_eq!(sought("hammer", Place::Anywhere, &shares), keys(true, &[3]));
        let shares = [("ham", 0.08), ("\nham", 0.02), ("amm", 0.09), ("mme", 0.09), ("mer", 0.16)];
        assert_eq!(sought("hammer", Place::Anywhere, &shares), keys(false, &[1, 3]), "each form of the first counts");
    }

    #[test]
    fn as_many_are_sought_as_take_little_time() {
        let shares = [("ham", 0.01), ("amm", 0.02), ("mme", 0.1), ("mer", 0.1), ("er ", 0.1)];
        assert_eq!(sought("hammer ", Place::Anywhere, &shares), keys(true, &[1, 2, 3]));
        assert_eq!(sought("quokka", Place::Anywhere, &[]), keys(true, &[1, 2, 3]), "what is not known is rare");
    }

    #[test]
    fn a_frequent_key_is_sought_where_there_are_no_others() {
        let shares = [("ham", 0.5), ("amm", 0.4), ("mme", 0.3), ("mer", 0.26)];
        assert_eq!(sought("hammer", Place::Anywhere, &shares), keys(false, &[3]));
        assert_eq!(sought("ham", Place::Anywhere, &shares), keys(true, &[]));
    }

    #[test]
    fn what_stands_elsewhere_is_told_apart_by_the_first_key() {
        let shares = [("ham", 0.05), ("\nham", 0.3), ("\n\nham", 0.1), ("amm", 0.04), ("mme", 0.2)];
        assert_eq!(sought("hamme", Place::NotFirstIn(Column::Title), &shares), keys(true, &[1]));
        assert_eq!(
            sought("hamme", Place::NotFirstIn(Column::Sku), &shares),
            keys(false, &[1, 2]),
            "unless many have it"
        );
    }

    #[test]
    fn keys_behind_a_lines_end_are_not_sought() {
        assert_eq!(sought("a\nbcd", Place::Anywhere, &[]), keys(true, &[1]));
        let shares = [("abc", 0.2), ("bcd", 0.1), ("cde", 0.1)];
        assert_eq!(
            sought("abc\u{307}de", Place::Anywhere, &shares),
            keys(true, &[1, 2]),
            "its first letters are certain"
        );
    }
}
