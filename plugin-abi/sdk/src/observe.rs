//! Log lines and metrics.

use cardinal_plugin_abi::{CallId, Slice};
use serde_json::{Map, Value};

use crate::context::Core;

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// Something failed that should have worked.
    Error = 1,
    /// Something is odd, and the plugin went on.
    Warn = 2,
    /// Worth knowing in everyday operation.
    Info = 3,
    /// For finding a fault.
    Debug = 4,
    /// Everything.
    Trace = 5,
}

/// The plugin's metrics. Names are snake_case; the host puts its own prefix and the plugin's name
/// on them.
///
/// All of it may be called from any thread, within calls and outside, and never waits. A plugin has up to 500 series, a name
/// up to 100 bytes, a series up to 8 labels with values of up to 200 bytes; what is over is dropped, and counted in
/// `cardinal_plugin_metrics_dropped_total`. A name keeps the kind that it was used with first.
///
/// ```
/// # fn f(ctx: &cardinal_plugin::PluginContext) {
/// ctx.metrics().count("pages_fetched", 1);
/// ctx.metrics().label("source", "json-ld").observe("parse_seconds", 0.003);
/// # }
/// ```
#[must_use = "a label alone counts nothing"]
pub struct Metrics<'a> {
    core: &'a Core,
    call: CallId,
    labels: Map<String, Value>,
}

const COUNTER: u32 = 1;
const GAUGE: u32 = 2;
const HISTOGRAM: u32 = 3;

impl<'a> Metrics<'a> {
    pub(crate) fn new(core: &'a Core, call: CallId) -> Self {
        Self { core, call, labels: Map::new() }
    }

    /// Adds a label to what follows. Few different values: each makes a series of its own.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.into());
        self
    }

    /// Adds `n` to a counter. The exposition ends its name with `_total`.
    pub fn count(&self, name: &str, n: u64) {
        self.send(COUNTER, name, n as f64);
    }

    /// Sets a gauge, which keeps its value until it is set again or the plugin stops.
    pub fn gauge(&self, name: &str, value: f64) {
        self.send(GAUGE, name, value);
    }

    /// Puts a value into a histogram; times in seconds, sizes in bytes. Its buckets are the host's, from 0.001 to 1,000,000.
    ///
    /// ```
    /// # use cardinal_plugin::PluginContext;
    /// fn note(ctx: &PluginContext, feed: &str, took: std::time::Duration, open: usize) {
    ///     let metrics = ctx.metrics().label("feed", feed);
    ///     metrics.count("feeds_read", 1);
    ///     metrics.gauge("open_feeds", open as f64);
    ///     metrics.observe("feed_seconds", took.as_secs_f64());
    /// }
    /// ```
    pub fn observe(&self, name: &str, value: f64) {
        self.send(HISTOGRAM, name, value);
    }

    fn send(&self, kind: u32, name: &str, value: f64) {
        let labels = if self.labels.is_empty() { String::new() } else { Value::from(self.labels.clone()).to_string() };
        let (name, labels) = (Slice::text(name), Slice::text(&labels));
        (self.core.host.metric())(self.core.ctx, self.call, kind, name, value, labels, Slice::default());
    }
}

impl std::fmt::Debug for Metrics<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}
