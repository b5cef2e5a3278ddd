//! What callers without a valid credential have spent, by address. A full table forgets those that
//! have spent least, so that filling it with addresses frees nobody who is over the limit.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;

use super::gcra::{Limit, SpentUntil};

const SHARDS: usize = 64;
/// Networks in a shard; 24 bytes each.
const MAX_PER_SHARD: usize = 1_024;

/// An address as it is charged: IPv6 by its /64, which is one subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Network(u8, u64);

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self(4, u64::from(u32::from(v4))),
            IpAddr::V6(v6) => Self(6, (u128::from(v6) >> 64) as u64),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}:{:016x}", self.0, self.1)
    }
}

#[derive(Default)]
struct Shard {
    /// Read without the lock: most shards of a quiet host are empty.
    tracked: AtomicUsize,
    networks: Mutex<HashMap<Network, SpentUntil>>,
}

/// Who has spent what.
pub struct Addresses {
    limit: Limit,
    hasher: RandomState,
    shards: [Shard; SHARDS],
}

impl Addresses {
    pub fn new(limit: Limit) -> Self {
        Self { limit, hasher: RandomState::new(), shards: std::array::from_fn(|_| Shard::default()) }
    }

    fn shard(&self, network: Network) -> &Shard {
        &self.shards[self.hasher.hash_one(network) as usize % SHARDS]
    }

    /// Whether this address may come in: nothing is charged yet, and asking in vain costs nothing.
    /// Where it may not, what it has spent and the nanoseconds to wait.
    pub fn admit(&self, network: Network, now: u64) -> Result<(), (SpentUntil, u64)> {
        let spent_until = self.spent_until(network);
        self.limit.take(spent_until, now).map(|_| ()).map_err(|wait| (spent_until, wait))
    }

    /// What the address has spent.
    pub(crate) fn spent_until(&self, network: Network) -> SpentUntil {
        let shard = self.shard(network);
        if shard.tracked.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        shard.networks.lock().get(&network).copied().unwrap_or(0)
    }

    /// Charges one call, beyond the limit too, but by no more than one. Gives what the address has spent.
    pub fn charge(&self, network: Network, now: u64) -> SpentUntil {
        let shard = self.shard(network);
        let mut networks = shard.networks.lock();
        if networks.len() >= MAX_PER_SHARD && !networks.contains_key(&network) {
            forget_the_least(&mut networks, now);
        }
        let spent_until = networks.entry(network).or_insert(0);
        let one_more = (*spent_until).max(now) + self.limit.period;
        *spent_until = one_more.min(self.worst(now));
        shard.tracked.store(networks.len(), Ordering::Relaxed);
        networks.get(&network).copied().unwrap_or(now)
    }

    /// One call beyond the limit: it takes at most two periods to be let in again.
    fn worst(&self, now: u64) -> SpentUntil {
        now + (u64::from(self.limit.burst) + 1) * self.limit.period
    }

    /// Forgets the addresses of which nothing is left to know; called every minute.
    pub fn sweep(&self, now: u64) {
        for shard in &self.shards {
            let mut networks = shard.networks.lock();
            networks.retain(|_, spent_until| *spent_until > now);
            networks.shrink_to(MAX_PER_SHARD / 8);
            shard.tracked.store(networks.len(), Ordering::Relaxed);
        }
    }
}

/// First all whose time is over; where there are none, the quarter that has spent least.
fn forget_the_least(networks: &mut HashMap<Network, SpentUntil>, now: u64) {
    networks.retain(|_, spent_until| *spent_until > now);
    if networks.len() < MAX_PER_SHARD {
        return;
    }
    let mut all: Vec<SpentUntil> = networks.values().copied().collect();
    let (_, quarter, _) = all.select_nth_unstable(MAX_PER_SHARD / 4);
    let quarter = *quarter;
    networks.retain(|_, spent_until| *spent_until > quarter);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit::new(60, 5);
    const SECOND: u64 = 1_000_000_000;

    fn v6(subscriber: u64, host: u64) -> Network {
        IpAddr::from((u128::from(subscriber) << 64 | u128::from(host)).to_be_bytes()).into()
    }

    #[test]
    fn an_address_that_fails_is_shut_out_for_a_while() {
        let addresses = Addresses::new(LIMIT);
        let (here, there) = (Network::from(IpAddr::from([192, 0, 2, 1])), Network::from(IpAddr::from([192, 0, 2, 2])));
        for _ in 0..5 {
            assert!(addresses.admit(here, 10).is_ok());
            addresses.charge(here, 10);
        }
        let (_, wait) = addresses.admit(here, 10).unwrap_err();
        assert!(addresses.admit(there, 10).is_ok(), "its neighbour is not");
        assert_eq!(wait, SECOND);
        for tries in 0..1_000 {
            assert!(addresses.admit(here, 10 + tries * wait / 1_000).is_err());
        }
        assert!(addresses.admit(here, 10 + wait).is_ok());
        for _ in 0..1_000 {
            addresses.charge(here, 10 + wait);
        }
        assert!(addresses.admit(here, 10 + wait + 2 * SECOND).is_ok(), "however much it failed");
    }

    #[test]
    fn a_subscriber_is_one_address_whatever_it_makes_up() {
        let addresses = Addresses::new(LIMIT);
        for host in 0..5 {
            addresses.charge(v6(7, host), 10);
        }
        assert!(addresses.admit(v6(7, 99), 10).is_err());
        assert!(addresses.admit(v6(8, 99), 10).is_ok());
        assert_eq!(
            Network::from("::ffff:192.0.2.1".parse::<IpAddr>().unwrap()),
            Network::from(IpAddr::from([192, 0, 2, 1]))
        );
    }

    #[test]
    fn filling_the_book_resets_nobody_and_it_stays_bounded() {
        let addresses = Addresses::new(LIMIT);
        let offender = v6(u64::MAX, 0);
        for _ in 0..6 {
            addresses.charge(offender, 10);
        }
        for subscriber in 0..300_000 {
            addresses.charge(v6(subscriber, 0), 10);
        }
        assert!(addresses.admit(offender, 10).is_err());
        let tracked: usize = addresses.shards.iter().map(|shard| shard.networks.lock().len()).sum();
        assert!(tracked <= SHARDS * MAX_PER_SHARD, "{tracked}");
        addresses.sweep(10 + 60 * SECOND);
        assert!(addresses.shards.iter().all(|shard| shard.networks.lock().is_empty()));
        assert!(addresses.admit(offender, 10 + 60 * SECOND).is_ok());
    }
}
