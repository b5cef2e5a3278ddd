//! The text that Prometheus reads (version 0.0.4).

use std::{
    collections::HashSet,
    fmt::{Display, Write as _},
};

use super::histogram::{BOUNDS_US, Reading};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page being written, family by family.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    /// Names of samples that are taken: a page that has one twice is refused as a whole.
    taken: HashSet<String>,
}

impl Exposition {
    /// Begins a family; `false`, and nothing is written, when one of its samples' names is taken.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) -> bool {
        let suffixes: &[&str] = if kind == Kind::Histogram { &["", "_bucket", "_sum", "_count"] } else { &[""] };
        let names: Vec<String> = suffixes.iter().map(|suffix| format!("{name}{suffix}")).collect();
        if names.iter().any(|name| self.taken.contains(name)) {
            return false;
        }
        self.taken.extend(names);
        self.text.push_str("# HELP ");
        self.text.push_str(name);
        self.text.push(' ');
        escape(&mut self.text, help, false);
        // Writing into a string does not fail.
        let _ = writeln!(self.text, "\n# TYPE {name} {}", kind.name());
        true
    }

    pub fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Number) {
        self.begin(name, labels, None);
        value.write(&mut self.text);
        self.text.push('\n');
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Number) {
        if self.family(name, kind, help) {
            self.sample(name, &[], value);
        }
    }

    /// The samples of a histogram of durations.
    pub fn durations(&mut self, name: &str, labels: Labels<'_>, reading: &Reading) {
        let bounds = BOUNDS_US.iter().map(|us| seconds(*us));
        self.buckets(name, labels, bounds, reading.buckets, seconds(reading.sum_us));
    }

    /// The samples of a histogram; `buckets` each by itself, one more than there are bounds.
    pub fn buckets(
        &mut self,
        name: &str,
        labels: Labels<'_>,
        bounds: impl Iterator<Item = f64>,
        buckets: impl IntoIterator<Item = u64>,
        sum: f64,
    ) {
        let bucket = format!("{name}_bucket");
        let mut total = 0;
        for (bound, count) in bounds.map(Some).chain([None]).zip(buckets) {
            total += count;
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            self.begin(&bucket, labels, Some(("le", &bound)));
            total.write(&mut self.text);
            self.text.push('\n');
        }
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, total);
    }

    fn begin(&mut self, name: &str, labels: Labels<'_>, last: Option<(&str, &str)>) {
        self.text.push_str(name);
        for (at, (label, value)) in labels.iter().chain(last.as_ref()).enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            escape(&mut self.text, value, true);
            self.text.push('"');
        }
        self.text.push_str(if labels.is_empty() && last.is_none() { " " } else { "} " });
    }

    pub fn finish(self) -> String {
        self.text
    }
}

/// Microseconds as seconds.
#[allow(clippy::cast_precision_loss)] // 2^53 microseconds are 285 years
pub fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// What a sample can be.
pub trait Number {
    fn write(self, text: &mut String);
}

impl Number for u64 {
    fn write(self, text: &mut String) {
        show(text, self);
    }
}

impl Number for i64 {
    fn write(self, text: &mut String) {
        show(text, self);
    }
}

impl Number for usize {
    fn write(self, text: &mut String) {
        show(text, self);
    }
}

impl Number for f64 {
    fn write(self, text: &mut String) {
        match self {
            f64::INFINITY => text.push_str("+Inf"),
            f64::NEG_INFINITY => text.push_str("-Inf"),
            number => show(text, number),
        }
    }
}

fn show(text: &mut String, value: impl Display) {
    let _ = write!(text, "{value}");
}

fn escape(text: &mut String, raw: &str, is_label: bool) {
    for c in raw.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if is_label => text.push_str("\\\""),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_can_not_break_out_of_their_quotes() {
        let mut page = Exposition::default();
        page.family("x", Kind::Gauge, "one\ntwo \\ \"three\"");
        page.sample("x", &[("a", "\"} 1\nevil 2\\")], 0.5);
        let expected = "# HELP x one\\ntwo \\\\ \"three\"\n# TYPE x gauge\nx{a=\"\\\"} 1\\nevil 2\\\\\"} 0.5\n";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn buckets_add_up() {
        let mut page = Exposition::default();
        page.family("t", Kind::Histogram, "t");
        page.buckets("t", &[], [0.1, 1.0].into_iter(), [1, 2, 3], 7.5);
        let text = page.finish();
        for line in
            ["t_bucket{le=\"0.1\"} 1", "t_bucket{le=\"1\"} 3", "t_bucket{le=\"+Inf\"} 6", "t_sum 7.5", "t_count 6"]
        {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }

    #[test]
    fn no_sample_has_two_families() {
        let mut page = Exposition::default();
        assert!(page.family("a", Kind::Histogram, ""));
        assert!(!page.family("a", Kind::Gauge, ""));
        assert!(!page.family("a_count", Kind::Counter, ""));
        assert!(page.family("a_total", Kind::Counter, ""));
    }
}
