//! What is decided about a package by the operator's word and by what is running already.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
};

use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{
    found::{About, Found},
    settle::{Ready, Step},
    snapshot::{Entry, Snapshot},
};
use crate::{
    clock::Clock,
    config::{Plugins, Trust},
    db::{
        plugin_owners,
        plugin_state::{PluginState, Settings},
        pool::Pool,
    },
    plugin::{
        past::Past,
        settings::{self, Stored},
        state::{Code, Refusal, State},
        trust::{Lock, Verdict, check_owner},
    },
    seal::SealingKey,
};

/// Whose each plugin's name is.
pub(super) type Owners = HashMap<String, Option<String>>;

/// The operator's rules for plugins.
pub(super) struct Judge {
    trust: Trust,
    lock_file: PathBuf,
    pub keys: Vec<PathBuf>,
    settings: BTreeMap<String, Value>,
    key: SealingKey,
    clock: Clock,
    pub past: Arc<Past>,
}

impl Judge {
    pub fn new(plugins: &Plugins, key: SealingKey, clock: Clock, past: Arc<Past>) -> Self {
        Self {
            trust: plugins.trust,
            lock_file: plugins.lock_file.clone(),
            keys: plugins.trust_keys.clone(),
            settings: plugins.settings.clone(),
            key,
            clock,
            past,
        }
    }

    /// The next step of every package that was found.
    pub async fn judge(
        &self,
        found: Vec<Found>,
        states: &HashMap<String, PluginState>,
        owners: &Owners,
        running: &Snapshot,
    ) -> Vec<Step> {
        let lock = self.load_lock().await;
        found.into_iter().map(|found| self.step(found, (states, owners), running, lock.as_ref())).collect()
    }

    /// Writes down what got into service, where that is the rule, and tells what has changed. Not
    /// earlier: of two packages of one name only the one that is loaded counts.
    pub async fn record(&self, entries: &mut [Entry]) {
        if self.trust != Trust::Record {
            return;
        }
        let Some(mut lock) = self.load_lock().await else { return };
        let before = lock.clone();
        for entry in entries.iter_mut().filter(|entry| entry.service.is_some()) {
            let About { name, sha256: Some(sha256), warnings, .. } = &mut entry.about else { continue };
            if let Verdict::Changed { before } = lock.record(name, sha256, self.clock.now()) {
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

    /// Writes down whose the names are of what got into service.
    pub async fn claim(&self, entries: &[Entry], owners: &Owners, core: &Pool) {
        for entry in entries.iter().filter(|entry| entry.service.is_some()) {
            let (name, signer) = (&entry.about.name, entry.about.signed.signer());
            if !matches!((owners.get(name), signer), (Some(Some(_)), _) | (Some(None), None)) {
                let claimed = plugin_owners::claim(core, name, signer.map(|it| it.0.as_str())).await;
                if let Err(error) = claimed {
                    tracing::error!(plugin = name, error = ?error, "whose the plugin's name is could not be written down");
                }
            }
        }
    }

    fn step(
        &self,
        Found { about, outcome }: Found,
        (states, owners): (&HashMap<String, PluginState>, &Owners),
        running: &Snapshot,
        lock: Option<&Lock>,
    ) -> Step {
        let state = states.get(&about.name);
        if about.manifest.is_some() && state.is_some_and(|state| state.disabled) {
            return Step::Done(Entry::at(about, State::Disabled));
        }
        let sha256 = about.sha256.as_deref().unwrap_or_default();
        if let Some(quarantine) = self.past.quarantine(&about.name, sha256) {
            return Step::Done(Entry::quarantined(about, quarantine));
        }
        let candidate = match outcome {
            Ok(candidate) => candidate,
            Err(not_good) => return Step::Done(Entry::ended(about, not_good)),
        };
        let owner = owners.get(&about.name);
        let settings = match self.allow(&about, state, lock, owner) {
            Ok(settings) => settings,
            Err(refusal) => return Step::Done(Entry::ended(about, refusal.into())),
        };
        match running.unchanged(&about.origin, &candidate.sha256, &settings) {
            Some(service) => Step::Keep(Entry::in_service(about, Arc::clone(service))),
            None => Step::Try(Box::new(Ready { about, settings, candidate })),
        }
    }

    /// The settings of a package that is trusted.
    fn allow(
        &self,
        about: &About,
        state: Option<&PluginState>,
        lock: Option<&Lock>,
        owner: Option<&Option<String>>,
    ) -> Result<Value, Refusal> {
        self.trust(lock, about)?;
        check_owner(owner, &about.signed)?;
        let schema = about.manifest.as_ref().and_then(|manifest| manifest.settings_schema.as_ref());
        let stored = state.map(|state| self.stored(&about.name, &state.settings));
        let stored = stored.as_ref().map(Stored::whole).transpose()?;
        settings::resolve(schema, self.environment(&about.name), stored)
    }

    /// What `PLUGIN_SETTINGS_<NAME>` says.
    pub fn environment(&self, plugin: &str) -> Option<&Value> {
        self.settings.get(&plugin.replace('-', "_"))
    }

    /// What an operator has stored, opened.
    pub fn stored(&self, plugin: &str, settings: &Settings) -> Stored {
        Stored::open(plugin, &settings.open, &settings.sealed, &self.key)
    }

    /// Seals the secrets of a plugin's settings.
    pub fn seal(&self, plugin: &str, secrets: BTreeMap<String, Value>) -> anyhow::Result<BTreeMap<String, String>> {
        settings::seal(plugin, secrets, &self.key)
    }

    fn trust(&self, lock: Option<&Lock>, about: &About) -> Result<(), Refusal> {
        let sha256 = about.sha256.as_deref().unwrap_or_default();
        match (self.trust, lock) {
            (Trust::Record, _) => Lock::default().admit(Trust::Record, &about.name, sha256, &about.signed),
            (trust, Some(lock)) => lock.admit(trust, &about.name, sha256, &about.signed),
            // A damaged lock is no empty one.
            (_, None) => Err(Refusal::new(Code::HashNotTrusted, "The lock file cannot be read.")
                .found(self.lock_file.display().to_string())
                .fix("Repair the lock file; the log says what is wrong with it.")),
        }
    }

    async fn load_lock(&self) -> Option<Lock> {
        let path = self.lock_file.clone();
        match spawn_blocking(move || Lock::load(&path)).await {
            Ok(Ok(lock)) => Some(lock),
            Ok(Err(error)) => {
                tracing::error!(file = %self.lock_file.display(), %error, "the plugins' lock file cannot be read");
                None
            }
            Err(error) => {
                tracing::error!(%error, "reading the plugins' lock file failed");
                None
            }
        }
    }

    async fn save_lock(&self, lock: Lock) {
        let path = self.lock_file.clone();
        let saved = spawn_blocking(move || lock.save(&path)).await;
        if let Err(error) = saved.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            tracing::error!(file = %self.lock_file.display(), %error, "the plugins' lock file cannot be written");
        }
    }
}
