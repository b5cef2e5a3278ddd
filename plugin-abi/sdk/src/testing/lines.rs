//! What the plugin has logged and measured.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Level;

/// A line of the plugin's log, from [`TestHost::log`](super::TestHost::log).
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
    pub fn is(&self, level: Level) -> bool {
        self.level == level as u32
    }

    /// Returns a field by its name; null when there is none.
    pub fn field(&self, name: &str) -> Value {
        let fields: Value = serde_json::from_str(&self.fields).unwrap_or_default();
        fields.get(name).cloned().unwrap_or_default()
    }
}

/// A change of a metric, from [`TestHost::metrics`](super::TestHost::metrics).
#[derive(Clone, Debug, PartialEq)]
pub struct MetricLine {
    /// The metric's name as the plugin gave it, without the host's prefix.
    pub name: String,
    /// What was counted, set or observed.
    pub value: f64,
    /// The labels, by name.
    pub labels: BTreeMap<String, String>,
}
