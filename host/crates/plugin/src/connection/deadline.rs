//! The time of a statement, measured by the host. PostgreSQL's own `statement_timeout` is a setting of the session, and
//! a plugin may change it.

use std::{
    sync::{
        Arc, LazyLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{Connection, Shared};
use cardinal_control::link::STATEMENT_TIMEOUT_MS;

/// PostgreSQL is a little earlier, where its timeout stands: its error says more.
const STATEMENT_LIMIT: Duration = Duration::from_millis(STATEMENT_TIMEOUT_MS + 1_000);
/// Several statements in one go, each of which has a time of its own.
const BATCH_LIMIT: Duration = Duration::from_millis(4 * STATEMENT_TIMEOUT_MS);
/// A statement that goes on for so long after it was cancelled loses its connection.
const CANCEL_GRACE: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_secs(1);

/// Since when the statement that a connection is busy with is at work, and when it is over time: milliseconds since the
/// clock was looked at first. 0 is never.
#[derive(Default)]
pub(super) struct StatementClock {
    since: AtomicU64,
    limit: AtomicU64,
}

impl StatementClock {
    /// A statement begins its work on a connection with nothing to do.
    pub(super) fn start(&self) {
        self.limit.store(millis(STATEMENT_LIMIT), Ordering::Relaxed);
        self.next();
    }

    /// The next one in line begins its work.
    pub(super) fn next(&self) {
        self.since.store(now(), Ordering::Relaxed);
    }

    /// What runs, or waits its turn, is several statements.
    pub(super) fn allow_batch(&self) {
        self.limit.store(millis(BATCH_LIMIT), Ordering::Relaxed);
    }

    pub(super) fn stop(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// By how much the statement is over its time.
    fn over(&self, now: u64) -> Option<Duration> {
        let (since, limit) = (self.since.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed));
        let over = now.checked_sub(since.checked_add(limit)?)?;
        (since != 0).then_some(Duration::from_millis(over))
    }
}

fn now() -> u64 {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    millis(BEGIN.elapsed()) + 1
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Cancels what is over its time, as long as the pool is open.
pub(super) async fn watch(shared: Weak<Shared>) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(shared) = shared.upgrade().filter(|shared| !shared.pool.is_closed()) else { return };
        let out = shared.out.lock().clone();
        for connection in out.iter().filter_map(Weak::upgrade) {
            end_overdue(&connection, &shared.connect.user);
        }
    }
}

fn end_overdue(connection: &Arc<Connection>, role: &str) {
    let Some(over) = connection.usage.clock.over(now()) else { return };
    if over >= CANCEL_GRACE {
        tracing::warn!(role, "a plugin's statement did not end when it was cancelled: its connection is closed");
        connection.usage.clock.stop();
        connection.session.cut();
    } else {
        tracing::warn!(role, "a plugin's statement exceeded its time limit: cancelled");
        let session = connection.session.clone();
        connection.runtime.spawn(async move { session.cancel().await });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_each_statement_counts() {
        let clock = StatementClock::default();
        assert_eq!(clock.over(u64::MAX), None, "nothing runs");
        clock.start();
        let (begun, limit) = (now(), millis(STATEMENT_LIMIT));
        assert_eq!(clock.over(begun + limit - 1_000), None);
        assert!(clock.over(begun + limit + 1_000).is_some_and(|over| over >= Duration::from_secs(1)));
        clock.allow_batch();
        assert_eq!(clock.over(begun + limit + 1_000), None);
        assert!(clock.over(begun + millis(BATCH_LIMIT) + 1_000).is_some());
        clock.start();
        assert!(clock.over(begun + limit + 1_000).is_some(), "the next statement has no more than any other");
        clock.stop();
        assert_eq!(clock.over(u64::MAX), None);
    }
}
