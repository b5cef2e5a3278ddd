//! One immutable picture of all plugins, with the ways into those that serve.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::{Value, json};

use crate::plugin::{
    active::{Active, ToolEntry},
    frontend::{Asset, Bundle},
    manifest::{Manifest, Warning},
    state::{Refusal, State},
};

/// A plugin that was found, whatever became of it.
#[derive(Clone)]
pub struct Entry {
    /// The folder or file in the plugins folder.
    pub package: String,
    /// The manifest's name; the package's where there is none.
    pub name: String,
    pub state: State,
    pub refusal: Option<Refusal>,
    /// Why the host could not do its part, in plain words.
    pub failure: Option<String>,
    pub sha256: Option<String>,
    pub manifest: Option<Arc<Manifest>>,
    pub warnings: Vec<Warning>,
    pub service: Option<InService>,
}

/// What an active plugin serves with.
#[derive(Clone)]
pub struct InService {
    pub active: Arc<Active>,
    pub tools: Vec<ToolEntry>,
    pub frontend: Option<Arc<Bundle>>,
    /// The stored settings that the instance was made with.
    pub stored: Option<Value>,
}

/// All plugins.
#[derive(Default)]
pub struct Snapshot {
    entries: Vec<Entry>,
    pub by_prefix: HashMap<String, Arc<Active>>,
    pub tools: BTreeMap<String, ToolEntry>,
}

impl Snapshot {
    pub fn of(entries: Vec<Entry>) -> Self {
        let mut snapshot = Self::default();
        for service in entries.iter().filter_map(|entry| entry.service.as_ref()) {
            if let Some(prefix) = service.active.manifest.api_prefix() {
                snapshot.by_prefix.insert(prefix.to_owned(), Arc::clone(&service.active));
            }
            snapshot.tools.extend(service.tools.iter().map(|tool| (tool.tool.name.clone(), tool.clone())));
        }
        snapshot.entries = entries;
        snapshot
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The plugins that serve, in the order of their packages.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Active>> {
        self.entries.iter().filter_map(|entry| entry.service.as_ref()).map(|service| &service.active)
    }

    /// Whether `prefix` belongs to a plugin that is known and not in service.
    pub fn unavailable(&self, prefix: &str) -> bool {
        let prefix_of =
            |entry: &Entry| entry.manifest.as_ref().and_then(|manifest| manifest.api_prefix().map(str::to_owned));
        self.entries.iter().any(|entry| entry.service.is_none() && prefix_of(entry).as_deref() == Some(prefix))
    }

    /// `{main_url, integrity}` of a plugin's frontend, null when it has none.
    pub fn frontend(&self, name: &str) -> Value {
        let bundle = self.service(name).and_then(|service| service.frontend.as_ref());
        bundle.map_or(Value::Null, |bundle| json!(bundle.main()))
    }

    /// A frontend file, by the hash of its bundle.
    pub fn asset(&self, name: &str, hash: &str, path: &str) -> Option<Asset> {
        self.service(name)?.frontend.as_ref()?.asset(hash, path)
    }

    /// The entry that serves the same content with the same settings already.
    pub(super) fn unchanged(&self, found: &Entry, stored: Option<&Value>) -> Option<Entry> {
        let known = self.entries.iter().find(|entry| entry.name == found.name && entry.service.is_some())?;
        let same = known.sha256 == found.sha256 && known.service.as_ref()?.stored.as_ref() == stored;
        same.then(|| Entry { package: found.package.clone(), ..known.clone() })
    }

    fn service(&self, name: &str) -> Option<&InService> {
        self.entries.iter().find(|entry| entry.name == name)?.service.as_ref()
    }
}
