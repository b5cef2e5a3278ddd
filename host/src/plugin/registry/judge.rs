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
}

impl Judge {
    pub fn new(plugins: &Plugins, clock: Clock) -> Self {
        Self { trust: plugins.trust, lock_file: plugins.lock_file.clone(), settings: plugins.settings.clone(), clock }
    }

    /// The next step of every package that was found.
    pub async fn judge(
        &self,
        found: Vec<Found>,
        states: &HashMap<String, PluginState>,
        running: &Snapshot,
    ) -> Vec<Step> {
        let mut lock = self.load_lock().await;
        let before = lock.clone();
        let steps = found.into_iter().map(|found| self.step(found, states, running, &mut lock)).collect();
        if lock.is_some() && lock != before {
            self.save_lock(lock.unwrap_or_default()).await;
        }
        steps
    }

    fn step(
        &self,
        Found { mut about, outcome }: Found,
        states: &HashMap<String, PluginState>,
        running: &Snapshot,
        lock: &mut Option<Lock>,
    ) -> Step {
        let state = states.get(&about.name);
        if about.manifest.is_some() && state.is_some_and(|state| state.disabled) {
            return Step::Done(Entry::at(about, State::Disabled));
        }
        let candidate = match outcome {
            Ok(candidate) => candidate,
            Err(not_good) => return Step::Done(Entry::ended(about, not_good)),
        };
        let settings = match self.allow(&mut about, state, lock) {
            Ok(settings) => settings,
            Err(refusal) => return Step::Done(Entry::ended(about, refusal.into())),
        };
        match running.unchanged(&about.origin, &candidate.sha256, &settings) {
            Some(service) => Step::Keep(Entry::in_service(about, Arc::clone(service))),
            None => Step::Try(Box::new(Ready { about, settings, candidate })),
        }
    }

    /// The settings of a package that is trusted.
    fn allow(&self, about: &mut About, state: Option<&PluginState>, lock: &mut Option<Lock>) -> Result<Value, Refusal> {
        self.trust(lock, about)?;
        let schema = about.manifest.as_ref().and_then(|manifest| manifest.settings_schema.as_ref());
        let environment = self.settings.get(&about.name.replace('-', "_"));
        settings::resolve(schema, environment, state.map(|state| &state.settings))
    }

    fn trust(&self, lock: &mut Option<Lock>, about: &mut About) -> Result<(), Refusal> {
        let sha256 = about.sha256.as_deref().unwrap_or_default();
        let Some(lock) = lock else {
            // A damaged lock is no empty one: with record nothing is recorded, else nothing is trusted.
            return match self.trust {
                Trust::Record => Ok(()),
                Trust::Lock | Trust::Signed => Err(Refusal::new(Code::HashNotTrusted, "The lock file cannot be read.")
                    .found(self.lock_file.display().to_string())
                    .fix("Repair the lock file; the log says what is wrong with it.")),
            };
        };
        if let Verdict::Changed { before } = lock.judge(self.trust, &about.name, sha256, self.clock.now())? {
            tracing::warn!(
                plugin = about.name,
                before,
                now = sha256,
                "the plugin's files have changed since they were recorded"
            );
            about.warnings.push(format!("The plugin's files have changed; their hash was {before} before."));
        }
        Ok(())
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
