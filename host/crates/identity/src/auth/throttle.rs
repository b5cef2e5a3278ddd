//! Slows guessing down without locking anybody out.
//!
//! A try counts before its password is hashed, and is given back when the password was right: tries in parallel get no
//! further than tries in a row. The rules stand in [`failures`]. A place is a name at an address (IPv6: a /64):
//!
//! * **a place where the name has not logged in:** 5 failures are free, then the next try waits 15 s; what
//!   fails at the **address** counts, too: 30 are free, then 2 s, 4 s, 8 s; and what fails at the **name**: 300 are
//!   free, then 1 s, 2 s;
//! * **a place where it has:** 5 are free, then 1 s, 2 s, 4 s, and nothing else counts: strangers elsewhere, and those
//!   at the same address with other names, don't delay it.
//!
//! A try that waits for less than [`HOLD_TIME`] is held, in bounded numbers; else the answer is 429 with `Retry-After`.
//! No password is looked at meanwhile, so right and wrong ones wait alike. Those that are held begin in the order of
//! their [`Rank`]: who was refused and comes back with the same password goes before those who try another one each
//! time ([`returns`]).
//!
//! What is held lies in this host's memory, bounded; what may begin is counted by all hosts of the database together
//! (`crates/store/src/login_failures.rs`). Failures are forgotten after 15 minutes without another.

mod failures;
mod returns;
mod wait_queue;

use std::{net::IpAddr, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Notify, time::Instant};

pub use self::{failures::Rule, wait_queue::Rank};
use self::{
    failures::{Failures, Pair, ThrottledError},
    returns::{Candidate, Returns},
    wait_queue::WaitQueue,
};
use crate::error::AuthError;
use cardinal_base::config::Secret;

/// How long a try is held at most.
const HOLD_TIME: Duration = Duration::from_secs(10);
/// The same for one that has come back: past the longest delay, so that its turn comes while it is held.
const RETURN_HOLD_TIME: Duration = Duration::from_secs(16);
/// A try is asked to come back so long before its delay ends, and is held until then.
const COME_EARLY: Duration = Duration::from_secs(5);
/// What `Retry-After` says at least.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// The counts of failed logins.
pub struct Throttle {
    started: Instant,
    state: Mutex<State>,
    /// Rings when a try has ended or left the line.
    changed: Notify,
}

#[derive(Default)]
struct State {
    failures: Failures,
    line: WaitQueue,
    returns: Returns,
}

/// A password for a name from an address, as it waits for its turn.
pub struct Entry {
    pair: Pair,
    candidate: Candidate,
    rank: Rank,
    until: Instant,
}

/// A try that has begun. Dropped without a verdict it has failed: whoever hangs up has had the work done.
pub struct Attempt<'t> {
    throttle: &'t Throttle,
    pair: Pair,
    was_known: bool,
    rank: Rank,
    is_open: bool,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { started: Instant::now(), state: Mutex::default(), changed: Notify::new() }
    }
}

impl Throttle {
    /// Takes its place among others, which it keeps however often it has to begin anew.
    pub(crate) fn enter(&self, address: IpAddr, name: &str, password: &Secret) -> Entry {
        let (mut state, now) = (self.state(), self.now());
        let pair = state.failures.pair(address, name);
        let candidate = state.returns.candidate(pair, password);
        let is_known = state.failures.is_known(pair, now);
        let failures = state.failures.count(pair, is_known, now);
        let has_come_back = state.returns.take(candidate, now);
        let hold_time = if has_come_back { RETURN_HOLD_TIME } else { HOLD_TIME };
        let rank = Rank::new(is_known, failures, has_come_back);
        Entry { pair, candidate, rank, until: Instant::now() + hold_time }
    }

    /// It was refused unseen, and may come back after `wait`.
    pub(crate) fn expect(&self, entry: &Entry, wait: Duration) {
        let now = self.now();
        let asked_for = now + u64::try_from(wait.as_millis()).unwrap_or(u64::MAX / 2);
        self.state().returns.expect(entry.candidate, asked_for, now);
    }

    /// Begins a try, perhaps after a while; 429 when it would have to wait for too long.
    pub(crate) async fn begin(&self, entry: &Entry) -> Result<Attempt<'_>, AuthError> {
        let Entry { pair, rank, until, .. } = *entry;
        let mut held = None;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let wait = match self.try_begin(pair, rank) {
                Ok(attempt) => return Ok(attempt),
                Err(ThrottledError::Later(ms)) => Duration::from_millis(ms),
                Err(ThrottledError::Pending) => Duration::ZERO,
            };
            let now = Instant::now();
            if now >= until || now + wait > until || !self.hold(pair, rank, &mut held) {
                // Who is told of the very end of a delay would come when the next one has begun.
                let wait = wait.saturating_sub(COME_EARLY).max(MIN_WAIT);
                self.expect(entry, wait);
                return Err(refused(wait));
            }
            let next = if wait.is_zero() { until } else { now + wait };
            // Past the time it is looked at once more, and refused.
            drop(tokio::time::timeout_at(next, changed).await);
        }
    }

    fn try_begin(&self, pair: Pair, rank: Rank) -> Result<Attempt<'_>, ThrottledError> {
        let (mut state, now) = (self.state(), self.now());
        let is_known = state.failures.is_known(pair, now);
        if let Some(wait) = state.failures.wait(pair, is_known, now) {
            return Err(wait);
        }
        if state.line.is_after_another(rank, pair, is_known, &state.failures, now) {
            return Err(ThrottledError::Pending);
        }
        let was_known = state.failures.begin(pair, now)?;
        Ok(Attempt { throttle: self, pair, was_known, rank, is_open: true })
    }

    /// Keeps a place in the line; `false` when there is none, or it went to a better one.
    fn hold<'t>(&'t self, pair: Pair, rank: Rank, held: &mut Option<QueuePlace<'t>>) -> bool {
        let mut state = self.state();
        if held.is_some() {
            return state.line.holds(rank);
        }
        let has_place = state.line.join(rank, pair);
        if has_place {
            *held = Some(QueuePlace { throttle: self, rank });
        }
        has_place
    }

    /// Names and the addresses where they have logged in, at whichever host.
    pub(crate) fn learn(&self, places: &[(String, IpAddr)]) {
        let (mut state, now) = (self.state(), self.now());
        for (name, address) in places {
            let pair = state.failures.pair(*address, name);
            state.failures.learn(pair, now);
        }
    }

    /// Milliseconds since this host began.
    fn now(&self) -> u64 {
        // From a day on, so that zero stands for what never was.
        const BEGIN: u64 = 24 * 3_600 * 1_000;
        BEGIN + u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX / 2)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Attempt<'_> {
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// What the hosts of the database count together for it, in the order of `delayed`'s waits.
    pub fn rules(&self) -> &'static [Rule] {
        Failures::rules(self.was_known)
    }

    /// The hosts together have counted so much that it has to wait for so many milliseconds, for each of its rules.
    pub(crate) fn delayed(mut self, waits: &[u64]) {
        let now = self.throttle.now();
        self.end(|attempt, failures| {
            failures.give_back(attempt.pair, attempt.was_known);
            failures.delay(attempt.pair, attempt.was_known, waits, now);
        });
    }

    /// The password was right.
    pub fn succeeded(mut self) {
        let now = self.throttle.now();
        self.end(|attempt, failures| failures.succeeded(attempt.pair, attempt.was_known, now));
    }

    /// The password was wrong, or nobody has this name.
    pub fn failed(self) {}

    /// Nothing was hashed.
    pub fn give_back(mut self) {
        self.end(|attempt, failures| failures.give_back(attempt.pair, attempt.was_known));
    }

    fn end(&mut self, verdict: impl FnOnce(&Self, &mut Failures)) {
        self.is_open = false;
        verdict(self, &mut self.throttle.state().failures);
        self.throttle.changed.notify_waiters();
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.is_open {
            let now = self.throttle.now();
            self.end(|attempt, failures| failures.failed(attempt.pair, attempt.was_known, now));
        }
    }
}

/// A try's place in the line.
struct QueuePlace<'t> {
    throttle: &'t Throttle,
    rank: Rank,
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.throttle.state().line.leave(self.rank);
        self.throttle.changed.notify_waiters();
    }
}

fn refused(wait: Duration) -> AuthError {
    let retry_after = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
    AuthError::TooOften { detail: "Too many failed logins.", retry_after }
}

#[cfg(test)]
mod tests;
