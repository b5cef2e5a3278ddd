//! All plugins at one moment: what serves, and what became of the rest. Never changed, only
//! replaced.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use serde_json::Value;

use super::{
    candidate::{FoundPackage, PackageSummary},
    entry::{Entry, Service},
    report::PluginReport,
};
use crate::{
    active::{self, Active, JobEntry, PromptEntry, ToolEntry},
    frontend::{Asset, Bundle, MainModule},
};
use cardinal_package::{
    refusal::{Code, Refusal},
    state::State,
};

/// The plugins of one moment.
#[derive(Default)]
pub struct Snapshot {
    pub by_prefix: HashMap<String, Arc<Active>>,
    pub tools: BTreeMap<String, Arc<ToolEntry>>,
    pub prompts: BTreeMap<String, Arc<PromptEntry>>,
    /// By plugin and name.
    pub jobs: BTreeMap<(String, String), Arc<JobEntry>>,
    /// In the order of the names; of one name, the one in service first.
    entries: Vec<Entry>,
    /// Prefixes of plugins that are not in service.
    out_of_service: HashSet<String>,
    /// Frontend files of the version before the one in service, by plugin: a page that is open still asks for them.
    former_frontends: HashMap<String, Arc<Bundle>>,
}

impl Snapshot {
    /// What takes the place of `before`.
    pub(super) fn new(mut entries: Vec<Entry>, before: &Self) -> Self {
        entries.sort_by(|a, b| {
            let key = |entry: &Entry| (entry.about.name.clone(), entry.service.is_none(), entry.about.origin.clone());
            key(a).cmp(&key(b))
        });
        let mut snapshot = Self::default();
        for entry in &entries {
            match &entry.service {
                Some(service) => {
                    snapshot.serve(service);
                    let former = before.former_frontend(&entry.about.name, service);
                    snapshot.former_frontends.extend(former.map(|bundle| (entry.about.name.clone(), bundle)));
                }
                // A plugin that was removed is as if it had never been, but for its data.
                None if entry.state == State::Retired => {}
                None => snapshot.out_of_service.extend(entry.about.api_prefix.clone()),
            }
        }
        snapshot.entries = entries;
        snapshot
    }

    fn serve(&mut self, service: &Service) {
        if let Some(prefix) = service.active.manifest.api_prefix() {
            self.by_prefix.insert(prefix.to_owned(), Arc::clone(&service.active));
        }
        let prompts = service.active.prompts();
        self.prompts.extend(prompts.into_iter().map(|entry| (entry.prompt.name.clone(), entry)));
        let name = &service.active.manifest.name;
        self.jobs.extend(service.jobs.iter().map(|entry| ((name.clone(), entry.job.name.clone()), Arc::clone(entry))));
        self.tools.extend(service.tools.iter().map(|entry| (entry.tool.name.clone(), Arc::clone(entry))));
    }

    /// The frontend files that `next` lets go of, or those that were let go of before when it has the same.
    fn former_frontend(&self, name: &str, next: &Service) -> Option<Arc<Bundle>> {
        let known = self.former_frontends.get(name);
        let shown = self.service(name).and_then(|service| service.frontend.as_ref());
        let is_new = |shown: &&Arc<Bundle>| next.frontend.as_ref().is_none_or(|next| next.main() != shown.main());
        shown.filter(is_new).or(known).cloned()
    }

    /// The plugins in service, in the order of their names.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Active>> {
        self.entries.iter().filter_map(|entry| Some(&entry.service.as_ref()?.active))
    }

    /// What serves.
    pub(super) fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.entries.iter().filter_map(|entry| entry.service.as_ref())
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether a plugin with this prefix, or any, is being loaded and does not serve yet.
    pub fn awaits(&self, prefix: Option<&str>) -> bool {
        self.entries.iter().any(|entry| {
            let is_meant = prefix.is_none_or(|prefix| entry.about.api_prefix.as_deref() == Some(prefix));
            entry.loading.is_some() && entry.service.is_none() && is_meant
        })
    }

    /// The plugin of this name; of several, the one in service.
    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.about.name == name)
    }

    /// Whether a plugin with this prefix is known and not in service.
    pub fn unavailable(&self, prefix: &str) -> bool {
        !self.by_prefix.contains_key(prefix) && self.out_of_service.contains(prefix)
    }

    /// What the Admin UI loads the plugin's frontend by, if it is in service and has one.
    pub fn frontend(&self, name: &str) -> Option<&MainModule> {
        Some(self.service(name)?.frontend.as_ref()?.main())
    }

    /// A frontend file of a plugin in service, or of the version that served before, under the hash of its contents.
    pub fn asset(&self, name: &str, hash: &str, path: &str, accept_encoding: &str) -> Option<Asset> {
        let mut bundles = self.service(name)?.frontend.iter().chain(self.former_frontends.get(name));
        bundles.find_map(|bundle| bundle.asset(hash, path, accept_encoding))
    }

    /// SHA-256 of the package that serves under this name.
    pub fn package_hash(&self, name: &str) -> Option<&str> {
        Some(&self.service(name)?.sha256)
    }

    /// The scope of a tool that some package declares, whether it serves or not.
    pub fn scope_of_any_tool(&self, name: &str) -> Option<String> {
        let manifests = self.entries.iter().filter_map(|entry| entry.about.manifest.as_ref());
        let mut tools = manifests.flat_map(|manifest| manifest.tools.iter().map(|tool| (&manifest.name, tool)));
        let (plugin, tool) = tools.find(|(_, tool)| tool.name == name)?;
        Some(active::scope(plugin, tool.access()))
    }

    /// The names of all plugins whose packages are there, whatever became of them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let there = self.entries.iter().filter(|entry| entry.state != State::Retired);
        there.map(|entry| entry.about.name.as_str())
    }

    /// Whether a plugin of this name was found, whatever became of it.
    pub fn knows(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.about.name == name)
    }

    /// The state of every plugin that was found.
    pub fn states(&self) -> impl Iterator<Item = State> {
        self.entries.iter().map(|entry| entry.state)
    }

    /// The packages that the host itself failed, by their files.
    pub fn failed(&self) -> std::collections::BTreeSet<String> {
        let failed = self.entries.iter().filter(|entry| entry.state == State::Failed);
        failed.map(|entry| entry.about.name.clone()).collect()
    }

    /// Every plugin that was found.
    pub fn reports(&self) -> Vec<PluginReport> {
        self.entries.iter().map(PluginReport::from_entry).collect()
    }

    /// What lies in the plugins folder under this name: what would be loaded if it could be.
    pub(super) fn in_folder(&self, name: &str) -> Option<&PackageSummary> {
        let entry = self.entries.iter().find(|entry| entry.about.name == name)?;
        Some(entry.pending.as_deref().unwrap_or(&entry.about))
    }

    /// What serves under this name, when it is what lies in the folder; that may have been refused with other settings.
    pub(super) fn served_from_folder(&self, name: &str) -> Option<Arc<Service>> {
        let entry = self.entries.iter().find(|entry| entry.about.name == name)?;
        let service = entry.service.as_ref()?;
        lies_there(entry.pending.as_deref(), &service.sha256).then(|| Arc::clone(service))
    }

    /// The package of this name that is refused for this.
    pub(super) fn refused(&self, name: &str, code: Code) -> Option<(&PackageSummary, &Refusal)> {
        let of_name = self.entries.iter().filter(|entry| entry.about.name == name);
        of_name.into_iter().find_map(|entry| {
            let refusal = entry.refusal.as_ref().filter(|refusal| refusal.code == code)?;
            Some((entry.pending.as_deref().unwrap_or(&entry.about), refusal))
        })
    }

    fn service(&self, name: &str) -> Option<&Service> {
        self.entries.iter().filter(|entry| entry.about.name == name).find_map(|entry| entry.service.as_deref())
    }
}

/// What served before a scan, seen from what it has found.
pub(super) struct Before<'s> {
    snapshot: &'s Snapshot,
    /// Packages that lie in the folder now.
    present: HashSet<String>,
}

impl<'s> Before<'s> {
    pub(super) fn new(snapshot: &'s Snapshot, found: &[FoundPackage]) -> Self {
        Self { snapshot, present: found.iter().map(|found| found.about.origin.clone()).collect() }
    }

    /// With the packages that the last scan found.
    pub(super) fn at(snapshot: &'s Snapshot) -> Self {
        Self { snapshot, present: snapshot.entries.iter().map(|entry| entry.about.origin.clone()).collect() }
    }

    /// What serves of this package, whatever its files are now. A package that lies there under another name takes the
    /// place of the one of its plugin that does not lie there any more.
    pub(super) fn serving(&self, now: &PackageSummary) -> Option<(&'s PackageSummary, &'s Arc<Service>)> {
        let of = |entry: &'s Entry| entry.service.as_ref().map(|service| (&entry.about, service));
        let same = |entry: &&Entry| {
            entry.about.origin == now.origin && (entry.about.name == now.name || now.name == now.origin)
        };
        let moved = |entry: &&Entry| entry.about.name == now.name && !self.present.contains(&entry.about.origin);
        let mut entries = self.snapshot.entries.iter().filter(|entry| entry.service.is_some());
        entries.clone().find(same).or_else(|| entries.find(moved)).and_then(of)
    }

    /// What runs of this package already, when neither its content nor its settings have changed.
    pub(super) fn unchanged(&self, now: &PackageSummary, sha256: &str, settings: &Value) -> Option<&'s Arc<Service>> {
        let (_, service) = self.serving(now)?;
        (service.sha256 == sha256 && service.settings == *settings).then_some(service)
    }
}

/// Whether the package that serves is the one in the folder, although something may keep it from serving anew.
fn lies_there(pending: Option<&PackageSummary>, serving: &str) -> bool {
    pending.is_none_or(|pending| pending.sha256.as_deref() == Some(serving))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_was_refused_with_other_settings_lies_there_all_the_same() {
        let pending = |sha256: Option<&str>| PackageSummary {
            sha256: sha256.map(str::to_owned),
            ..PackageSummary::absent("echo")
        };
        assert!(lies_there(None, "a") && lies_there(Some(&pending(Some("a"))), "a"));
        assert!(!lies_there(Some(&pending(Some("b"))), "a") && !lies_there(Some(&pending(None)), "a"));
    }
}
