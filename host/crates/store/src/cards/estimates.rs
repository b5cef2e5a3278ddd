//! About how many cards a filter picks, remembered for a few seconds: paging through a list asks
//! once, not once a page.

use std::collections::HashMap;

use parking_lot::Mutex;
use time::{Duration, OffsetDateTime};

use crate::cards::list::Count;
use crate::error::StoreError;
use cardinal_cards::filter::Filter;

const TTL: Duration = Duration::seconds(5);
/// A few cards are counted in no time, and who has just made the first ones looks for them.
const SMALL_COUNT_LIMIT: i64 = 1_000;
const SMALL_TTL: Duration = Duration::seconds(1);
/// How long one request may take to find out anew, while all others go by what was known. After that another one does.
const RENEWAL_TIMEOUT: Duration = Duration::seconds(2);
const MAX_ESTIMATES: usize = 256;

/// The counts by filter.
#[derive(Default)]
pub(crate) struct Estimates(Mutex<HashMap<Vec<u8>, CachedCount>>);

#[derive(Clone, Copy)]
struct CachedCount {
    count: Count,
    /// Until then it is taken as it is.
    until: OffsetDateTime,
}

impl Estimates {
    /// What is known of `filter`. What has been known for too long is kept from one request, which thereby finds out
    /// anew: many clients that share a filter would all do so at once, and wait for each other.
    pub(crate) fn get(&self, filter: &Filter, now: OffsetDateTime) -> Result<Option<Count>, StoreError> {
        let key = key(filter)?;
        let mut kept = self.0.lock();
        let Some(known) = kept.get_mut(&key) else { return Ok(None) };
        // Both ways: the clock may have been set back.
        if now < known.until && known.until <= now + TTL {
            return Ok(Some(known.count));
        }
        known.until = now + RENEWAL_TIMEOUT;
        Ok(None)
    }

    /// Remembers what was found out just now, and not what was known before.
    pub(crate) fn learn(
        &self,
        filter: &Filter,
        count: Count,
        before: Option<Count>,
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        if before == Some(count) {
            return Ok(());
        }
        let mut kept = self.0.lock();
        if kept.len() >= MAX_ESTIMATES {
            kept.clear();
        }
        let good_for = if count.exact && count.cards < SMALL_COUNT_LIMIT { SMALL_TTL } else { TTL };
        kept.insert(key(filter)?, CachedCount { count, until: now + good_for });
        Ok(())
    }
}

fn key(filter: &Filter) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(filter).map_err(StoreError::internal)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn of_many_one_finds_out_anew() {
        let (estimates, filter) = (Estimates::default(), Filter::default());
        let begun = OffsetDateTime::UNIX_EPOCH;
        let at = |seconds| estimates.get(&filter, begun + Duration::seconds(seconds)).unwrap();
        let count = |cards| Count { cards, exact: true };
        assert_eq!((at(0), at(0)), (None, None), "nobody knows");
        estimates.learn(&filter, count(7_000), None, begun).unwrap();
        assert_eq!(at(4), Some(count(7_000)));
        assert_eq!((at(5), at(5), at(6)), (None, Some(count(7_000)), Some(count(7_000))), "one asks, the others go on");
        assert_eq!((at(7), at(7)), (None, Some(count(7_000))), "it never came back");
        estimates.learn(&filter, count(8_000), None, begun + Duration::seconds(8)).unwrap();
        assert_eq!((at(12), at(13)), (Some(count(8_000)), None));
        assert_eq!((at(-3600), at(-3600)), (None, Some(count(8_000))), "the clock was set back");
    }

    #[test]
    fn a_few_are_counted_again_soon() {
        let (estimates, filter, begun) = (Estimates::default(), Filter::default(), OffsetDateTime::UNIX_EPOCH);
        for (count, after_a_second) in [
            (Count { cards: 0, exact: true }, None),
            (Count { cards: 7, exact: false }, Some(Count { cards: 7, exact: false })),
        ] {
            estimates.learn(&filter, count, None, begun).unwrap();
            assert_eq!(estimates.get(&filter, begun).unwrap(), Some(count));
            assert_eq!(estimates.get(&filter, begun + Duration::seconds(1)).unwrap(), after_a_second);
        }
    }

    #[test]
    fn what_was_known_before_is_not_learnt_again() {
        let (estimates, filter, begun) = (Estimates::default(), Filter::default(), OffsetDateTime::UNIX_EPOCH);
        let count = Count { cards: 7_000, exact: true };
        estimates.learn(&filter, count, None, begun).unwrap();
        estimates.learn(&filter, count, Some(count), begun + Duration::seconds(4)).unwrap();
        assert_eq!(estimates.get(&filter, begun + Duration::seconds(6)).unwrap(), None);
    }
}
