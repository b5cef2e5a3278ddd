//! Metrics that a plugin sets, kept within bounds: a plugin can't fill the host's memory with names.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The most series of one plugin; what comes after is dropped and counted.
const SERIES_LIMIT: usize = 500;
const NAME_LIMIT: usize = 100;
const LABELS_LIMIT: usize = 8;
const LABEL_VALUE_LIMIT: usize = 200;
/// Labels that the exposition writes itself.
const RESERVED_LABELS: [&str; 2] = ["le", "quantile"];
/// Upper bounds of a histogram's buckets; seconds and bytes both find their place.
pub const BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 100.0, 10_000.0, 1_000_000.0];

pub type Labels = Vec<(String, String)>;

/// Name and labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    pub name: String,
    pub labels: Labels,
}

/// What a series holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Counter(f64),
    Gauge(f64),
    /// Buckets each by itself; the last is for what is over every bound.
    Histogram {
        count: u64,
        sum: f64,
        buckets: [u64; BUCKETS.len() + 1],
    },
}

#[derive(Default)]
struct Inner {
    series: BTreeMap<Series, Value>,
    dropped: u64,
}

/// The metrics of one plugin instance.
#[derive(Default)]
pub struct Metrics {
    inner: Mutex<Inner>,
}

impl Metrics {
    /// Changes a series; nonsense is dropped and counted.
    pub fn change(&self, kind: u32, name: &str, value: f64, labels: &str) {
        let mut inner = self.inner.lock();
        if !inner.change(kind, name, value, labels).unwrap_or(false) {
            inner.dropped += 1;
        }
    }

    /// Every series as it stands.
    pub fn snapshot(&self) -> Vec<(Series, Value)> {
        let inner = self.inner.lock();
        inner.series.iter().map(|(series, value)| (series.clone(), value.clone())).collect()
    }

    /// How many changes were dropped.
    pub fn dropped(&self) -> u64 {
        self.inner.lock().dropped
    }
}

impl Inner {
    fn change(&mut self, kind: u32, name: &str, value: f64, labels: &str) -> Option<bool> {
        let first = match kind {
            1 => Value::Counter(0.0),
            2 => Value::Gauge(0.0),
            3 => Value::Histogram { count: 0, sum: 0.0, buckets: [0; BUCKETS.len() + 1] },
            _ => return None,
        };
        if !is_name(name) || !value.is_finite() {
            return None;
        }
        // A name means one kind of thing, whatever its labels.
        let mut same = self.series.range(Series { name: name.to_owned(), labels: Vec::new() }..);
        if same.next().is_some_and(|(known, value)| known.name == name && !value.is_like(&first)) {
            return None;
        }
        let series = Series { name: name.to_owned(), labels: read_labels(labels)? };
        if self.series.len() >= SERIES_LIMIT && !self.series.contains_key(&series) {
            return None;
        }
        Some(self.series.entry(series).or_insert(first).add(kind, value))
    }
}

/// The series by their names.
pub fn by_name(all: Vec<(Series, Value)>) -> BTreeMap<String, Vec<(Labels, Value)>> {
    let mut names: BTreeMap<String, Vec<(Labels, Value)>> = BTreeMap::new();
    for (series, value) in all {
        names.entry(series.name).or_default().push((series.labels, value));
    }
    names
}

impl Value {
    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// `false` when the series is of another kind, or a counter would go down.
    fn add(&mut self, kind: u32, value: f64) -> bool {
        match (self, kind) {
            (Self::Counter(total), 1) if value >= 0.0 => *total += value,
            (Self::Gauge(level), 2) => *level = value,
            (Self::Histogram { count, sum, buckets }, 3) => {
                *count += 1;
                *sum += value;
                buckets[BUCKETS.partition_point(|bound| *bound < value)] += 1;
            }
            _ => return false,
        }
        true
    }
}

fn read_labels(labels: &str) -> Option<Vec<(String, String)>> {
    if labels.is_empty() {
        return Some(Vec::new());
    }
    let labels: BTreeMap<String, String> = serde_json::from_str(labels).ok()?;
    let legal = |(name, value): (&String, &String)| {
        is_name(name) && !RESERVED_LABELS.contains(&name.as_str()) && value.len() <= LABEL_VALUE_LIMIT
    };
    (labels.len() <= LABELS_LIMIT && labels.iter().all(legal)).then(|| labels.into_iter().collect())
}

fn is_name(name: &str) -> bool {
    name.len() <= NAME_LIMIT
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_keep_apart() {
        let metrics = Metrics::default();
        metrics.change(1, "pages", 2.0, "");
        metrics.change(1, "pages", 3.0, "");
        metrics.change(1, "pages", -1.0, "");
        metrics.change(2, "pages", 9.0, "");
        metrics.change(2, "pages", 9.0, r#"{"of":"another kind"}"#);
        metrics.change(2, "level", 9.0, r#"{"le":"1"}"#);
        metrics.change(3, "seconds", 0.02, r#"{"step":"fetch"}"#);
        let all = metrics.snapshot();
        assert_eq!(all[0].1, Value::Counter(5.0));
        let Value::Histogram { count, buckets, .. } = &all[1].1 else { panic!("{all:?}") };
        assert_eq!((*count, buckets[2], buckets[3]), (1, 0, 1));
        assert_eq!(metrics.dropped(), 4);
    }

    #[test]
    fn names_and_numbers_are_bounded() {
        let metrics = Metrics::default();
        for i in 0..SERIES_LIMIT + 10 {
            metrics.change(1, &format!("n{i}"), 1.0, "");
        }
        for (name, value, labels) in
            [("", 1.0, ""), ("A", 1.0, ""), ("a b", 1.0, ""), ("n1", f64::NAN, ""), ("n1", 1.0, "[]")]
        {
            metrics.change(1, name, value, labels);
        }
        assert_eq!(metrics.snapshot().len(), SERIES_LIMIT);
        assert_eq!(metrics.dropped(), 15);
    }
}
