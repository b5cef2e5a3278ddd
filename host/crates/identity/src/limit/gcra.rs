//! The generic cell rate algorithm: one number says how far ahead of its rate a caller is. Pure over
//! the time, which is a number of nanoseconds that only grows.

/// Nanoseconds of a minute.
const MINUTE: u64 = 60_000_000_000;

/// A burst, where none is given, is this part of a minute's calls.
pub(super) const BURST_PART: u32 = 10;

/// So many calls a minute, and so many of them at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub per_minute: u32,
    pub burst: u32,
    /// Nanoseconds that one call takes up; rounded up, so that the rate is never exceeded.
    pub period: u64,
}

/// The time from which on nothing would be left of what was spent: the state of one caller.
/// Zero is a caller that has spent nothing.
pub(crate) type SpentUntil = u64;

impl Limit {
    pub const fn new(per_minute: u32, burst: u32) -> Self {
        let (per_minute, burst) = (if per_minute == 0 { 1 } else { per_minute }, if burst == 0 { 1 } else { burst });
        Self { per_minute, burst, period: MINUTE.div_ceil(per_minute as u64) }
    }

    /// The same with a tenth of a minute's calls at once where no burst is given.
    pub fn with_usual_burst(per_minute: u32, burst: Option<u32>) -> Self {
        Self::new(per_minute, burst.unwrap_or(per_minute / BURST_PART))
    }

    /// Whether whoever keeps to this limit keeps to the other one, too.
    pub(crate) const fn is_as_tight_as(self, other: Self) -> bool {
        self.per_minute <= other.per_minute && self.burst <= other.burst
    }

    /// How far ahead a caller may be and still make a call.
    const fn tolerance(self) -> u64 {
        (self.burst as u64 - 1) * self.period
    }

    /// The state after one more call, or the nanoseconds to wait for it.
    pub fn take(self, spent_until: SpentUntil, now: u64) -> Result<SpentUntil, u64> {
        let ahead = spent_until.saturating_sub(now);
        match ahead.checked_sub(self.tolerance()) {
            None | Some(0) => Ok(now + ahead + self.period),
            Some(wait) => Err(wait),
        }
    }

    /// Calls that would be let through now.
    pub fn remaining(self, spent_until: SpentUntil, now: u64) -> u64 {
        let room = self.tolerance().checked_sub(spent_until.saturating_sub(now));
        room.map_or(0, |room| room / self.period + 1)
    }

    /// Calls (and parts of one) that have been spent and not yet been given back by time.
    pub fn spent(self, spent_until: SpentUntil, now: u64) -> f64 {
        spent_until.saturating_sub(now) as f64 / self.period as f64
    }

    /// The state of a caller that has spent so much.
    pub fn after(self, spent: f64, now: u64) -> SpentUntil {
        now.saturating_add((spent.max(0.0) * self.period as f64) as u64)
    }

    /// Nanoseconds after which a burst of this many is whole again.
    pub fn refill(self, spent_until: SpentUntil, now: u64) -> u64 {
        spent_until.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_then_one_call_each_period() {
        let limit = Limit::new(60, 5);
        let mut state = 0;
        for left in (0..5).rev() {
            state = limit.take(state, 100).unwrap();
            assert_eq!(limit.remaining(state, 100), left);
        }
        assert_eq!(limit.take(state, 100), Err(1_000_000_000));
        assert_eq!(limit.take(state, 100 + 999_999_999), Err(1));
        assert!(limit.take(state, 100 + 1_000_000_000).is_ok());
        assert_eq!(limit.remaining(state, 100 + 5_000_000_000), 5);
        assert_eq!(limit.remaining(state, u64::MAX), 5, "never more than the burst");
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        for (per_minute, burst) in [(1, 100_000_000), (100_000_000, 100_000_000), (1, 1), (100_000_000, 1), (0, 0)] {
            let limit = Limit::new(per_minute, burst);
            let state = limit.take(0, 1 << 60).unwrap();
            assert_eq!(limit.remaining(state, 1 << 60), u64::from(limit.burst) - 1);
        }
    }

    #[test]
    fn what_was_spent_is_a_state_and_back() {
        let limit = Limit::new(600, 50);
        let state = limit.after(12.5, 1_000);
        assert!((limit.spent(state, 1_000) - 12.5).abs() < 1e-6);
        assert_eq!(limit.remaining(state, 1_000), 37);
        assert_eq!(limit.after(-3.0, 1_000), 1_000);
    }

    fn limits() -> impl Strategy<Value = Limit> {
        (1u32..=1_000_000, 1u32..=1_000).prop_map(|(per_minute, burst)| Limit::new(per_minute, burst))
    }

    proptest! {
        /// Over any window: no more than the burst and the window's share of the rate.
        #[test]
        fn never_more_than_burst_and_rate(
            limit in limits(), gaps in prop::collection::vec(0u64..2_000_000_000, 1..300)
        ) {
            let (mut now, mut state, mut admitted) = (7, 0, Vec::new());
            for gap in gaps {
                now += gap;
                if let Ok(next) = limit.take(state, now) {
                    (state, _) = (next, admitted.push(now));
                }
            }
            for (first, from) in admitted.iter().enumerate() {
                for (last, until) in admitted.iter().enumerate().skip(first) {
                    let allowed = u64::from(limit.burst) + (until - from) / limit.period;
                    prop_assert!((last - first + 1) as u64 <= allowed);
                }
            }
        }

        /// However often somebody asks in vain, the call is let through when the wait is over.
        #[test]
        fn nobody_starves(limit in limits(), calls in 1usize..400, in_vain in 0usize..50) {
            let mut state = 0;
            let mut now = 5;
            for _ in 0..calls {
                while let Err(wait) = limit.take(state, now) {
                    for tries in 0..in_vain as u64 {
                        prop_assert!(limit.take(state, now + tries * (wait / 64)).is_err());
                    }
                    prop_assert!(wait <= limit.period, "one period brings one call");
                    now += wait;
                }
                state = limit.take(state, now).unwrap();
            }
        }

        #[test]
        fn what_remains_can_be_called(limit in limits(), spent in 0f64..2_000.0) {
            let state = limit.after(spent, 1_000);
            let remaining = limit.remaining(state, 1_000);
            prop_assert!(remaining <= u64::from(limit.burst));
            let mut last = state;
            for _ in 0..remaining {
                last = limit.take(last, 1_000).unwrap();
            }
            prop_assert!(limit.take(last, 1_000).is_err());
        }
    }
}
