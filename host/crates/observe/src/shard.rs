//! Numbers that many threads count at once. Each thread has cache lines of its own to count in, so that counting costs
//! a few nanoseconds however many cores there are; whoever reads adds them up.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

pub const SHARDS: usize = 8;

/// Which shard the running thread counts in: below [`SHARDS`], or of any other number of shards.
pub fn shard_index(shards: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static HOME: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    // A thread that is ending has no thread-locals left, and may still count.
    HOME.try_with(Cell::get).unwrap_or(0) % shards
}

/// One thread's part, alone on its cache lines (two are fetched at a time).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

/// A number that only grows, or, taken as a difference, a level.
#[derive(Debug, Default)]
pub struct Counter([CachePadded<AtomicU64>; SHARDS]);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0[shard_index(SHARDS)].0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn count(&self) {
        self.add(1);
    }

    pub fn read(&self) -> u64 {
        self.0.iter().fold(0, |sum, shard| sum.wrapping_add(shard.0.load(Ordering::Relaxed)))
    }
}

/// How many of something there are right now. It may go up on one thread and down on another.
#[derive(Debug, Default)]
pub struct Gauge {
    begun: Counter,
    ended: Counter,
}

impl Gauge {
    pub fn up(&self) {
        self.begun.count();
    }

    pub fn down(&self) {
        self.ended.count();
    }

    pub fn read(&self) -> u64 {
        // In this order: what ends in between can't make it negative.
        let ended = self.ended.read();
        self.begun.read().saturating_sub(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_threads() {
        let (counter, gauge) = (Counter::default(), Gauge::default());
        std::thread::scope(|scope| {
            for _ in 0..SHARDS * 2 {
                scope.spawn(|| {
                    for n in 0..1_000 {
                        counter.add(n % 3);
                        gauge.up();
                        if n % 10 != 0 {
                            gauge.down();
                        }
                    }
                });
            }
        });
        assert_eq!((counter.read(), gauge.read()), (16 * 999, 16 * 100));
    }
}
