//! Questions and approvals about a package in whose place another one serves. None of them will run.

use std::collections::HashMap;

use super::Confirmations;
use cardinal_database::log_failure;
use cardinal_plugin_host::registry::Registry;
use cardinal_store::approvals;

impl Confirmations {
    /// Ends them as soon as the other package serves here, as long as the worker lives.
    pub async fn follow_swaps(&self, plugins: &Registry) {
        let mut changes = plugins.changes();
        // One that is removed stays: it may come back as it was.
        let mut packages = in_service(plugins);
        while changes.changed().await.is_ok() {
            for (plugin, sha256) in in_service(plugins) {
                if packages.get(&plugin).is_some_and(|before| *before != sha256) {
                    self.void_replaced(&plugin, &sha256).await;
                }
                packages.insert(plugin, sha256);
            }
        }
    }

    /// Where the database does not hear of it, each of them ends when somebody uses it.
    async fn void_replaced(&self, plugin: &str, sha256: &str) {
        match approvals::void_replaced(&self.pool, plugin, sha256).await {
            Ok(ended) => self.waiting.wake(&ended),
            Err(error) => log_failure!(error, "failed to end what was asked about a plugin's package before"),
        }
    }
}

/// The hash of each plugin's package.
fn in_service(plugins: &Registry) -> HashMap<String, String> {
    let snapshot = plugins.snapshot();
    let names = snapshot.active().map(|active| active.manifest.name.clone());
    names.filter_map(|name| snapshot.package_hash(&name).map(str::to_owned).map(|hash| (name, hash))).collect()
}
