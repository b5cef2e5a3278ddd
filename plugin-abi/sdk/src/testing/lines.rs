//! What the plugin has logged and measured.

use std::collections::BTreeMap;

use serde_json::Value;

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
    /// The number of the plugin's instance that wrote it; another after [`change_settings`](super::TestHost::change_settings).
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
