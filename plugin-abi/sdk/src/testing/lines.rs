//! What the plugin has logged and measured.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Level;

/// A line of the plugin's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The number of the plugin's instance that wrote it; another after [`TestHost::change_settings`].
    pub instance: u64,
    /// The call that it was written in; 0 outside of any.
    pub call: u64,
    /// 1 for an error to 5 for a trace, as [`Level`].
    pub level: u32,
    /// The text.
    pub message: String,
    /// A JSON object, or nothing.
    pub fields: String,
}

impl LogLine {
    /// Whether it is of this level.
    pub fn is(&self, level: Level) -> bool {
        self.level == level as u32
    }

    /// A field, null when there is none of this name.
    pub fn field(&self, name: &str) -> Value {
        let fields: Value = serde_json::from_str(&self.fields).unwrap_or_default();
        fields.get(name).cloned().unwrap_or_default()
    }
}

/// A change of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricLine {
    /// The metric's name, without what the host puts before it.
    pub name: String,
    /// What was counted, set or observed.
    pub value: f64,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}
