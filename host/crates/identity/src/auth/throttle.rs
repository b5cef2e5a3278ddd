//! Slows guessing down without locking anybody out.
//!
//! A try counts before its password is hashed, and is given back when the password was right: tries in parallel get no
//! further than tries in a row. The rules stand in [`book`]. A place is a name at an address (IPv6: a /64):
//!
//! * **a place where the name has not logged in:** 5 failures are free, then the next try waits 15 s; what
//!   fails at the **address** counts, too: 30 are free, then 2 s, 4 s, 8 s; and what fails at the **name**: 300 are free,
//!   then 1 s, 2 s;
//! * **a place where it has:** 5 are free, then 1 s, 2 s, 4 s, and nothing else counts: strangers elsewhere, and those
//!   at the same address with other names, don't delay it.
//!
//! A try that waits for less than [`HOLD_TIME`] is held, in bounded numbers; else the answer is 429 with `Retry-After`.
//! No password is looked at meanwhile, so right and wrong ones wait alike. Those that are held begin in the order of
//! their [`Rank`]: who was refused and comes back with the same password goes before those who try another one each time
//! ([`returns`]).
//!
//! What is held lies in this host's memory, bounded; what may begin is counted by all hosts of the database together
//! (`crates/store/src/login_failures.rs`). Failures are forgotten after 15 minutes without another.

mod book;
mod line;
mod returns;

use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

pub use self::{book::Rule, line::Rank};
use self::{
    book::{Book, NotNow, Pair},
    line::Line,
    returns::Returns,
};
use cardinal_base::{
    codes,
    config::Secret,
    error::{ApiError, ApiResult},
};

/// How long a try is held at most.
const HOLD_TIME: Duration = Duration::from_secs(10);
/// A try is asked to come back so long before its delay ends, and is held until then.
const COME_EARLY: Duration = Duration::from_secs(5);
/// What `Retry-After` says at least.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// The counts of failed logins.
pub struct Throttle {
    began: Instant,
    state: Mutex<State>,
    /// Rings when a try has ended or left the line.
    changed: Notify,
}

#[derive(Default)]
struct State {
    book: Book,
    line: Line,
    returns: Returns,
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
        Self { began: Instant::now(), state: Mutex::default(), changed: Notify::new() }
    }
}

impl Throttle {
    /// Until when a try that comes now is held.
    pub fn hold_until() -> Instant {
        Instant::now() + HOLD_TIME
    }

    /// Begins a try, perhaps after a while; 429 when it would have to wait for longer than `until`.
    pub async fn begin(
        &self,
        (address, name): (IpAddr, &str),
        password: &Secret,
        until: Instant,
    ) -> ApiResult<Attempt<'_>> {
        let (pair, candidate, rank) = {
            let (mut state, now) = (self.state(), self.now());
            let pair = state.book.pair(address, name);
            let candidate = state.returns.candidate(pair, password);
            let is_known = state.book.is_known(pair, now);
            let failures = state.book.failures(pair, is_known, now);
            (pair, candidate, Rank::new(is_known, failures, state.returns.take(candidate, now)))
        };
        let mut held = None;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let wait = match self.try_begin(pair, rank) {
                Ok(attempt) => return Ok(attempt),
                Err(NotNow::Later(ms)) => Duration::from_millis(ms),
                Err(NotNow::Pending) => Duration::ZERO,
            };
            let now = Instant::now();
            if now >= until || now + wait > until || !self.hold(pair, rank, &mut held) {
                // Who is told of the very end of a delay would come when the next one has begun.
                let wait = wait.saturating_sub(COME_EARLY).max(SHORTEST_WAIT);
                let asked_for = self.now() + u64::try_from(wait.as_millis()).unwrap_or(u64::MAX / 2);
                self.state().returns.expect(candidate, asked_for, self.now());
                return Err(refused(wait));
            }
            let next = if wait.is_zero() { until } else { now + wait };
            // Past the time it is looked at once more, and refused.
            drop(tokio::time::timeout_at(next, changed).await);
        }
    }

    fn try_begin(&self, pair: Pair, rank: Rank) -> Result<Attempt<'_>, NotNow> {
        let (mut state, now) = (self.state(), self.now());
        let is_known = state.book.is_known(pair, now);
        if let Some(wait) = state.book.wait(pair, is_known, now) {
            return Err(wait);
        }
        if state.line.is_after_another(rank, pair, is_known, &state.book, now) {
            return Err(NotNow::Pending);
        }
        let was_known = state.book.begin(pair, now)?;
        Ok(Attempt { throttle: self, pair, was_known, rank, is_open: true })
    }

    /// Keeps a place in the line; `false` when there is none, or it went to a better one.
    fn hold<'t>(&'t self, pair: Pair, rank: Rank, held: &mut Option<Held<'t>>) -> bool {
        let mut state = self.state();
        if held.is_some() {
            return state.line.holds(rank);
        }
        let has_place = state.line.join(rank, pair);
        if has_place {
            *held = Some(Held { throttle: self, rank });
        }
        has_place
    }

    /// Whether anybody has logged in from there.
    pub fn knows(&self, address: IpAddr) -> bool {
        self.state().book.knows(address.into())
    }

    /// Names and the addresses where they have logged in, at whichever host.
    pub fn learn(&self, places: &[(String, IpAddr)]) {
        let (mut state, now) = (self.state(), self.now());
        for (name, address) in places {
            let pair = state.book.pair(*address, name);
            state.book.learn(pair, now);
        }
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
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// What the hosts of the database count together for it, in the order of `delayed`'s waits.
    pub fn rules(&self) -> &'static [Rule] {
        Book::rules(self.was_known)
    }

    /// The hosts together have counted so much that it has to wait for so many milliseconds, for each of its rules.
    pub fn delayed(mut self, waits: &[u64]) {
        let now = self.throttle.now();
        self.end(|attempt, book| {
            book.give_back(attempt.pair, attempt.was_known);
            book.delay(attempt.pair, attempt.was_known, waits, now);
        });
    }

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
        self.throttle.changed.notify_waiters();
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

/// A try's place in the line.
struct Held<'t> {
    throttle: &'t Throttle,
    rank: Rank,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.throttle.state().line.leave(self.rank);
        self.throttle.changed.notify_waiters();
    }
}

fn refused(wait: Duration) -> ApiError {
    let seconds = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
    ApiError::new(&codes::RATE_LIMITED).detail("Too many failed logins.").retry_after(seconds)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    /// Another one each time.
    fn guess() -> Secret {
        Secret::new(rand::random::<u64>().to_string())
    }

    async fn begin<'t>(throttle: &'t Throttle, name: &str) -> ApiResult<Attempt<'t>> {
        throttle.begin((HERE, name), &guess(), Throttle::hold_until()).await
    }

    #[tokio::test(start_paused = true)]
    async fn tries_in_parallel_get_no_further_than_tries_in_a_row() {
        let throttle = Arc::new(Throttle::default());
        let wrong = (0..160).map(|_| {
            let throttle = Arc::clone(&throttle);
            tokio::spawn(async move {
                let Ok(attempt) = throttle.begin((HERE, "alice"), &guess(), Throttle::hold_until()).await else {
                    return 0;
                };
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
        assert_eq!(throttle.state().line.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn right_passwords_in_parallel_all_get_in() {
        let throttle = Arc::new(Throttle::default());
        let right = (0..line::HELD_PER_ADDRESS).map(|_| {
            let throttle = Arc::clone(&throttle);
            tokio::spawn(async move {
                let attempt = begin(&throttle, "alice").await.unwrap();
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
            begin(&throttle, &format!("user{i}")).await.unwrap().failed();
        }
        let begun = Instant::now();
        begin(&throttle, "somebody").await.unwrap().succeeded();
        assert!((1_990..2_100).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
        begin(&throttle, "somebody").await.unwrap().succeeded();
        assert!(begun.elapsed() < Duration::from_secs(3), "known now");
    }

    #[tokio::test(start_paused = true)]
    async fn who_hangs_up_has_tried_and_what_was_not_hashed_has_not() {
        let throttle = Throttle::default();
        for _ in 0..10 {
            begin(&throttle, "alice").await.unwrap().give_back();
        }
        for _ in 0..5 {
            drop(begin(&throttle, "alice").await.unwrap());
        }
        assert!(begin(&throttle, "alice").await.is_err());
    }

    /// Strangers at the same address guess at the same name without pause, several at a time.
    #[tokio::test(start_paused = true)]
    async fn a_right_password_gets_in_where_it_did_before_while_others_guess_there_without_pause() {
        let throttle = Arc::new(Throttle::default());
        begin(&throttle, "alice").await.unwrap().succeeded();
        let guessed = Arc::new(std::sync::atomic::AtomicU32::new(0));
        for _ in 0..3 {
            let (throttle, guessed) = (Arc::clone(&throttle), Arc::clone(&guessed));
            tokio::spawn(async move {
                loop {
                    match begin(&throttle, "alice").await {
                        Ok(attempt) => {
                            guessed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            attempt.failed();
                        }
                        Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                    }
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = guessed.load(std::sync::atomic::Ordering::Relaxed);
        assert!(before <= 5 + 2 + 60 / 4 + 1, "{before} guesses in a minute");
        for _ in 0..5 {
            let begun = Instant::now();
            loop {
                match begin(&throttle, "alice").await {
                    Ok(attempt) => break attempt.succeeded(),
                    Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
                }
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_place_comes_before_those_that_guess_at_the_name_from_everywhere() {
        let throttle = Arc::new(Throttle::default());
        for n in 0..100u8 {
            let throttle = Arc::clone(&throttle);
            tokio::spawn(async move {
                loop {
                    match throttle.begin((IpAddr::from([10, 0, 0, n]), "alice"), &guess(), Throttle::hold_until()).await
                    {
                        Ok(attempt) => attempt.failed(),
                        Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                    }
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        let begun = Instant::now();
        begin(&throttle, "alice").await.unwrap().succeeded();
        assert!(begun.elapsed() <= Duration::from_secs(3), "{:?}", begun.elapsed());
    }

    /// Contract 3.2: the victim's own address, which is not known yet, and more guessers than are held.
    #[tokio::test(start_paused = true)]
    async fn a_right_password_gets_in_at_a_new_place_where_forty_guess_at_its_name_without_pause() {
        let throttle = Arc::new(Throttle::default());
        for _ in 0..40 {
            let throttle = Arc::clone(&throttle);
            tokio::spawn(async move {
                loop {
                    match begin(&throttle, "alice").await {
                        Ok(attempt) => attempt.failed(),
                        Err(_) => tokio::time::sleep(Duration::from_millis(250)).await,
                    }
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        for _ in 0..5 {
            let (begun, right) = (Instant::now(), Secret::new("the right one".to_owned()));
            loop {
                match throttle.begin((HERE, "alice"), &right, Throttle::hold_until()).await {
                    // Given back, so that the place does not become known.
                    Ok(attempt) => break attempt.give_back(),
                    Err(_) => tokio::time::sleep(Duration::from_secs(10)).await,
                }
            }
            assert!(begun.elapsed() <= Duration::from_secs(30), "{:?}", begun.elapsed());
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    }
}
