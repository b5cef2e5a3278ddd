//! The database's outages in the log: one line when one begins, one each half minute, one when it is over. What fails
//! meanwhile, and says so by [`log_failure!`], has its line at debug level alone. A database that is silent
//! (`heartbeat.rs`) is asked by nobody until it answers again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cardinal_base::causes::with_causes;
use parking_lot::Mutex;

const REPEAT_INTERVAL: Duration = Duration::from_secs(30);
/// Requests that were under way when the database fell silent are given up after so long.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the database can be reached, as the pools that share this have seen it last.
#[derive(Debug)]
pub(crate) struct Outages {
    started: Instant,
    /// Since when it answers nothing, in milliseconds since `started` and one more; 0 while it answers.
    silent_since: AtomicU64,
    is_out: AtomicBool,
    state: Mutex<OutageState>,
}

#[derive(Debug, Default)]
struct OutageState {
    current: Option<Outage>,
    /// When the last one ended.
    last_end: Option<Instant>,
}

#[derive(Debug)]
struct Outage {
    started: Instant,
    logged: Instant,
}

/// What there is to log of an attempt.
#[derive(Debug, PartialEq, Eq)]
enum OutageNotice {
    Begin,
    Still(Duration),
    End(Duration),
}

#[derive(Debug, thiserror::Error)]
#[error("it does not answer, and closes no connection")]
struct NoAnswerError;

impl Default for Outages {
    fn default() -> Self {
        let (silent_since, is_out) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { started: Instant::now(), silent_since, is_out, state: Mutex::default() }
    }
}

impl Outages {
    /// Whether the database answers nothing.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent_since.load(Ordering::Relaxed) != 0
    }

    /// Whether it has answered nothing for so long that nobody should wait for it any more.
    pub(crate) fn is_given_up(&self) -> bool {
        let since = self.silent_since.load(Ordering::Relaxed);
        since != 0 && self.now().saturating_sub(u128::from(since)) >= SILENCE_TIMEOUT.as_millis()
    }

    /// It has not answered a request of `asked_at`.
    pub(crate) fn fell_silent(&self, asked_at: Instant) {
        let since = asked_at.saturating_duration_since(self.started).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX - 1) + 1;
        // It may have been silent before.
        let _ = self.silent_since.compare_exchange(0, since, Ordering::Relaxed, Ordering::Relaxed);
        self.failed(&NoAnswerError, asked_at);
    }

    /// It has answered.
    pub(crate) fn answered(&self) {
        self.silent_since.store(0, Ordering::Relaxed);
        self.succeeded();
    }

    /// It is gone, or lets nobody in: whoever asks finds out at once.
    pub(crate) fn connection_lost(&self) {
        self.silent_since.store(0, Ordering::Relaxed);
    }

    fn now(&self) -> u128 {
        self.started.elapsed().as_millis() + 1
    }

    /// A connection that was asked for at `asked_at` could not be had.
    pub(crate) fn failed(&self, error: &(dyn std::error::Error + 'static), asked_at: Instant) {
        match self.note_failure(asked_at, Instant::now()) {
            Some(OutageNotice::Begin) => {
                tracing::error!(
                    error = with_causes(error),
                    "the database is unreachable; requests that need it get 503 until it is back"
                );
            }
            Some(OutageNotice::Still(since)) => {
                tracing::warn!(
                    error = with_causes(error),
                    seconds = since.as_secs(),
                    "the database is still unreachable"
                );
            }
            Some(OutageNotice::End(_)) | None => {}
        }
    }

    /// A connection was had.
    pub(crate) fn succeeded(&self) {
        // Asked at every checkout.
        if !self.is_out.load(Ordering::Relaxed) {
            return;
        }
        if let Some(OutageNotice::End(since)) = self.note_success(Instant::now()) {
            tracing::info!(seconds = since.as_secs(), "the database is reachable again");
        }
    }

    fn note_failure(&self, asked_at: Instant, now: Instant) -> Option<OutageNotice> {
        let mut state = self.state.lock();
        let is_old = state.last_end.is_some_and(|end| asked_at < end);
        let Some(outage) = &mut state.current else {
            // An attempt that began in an outage may time out after it.
            if is_old {
                return None;
            }
            state.current = Some(Outage { started: now, logged: now });
            self.is_out.store(true, Ordering::Relaxed);
            return Some(OutageNotice::Begin);
        };
        if now.duration_since(outage.logged) < REPEAT_INTERVAL {
            return None;
        }
        outage.logged = now;
        Some(OutageNotice::Still(now.duration_since(outage.started)))
    }

    fn note_success(&self, now: Instant) -> Option<OutageNotice> {
        let mut state = self.state.lock();
        self.is_out.store(false, Ordering::Relaxed);
        let outage = state.current.take()?;
        state.last_end = Some(now);
        Some(OutageNotice::End(now.duration_since(outage.started)))
    }
}

/// Logs that work beside the requests failed. During an outage of the database this is no news.
#[macro_export]
macro_rules! log_failure {
    ($error:expr, $message:literal) => {{
        let error = &$error;
        if error.is_outage() {
            tracing::debug!(?error, $message);
        } else {
            tracing::warn!(?error, $message);
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_given_up_after_a_while_and_ends_with_an_answer() {
        let outages = Outages::default();
        assert!(!outages.is_silent() && !outages.is_given_up());
        outages.fell_silent(Instant::now());
        assert!(outages.is_silent() && !outages.is_given_up());
        outages.answered();
        assert!(!outages.is_silent());
        let started = Instant::now().checked_sub(SILENCE_TIMEOUT * 2).unwrap_or_else(Instant::now);
        let outages = Outages { started, ..Outages::default() };
        outages.fell_silent(started);
        outages.fell_silent(Instant::now());
        assert!(outages.is_given_up(), "what counts is its beginning");
        outages.connection_lost();
        assert!(!outages.is_silent() && !outages.is_given_up());
    }

    #[test]
    fn an_outage_is_one_line_at_its_start_one_each_half_minute_and_one_at_its_end() {
        let (outages, start) = (Outages::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(outages.note_success(start), None);
        let lines: Vec<OutageNotice> =
            (0..=65).filter_map(|second| outages.note_failure(at(second), at(second))).collect();
        let still = |seconds| OutageNotice::Still(Duration::from_secs(seconds));
        assert_eq!(lines, [OutageNotice::Begin, still(30), still(60)]);
        assert_eq!(outages.note_success(at(66)), Some(OutageNotice::End(Duration::from_secs(66))));
        assert_eq!(outages.note_success(at(67)), None);
        assert_eq!(outages.note_failure(at(65), at(68)), None, "it was asked for before the end");
        assert_eq!(outages.note_failure(at(68), at(68)), Some(OutageNotice::Begin));
    }
}
