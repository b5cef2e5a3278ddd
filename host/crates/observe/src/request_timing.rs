//! Where the time of a request goes: into a plugin, into waiting for the database, or into the host itself.
//!
//! While a request is polled, its account lies open in a thread-local cell; whoever spends time on the request's
//! behalf writes into it. Two copies of a few words per poll, no allocation, no lookup.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    ops::Sub,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::meter::Meter;

/// The account of one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestTiming {
    /// In calls of plugins, without what they waited for the database.
    pub plugin: Duration,
    /// Waiting for a connection and while one was held; waits that overlap count once.
    pub database: Duration,
    /// In calls of plugins, waiting for the client's body.
    client: Duration,
    /// The meter of a plugin's route, which only the registry's snapshot knows.
    pub meter: Option<&'static Meter>,
    waits: u32,
    since: Option<Instant>,
}

thread_local! {
    static OPEN: Cell<RequestTiming> = const {
        const NONE: Duration = Duration::ZERO;
        Cell::new(RequestTiming { plugin: NONE, database: NONE, client: NONE, meter: None, waits: 0, since: None })
    };
}

impl RequestTiming {
    /// Runs `poll` with this account open.
    pub fn during<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        let before = OPEN.replace(*self);
        let polled = poll();
        *self = OPEN.replace(before);
        polled
    }

    /// The host's share of what a request took in all.
    pub fn host(&self, took: Duration) -> Duration {
        took.saturating_sub(self.plugin).saturating_sub(self.database)
    }

    /// The shares as `Server-Timing` has them, in milliseconds: `host;dur=0.021, plugin;dur=1.5, db;dur=0.8`.
    pub fn server_timing(&self, took: Duration) -> ServerTiming {
        let mut header = ServerTiming { text: [0; TIMING_LENGTH], length: 0 };
        let shares = [("host", self.host(took)), (", plugin", self.plugin), (", db", self.database)];
        for (name, share) in shares {
            header.push(name.as_bytes());
            header.push(b";dur=");
            header.milliseconds(share);
        }
        header
    }

    /// Ends a wait that goes on elsewhere: a body that is streamed from the database after the answer has begun.
    #[must_use]
    pub fn closed(mut self) -> Self {
        if let Some(since) = self.since.take() {
            self.database += since.elapsed();
        }
        self
    }
}

const TIMING_LENGTH: usize = 112;

/// A header's value, written without an allocation: every reply of a plugin has one.
pub struct ServerTiming {
    text: [u8; TIMING_LENGTH],
    length: usize,
}

impl ServerTiming {
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    fn push(&mut self, bytes: &[u8]) {
        let Some(room) = self.text.get_mut(self.length..self.length + bytes.len()) else { return };
        room.copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// With three digits behind the point.
    fn milliseconds(&mut self, time: Duration) {
        let mut us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let mut digits = [b'0'; 21];
        let mut at = digits.len();
        while us > 0 || at > digits.len() - 5 {
            at -= 1;
            if at == digits.len() - 4 {
                digits[at] = b'.';
                continue;
            }
            digits[at] = b'0' + (us % 10) as u8;
            us /= 10;
        }
        self.push(&digits[at..]);
    }
}

/// Does `work` with an account of its own. It is pinned by the caller: taken by value, it would be here twice.
pub async fn account<F: Future>(mut work: Pin<&mut F>) -> (F::Output, RequestTiming) {
    let mut timing = RequestTiming::default();
    let outcome = poll_fn(|task| timing.during(|| work.as_mut().poll(task))).await;
    (outcome, timing.closed())
}

/// What other tasks spend on a request's behalf, until the request itself takes it over.
#[derive(Clone, Debug, Default)]
pub struct DetachedTiming(Arc<[AtomicU64; 2]>);

impl DetachedTiming {
    pub fn add(&self, timing: &RequestTiming) {
        for (sum, took) in self.0.iter().zip([timing.plugin, timing.database]) {
            sum.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Into the account that is open here.
    pub fn take_over(&self) {
        let [plugin, database] = [0, 1].map(|at| Duration::from_nanos(self.0[at].swap(0, Ordering::Relaxed)));
        add_plugin(plugin);
        add_database(database);
    }
}

fn change(change: impl FnOnce(&mut RequestTiming)) {
    // A thread that is ending has no thread-locals left, and nobody to tell.
    let _ = OPEN.try_with(|open| {
        let mut timing = open.get();
        change(&mut timing);
        open.set(timing);
    });
}

/// For whom a request has waited, and how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitTimes {
    pub database: Duration,
    pub client: Duration,
}

impl Sub for WaitTimes {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            database: self.database.saturating_sub(before.database),
            client: self.client.saturating_sub(before.client),
        }
    }
}

/// What the open account says of waits so far.
pub fn waits() -> WaitTimes {
    let read = |open: &Cell<RequestTiming>| {
        let RequestTiming { database, client, .. } = open.get();
        WaitTimes { database, client }
    };
    OPEN.try_with(read).unwrap_or_default()
}

/// Time that a plugin's call waited for the client's body.
pub fn add_client(waited: Duration) {
    if !waited.is_zero() {
        change(|timing| timing.client += waited);
    }
}

/// Time that a plugin's call waited for the database.
pub fn add_database(waited: Duration) {
    if !waited.is_zero() {
        change(|timing| timing.database += waited);
    }
}

/// Time in a plugin's call, without its waits for the database.
pub fn add_plugin(took: Duration) {
    change(|timing| timing.plugin += took);
}

/// The request turned out to be for this route.
pub fn on_route(meter: &'static Meter) {
    change(|timing| timing.meter = Some(meter));
}

/// The request waits for the database until this is dropped.
#[derive(Debug)]
pub struct Waiting(());

impl Waiting {
    pub fn begin() -> Self {
        change(|timing| {
            timing.waits += 1;
            timing.since.get_or_insert_with(Instant::now);
        });
        Self(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        change(|timing| {
            // Dropped with its request, or carried off into another task: there is no account any more.
            timing.waits = timing.waits.saturating_sub(1);
            if timing.waits == 0
                && let Some(since) = timing.since.take()
            {
                timing.database += since.elapsed();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_overlap_count_once() {
        let mut timing = RequestTiming::default();
        let (long, started) = (Duration::from_millis(20), Instant::now());
        let (first, second) = timing.during(|| (Waiting::begin(), Waiting::begin()));
        std::thread::sleep(long);
        timing.during(|| drop(first));
        assert!(timing.database.is_zero(), "the second still waits");
        timing.during(|| drop(second));
        assert!((long..=started.elapsed()).contains(&timing.database), "{timing:?}");
    }

    #[test]
    fn shares_are_told_in_milliseconds() {
        let us = Duration::from_micros;
        let timing = RequestTiming { plugin: us(1_234_567), database: us(20), ..RequestTiming::default() };
        let text = |took| String::from_utf8(timing.server_timing(took).as_bytes().to_vec()).unwrap();
        assert_eq!(text(us(1_234_588)), "host;dur=0.001, plugin;dur=1234.567, db;dur=0.020");
        assert_eq!(text(us(0)), "host;dur=0.000, plugin;dur=1234.567, db;dur=0.020");
        let max = RequestTiming { plugin: Duration::MAX, database: Duration::MAX, ..RequestTiming::default() };
        assert!(String::from_utf8_lossy(max.server_timing(us(0)).as_bytes()).ends_with("db;dur=18446744073709551.615"));
    }

    #[test]
    fn accounts_do_not_mix() {
        let (mut one, mut other) = (RequestTiming::default(), RequestTiming::default());
        one.during(|| {
            add_plugin(Duration::from_secs(1));
            other.during(|| add_plugin(Duration::from_secs(5)));
            add_database(Duration::from_secs(2));
        });
        add_plugin(Duration::from_secs(9));
        assert_eq!((one.plugin.as_secs(), one.database.as_secs(), other.plugin.as_secs()), (1, 2, 5));
    }

    #[test]
    fn a_wait_without_an_account_is_nobodys() {
        let mut timing = RequestTiming::default();
        let carried = Waiting::begin();
        timing.during(|| drop(carried));
        assert!(timing.database.is_zero() && timing.closed().database.is_zero());
    }
}
