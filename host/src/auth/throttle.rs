//! Slows guessing down without locking anybody out.
//!
//! A try counts before its password is hashed, and is given back when the password was right: tries in parallel get no
//! further than tries in a row. Failures are counted in three places:
//!
//! * **address and name:** 5 are free, then the next try waits 15 s, 30 s, and 60 s from then on;
//! * **address:** 30 are free, then a try every 2 s;
//! * **name:** 300 are free, then a try every second.
//!
//! The latter two do not hold for a name at an address from which it has logged in before, so that strangers behind the
//! same proxy, or everywhere, don't keep it out. For everybody else they are short: a try that has to wait for less
//! than [`HOLD_TIME`] is held, not refused, and a right password gets in. Only bounded numbers are held. Beyond that, and
//! for longer waits, the answer is 429 with `Retry-After`. Nobody waits for more than a minute, whatever strangers do.
//!
//! Failures are forgotten after 15 minutes without another. All of it lies in this host's memory, bounded
//! ([`book`]), and a restart forgets it.

mod book;

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use self::book::{Book, NotNow, Pair};
use crate::{
    http::{
        codes,
        error::{ApiError, ApiResult},
    },
    limit::addresses::Network,
};

/// How long a try is held at most.
const HOLD_TIME: Duration = Duration::from_secs(5);
/// Tries that are held at the same time, of an address and in all.
const HELD_PER_ADDRESS: usize = 32;
const HELD: usize = 256;

/// The counts of failed logins.
pub struct Throttle {
    began: Instant,
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Default)]
struct State {
    book: Book,
    held: HashMap<Network, usize>,
    held_in_all: usize,
}

/// A try that has begun. Dropped without a verdict it has failed: whoever hangs up has had the work done.
pub struct Attempt<'t> {
    throttle: &'t Throttle,
    pair: Pair,
    was_known: bool,
    is_open: bool,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { began: Instant::now(), state: Mutex::default(), ended: Notify::new() }
    }
}

impl Throttle {
    /// Begins a try, perhaps after a while; 429 when it would have to wait longer.
    pub async fn begin(&self, address: IpAddr, name: &str) -> ApiResult<Attempt<'_>> {
        let pair = self.state().book.pair(address, name);
        let mut held = None;
        let until = Instant::now() + HOLD_TIME;
        loop {
            let ended = self.ended.notified();
            let wait = match self.try_begin(pair) {
                Ok(attempt) => return Ok(attempt),
                Err(NotNow::Later(ms)) => Some(Duration::from_millis(ms)),
                Err(NotNow::Pending) => None,
            };
            let now = Instant::now();
            if now + wait.unwrap_or_default() >= until || (held.is_none() && !self.hold(pair.network, &mut held)) {
                return Err(refused(wait.unwrap_or_default()));
            }
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                // Past the time it is looked at once more, and refused.
                None => drop(tokio::time::timeout_at(until, ended).await),
            }
        }
    }

    fn try_begin(&self, pair: Pair) -> Result<Attempt<'_>, NotNow> {
        let was_known = self.state().book.begin(pair, self.now())?;
        Ok(Attempt { throttle: self, pair, was_known, is_open: true })
    }

    fn hold<'t>(&'t self, network: Network, held: &mut Option<Held<'t>>) -> bool {
        let mut state = self.state();
        let own = state.held.get(&network).copied().unwrap_or(0);
        if own >= HELD_PER_ADDRESS || state.held_in_all >= HELD {
            return false;
        }
        state.held.insert(network, own + 1);
        state.held_in_all += 1;
        *held = Some(Held { throttle: self, network });
        true
    }

    /// Milliseconds since this host began.
    fn now(&self) -> u64 {
        // From a day on, so that zero stands for what never was.
        const BEGIN: u64 = 24 * 3_600 * 1_000;
        BEGIN + u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX / 2)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt<'_> {
    /// The password was right.
    pub fn succeeded(mut self) {
        let now = self.throttle.now();
        self.end(|attempt, book| book.succeeded(attempt.pair, attempt.was_known, now));
    }

    /// The password was wrong, or nobody has this name.
    pub fn failed(self) {}

    /// Nothing was hashed.
    pub fn give_back(mut self) {
        self.end(|attempt, book| book.give_back(attempt.pair, attempt.was_known));
    }

    fn end(&mut self, verdict: impl FnOnce(&Self, &mut Book)) {
        self.is_open = false;
        verdict(self, &mut self.throttle.state().book);
        self.throttle.ended.notify_waiters();
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.is_open {
            let now = self.throttle.now();
            self.end(|attempt, book| book.failed(attempt.pair, attempt.was_known, now));
        }
    }
}

/// A try that waits.
struct Held<'t> {
    throttle: &'t Throttle,
    network: Network,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.throttle.state();
        state.held_in_all -= 1;
        if let Some(own) = state.held.get_mut(&self.network) {
            *own -= 1;
            if *own == 0 {
                state.held.remove(&self.network);
            }
        }
    }
}

fn refused(wait: Duration) -> ApiError {
    let seconds = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX).max(1);
    ApiError::new(&codes::RATE_LIMITED).detail("Too many failed logins.").retry_after(seconds)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[tokio::test(start_paused = true)]
    async fn tries_in_parallel_get_no_further_than_tries_in_a_row() {
        let throttle = Arc::new(Throttle::default());
        let wrong = (0..160).map(|_| {
            let throttle = Arc::clone(&throttle);
            tokio::spawn(async move {
                let Ok(attempt) = throttle.begin(HERE, "alice").await else { return 0 };
                tokio::time::sleep(Duration::from_millis(20)).await;
                attempt.failed();
                1
            })
        });
        let mut hashed = 0;
        for one in wrong.collect::<Vec<_>>() {
            hashed += one.await.unwrap();
        }
        assert_eq!(hashed, 5);
        assert_eq!(throttle.state().held_in_all, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn right_passwords_in_parallel_all_get_in() {
        let throttle = Arc::new(Throttle::default());
        let right = (0..HELD_PER_ADDRESS).map(|_| {
            let throttle = Arc::clone(&throttle);
            tokio::spawn(async move {
                let attempt = throttle.begin(HERE, "alice").await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
                attempt.succeeded();
            })
        });
        for one in right.collect::<Vec<_>>() {
            one.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_right_password_from_an_address_that_guessed_is_held_and_gets_in() {
        let throttle = Throttle::default();
        for i in 0..30 {
            throttle.begin(HERE, &format!("user{i}")).await.unwrap().failed();
        }
        let begun = Instant::now();
        throttle.begin(HERE, "somebody").await.unwrap().succeeded();
        assert!((1_990..2_100).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
        throttle.begin(HERE, "somebody").await.unwrap().succeeded();
        assert!(begun.elapsed() < Duration::from_secs(3), "known now");
    }

    #[tokio::test(start_paused = true)]
    async fn who_hangs_up_has_tried_and_what_was_not_hashed_has_not() {
        let throttle = Throttle::default();
        for _ in 0..10 {
            throttle.begin(HERE, "alice").await.unwrap().give_back();
        }
        for _ in 0..5 {
            drop(throttle.begin(HERE, "alice").await.unwrap());
        }
        assert!(throttle.begin(HERE, "alice").await.is_err());
    }
}
