//! What was found for a credential, kept for a few seconds so that the hot path asks no database.

use std::{
    collections::HashMap,
    future::Future,
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::{Mutex, RwLock};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::caller::{Caller, SharedCaller};
use crate::error::AuthError;
use cardinal_observe::shard::Counter;

/// How long a finding is good while changes at other hosts are followed (see `crates/identity/src/auth/follow.rs`).
pub(super) const CACHE_TTL: Duration = Duration::seconds(5);
/// How long while they are not: the bound within which a host that is cut off from the database stops trusting what it
/// knows. It answers 503 then, never 401.
pub(super) const UNFOLLOWED_TTL: Duration = Duration::milliseconds(250);
const SHARDS: usize = 16;
/// Findings per shard; a full shard drops what is no longer fresh, then everything.
const MAX_PER_SHARD: usize = 2_048;

/// What a credential turned out to be.
#[derive(Clone)]
pub(super) enum Resolution {
    Caller(SharedCaller),
    Nobody,
    Revoked,
    Disabled,
}

#[derive(Clone)]
struct Entry {
    resolution: Resolution,
    checked: OffsetDateTime,
}

type Shard = RwLock<HashMap<[u8; 32], Entry>>;

/// Findings by the credential's hash.
#[derive(Default)]
pub(super) struct Cache {
    shards: [Shard; SHARDS],
    /// Counts what was forgotten. What was being looked up meanwhile may be older than the change that made us forget:
    /// it answers its own request and is not kept, or a revoked key would live on for five seconds.
    forgotten: AtomicU64,
    hits: Counter,
    misses: Counter,
}

/// How often what was asked for was known.
pub struct Counts {
    pub hits: u64,
    pub misses: u64,
}

impl Cache {
    /// The finding if it is no older than `fresh`, or what `load` finds.
    pub(super) async fn get<F>(
        &self,
        key: &[u8; 32],
        now: OffsetDateTime,
        fresh: Duration,
        load: impl FnOnce() -> F,
    ) -> Result<Resolution, AuthError>
    where
        F: Future<Output = Result<Resolution, AuthError>>,
    {
        let known = self.shard(key).read().get(key).cloned();
        // Not when the clock was set back: then its age is not known.
        if let Some(entry) = &known
            && (Duration::ZERO..fresh).contains(&(now - entry.checked))
        {
            self.hits.count();
            return Ok(entry.resolution.clone());
        }
        self.misses.count();
        let forgotten = self.forgotten.load(Ordering::Acquire);
        // Boxed: what is rarely needed should not make every request larger.
        let resolution = Box::pin(load()).await?;
        self.keep(key, Entry { resolution: resolution.clone(), checked: now }, forgotten);
        Ok(resolution)
    }

    pub(super) fn counts(&self) -> Counts {
        Counts { hits: self.hits.read(), misses: self.misses.read() }
    }

    fn keep(&self, key: &[u8; 32], entry: Entry, forgotten: u64) {
        let now = entry.checked;
        let mut shard = self.shard(key).write();
        if self.forgotten.load(Ordering::Acquire) != forgotten {
            return;
        }
        if shard.len() >= MAX_PER_SHARD {
            shard.retain(|_, entry| now - entry.checked < CACHE_TTL);
        }
        if shard.len() >= MAX_PER_SHARD {
            shard.clear();
        }
        shard.insert(*key, entry);
    }

    /// Drops the callers that `which` picks, and who was refused: the change may have let them in again.
    pub(super) fn forget(&self, which: impl Fn(&Caller) -> bool) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        for shard in &self.shards {
            let mut shard = shard.write();
            shard.retain(|_, entry| matches!(&entry.resolution, Resolution::Caller(caller) if !which(caller)));
        }
    }

    fn shard(&self, key: &[u8; 32]) -> &Shard {
        &self.shards[usize::from(key[0]) % SHARDS]
    }
}

/// When keys or sessions were last used, until it is written to the database. There is one entry for each that is alive
/// and was used since, so the number of those bounds it.
#[derive(Default)]
pub(super) struct Uses([Mutex<UseShard>; SHARDS]);

type UseShard = HashMap<Uuid, (OffsetDateTime, IpAddr)>;

impl Uses {
    pub(super) fn note(&self, id: Uuid, at: OffsetDateTime, from: IpAddr) {
        // The last bytes are random in a UUID of any kind that we make. The lock is held for one insertion.
        let shard = &self.0[usize::from(id.as_bytes()[15]) % SHARDS];
        shard.lock().insert(id, (at, from));
    }

    pub(super) fn take(&self) -> Vec<(Uuid, OffsetDateTime, IpAddr)> {
        let taken = self.0.iter().flat_map(|shard| std::mem::take(&mut *shard.lock()));
        taken.map(|(id, (at, ip))| (id, at, ip)).collect()
    }

    /// Takes back what could not be written; a later use stays.
    pub(super) fn put_back(&self, uses: Vec<(Uuid, OffsetDateTime, IpAddr)>) {
        for (id, at, ip) in uses {
            let shard = &self.0[usize::from(id.as_bytes()[15]) % SHARDS];
            shard.lock().entry(id).or_insert((at, ip));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cardinal_store::error::StoreError;

    const AT: OffsetDateTime = time::macros::datetime!(2026-01-01 00:00 UTC);

    async fn find(
        cache: &Cache,
        at: OffsetDateTime,
        answer: Result<Resolution, AuthError>,
    ) -> Result<Resolution, AuthError> {
        cache.get(&[7; 32], at, CACHE_TTL, || std::future::ready(answer)).await
    }

    #[tokio::test]
    async fn asks_again_after_five_seconds() {
        let cache = Cache::default();
        find(&cache, AT, Ok(Resolution::Nobody)).await.unwrap();
        assert!(matches!(
            find(&cache, AT + Duration::seconds(4), Ok(Resolution::Revoked)).await.unwrap(),
            Resolution::Nobody
        ));
        assert!(matches!(
            find(&cache, AT + Duration::seconds(5), Ok(Resolution::Revoked)).await.unwrap(),
            Resolution::Revoked
        ));
    }

    #[tokio::test]
    async fn an_outage_is_no_refusal_and_what_is_old_does_not_serve() {
        let cache = Cache::default();
        let outage = || Err(StoreError::Outage(anyhow::anyhow!("away")).into());
        find(&cache, AT, Ok(Resolution::Nobody)).await.unwrap();
        assert!(find(&cache, AT + Duration::seconds(4), outage()).await.is_ok());
        let unfollowed = |at, answer| cache.get(&[7; 32], at, UNFOLLOWED_TTL, || std::future::ready(answer));
        for later in [UNFOLLOWED_TTL, Duration::seconds(4)] {
            assert_eq!(unfollowed(AT + later, outage()).await.err().unwrap().code().status, 503);
        }
        assert!(find(&cache, AT - Duration::seconds(1), outage()).await.is_err(), "the clock was set back");
    }

    #[tokio::test]
    async fn what_was_looked_up_before_a_change_is_not_kept_after_it() {
        let cache = Cache::default();
        let load = || async {
            cache.forget(|_| true); // a revocation that falls between the look-up and its answer
            Ok(Resolution::Nobody)
        };
        cache.get(&[7; 32], AT, CACHE_TTL, load).await.unwrap();
        assert!(matches!(find(&cache, AT, Ok(Resolution::Revoked)).await.unwrap(), Resolution::Revoked));
    }

    #[test]
    fn the_last_use_is_kept_until_it_is_written() {
        let (uses, key, ip) = (Uses::default(), Uuid::now_v7(), IpAddr::from([192, 0, 2, 1]));
        uses.note(key, AT, ip);
        uses.note(key, AT + Duration::seconds(1), ip);
        let taken = uses.take();
        assert_eq!(taken, [(key, AT + Duration::seconds(1), ip)]);
        uses.note(key, AT + Duration::seconds(2), ip);
        uses.put_back(taken);
        assert_eq!(uses.take(), [(key, AT + Duration::seconds(2), ip)]);
        assert!(uses.take().is_empty());
    }
}
