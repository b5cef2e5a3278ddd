//! The meters of all callers of this host, found by key or user once per credential, not per call.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use uuid::Uuid;

use super::{gcra::Limit, meter::Meter};

const SHARDS: usize = 16;
/// Meters in a shard. Only who has a valid credential has one.
const PER_SHARD: usize = 4_096;

type Shard = Mutex<HashMap<Uuid, Arc<Meter>>>;

/// All meters, and how many hosts there are to share them with.
pub struct Meters {
    shards: [Shard; SHARDS],
    hosts: AtomicU32,
}

impl Default for Meters {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Shard::default()), hosts: AtomicU32::new(1) }
    }
}

impl Meters {
    /// Hosts on this database, this one included.
    pub fn hosts(&self) -> u32 {
        self.hosts.load(Ordering::Relaxed)
    }

    /// The meter of a key or user, following the limit that it has now.
    pub fn of(&self, subject: Uuid, limit: Limit, now: u64) -> Arc<Meter> {
        let mut shard = self.shard(subject);
        if let Some(meter) = shard.get(&subject) {
            meter.follow(limit, now);
            return Arc::clone(meter);
        }
        if shard.len() >= PER_SHARD {
            forget_the_least(&mut shard, now);
        }
        let meter = Arc::new(Meter::new(subject, limit, self.hosts() > 1));
        shard.insert(subject, Arc::clone(&meter));
        meter
    }

    /// Tells all meters whether there are others.
    pub fn set_hosts(&self, hosts: u32, now: u64) {
        let before = self.hosts.swap(hosts.max(1), Ordering::Relaxed);
        if (before > 1) == (hosts > 1) {
            return;
        }
        self.each(|meter| if hosts > 1 { meter.share(now, hosts) } else { meter.unshare(now) });
    }

    /// Forgets the meters of which nothing is left to know; called every minute.
    pub fn sweep(&self, now: u64) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.retain(|_, meter| in_use(meter) || !meter.is_spent_nothing(now));
        }
    }

    /// Every meter, a shard at a time.
    pub fn each(&self, mut visit: impl FnMut(&Arc<Meter>)) {
        for shard in &self.shards {
            lock(shard).values().for_each(&mut visit);
        }
    }

    pub fn get(&self, subject: Uuid) -> Option<Arc<Meter>> {
        self.shard(subject).get(&subject).cloned()
    }

    fn shard(&self, subject: Uuid) -> MutexGuard<'_, HashMap<Uuid, Arc<Meter>>> {
        // The last bits of a UUID v7 are random.
        lock(&self.shards[subject.as_u128() as usize % SHARDS])
    }
}

/// Somebody who is known still counts by it: another one beside it would be a second budget.
fn in_use(meter: &Arc<Meter>) -> bool {
    Arc::strong_count(meter) > 1
}

/// First the meters that nothing is left of, then the quarter that has spent least.
fn forget_the_least(shard: &mut HashMap<Uuid, Arc<Meter>>, now: u64) {
    shard.retain(|_, meter| in_use(meter) || !meter.is_spent_nothing(now));
    if shard.len() < PER_SHARD {
        return;
    }
    let mut all: Vec<u64> = shard.values().map(|meter| meter.spent_until()).collect();
    let (_, quarter, _) = all.select_nth_unstable(PER_SHARD / 4);
    let quarter = *quarter;
    shard.retain(|_, meter| meter.spent_until() > quarter);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
