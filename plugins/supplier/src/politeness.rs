//! One visitor at a time for each site, a pause after each, and no endless queue.
//!
//! Everything here is in memory and of this process: hosts that share a database each keep their own
//! manners. Time is tokio's, so that tests can pause it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep_until, timeout_at};
use url::Url;

use supplier_pages::robots::Robots;

/// Calls that may wait for one site.
pub const MAX_WAITING: usize = 24;

/// Longer than this nobody waits for a turn; the call's own deadline is a little further.
pub const MAX_WAIT: Duration = Duration::from_secs(30);

/// The longest pause that a site can ask for, by `Crawl-delay` and by `Retry-After`.
const MAX_CRAWL_DELAY: Duration = Duration::from_secs(10);
pub const MAX_REST: Duration = Duration::from_secs(300);

/// Sites that are remembered: for their pauses, and for what they said in robots.txt.
const MAX_SITES: usize = 256;

/// RFC 9309 allows a day. An hour, so that a site that changes its mind is soon heard.
const ROBOTS_KEPT: Duration = Duration::from_secs(3600);

/// A site that could not say what it permits is asked again after this.
const ROBOTS_FAILURE_KEPT: Duration = Duration::from_secs(60);

/// The sites that are visited, and those that were a while ago.
#[derive(Default)]
pub struct Sites {
    known: Mutex<HashMap<String, Arc<Site>>>,
}

#[derive(Default)]
struct Site {
    /// Whoever holds this lock has the turn. tokio's lock is fair: first come, first served, and who
    /// is dropped while waiting leaves the queue.
    memory: Arc<tokio::sync::Mutex<Memory>>,
    waiting: AtomicUsize,
}

#[derive(Default)]
struct Memory {
    /// Before this nobody visits.
    free_at: Option<Instant>,
    /// What robots.txt asks for.
    crawl_delay: Duration,
    /// By scheme: the same host may say different things over http and https.
    robots: HashMap<String, (Instant, RobotsPolicy)>,
}

/// What a site says about robots.
#[derive(Debug, Clone)]
pub enum RobotsPolicy {
    Rules(Arc<Robots>),
    /// It answered its robots.txt with this error: RFC 9309 takes that as a no to everything.
    Failed(u16),
}

/// Too many are waiting for this site, or it wants to be left alone for a while.
#[derive(Debug, PartialEq, Eq)]
pub struct Busy {
    pub retry_after: Duration,
}

impl Sites {
    /// Waits until the site of `url` is nobody else's and has had its pause.
    ///
    /// Dropping the future gives up the place in the queue; dropping the [`Turn`] ends the visit,
    /// whether it went well or its caller has left.
    pub async fn turn(&self, url: &Url, delay: Duration) -> Result<Turn, Busy> {
        let name = name(url);
        let site = self.site(&name)?;
        let place = Place::take(&site, delay)?;
        let patience = Instant::now() + MAX_WAIT;
        let lock = timeout_at(patience, site.memory.clone().lock_owned()).await;
        let memory = lock.map_err(|_| Busy { retry_after: MAX_WAIT })?;
        if let Some(free_at) = memory.free_at {
            if free_at > patience {
                return Err(Busy { retry_after: free_at - Instant::now() });
            }
            sleep_until(free_at).await;
        }
        drop(place);
        Ok(Turn { memory, pause: delay, name, _site: site })
    }

    fn site(&self, name: &str) -> Result<Arc<Site>, Busy> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(site) = known.get(name) {
            return Ok(site.clone());
        }
        if known.len() >= MAX_SITES {
            let idle = longest_idle(&known).ok_or(Busy { retry_after: MAX_WAIT })?;
            known.remove(&idle);
        }
        Ok(known.entry(name.to_owned()).or_default().clone())
    }
}

/// Of the sites that nobody is at and that have had their pause.
fn longest_idle(known: &HashMap<String, Arc<Site>>) -> Option<String> {
    let now = Instant::now();
    let idle = known.iter().filter_map(|(name, site)| {
        let free_at = site.memory.try_lock().ok()?.free_at.unwrap_or(now);
        // Only under the lock of the map can others get hold of a site.
        (Arc::strong_count(site) == 1 && free_at <= now).then_some((free_at, name))
    });
    idle.min().map(|(_, name)| name.clone())
}

/// A site is a host. Its usual ports are the same site; another port is another server.
fn name(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        None | Some(80 | 443) => host.to_owned(),
        Some(port) => format!("{host}:{port}"),
    }
}

/// A place in a site's queue, given up when dropped.
struct Place<'a>(&'a AtomicUsize);

impl Place<'_> {
    fn take(site: &Site, delay: Duration) -> Result<Place<'_>, Busy> {
        let queue = &site.waiting;
        let join = |ahead: usize| (ahead < MAX_WAITING && wait_behind(ahead, delay) <= MAX_WAIT).then_some(ahead + 1);
        match queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, join) {
            Ok(_) => Ok(Place(queue)),
            Err(ahead) => Err(Busy { retry_after: wait_behind(ahead, delay).clamp(Duration::from_secs(1), MAX_WAIT) }),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// At least: how long the visits themselves take is not known.
fn wait_behind(ahead: usize, delay: Duration) -> Duration {
    delay.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX))
}

/// The right to ask one site, until it is dropped.
pub struct Turn {
    memory: OwnedMutexGuard<Memory>,
    pause: Duration,
    name: String,
    _site: Arc<Site>,
}

impl Turn {
    /// Whether this turn is good for `url` too, as after a redirect within the site.
    pub fn covers(&self, url: &Url) -> bool {
        name(url) == self.name
    }

    /// What the site said lately about robots, over the scheme of `url`.
    pub fn verdict(&self, url: &Url) -> Option<RobotsPolicy> {
        let (until, verdict) = self.memory.robots.get(url.scheme())?;
        (Instant::now() < *until).then(|| verdict.clone())
    }

    pub fn remember(&mut self, url: &Url, verdict: RobotsPolicy) {
        let kept = match &verdict {
            RobotsPolicy::Rules(robots) => {
                self.memory.crawl_delay = robots.crawl_delay.unwrap_or_default().min(MAX_CRAWL_DELAY);
                ROBOTS_KEPT
            }
            RobotsPolicy::Failed(_) => ROBOTS_FAILURE_KEPT,
        };
        self.memory.robots.insert(url.scheme().to_owned(), (Instant::now() + kept, verdict));
    }

    /// The site asks to be left alone for a while; how long it will be.
    pub fn rest(&mut self, asked: Duration) -> Duration {
        self.pause = self.pause.max(asked.min(MAX_REST));
        self.pause
    }
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Turn({})", self.name)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let pause = self.pause.max(self.memory.crawl_delay);
        self.memory.free_at = Some(Instant::now() + pause);
    }
}

#[cfg(test)]
#[path = "politeness/tests.rs"]
mod tests;
