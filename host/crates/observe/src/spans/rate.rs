//! How many traces that begin here are sampled.

use std::sync::atomic::{AtomicU64, Ordering};

/// Traces that begin here and are sampled within a second. Those that others began are theirs to bound.
pub(super) const MAX_TRACES_PER_SECOND: u64 = 500;
/// Bits of the count, below those of the second.
const COUNT_BITS: u32 = 32;

/// The second that is counted in, and how many were sampled in it.
#[derive(Debug, Default)]
pub(super) struct SampleRate(AtomicU64);

impl SampleRate {
    /// Takes one of the traces of this second, when there is one left.
    pub(super) fn take(&self, second: u64) -> bool {
        let second = second << COUNT_BITS;
        let next = |state: u64| {
            let (known, count) = (state >> COUNT_BITS << COUNT_BITS, state & u64::from(u32::MAX));
            match count {
                _ if known != second => Some(second | 1),
                count if count < MAX_TRACES_PER_SECOND => Some(state + 1),
                _ => None,
            }
        };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_own() {
        let rate = SampleRate::default();
        for second in [1_764_000_000, 1_764_000_001, 1_764_000_000] {
            let taken = (0..MAX_TRACES_PER_SECOND + 9).filter(|_| rate.take(second)).count();
            assert_eq!(taken as u64, MAX_TRACES_PER_SECOND);
        }
    }
}
