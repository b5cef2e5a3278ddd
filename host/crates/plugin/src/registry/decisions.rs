//! What the database says of plugins: what operators decided about them, and which of their packages served.

use std::{collections::HashMap, sync::Arc};

use super::{
    candidate::PackageSummary,
    entry::{Entry, Service},
    history::{History, PackageRef},
    report::VersionReport,
};
use cardinal_package::kept::KeptPackage;
use cardinal_store::{
    plugins::state::PluginState,
    plugins::versions::{Loss, PluginVersion},
};

/// Whose each plugin's name is.
pub(super) type Owners = HashMap<String, Option<String>>;

/// What stands in the database about plugins, by their names.
#[derive(Default)]
pub(super) struct Decisions {
    pub states: HashMap<String, PluginState>,
    pub owners: Owners,
    pub versions: HashMap<String, Vec<PluginVersion>>,
    pub losses: HashMap<String, Vec<Loss>>,
}

impl Decisions {
    /// What is known of a package.
    pub(super) fn version(&self, plugin: &str, sha256: &str) -> Option<&PluginVersion> {
        self.versions.get(plugin)?.iter().find(|version| version.sha256 == sha256)
    }

    pub(super) fn is_set_aside(&self, plugin: &str, sha256: &str) -> bool {
        self.version(plugin, sha256).is_some_and(|version| version.set_aside.is_some())
    }

    /// A plugin's packages as operators see them: what this host has kept, then what was rolled back elsewhere.
    pub(super) fn shown(&self, plugin: &str, kept: &[KeptPackage], serving: Option<&str>) -> Vec<VersionReport> {
        let history = self.history(plugin, kept, None);
        let here = kept.iter().map(|it| {
            let (aside, is_serving) = (self.version(plugin, &it.sha256), serving == Some(it.sha256.as_str()));
            VersionReport {
                version: it.version.to_string(),
                sha256: it.sha256.clone(),
                state: if is_serving { "active" } else { "kept" },
                activated_at: Some(it.activated_at),
                set_aside: aside.and_then(|it| it.set_aside.clone()),
                can_roll_back: !is_serving && history.loss_since(&it.sha256, &it.version).is_none(),
            }
        });
        let elsewhere = history
            .versions
            .iter()
            .filter(|it| it.set_aside.is_some() && kept.iter().all(|kept| kept.sha256 != it.sha256));
        let elsewhere = elsewhere.map(|it| VersionReport {
            version: it.version.clone(),
            sha256: it.sha256.clone(),
            state: "absent",
            activated_at: it.activated_at,
            set_aside: it.set_aside.clone(),
            can_roll_back: false,
        });
        here.chain(elsewhere).collect()
    }

    /// Plugins that were in service on this database and are none of `here`: removed, or another host's alone.
    pub(super) fn gone(&self, here: &[Entry]) -> Vec<Entry> {
        let absent = |name: &&String| here.iter().all(|entry| entry.about.name != **name);
        self.versions.keys().filter(absent).map(|name| Entry::gone(PackageSummary::absent(name))).collect()
    }

    /// The history of a plugin's packages, from what this host has kept and what serves.
    pub(super) fn history<'h>(
        &'h self,
        plugin: &str,
        kept: &'h [KeptPackage],
        serving: Option<(&PackageSummary, &'h Arc<Service>)>,
    ) -> History<'h> {
        History {
            versions: self.versions.get(plugin).map(Vec::as_slice).unwrap_or_default(),
            losses: self.losses.get(plugin).map(Vec::as_slice).unwrap_or_default(),
            kept,
            serving: serving
                .map(|(_, service)| PackageRef { sha256: &service.sha256, version: &service.active.manifest.version }),
        }
    }
}
