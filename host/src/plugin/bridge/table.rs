//! Numbers for things that a plugin may name: never pointers, never used twice.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::observe::shard;

const SHARDS: usize = 16;
/// Of a number: 4 bits shard, 16 bits slot, 44 bits sequence (a million a second for half a year).
const SHARD_BITS: u32 = SHARDS.trailing_zeros();
const SLOT_BITS: u32 = 16;

/// A table of live things by number. A number is refused for ever once its thing was removed: a
/// slot is used again, a number is not. Number 0 is never given.
pub struct Table<T> {
    shards: [Mutex<Shard<T>>; SHARDS],
}

struct Shard<T> {
    slots: Vec<(u64, Option<T>)>,
    free: Vec<u16>,
    sequence: u64,
}

impl<T: Clone> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone> Table<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self { shards: [const { Mutex::new(Shard { slots: Vec::new(), free: Vec::new(), sequence: 0 }) }; SHARDS] }
    }

    /// Gives `thing` a number; `None` when the table is full.
    pub fn insert(&self, thing: T) -> Option<u64> {
        // Each thread fills one shard, so that the host's workers do not meet in one lock.
        let shard = shard::home(SHARDS);
        let mut slots = self.lock(shard);
        let slot = match slots.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u16::try_from(slots.slots.len()).ok()?;
                slots.slots.push((0, None));
                slot
            }
        };
        slots.sequence += 1;
        let number = (slots.sequence << (SHARD_BITS + SLOT_BITS)) | (u64::from(slot) << SHARD_BITS) | shard as u64;
        slots.slots[usize::from(slot)] = (number, Some(thing));
        Some(number)
    }

    /// The thing with this number.
    pub fn get(&self, number: u64) -> Option<T> {
        let (shard, slot) = place(number);
        let slots = self.lock(shard);
        let (owner, thing) = slots.slots.get(slot)?;
        if *owner == number { thing.clone() } else { None }
    }

    /// Ends a number.
    pub fn remove(&self, number: u64) -> Option<T> {
        let (shard, slot) = place(number);
        let mut slots = self.lock(shard);
        let entry = slots.slots.get_mut(slot)?;
        if entry.0 != number {
            return None;
        }
        let thing = entry.1.take()?;
        slots.free.push(slot as u16);
        drop(slots); // whatever dropping the thing does, it does not hold the shard up
        Some(thing)
    }

    /// Ends the numbers of all things that `ends` picks.
    pub fn remove_where(&self, ends: impl Fn(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        for shard in 0..SHARDS {
            let mut slots = self.lock(shard);
            let Shard { slots, free, .. } = &mut *slots;
            for (slot, (_, thing)) in slots.iter_mut().enumerate() {
                if thing.as_ref().is_some_and(&ends) {
                    removed.extend(thing.take());
                    free.push(slot as u16);
                }
            }
        }
        removed
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard<T>> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(number: u64) -> (usize, usize) {
    ((number as usize) & (SHARDS - 1), ((number >> SHARD_BITS) as usize) & ((1 << SLOT_BITS) - 1))
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
        assert_eq!(table.get(first), None, "the slot is used again, the number is not");
        assert_eq!(table.get(second), Some("second"));
    }

    #[test]
    fn made_up_numbers_are_refused() {
        let table = Table::new();
        let number = table.insert(()).unwrap();
        for made_up in [0, 1, u64::MAX, number + 1, number ^ (1 << 40)] {
            assert_eq!(table.get(made_up), None);
            assert_eq!(table.remove(made_up), None);
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
        let full = (0..=1 << SLOT_BITS).map(|_| table.insert(())).last().unwrap();
        assert_eq!(full, None);
    }
}
