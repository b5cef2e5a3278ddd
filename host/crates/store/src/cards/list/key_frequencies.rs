//! How frequent the keys of searches are. The more cards have a key, the longer the index takes to read it:
//! milliseconds for what a tenth of a million cards has. Most keys rule out what their neighbours do, so that a search
//! asks for the rare ones.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwapOption;
use time::{Duration, OffsetDateTime};

use super::keys::{DOT_ABOVE, Place, SoughtKeys};
use crate::error::StoreError;
use cardinal_cards::filter::ANYWHERE_FROM;
use cardinal_database::pool::Connection;

/// How long they are taken for what they were. Cards change; old frequencies make a search slower, never wrong.
const RENEW_AFTER: Duration = Duration::minutes(10);
/// Of so many keys side by side the rarest is sought before others.
const NEIGHBOURS: usize = 3;
/// The most that the shares of all sought keys may be together: 1.6 ms of the index, for a million cards.
const MAX_SHARES: f32 = 0.25;

/// The frequencies as they were read last.
#[derive(Default)]
pub(super) struct KeyFrequencies(ArcSwapOption<FrequencyList>);

pub(super) struct FrequencyList {
    /// The share of all cards that has the key; of the most frequent keys.
    shares: HashMap<String, f32>,
    read_at: OffsetDateTime,
}

impl KeyFrequencies {
    pub(super) async fn get(&self, client: &Connection, now: OffsetDateTime) -> Result<Arc<FrequencyList>, StoreError> {
        // Both ways: the clock may have been set back.
        if let Some(known) = self.0.load_full()
            && (now - known.read_at).abs() < RENEW_AFTER
        {
            return Ok(known);
        }
        let sql = "SELECT f.key, f.frequency FROM public.card_search_key_frequencies() f";
        let rows = client.query(&client.prepare_cached(sql).await?, &[]).await?;
        let shares = rows.iter().map(|row| Ok((row.try_get("key")?, row.try_get("frequency")?)));
        let shares = shares.collect::<Result<_, tokio_postgres::Error>>()?;
        let list = Arc::new(FrequencyList { shares, read_at: now });
        self.0.store(Some(Arc::clone(&list)));
        Ok(list)
    }
}

impl FrequencyList {
    /// What to seek of a text that stands at `place`. The database has the last word on small letters: where it makes
    /// others of the text than this does, a key may be less rare than it seems.
    pub(super) fn sought(&self, text: &str, place: Place) -> SoughtKeys {
        let letters: Vec<char> = text
            .chars()
            .filter(|letter| *letter != DOT_ABOVE)
            .filter_map(|letter| letter.to_lowercase().next())
            .collect();
        let keys = self.keys(&letters, place);
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
    fn keys(&self, letters: &[char], place: Place) -> Vec<Key> {
        let keys = letters.windows(ANYWHERE_FROM).enumerate();
        let keys = keys.filter(|(at, _)| at.checked_sub(1).and_then(|before| letters.get(before)) != Some(&'\n'));
        keys.map(|(at, key)| {
            let share = if at == 0 { self.share_of_first(key, place) } else { self.share(key.iter().copied()) };
            Key { at, share }
        })
        .collect()
    }

    fn share(&self, key: impl Iterator<Item = char>) -> f32 {
        self.shares.get(&key.collect::<String>()).copied().unwrap_or_default()
    }

    fn share_of_first(&self, key: &[char], place: Place) -> f32 {
        let forms = place.before_first().iter().map(|before| before.chars().chain(key.iter().copied()));
        forms.map(|form| self.share(form)).sum()
    }
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
    use cardinal_cards::filter::Column;

    fn sought(text: &str, place: Place, shares: &[(&str, f32)]) -> SoughtKeys {
        let shares = shares.iter().map(|(key, share)| ((*key).to_owned(), *share)).collect();
        FrequencyList { shares, read_at: OffsetDateTime::UNIX_EPOCH }.sought(text, place)
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
