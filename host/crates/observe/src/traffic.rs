//! What the host was asked in the last hour. Counters alone do not say when; samples of them do.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use time::OffsetDateTime;

use super::{
    histogram::{BOUNDS_US, Reading},
    meter::Requests,
};

/// How often a sample is to be taken.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(30);
/// Samples that are kept: those of an hour, and the one at its begin.
const MAX_SAMPLES: usize = 121;
/// Routes that machines and the Admin UI's own files are asked by, which say nothing of what the host is used for.
const NO_TRAFFIC: [&str; 5] = ["healthz", "readyz", "metrics", "admin", "problems"];
/// Of [`super::meter::CLASSES`], the class of answers that are a failure of the host's: 5xx.
const FAILED_CLASS: usize = 4;

/// What had been counted at a time, since the process began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub at: OffsetDateTime,
    pub requests: u64,
    /// Those of them that were answered with a status of 5xx.
    pub failed: u64,
    pub durations: Reading,
}

impl Sample {
    pub fn take(requests: &Requests, at: OffsetDateTime) -> Self {
        let mut sample = Self { at, requests: 0, failed: 0, durations: Reading::default() };
        for metered in requests.read().iter().filter(|metered| is_traffic(&metered.meter.route)) {
            for (class, reading) in &metered.classes {
                sample.durations.add(reading);
                if *class == FAILED_CLASS {
                    sample.failed += reading.count();
                }
            }
        }
        sample.requests = sample.durations.count();
        sample
    }

    /// Within which time 99 of 100 requests since `before` were answered, in microseconds: the upper bound of their
    /// bucket, or the last bound for what took longer. `None` without requests.
    pub fn p99_us_since(&self, before: &Self) -> Option<u64> {
        let count = self.requests.saturating_sub(before.requests);
        let rank = (count * 99).div_ceil(100);
        let mut reached = 0;
        let buckets = self.durations.buckets.iter().zip(&before.durations.buckets);
        let at = buckets.map(|(now, then)| now.saturating_sub(*then)).position(|bucket| {
            reached += bucket;
            bucket > 0 && reached >= rank
        })?;
        Some(BOUNDS_US[at.min(BOUNDS_US.len() - 1)])
    }
}

/// The first part of the path alone: `/admin` is the UI, `/v1/admin` the API.
fn is_traffic(route: &str) -> bool {
    let first = route.strip_prefix('/').and_then(|path| path.split('/').next());
    !first.is_some_and(|first| NO_TRAFFIC.contains(&first))
}

/// The samples of the last hour, the oldest first.
#[derive(Debug, Default)]
pub struct Traffic(Mutex<VecDeque<Sample>>);

impl Traffic {
    pub fn note(&self, sample: Sample) {
        let mut samples = self.0.lock();
        if samples.len() == MAX_SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    pub fn read(&self) -> Vec<Sample> {
        self.0.lock().iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn answer(requests: &Requests, route: &str, status: u16, ms: u64, times: u32) {
        let meter = requests.route(&Method::GET, route);
        for _ in 0..times {
            meter.observe(status, Duration::from_millis(ms), Duration::ZERO, Duration::ZERO);
        }
    }

    #[test]
    fn probes_and_files_of_the_ui_are_no_traffic() {
        let requests = Requests::default();
        for route in ["/healthz", "/metrics", "/admin/{path}", "/problems/{code}"] {
            answer(&requests, route, 200, 1, 1);
        }
        answer(&requests, "/v1/admin/master-cards", 200, 1, 2);
        answer(&requests, "/v1/admin/metrics", 503, 1, 1);
        requests.unmatched(&Method::GET).observe(404, Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let sample = Sample::take(&requests, OffsetDateTime::UNIX_EPOCH);
        assert_eq!((sample.requests, sample.failed), (4, 1));
    }

    #[test]
    fn the_slowest_of_a_hundred_since_a_sample_are_told_apart() {
        let requests = Requests::default();
        answer(&requests, "/v1/a", 200, 9_000, 50);
        let before = Sample::take(&requests, OffsetDateTime::UNIX_EPOCH);
        assert_eq!(Sample::take(&requests, before.at).p99_us_since(&before), None, "nothing since");
        answer(&requests, "/v1/a", 200, 1, 99);
        answer(&requests, "/v1/a", 200, 60_000, 1);
        assert_eq!(Sample::take(&requests, before.at).p99_us_since(&before), Some(1_000));
        answer(&requests, "/v1/a", 200, 60_000, 1);
        assert_eq!(Sample::take(&requests, before.at).p99_us_since(&before), Some(10_000_000), "the last bound");
    }

    #[test]
    fn an_hour_is_kept() {
        let traffic = Traffic::default();
        let start = OffsetDateTime::UNIX_EPOCH;
        for n in 0..200_u32 {
            traffic.note(Sample::take(&Requests::default(), start + SAMPLE_INTERVAL * n));
        }
        let kept = traffic.read();
        let span = kept[kept.len() - 1].at - kept[0].at;
        assert_eq!((span, kept[0].at), (time::Duration::HOUR, start + SAMPLE_INTERVAL * 79));
    }
}
