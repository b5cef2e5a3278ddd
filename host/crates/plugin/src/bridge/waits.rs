//! How long a call waits for the database. Its doors' work runs in tasks of their own, so it is kept with the call and
//! put on the request's account when the call ends.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::scope::CallScope;

/// The waits of one call; those that overlap count once.
#[derive(Default)]
pub struct Waits(Mutex<State>);

#[derive(Default)]
struct State {
    open: u32,
    since: Option<Instant>,
    total: Duration,
}

impl Waits {
    /// What has come together since it was taken last.
    pub fn take(&self) -> Duration {
        let mut state = self.0.lock();
        if let Some(since) = state.since {
            let now = Instant::now();
            state.total += now.saturating_duration_since(since);
            state.since = Some(now);
        }
        std::mem::take(&mut state.total)
    }

    fn begin(&self) {
        let mut state = self.0.lock();
        state.open += 1;
        state.since.get_or_insert_with(Instant::now);
    }

    fn end(&self) {
        let mut state = self.0.lock();
        state.open = state.open.saturating_sub(1);
        if state.open == 0
            && let Some(since) = state.since.take()
        {
            state.total += since.elapsed();
        }
    }
}

/// A call waits for the database until this is dropped.
pub(super) struct Waiting(Arc<CallScope>);

impl Waiting {
    /// None when the plugin itself is at work.
    pub(super) fn start(call: Option<&Arc<CallScope>>) -> Option<Self> {
        call.map(|call| {
            call.waits.begin();
            Self(Arc::clone(call))
        })
    }

    pub(super) fn call(&self) -> &Arc<CallScope> {
        &self.0
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waits.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_counts_once_and_what_was_taken_is_gone() {
        let (waits, long) = (Waits::default(), Duration::from_millis(20));
        waits.begin();
        waits.begin();
        std::thread::sleep(long);
        let running = waits.take();
        assert!((long..long * 2).contains(&running), "{running:?}");
        waits.end();
        waits.end();
        assert!(waits.take() < long);
        assert!(waits.take().is_zero());
    }
}
