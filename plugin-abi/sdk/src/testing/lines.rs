//! What the plugin has logged, measured and asked of the host.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{TestHost, fake_host::lock};
use crate::Level;

/// A line of the plugin's log, from [`TestHost::log`](super::TestHost::log).
///
/// ```
/// use cardinal_plugin::{Level, testing::LogLine};
///
/// /// What an operator would be shown.
/// fn warnings(log: &[LogLine]) -> Vec<&str> {
///     log.iter().filter(|line| line.is(Level::Warn)).map(|line| line.message.as_str()).collect()
/// }
/// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
/// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// # let ctx = host.context();
/// # ctx.log(Level::Info, "read");
/// # ctx.log(Level::Warn, "no prices");
/// # assert_eq!(warnings(&host.log()), ["no prices"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The number of the plugin's instance that wrote it; another after
    /// [`change_settings`](super::TestHost::change_settings).
    pub instance: u64,
    /// The call that it was written in; 0 outside of any.
    pub call: u64,
    /// The level as a number, 1 for an error to 5 for a trace; compare it with [`is`](Self::is).
    pub level: u32,
    /// The message, whole.
    pub message: String,
    /// The fields: a JSON object, or nothing.
    pub fields: String,
}

impl LogLine {
    /// Returns whether the line is of this level.
    ///
    /// ```
    /// use cardinal_plugin::Level;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// ctx.log(Level::Debug, "a page was read");
    /// assert!(host.log()[0].is(Level::Debug) && !host.log()[0].is(Level::Info));
    /// ```
    pub fn is(&self, level: Level) -> bool {
        self.level == level as u32
    }

    /// Returns a field by its name; null when there is none.
    ///
    /// ```
    /// use cardinal_plugin::{Level, json};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// ctx.log_with(Level::Info, "a price list was read", &json!({ "rows": 1200 }));
    /// let line = &host.log()[0];
    /// assert_eq!((line.field("rows"), line.field("supplier")), (json!(1200), json!(null)));
    /// ```
    pub fn field(&self, name: &str) -> Value {
        let fields: Value = serde_json::from_str(&self.fields).unwrap_or_default();
        fields.get(name).cloned().unwrap_or_default()
    }
}

/// A change of a metric, from [`TestHost::metrics`](super::TestHost::metrics).
///
/// ```
/// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
/// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// # let ctx = host.context();
/// ctx.metrics().label("supplier", "oak-and-co").observe("list_seconds", 0.25);
/// let line = &host.metrics()[0];
/// assert_eq!((line.name.as_str(), line.value), ("list_seconds", 0.25));
/// assert_eq!(line.labels["supplier"], "oak-and-co");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MetricLine {
    /// The metric's name as the plugin gave it, without the host's prefix.
    pub name: String,
    /// What was counted, set or observed.
    pub value: f64,
    /// The labels, by name.
    pub labels: BTreeMap<String, String>,
}

impl TestHost {
    /// Returns the lines of the plugin's log so far, panics included. They are also written to standard error.
    ///
    /// No line is dropped, cut or masked here, and no level is left out.
    ///
    /// ```
    /// use cardinal_plugin::Level;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// ctx.log(Level::Warn, "A supplier sent no prices.");
    /// let lines = host.log();
    /// assert!(lines[0].is(Level::Warn) && lines[0].message == "A supplier sent no prices.");
    /// ```
    pub fn log(&self) -> Vec<LogLine> {
        lock(&self.fake.log).clone()
    }

    /// Returns the changes of metrics so far, in their order. The host's bounds are not enforced here.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// ctx.metrics().count("prices_read", 3);
    /// let seen = host.metrics();
    /// assert_eq!((seen[0].name.as_str(), seen[0].value), ("prices_read", 3.0));
    /// ```
    pub fn metrics(&self) -> Vec<MetricLine> {
        lock(&self.fake.metrics).clone()
    }

    /// Returns what the plugin has asked of the host so far, in order, in words: `read_card in call 3`, `http GET
    /// https://...`, `connect`, the SQL of batches.
    ///
    /// It shows that something was not asked, or how often. Its words are for people and may change.
    ///
    /// ```
    /// use cardinal_plugin::{CardQuery, block_on};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// block_on(ctx.list_cards(CardQuery::new().status("active"))).unwrap();
    /// assert_eq!(host.journal().iter().filter(|line| line.starts_with("list")).count(), 1, "asked once");
    /// ```
    pub fn journal(&self) -> Vec<String> {
        self.fake.journal()
    }
}
