//! How long things take, in fixed buckets.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::shard::{CachePadded, SHARDS, shard_index};

/// Upper bounds in microseconds: a plugin's answer from memory takes some 100, what waits for other servers seconds.
pub(crate) const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];
/// One more than there are bounds: the last holds what is beyond all of them.
pub(crate) const BUCKETS: usize = BOUNDS_US.len() + 1;

#[derive(Debug, Default)]
struct Part {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

/// A histogram of durations. Two relaxed additions on cache lines of the thread's own per observation.
#[derive(Debug, Default)]
pub struct Histogram(Box<[CachePadded<Part>; SHARDS]>);

/// What a histogram held when it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Each by itself, not added up.
    pub buckets: [u64; BUCKETS],
    pub sum_us: u64,
}

impl Histogram {
    pub fn observe(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let part = &self.0[shard_index(SHARDS)].0;
        part.buckets[BOUNDS_US.partition_point(|bound| *bound < us)].fetch_add(1, Ordering::Relaxed);
        part.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub fn read(&self) -> Reading {
        let mut reading = Reading::default();
        for CachePadded(part) in self.0.iter() {
            for (sum, bucket) in reading.buckets.iter_mut().zip(&part.buckets) {
                *sum += bucket.load(Ordering::Relaxed);
            }
            reading.sum_us = reading.sum_us.wrapping_add(part.sum_us.load(Ordering::Relaxed));
        }
        reading
    }
}

impl Reading {
    pub fn add(&mut self, other: &Self) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += bucket;
        }
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_own_bucket() {
        let histogram = Histogram::default();
        for us in [0, 100, 101, 10_000_000, 10_000_001, u64::MAX / 2] {
            histogram.observe(Duration::from_micros(us));
        }
        let reading = histogram.read();
        assert_eq!((reading.buckets[0], reading.buckets[1]), (2, 1));
        assert_eq!((reading.buckets[BUCKETS - 2], reading.buckets[BUCKETS - 1]), (1, 2));
        assert_eq!(reading.count(), 6);
    }
}
