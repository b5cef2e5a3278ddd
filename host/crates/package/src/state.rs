//! Where a plugin stands on its walk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The states of a plugin (contract 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "PluginState")]
pub enum State {
    Discovered,
    Checked,
    Loaded,
    Migrated,
    Active,
    Draining,
    Retired,
    /// By an operator; its data is untouched.
    Disabled,
    /// Turned away with a [`crate::refusal::Refusal`].
    Refused,
    /// The host could not do its part (database down, out of memory): worth another try.
    Failed,
    /// Set aside after it took the worker down.
    Quarantined,
}

impl State {
    pub const ALL: [Self; 11] = [
        Self::Discovered,
        Self::Checked,
        Self::Loaded,
        Self::Migrated,
        Self::Active,
        Self::Draining,
        Self::Retired,
        Self::Disabled,
        Self::Refused,
        Self::Failed,
        Self::Quarantined,
    ];

    /// As it is serialised.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Discovered => "discovered",
            Self::Checked => "checked",
            Self::Loaded => "loaded",
            Self::Migrated => "migrated",
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Retired => "retired",
            Self::Disabled => "disabled",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Quarantined => "quarantined",
        }
    }
}
