//! The buckets of all callers of this host, found by key or user once per credential, not per call.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

use super::{bucket::Bucket, gcra::Limit};

const SHARDS: usize = 16;
/// Buckets in a shard. Only who has a valid credential has one.
const MAX_PER_SHARD: usize = 4_096;

type Shard = Mutex<HashMap<Uuid, Arc<Bucket>>>;

/// All buckets, and how many hosts there are to share them with.
pub(super) struct Buckets {
    shards: [Shard; SHARDS],
    hosts: AtomicU32,
}

impl Default for Buckets {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Shard::default()), hosts: AtomicU32::new(1) }
    }
}

impl Buckets {
    /// Hosts on this database, this one included.
    pub(super) fn hosts(&self) -> u32 {
        self.hosts.load(Ordering::Relaxed)
    }

    /// The bucket of a key or user, following the limit that it has now.
    pub(super) fn get_or_create(&self, subject: Uuid, limit: Limit, now: u64) -> Arc<Bucket> {
        let mut shard = self.shard(subject);
        if let Some(bucket) = shard.get(&subject) {
            bucket.follow(limit, now);
            return Arc::clone(bucket);
        }
        if shard.len() >= MAX_PER_SHARD {
            forget_the_least(&mut shard, now);
        }
        let bucket = Arc::new(Bucket::new(subject, limit, self.hosts() > 1));
        shard.insert(subject, Arc::clone(&bucket));
        bucket
    }

    /// Tells all buckets whether there are others.
    pub(super) fn set_hosts(&self, hosts: u32, now: u64) {
        let before = self.hosts.swap(hosts.max(1), Ordering::Relaxed);
        if (before > 1) == (hosts > 1) {
            return;
        }
        self.each(|bucket| if hosts > 1 { bucket.share(now, hosts) } else { bucket.unshare(now) });
    }

    /// Forgets the buckets of which nothing is left to know; called every minute.
    pub(super) fn sweep(&self, now: u64) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.retain(|_, bucket| in_use(bucket) || !bucket.is_spent_nothing(now));
        }
    }

    /// Every bucket, a shard at a time.
    pub(super) fn each(&self, mut visit: impl FnMut(&Arc<Bucket>)) {
        for shard in &self.shards {
            shard.lock().values().for_each(&mut visit);
        }
    }

    pub(super) fn get(&self, subject: Uuid) -> Option<Arc<Bucket>> {
        self.shard(subject).get(&subject).cloned()
    }

    fn shard(&self, subject: Uuid) -> MutexGuard<'_, HashMap<Uuid, Arc<Bucket>>> {
        // The last bits of a UUID v7 are random.
        self.shards[subject.as_u128() as usize % SHARDS].lock()
    }
}

/// Somebody who is known still counts by it: another one beside it would be a second budget.
fn in_use(bucket: &Arc<Bucket>) -> bool {
    Arc::strong_count(bucket) > 1
}

/// First the buckets that nothing is left of, then the quarter that has spent least.
fn forget_the_least(shard: &mut HashMap<Uuid, Arc<Bucket>>, now: u64) {
    shard.retain(|_, bucket| in_use(bucket) || !bucket.is_spent_nothing(now));
    if shard.len() < MAX_PER_SHARD {
        return;
    }
    let mut all: Vec<u64> = shard.values().map(|bucket| bucket.spent_until()).collect();
    let (_, quarter, _) = all.select_nth_unstable(MAX_PER_SHARD / 4);
    let quarter = *quarter;
    shard.retain(|_, bucket| bucket.spent_until() > quarter);
}
