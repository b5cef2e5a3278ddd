//! How long a call waits for others. Its doors' work runs in tasks of their own, so it is kept with the call and
//! put on the request's account when the call ends.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The waits of one call; those that overlap count once.
#[derive(Default)]
pub(crate) struct Waits(Mutex<State>);

#[derive(Default)]
struct State {
    open: u32,
    since: Option<Instant>,
    total: Duration,
}

impl Waits {
    /// What has come together since it was taken last.
    pub(crate) fn take(&self) -> Duration {
        let mut state = self.0.lock();
        if let Some(since) = state.since {
            let now = Instant::now();
            state.total += now.saturating_duration_since(since);
            state.since = Some(now);
        }
        std::mem::take(&mut state.total)
    }

    pub(super) fn begin(&self) {
        let mut state = self.0.lock();
        state.open += 1;
        state.since.get_or_insert_with(Instant::now);
    }

    pub(super) fn end(&self) {
        let mut state = self.0.lock();
        state.open = state.open.saturating_sub(1);
        if state.open == 0
            && let Some(since) = state.since.take()
        {
            state.total += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_counts_once_and_what_was_taken_is_gone() {
        let (waits, long) = (Waits::default(), Duration::from_millis(20));
        let begun = Instant::now();
        waits.begin();
        waits.begin();
        std::thread::sleep(long);
        let before_first = Instant::now();
        let running = waits.take();
        assert!((long..=begun.elapsed()).contains(&running), "{running:?}");
        waits.end();
        waits.end();
        let rest = waits.take();
        assert!(rest <= before_first.elapsed(), "{rest:?}");
        assert!(waits.take().is_zero());
    }
}
