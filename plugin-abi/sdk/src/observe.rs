//! Log levels and metrics.

use cardinal_plugin_abi::{CallId, Slice};
use serde_json::{Map, Value};

use crate::core::Core;

/// How much a log line matters. Levels compare by their number: `Error` is the least, `Trace` the greatest.
///
/// The operator chooses from which level on a plugin's lines are kept, `info` unless they say otherwise.
///
/// ```
/// use cardinal_plugin::Level;
///
/// assert!(Level::Error < Level::Warn && Level::Debug < Level::Trace);
/// let level = if "9,90".parse::<f64>().is_err() { Level::Warn } else { Level::Debug };
/// assert_eq!(level, Level::Warn);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// Something failed that should have worked, and somebody should look at it.
    Error = 1,
    /// Something is odd; the plugin went on.
    Warn = 2,
    /// Worth knowing in everyday operation.
    Info = 3,
    /// For finding a fault.
    Debug = 4,
    /// Everything, step by step.
    Trace = 5,
}

/// The plugin's metrics, from [`PluginContext::metrics`](crate::PluginContext::metrics).
///
/// The host shows them in `/metrics`, with its own prefix and the plugin's name before each name. They begin anew with
/// each instance of the plugin.
///
/// Names and labels are snake_case in ASCII and begin with a letter; a name has up to 100 bytes. A plugin has up to 500
/// series, a series up to 8 labels with values of up to 200 bytes; `le` and `quantile` are not labels. A name keeps the
/// kind that it was used with first. The host drops whatever breaks one of these rules, and numbers that are not
/// finite, and counts it in `cardinal_plugin_metrics_dropped_total`.
///
/// All methods may be called from any thread, within calls and outside. They never wait and never fail.
///
/// ```
/// use cardinal_plugin::{PluginContext, Router};
/// use cardinal_plugin::testing::TestHost;
///
/// let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// let ctx = host.context();
/// ctx.metrics().count("pages_fetched", 2);
/// ctx.metrics().label("source", "json-ld").observe("parse_seconds", 0.003);
///
/// let seen = host.metrics();
/// assert_eq!((seen[0].name.as_str(), seen[0].value), ("pages_fetched", 2.0));
/// assert_eq!(seen[1].labels["source"], "json-ld");
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

    /// Adds a label to what this value counts, sets or observes afterwards.
    ///
    /// Use few different values: each one makes a series of its own, of which a plugin has 500.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// let of_supplier = ctx.metrics().label("supplier", "oak-and-co").label("format", "csv");
    /// of_supplier.count("prices_read", 1200);
    /// assert_eq!(host.metrics()[0].labels["format"], "csv");
    /// ```
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.into());
        self
    }

    /// Adds `n` to a counter. The exposition ends its name with `_total`.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// ctx.metrics().count("prices_read", 1200); // in `/metrics` as `..._feeds_prices_read_total`
    /// assert_eq!(host.metrics()[0].value, 1200.0);
    /// ```
    pub fn count(&self, name: &str, n: u64) {
        self.send(COUNTER, name, n as f64);
    }

    /// Sets a gauge. It keeps its value until it is set again or the plugin stops.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// ctx.metrics().gauge("suppliers_without_prices", 3.0);
    /// ctx.metrics().gauge("suppliers_without_prices", 0.0);
    /// assert_eq!(host.metrics().last().unwrap().value, 0.0);
    /// ```
    pub fn gauge(&self, name: &str, value: f64) {
        self.send(GAUGE, name, value);
    }

    /// Puts a value into a histogram. Give times in seconds and sizes in bytes.
    ///
    /// The bucket bounds are the host's: 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 100, 10,000 and 1,000,000.
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
