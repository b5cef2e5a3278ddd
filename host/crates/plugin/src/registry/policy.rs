//! What is decided about a package by the operator's word and by what is running already.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::PathBuf,
    sync::Arc,
};

use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{
    candidate::{Candidate, FoundPackage, PackageError, PackageSummary},
    decisions::Decisions,
    entry::Entry,
    snapshot::Before,
};
use crate::{
    probe::Priority,
    quarantine::Quarantine,
    settings::{self, StoredSettings},
};
use cardinal_base::{
    clock::Clock,
    config::{Plugins, Trust},
    seal::SealingKey,
};
use cardinal_control::link::SupervisorLink;
use cardinal_database::pool::Pool;
use cardinal_package::{
    kept::KeptPackages,
    refusal::{Code, Refusal},
    signature::Keys,
    stages::Scanned,
    state::State,
    trust::{Lock, LockChange, TrustRule, check_owner},
};
use cardinal_store::error::StoreError;
use cardinal_store::{
    plugins,
    plugins::state::{PluginState, Settings},
};

/// A candidate that the operator lets into service, with its settings. [`Policy`] alone makes one.
pub(super) struct Approved {
    pub about: PackageSummary,
    pub settings: Value,
    /// What was stored as a secret, by JSON pointer.
    pub sealed: Vec<String>,
    pub candidate: Candidate,
    /// The entry of the package in the folder that this one stands in for.
    pub instead_of: Option<Box<Entry>>,
    pub priority: Priority,
    _by_policy: (),
}

impl Approved {
    fn new(
        about: PackageSummary,
        settings: Value,
        state: Option<&PluginState>,
        candidate: Candidate,
        before: &Before<'_>,
    ) -> Self {
        let sealed = state.map(|state| state.settings.sealed.keys().cloned().collect()).unwrap_or_default();
        let priority = if before.serving(&about).is_some() { Priority::InService } else { Priority::New };
        Self { about, settings, sealed, candidate, instead_of: None, priority, _by_policy: () }
    }
}

/// What is to be done with a package.
pub(super) enum Step {
    Done(Entry),
    /// It is in service already, unchanged.
    Keep(Entry),
    Load(Box<Approved>),
}

impl Step {
    /// Of a package that is one of `left_alone` and does not serve: what became of it stays.
    pub(super) fn leave_alone(&mut self, left_alone: &HashSet<String>, before: &[Entry]) {
        let Self::Load(approved) = self else { return };
        let now = &approved.about;
        let same = |entry: &&Entry| entry.about.origin == now.origin && entry.about.sha256 == now.sha256;
        if left_alone.contains(&now.origin)
            && let Some(entry) = before.iter().find(same).filter(|entry| entry.loading.is_none())
        {
            *self = Self::Done(Entry { service: None, ..entry.clone() });
        }
    }
}

/// The operator's rules for plugins.
pub(super) struct Policy {
    trust: Trust,
    lock_file: PathBuf,
    /// Without one the lock file is read here.
    supervisor: Option<SupervisorLink>,
    pub keys: Vec<PathBuf>,
    settings: BTreeMap<String, Value>,
    key: SealingKey,
    clock: Clock,
    pub quarantine: Arc<Quarantine>,
    kept: Arc<KeptPackages>,
}

impl Policy {
    pub(super) fn new(
        plugins: &Plugins,
        supervisor: Option<SupervisorLink>,
        key: SealingKey,
        clock: Clock,
        quarantine: Arc<Quarantine>,
        kept: Arc<KeptPackages>,
    ) -> Self {
        Self {
            trust: plugins.trust,
            lock_file: plugins.lock_file.clone(),
            supervisor,
            keys: plugins.trust_keys.clone(),
            settings: plugins.settings.clone(),
            key,
            clock,
            quarantine,
            kept,
        }
    }

    /// The next step of every package that was found.
    pub(super) fn decide(
        &self,
        found: Vec<FoundPackage>,
        decided: &Decisions,
        before: &Before<'_>,
        reload: Option<&str>,
    ) -> Vec<Step> {
        found.into_iter().map(|found| self.step(found, decided, before, reload)).collect()
    }

    /// Which packages are trusted, by the keys and the lock as they are now.
    pub(super) async fn trust_rule(&self) -> (Keys, TrustRule) {
        let files = self.keys.clone();
        let keys = spawn_blocking(move || Keys::load(&files)).await.unwrap_or_default();
        let lock = if self.trust == Trust::Record { None } else { self.load_lock().await };
        (keys, TrustRule::new(self.trust, lock, &self.lock_file))
    }

    /// Files that packages are judged by, so that a change of one of them is news.
    pub(super) fn rules(&self) -> Vec<PathBuf> {
        let mut rules = self.keys.clone();
        // Where the lock only records it is written here, and no package is judged by it.
        rules.extend((self.trust == Trust::Lock).then(|| self.lock_file.clone()));
        rules
    }

    /// Records what got into service, where that is the rule, and warns of what has changed. Not
    /// earlier: of two packages of one name only the one that is loaded counts.
    pub(super) async fn record(&self, entries: &mut [Entry]) {
        if self.trust != Trust::Record {
            return;
        }
        let Some(mut lock) = self.load_lock().await else { return };
        let before = lock.clone();
        for entry in entries.iter_mut().filter(|entry| entry.service.is_some()) {
            let PackageSummary { name, sha256: Some(sha256), warnings, .. } = &mut entry.about else { continue };
            if let LockChange::Changed { before } = lock.record(name, sha256, self.clock.now()) {
                tracing::warn!(
                    plugin = name,
                    before,
                    now = sha256,
                    "the plugin's files have changed since they were recorded"
                );
                warnings.push(format!("The plugin's files have changed; their hash was {before} before."));
            }
        }
        if lock != before {
            self.save_lock(lock).await;
        }
    }

    /// Records what got into service, and whose the names are.
    pub(super) async fn claim(&self, entries: &[Entry], decided: &Decisions, core: &Pool) {
        for entry in entries.iter().filter(|entry| entry.service.is_some()) {
            if let Err(error) = self.claim_one(entry, decided, core).await {
                let plugin = &entry.about.name;
                tracing::error!(plugin, error = ?error, "failed to record that the plugin is in service, and its \
                    signer");
            }
        }
    }

    async fn claim_one(&self, entry: &Entry, decided: &Decisions, core: &Pool) -> Result<(), StoreError> {
        let (name, signer) = (&entry.about.name, entry.about.signed.signer());
        if !matches!((decided.owners.get(name), signer), (Some(Some(_)), _) | (Some(None), None)) {
            plugins::owners::claim(core, name, signer.map(|it| it.0.as_str())).await?;
        }
        let Some(service) = &entry.service else { return Ok(()) };
        let known = decided.version(name, &service.sha256).is_some_and(|version| version.activated_at.is_some());
        if !known {
            let version = service.active.manifest.version.to_string();
            plugins::versions::activated(core, name, &service.sha256, &version).await?;
        }
        Ok(())
    }

    fn step(
        &self,
        FoundPackage { about, outcome }: FoundPackage,
        decided: &Decisions,
        before: &Before<'_>,
        reload: Option<&str>,
    ) -> Step {
        let state = decided.states.get(&about.name);
        if about.is_named && state.is_some_and(|state| state.disabled) {
            return Step::Done(Entry::at(about, State::Disabled));
        }
        let sha256 = about.sha256.as_deref().unwrap_or_default();
        if let Some(quarantine) = self.quarantine.find(&about.name, sha256) {
            return Step::Done(Entry::quarantined(about, quarantine));
        }
        let candidate = match outcome {
            Ok(candidate) => candidate,
            Err(error) => return Step::Done(Entry::ended(about, error)),
        };
        let owner = decided.owners.get(&about.name);
        let settings = match self.allow(&about, state, owner) {
            Ok(settings) => settings,
            Err(refusal) => return Step::Done(Entry::ended(about, refusal.into())),
        };
        let kept = self.kept.for_plugin(&about.name);
        let history = decided.history(&about.name, &kept, before.serving(&about));
        let is_reload = reload == Some(about.name.as_str());
        if let Some(refusal) = history.refusal(candidate.sha256(), &candidate.manifest().version, is_reload) {
            return Step::Done(Entry::ended(about, refusal.into()));
        }
        match before.unchanged(&about, candidate.sha256(), &settings) {
            Some(service) if !is_reload => Step::Keep(Entry::in_service(about, Arc::clone(service))),
            _ => Step::Load(Box::new(Approved::new(about, settings, state, candidate, before))),
        }
    }

    /// What serves in the place of a package that may not (any more), from those that are kept; `always` for whatever
    /// reason. A package that took the worker down and one that is disabled have no stand-in.
    pub(super) async fn find_fallback(
        &self,
        entry: Entry,
        decided: &Decisions,
        before: &Before<'_>,
        always: bool,
    ) -> Step {
        let waits = entry.refusal.as_ref().is_some_and(|refusal| {
            matches!(refusal.code, Code::RolledBack | Code::LowerVersion | Code::DestructiveMigration)
        });
        let gone = matches!(entry.state, State::Refused | State::Failed) && (waits || always);
        let (kept, name) = (self.kept.for_plugin(&entry.about.name), entry.about.name.clone());
        let history = decided.history(&name, &kept, None);
        let replaced = entry.service.as_ref().is_some_and(|service| waits && history.is_set_aside(&service.sha256));
        if !gone && !replaced {
            return if entry.service.is_some() { Step::Keep(entry) } else { Step::Done(entry) };
        }
        let unwanted = entry.about.sha256.clone().unwrap_or_default();
        for package in history.fallbacks(&unwanted) {
            if self.quarantine.find(&name, &package.sha256).is_some() {
                continue;
            }
            match self.take(&entry.about, &package.sha256, decided, before).await {
                Ok(approved) => {
                    return Step::Load(Box::new(Approved { instead_of: Some(Box::new(entry)), ..approved }));
                }
                Err(reason) => {
                    let version = package.version.to_string();
                    tracing::error!(plugin = name, version, reason, "a kept package cannot be used instead");
                }
            }
        }
        if entry.service.is_some() { Step::Keep(entry) } else { Step::Done(entry) }
    }

    /// A kept package, judged as if it lay in the folder in the place of `about`'s.
    async fn take(
        &self,
        about: &PackageSummary,
        sha256: &str,
        decided: &Decisions,
        before: &Before<'_>,
    ) -> Result<Approved, String> {
        let path = self.kept.find(&about.name, sha256).ok_or("it is gone")?;
        let (keys, rule) = self.trust_rule().await;
        let found = spawn_blocking(move || FoundPackage::examine(Scanned::new(path, Ok(())), &keys, &rule));
        let found = found.await.map_err(|error| error.to_string())?;
        let candidate = match found.outcome {
            Ok(candidate) if candidate.sha256() == sha256 && candidate.manifest().name == about.name => candidate,
            Ok(_) => return Err("it is not what was kept".to_owned()),
            Err(PackageError::Refused(refusal)) => return Err(refusal.to_string()),
            Err(_) => return Err("it cannot be read".to_owned()),
        };
        // In the place of what lies, or serves, there.
        let origin = before.serving(about).map_or(&about.origin, |(serving, _)| &serving.origin).clone();
        let about = PackageSummary { origin, ..found.about };
        let (state, owner) = (decided.states.get(&about.name), decided.owners.get(&about.name));
        let settings = self.allow(&about, state, owner).map_err(|refusal| refusal.to_string())?;
        Ok(Approved::new(about, settings, state, candidate, before))
    }

    /// The settings of a package that may have its name.
    fn allow(
        &self,
        about: &PackageSummary,
        state: Option<&PluginState>,
        owner: Option<&Option<String>>,
    ) -> Result<Value, Refusal> {
        check_owner(owner, &about.signed)?;
        let schema = about.manifest.as_ref().and_then(|manifest| manifest.settings_schema.as_ref());
        let stored = state.map(|state| self.stored(&about.name, &state.settings));
        let stored = stored.as_ref().map(StoredSettings::whole).transpose()?;
        settings::resolve(schema, self.environment(&about.name), stored)
    }

    /// What `PLUGIN_SETTINGS_<NAME>` says.
    pub(super) fn environment(&self, plugin: &str) -> Option<&Value> {
        self.settings.get(&plugin.replace('-', "_"))
    }

    /// What an operator has stored, opened.
    pub(super) fn stored(&self, plugin: &str, settings: &Settings) -> StoredSettings {
        StoredSettings::open(plugin, &settings.open, &settings.sealed, &self.key)
    }

    /// Seals the secrets of a plugin's settings.
    pub(super) fn seal(
        &self,
        plugin: &str,
        secrets: BTreeMap<String, Value>,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        settings::seal(plugin, secrets, &self.key)
    }

    async fn load_lock(&self) -> Option<Lock> {
        let loaded = match &self.supervisor {
            Some(supervisor) => supervisor.read_lock().await.and_then(|text| Ok(serde_json::from_str(&text)?)),
            None => {
                let path = self.lock_file.clone();
                spawn_blocking(move || Lock::load(&path)).await.map_err(io::Error::other).and_then(|loaded| loaded)
            }
        };
        if let Err(error) = &loaded {
            tracing::error!(file = %self.lock_file.display(), %error, "the plugins' lock file cannot be read");
        }
        loaded.ok()
    }

    async fn save_lock(&self, lock: Lock) {
        // Who has no supervisor only looks.
        let Some(supervisor) = &self.supervisor else { return };
        let written = match serde_json::to_string(&lock) {
            Ok(text) => supervisor.write_lock(text).await,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = written {
            tracing::error!(file = %self.lock_file.display(), %error, "the plugins' lock file cannot be written");
        }
    }
}
