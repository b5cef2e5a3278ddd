//! What is decided about a package by the operator's word and by what is running already.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

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
    db::plugin_state::PluginState,
    plugin::{
        past::Past,
        settings,
        state::{Code, Refusal, State},
        trust::{Lock, Verdict},
    },
};

/// The operator's rules for plugins.
pub(super) struct Judge {
    trust: Trust,
    lock_file: PathBuf,
    settings: std::collections::BTreeMap<String, Value>,
    clock: Clock,
    pub past: Arc<Past>,
}

impl Judge {
    pub fn new(plugins: &Plugins, clock: Clock, past: Arc<Past>) -> Self {
        Self {
            trust: plugins.trust,
            lock_file: plugins.lock_file.clone(),
            settings: plugins.settings.clone(),
            clock,
            past,
        }
    }

    /// The next step of every package that was found.
    pub async fn judge(
        &self,
        found: Vec<Found>,
        states: &HashMap<String, PluginState>,
        running: &Snapshot,
    ) -> Vec<Step> {
        let lock = self.load_lock().await;
        found.into_iter().map(|found| self.step(found, states, running, lock.as_ref())).collect()
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

    fn step(
        &self,
        Found { about, outcome }: Found,
        states: &HashMap<String, PluginState>,
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
        let settings = match self.allow(&about, state, lock) {
            Ok(settings) => settings,
            Err(refusal) => return Step::Done(Entry::ended(about, refusal.into())),
        };
        match running.unchanged(&about.origin, &candidate.sha256, &settings) {
            Some(service) => Step::Keep(Entry::in_service(about, Arc::clone(service))),
            None => Step::Try(Box::new(Ready { about, settings, candidate })),
        }
    }

    /// The settings of a package that is trusted.
    fn allow(&self, about: &About, state: Option<&PluginState>, lock: Option<&Lock>) -> Result<Value, Refusal> {
        self.trust(lock, about)?;
        let schema = about.manifest.as_ref().and_then(|manifest| manifest.settings_schema.as_ref());
        let environment = self.settings.get(&about.name.replace('-', "_"));
        settings::resolve(schema, environment, state.map(|state| &state.settings))
    }

    fn trust(&self, lock: Option<&Lock>, about: &About) -> Result<(), Refusal> {
        let sha256 = about.sha256.as_deref().unwrap_or_default();
        match (self.trust, lock) {
            (Trust::Record, _) => Ok(()),
            (trust, Some(lock)) => lock.admit(trust, &about.name, sha256),
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
