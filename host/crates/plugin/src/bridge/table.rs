//! Numbers for things that a plugin may name: random, so that no number leads to another, and never pointers.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher},
};

use parking_lot::{Mutex, MutexGuard};
use rand::TryRng;

use cardinal_observe::shard;

const SHARDS: usize = 16;
/// Where in a number its shard stands; all its other bits are random.
const SHARD_SHIFT: u32 = 32;
const SHARD_MASK: u64 = (SHARDS as u64 - 1) << SHARD_SHIFT;
/// The most things of one shard.
const SHARD_LIMIT: usize = 1 << 16;
/// Random numbers that a shard gets from the system at a time.
const RANDOM_BATCH: usize = 32;

/// A table of live things by number. A number is its holder's secret: 60 of its 64 bits are random, so none can
/// be guessed, and none is given twice. Number 0 is never given.
pub struct Table<T> {
    shards: [Mutex<Shard<T>>; SHARDS],
}

struct Shard<T> {
    things: HashMap<u64, T, IdentityBuildHasher>,
    random_numbers: [u64; RANDOM_BATCH],
    left: usize,
}

impl<T> Shard<T> {
    const fn new() -> Self {
        Self { things: HashMap::with_hasher(IdentityBuildHasher), random_numbers: [0; RANDOM_BATCH], left: 0 }
    }

    /// A random number; `None` when the system has none.
    fn draw(&mut self) -> Option<u64> {
        if self.left == 0 {
            let mut bytes = [0; RANDOM_BATCH * 8];
            rand::rngs::SysRng.try_fill_bytes(&mut bytes).ok()?;
            let (words, _) = bytes.as_chunks::<8>();
            for (number, word) in self.random_numbers.iter_mut().zip(words) {
                *number = u64::from_ne_bytes(*word);
            }
            self.left = RANDOM_BATCH;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.random_numbers[self.left]))
    }
}

/// The numbers are random already.
#[derive(Clone, Copy)]
struct IdentityBuildHasher;

impl BuildHasher for IdentityBuildHasher {
    type Hasher = IdentityHasher;

    fn build_hasher(&self) -> IdentityHasher {
        IdentityHasher(0)
    }
}

struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl<T: Clone> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone> Table<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self { shards: [const { Mutex::new(Shard::new()) }; SHARDS] }
    }

    /// Gives `thing` a number; `None` when the table is full.
    pub fn insert(&self, thing: T) -> Option<u64> {
        // Each thread fills one shard, so that the host's workers do not meet in one lock.
        let home = shard::shard_index(SHARDS);
        let mut shard = self.lock(home);
        if shard.things.len() >= SHARD_LIMIT {
            return None;
        }
        loop {
            let number = (shard.draw()? & !SHARD_MASK) | ((home as u64) << SHARD_SHIFT);
            if number != 0 && !shard.things.contains_key(&number) {
                shard.things.insert(number, thing);
                return Some(number);
            }
        }
    }

    /// The thing with this number.
    pub fn get(&self, number: u64) -> Option<T> {
        self.lock(shard_index(number)).things.get(&number).cloned()
    }

    /// Ends a number.
    pub fn remove(&self, number: u64) -> Option<T> {
        // Whatever dropping the thing does, it does not hold the shard up.
        self.lock(shard_index(number)).things.remove(&number)
    }

    /// Ends the numbers of all things that `ends` picks.
    pub(crate) fn remove_where(&self, ends: impl Fn(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        for shard in 0..SHARDS {
            removed.extend(self.lock(shard).things.extract_if(|_, thing| ends(thing)).map(|(_, thing)| thing));
        }
        removed
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard<T>> {
        self.shards[shard].lock()
    }
}

fn shard_index(number: u64) -> usize {
    ((number & SHARD_MASK) >> SHARD_SHIFT) as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_number_ends_with_its_thing() {
        let table = Table::new();
        let first = table.insert("first").unwrap();
        assert_eq!(table.get(first), Some("first"));
        assert_eq!(table.remove(first), Some("first"));
        assert_eq!(table.remove(first), None);
        let second = table.insert("second").unwrap();
        assert_ne!(first, second);
        assert_eq!(table.get(first), None, "a number is never given twice");
        assert_eq!(table.get(second), Some("second"));
    }

    #[test]
    fn made_up_numbers_are_refused() {
        let table = Table::new();
        let number = table.insert(()).unwrap();
        for made_up in [0, 1, u64::MAX, number + 1, number ^ (1 << 40), number ^ 1] {
            assert_eq!(table.get(made_up), None);
            assert_eq!(table.remove(made_up), None);
        }
    }

    #[test]
    fn a_number_says_nothing_of_the_next() {
        let table = Table::new();
        let numbers: Vec<u64> = (0..4_096).map(|n| table.insert(n).unwrap()).collect();
        for bit in (0..64).filter(|bit| SHARD_MASK & (1 << bit) == 0) {
            let changed = numbers.windows(2).filter(|pair| (pair[0] ^ pair[1]) & (1 << bit) != 0).count();
            // Half of 4,095, and 10 standard deviations to either side.
            assert!((1_727..2_368).contains(&changed), "bit {bit} changes {changed} times");
        }
    }

    #[test]
    fn threads_do_not_share_numbers() {
        let table = Table::new();
        let numbers: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|i| {
                    scope.spawn({
                        let table = &table;
                        move || (0..500).map(|n| table.insert((i, n)).unwrap()).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let different: std::collections::HashSet<_> = numbers.iter().collect();
        assert_eq!(different.len(), 4000);
    }

    #[test]
    fn a_full_shard_refuses() {
        let table = Table::new();
        let full = (0..=SHARD_LIMIT).map(|_| table.insert(())).last().unwrap();
        assert_eq!(full, None);
    }
}
