//! Gives a plugin whose calls go wrong again and again a rest: they are refused for a while, then
//! tried one at a time. Only what the plugin itself did wrong counts.
//!
//! A call that goes well costs one load. All else happens when one goes wrong.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;

use cardinal_base::config::BreakerMode;

/// The calls that are looked at: those of the last minute.
const WINDOW: Duration = Duration::from_secs(60);
/// Fewer calls say nothing.
const MIN_CALLS: u64 = 20;
/// Of a hundred calls, this many and one more must have gone wrong.
const MAX_PERCENT: u64 = 50;
/// Faults that are remembered; with as many it is open long before.
const MAX_FAULTS: usize = 256;
/// How long nothing is let through, the first time and at most: it doubles with each try that fails.
const OPEN: Duration = Duration::from_secs(10);
const MAX_OPEN: Duration = Duration::from_secs(160);
/// A try that has not come back after this is given up, and another one may be made.
const TRY_LIMIT: Duration = Duration::from_secs(60);

/// The breaker of one plugin instance.
pub struct Breaker {
    plugin: String,
    breaking: BreakerMode,
    /// Whether there is more to know than that everything may pass.
    closed: AtomicBool,
    opened: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// When a call went wrong, and how many had been let in by then.
    faults: VecDeque<(Instant, u64)>,
    open: Option<Open>,
}

struct Open {
    until: Instant,
    pause: Duration,
    tried: Option<Instant>,
}

/// A call that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Free,
    /// The one that is tried.
    Try,
}

/// What an operator sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PluginBreaker")]
pub struct BreakerReport {
    pub mode: BreakerMode,
    /// `closed`, `open` or `half-open`.
    pub state: &'static str,
    pub retry_after_seconds: Option<u64>,
    /// How often it has opened.
    pub opened: u64,
    /// Of the last minute.
    pub faults: usize,
}

impl Breaker {
    pub(crate) fn new(plugin: &str, breaking: BreakerMode) -> Self {
        Self {
            plugin: plugin.to_owned(),
            breaking,
            closed: AtomicBool::new(true),
            opened: AtomicU64::new(0),
            state: Mutex::new(State { faults: VecDeque::new(), open: None }),
        }
    }

    /// Whether a call may be made; else the seconds after which to ask again.
    ///
    /// # Errors
    /// The plugin has its rest.
    pub(crate) fn admit(&self) -> Result<Pass, u32> {
        if self.closed.load(Ordering::Relaxed) { Ok(Pass::Free) } else { self.admit_at(Instant::now()) }
    }

    fn admit_at(&self, now: Instant) -> Result<Pass, u32> {
        let mut state = self.state.lock();
        let Some(open) = &mut state.open else { return Ok(Pass::Free) };
        let left = open.until.saturating_duration_since(now);
        let being_tried = open.tried.is_some_and(|since| now.duration_since(since) < TRY_LIMIT);
        if left.is_zero() && !being_tried {
            open.tried = Some(now);
            return Ok(Pass::Try);
        }
        if self.breaking == BreakerMode::Observe {
            return Ok(Pass::Free);
        }
        Err(u32::try_from(left.as_secs()).unwrap_or(u32::MAX).saturating_add(1))
    }

    /// A call that went as it should, as far as the plugin goes.
    pub(crate) fn well(&self, pass: Pass) {
        if pass == Pass::Try {
            let mut state = self.state.lock();
            state.open = None;
            state.faults.clear();
            self.closed.store(true, Ordering::Relaxed);
            drop(state);
            tracing::info!(plugin = self.plugin, "a plugin receives calls again");
        }
    }

    /// A call that ended without an outcome: nothing is learnt from it.
    pub(crate) fn gone(&self, pass: Pass) {
        if pass == Pass::Try
            && let Some(open) = &mut self.state.lock().open
        {
            open.tried = None;
        }
    }

    /// A call that the plugin failed. `calls` have been let in by now.
    pub(crate) fn wrong(&self, pass: Pass, calls: u64) {
        self.wrong_at(Instant::now(), pass, calls);
    }

    fn wrong_at(&self, now: Instant, pass: Pass, calls: u64) {
        let mut state = self.state.lock();
        if pass == Pass::Try {
            let pause = state.open.as_ref().map_or(OPEN, |open| (open.pause * 2).min(MAX_OPEN));
            self.open(&mut state, now, pause);
            return;
        }
        if state.open.is_some() {
            return; // begun before it opened
        }
        state.forget_old(now);
        if state.faults.len() == MAX_FAULTS {
            state.faults.pop_front();
        }
        state.faults.push_back((now, calls));
        let since = state.faults.front().map_or(calls, |(_, first)| *first);
        let faults = state.faults.len() as u64;
        // Calls that were let in together and fail together count all, though none was let in since the first fault.
        let calls = (calls.saturating_sub(since) + 1).max(faults);
        if calls >= MIN_CALLS && faults * 100 > calls * MAX_PERCENT {
            self.open(&mut state, now, OPEN);
        }
    }

    fn open(&self, state: &mut State, now: Instant, pause: Duration) {
        state.open = Some(Open { until: now + pause, pause, tried: None });
        self.closed.store(false, Ordering::Relaxed);
        self.opened.fetch_add(1, Ordering::Relaxed);
        let (plugin, seconds, faults) = (&self.plugin, pause.as_secs(), state.faults.len());
        match self.breaking {
            BreakerMode::On => {
                tracing::warn!(plugin, seconds, faults, "a plugin receives no calls for a while: too many failed")
            }
            BreakerMode::Observe => {
                tracing::warn!(plugin, faults, "too many calls of a plugin fail; none is refused (PLUGIN_BREAKER)")
            }
        }
    }

    pub fn report(&self) -> BreakerReport {
        self.report_at(Instant::now())
    }

    fn report_at(&self, now: Instant) -> BreakerReport {
        let mut state = self.state.lock();
        state.forget_old(now);
        let left = state.open.as_ref().map(|open| open.until.saturating_duration_since(now));
        let name = match left {
            None => "closed",
            Some(Duration::ZERO) => "half-open",
            Some(_) => "open",
        };
        BreakerReport {
            mode: self.breaking,
            state: name,
            retry_after_seconds: left.map(|left| left.as_secs() + 1),
            opened: self.opened.load(Ordering::Relaxed),
            faults: state.faults.len(),
        }
    }
}

impl State {
    fn forget_old(&mut self, now: Instant) {
        while self.faults.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW) {
            self.faults.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> Breaker {
        Breaker::new("tested", BreakerMode::On)
    }

    /// `faults` calls in a row that go wrong, after `calls` others.
    fn fail(breaker: &Breaker, now: Instant, calls: u64, faults: u64) {
        (1..=faults).for_each(|fault| breaker.wrong_at(now, Pass::Free, calls + fault));
    }

    #[test]
    fn it_opens_when_most_of_many_calls_go_wrong() {
        let (breaker, now) = (breaker(), Instant::now());
        fail(&breaker, now, 0, MIN_CALLS - 1);
        assert_eq!(breaker.admit_at(now), Ok(Pass::Free), "too few to say");
        fail(&breaker, now, MIN_CALLS - 1, 1);
        assert_eq!(breaker.admit_at(now), Err(11));
        assert_eq!(breaker.report_at(now).state, "open");
    }

    #[test]
    fn it_stays_closed_while_most_go_well_and_forgets() {
        let (breaker, now) = (breaker(), Instant::now());
        (0..100).for_each(|n| breaker.wrong_at(now, Pass::Free, n * 3));
        assert_eq!(breaker.admit_at(now), Ok(Pass::Free), "a third goes wrong");
        fail(&breaker, now + 2 * WINDOW, 300, MIN_CALLS - 1);
        assert_eq!(breaker.admit_at(now + 2 * WINDOW), Ok(Pass::Free), "the old ones do not count");
    }

    #[test]
    fn calls_that_fail_together_open_it() {
        let (breaker, now) = (breaker(), Instant::now());
        (1..MIN_CALLS).for_each(|_| breaker.wrong_at(now, Pass::Free, MIN_CALLS));
        assert_eq!(breaker.admit_at(now), Ok(Pass::Free), "too few to say");
        breaker.wrong_at(now, Pass::Free, MIN_CALLS);
        assert_eq!(breaker.admit_at(now), Err(11));
    }

    #[test]
    fn one_at_a_time_is_tried_until_one_goes_well() {
        let (breaker, now) = (breaker(), Instant::now());
        fail(&breaker, now, 0, MIN_CALLS);
        let later = now + OPEN;
        assert_eq!(breaker.report_at(later).state, "half-open");
        assert_eq!(breaker.admit_at(later), Ok(Pass::Try));
        assert_eq!(breaker.admit_at(later), Err(1), "one is being tried");
        breaker.gone(Pass::Try);
        assert_eq!(breaker.admit_at(later), Ok(Pass::Try), "the other never came to an end");
        breaker.wrong_at(later, Pass::Try, 21);
        assert_eq!(breaker.admit_at(later + OPEN), Err(11), "the second rest is twice as long");
        assert_eq!(breaker.admit_at(later + 2 * OPEN), Ok(Pass::Try));
        breaker.well(Pass::Try);
        assert_eq!(breaker.admit_at(later + 2 * OPEN), Ok(Pass::Free));
        assert_eq!(breaker.admit(), Ok(Pass::Free));
        assert_eq!(breaker.report_at(later + 2 * OPEN).opened, 2);
    }

    #[test]
    fn a_try_that_never_comes_back_does_not_keep_it_open() {
        let (breaker, now) = (breaker(), Instant::now());
        fail(&breaker, now, 0, MIN_CALLS);
        assert_eq!(breaker.admit_at(now + OPEN), Ok(Pass::Try));
        assert_eq!(breaker.admit_at(now + OPEN + TRY_LIMIT), Ok(Pass::Try));
    }

    #[test]
    fn it_can_be_told_to_watch_and_do_nothing() {
        let (breaker, now) = (Breaker::new("tested", BreakerMode::Observe), Instant::now());
        fail(&breaker, now, 0, MIN_CALLS);
        assert_eq!(breaker.admit_at(now + SECOND), Ok(Pass::Free));
        assert_eq!(breaker.report_at(now + SECOND).state, "open");
    }
}
