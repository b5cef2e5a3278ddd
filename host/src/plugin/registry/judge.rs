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
    snapshot::{Before, Entry},
};
use crate::{
    clock::Clock,
    config::{Plugins, Trust},
    db::{
        plugin_owners,
        plugin_state::{PluginState, Settings},
        plugin_versions::{self, PluginVersion},
        pool::Pool,
    },
    http::error::ApiResult,
    plugin::{
        past::Past,
        settings::{self, Stored},
        signature::Signed,
        state::{Code, Refusal, State},
        trust::{Lock, Verdict, check_owner},
    },
    seal::SealingKey,
};

/// Whose each plugin's name is.
pub(super) type Owners = HashMap<String, Option<String>>;

/// What stands in the database about plugins, by their names.
pub(super) struct Decided {
    pub states: HashMap<String, PluginState>,
    pub owners: Owners,
    pub versions: HashMap<String, Vec<PluginVersion>>,
}

impl Decided {
    /// What is known of a package.
    pub fn version(&self, plugin: &str, sha256: &str) -> Option<&PluginVersion> {
        self.versions.get(plugin)?.iter().find(|version| version.sha256 == sha256)
    }

    /// Plugins that were in service on this database and are none of `here`: removed, or another host's alone.
    pub fn gone(&self, here: &[Entry]) -> Vec<Entry> {
        let absent = |name: &&String| here.iter().all(|entry| entry.about.name != **name);
        self.versions.keys().filter(absent).map(|name| Entry::gone(About::absent(name))).collect()
    }
}

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
        decided: &Decided,
        before: &Before<'_>,
        reload: Option<&str>,
    ) -> Vec<Step> {
        let lock = self.load_lock().await;
        found.into_iter().map(|found| self.step(found, decided, before, (lock.as_ref(), reload))).collect()
    }

    /// Files that packages are judged by, so that a change of one of them is news.
    pub fn rules(&self) -> Vec<PathBuf> {
        let mut rules = self.keys.clone();
        // Where the lock only records it is written here, and no package is judged by it.
        rules.extend((self.trust == Trust::Lock).then(|| self.lock_file.clone()));
        rules
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

    /// Writes down what got into service, and whose the names are.
    pub async fn claim(&self, entries: &[Entry], decided: &Decided, core: &Pool) {
        for entry in entries.iter().filter(|entry| entry.service.is_some()) {
            if let Err(error) = self.claim_one(entry, decided, core).await {
                let plugin = &entry.about.name;
                tracing::error!(plugin, error = ?error, "that the plugin is in service, and whose, could not be written down");
            }
        }
    }

    async fn claim_one(&self, entry: &Entry, decided: &Decided, core: &Pool) -> ApiResult<()> {
        let (name, signer) = (&entry.about.name, entry.about.signed.signer());
        if !matches!((decided.owners.get(name), signer), (Some(Some(_)), _) | (Some(None), None)) {
            plugin_owners::claim(core, name, signer.map(|it| it.0.as_str())).await?;
        }
        let Some(service) = &entry.service else { return Ok(()) };
        let known = decided.version(name, &service.sha256).is_some_and(|version| version.activated_at.is_some());
        if !known {
            let version = service.active.manifest.version.to_string();
            plugin_versions::activated(core, name, &service.sha256, &version).await?;
        }
        Ok(())
    }

    fn step(
        &self,
        Found { about, outcome }: Found,
        decided: &Decided,
        before: &Before<'_>,
        (lock, reload): (Option<&Lock>, Option<&str>),
    ) -> Step {
        let state = decided.states.get(&about.name);
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
        let owner = decided.owners.get(&about.name);
        let settings = match self.allow(&about, state, lock, owner) {
            Ok(settings) => settings,
            Err(refusal) => return Step::Done(Entry::ended(about, refusal.into())),
        };
        match before.unchanged(&about, &candidate.sha256, &settings) {
            Some(service) if reload != Some(about.name.as_str()) => {
                Step::Keep(Entry::in_service(about, Arc::clone(service)))
            }
            _ => Step::Try(Box::new(Ready { about, settings, candidate })),
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
        let sha256 = about.sha256.as_deref().unwrap_or_default();
        self.trust(lock, (&about.name, sha256), &about.signed)?;
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

    /// Whether the operator's rule lets a package with this content hash in.
    pub async fn admit(&self, name: &str, sha256: &str, signed: &Signed) -> Result<(), Refusal> {
        self.trust(self.load_lock().await.as_ref(), (name, sha256), signed)
    }

    fn trust(&self, lock: Option<&Lock>, (name, sha256): (&str, &str), signed: &Signed) -> Result<(), Refusal> {
        match (self.trust, lock) {
            (Trust::Record, _) => Lock::default().admit(Trust::Record, name, sha256, signed),
            (trust, Some(lock)) => lock.admit(trust, name, sha256, signed),
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
