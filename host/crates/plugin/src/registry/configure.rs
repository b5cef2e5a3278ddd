//! A plugin's settings as an operator sees and sets them: held against the schema of what lies in the plugins folder,
//! which may be newer than what serves and wait for just these settings.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use super::Registry;
use crate::error::RegistryError;
use crate::probe::SettingsTrial;
use crate::settings::{self, StoredSettings, quoted::Secrets, secret};
use cardinal_base::input::escape;
use cardinal_package::manifest;
use cardinal_store::{
    cards::Precondition,
    plugins::{self, state::Settings},
};

/// Secrets that were to stay as they are have become others.
const CHANGED_MEANWHILE: &str =
    "The settings were changed by somebody else while the plugin tried these. Read them again and repeat the change.";

/// How long settings wait until others of the same plugin have been tried, are tried, and those in service are tried
/// to compare. A request that takes 30 s says that the database does not answer.
const TRIAL_TIME: Duration = Duration::from_secs(27);
/// Seconds after which settings that could not be tried may be sent again.
const RETRY_AFTER: u32 = 5;

/// Settings of one plugin are tried one after the other.
#[derive(Default)]
pub(super) struct Trials(parking_lot::Mutex<HashMap<String, Arc<Mutex<()>>>>);

impl Trials {
    fn of_plugin(&self, plugin: &str) -> Arc<Mutex<()>> {
        Arc::clone(self.0.lock().entry(plugin.to_owned()).or_default())
    }
}

/// A plugin's settings without their secrets.
pub struct Configuration {
    pub version: i64,
    /// What the plugin gets: all layers.
    pub settings: Value,
    /// What is stored, the uppermost layer.
    pub stored: Value,
    /// What `PLUGIN_SETTINGS_<NAME>` says on this host.
    pub environment: Value,
    /// The schema's values for settings that are not set.
    pub defaults: Value,
    pub schema: Option<Value>,
    /// Secrets that were stored with another key, by JSON pointer: they have to be given again.
    pub unreadable: BTreeSet<String>,
}

/// Settings that may be stored.
struct CheckedSettings {
    /// What the plugin would get: all layers.
    whole: Value,
    open: Value,
    /// By JSON pointer, not sealed yet.
    secrets: BTreeMap<String, Value>,
    /// Names of the settings that have changed.
    changed: Vec<String>,
}

impl Registry {
    /// The settings of a plugin that was found.
    pub async fn configuration(&self, plugin: &str) -> Result<Configuration, RegistryError> {
        let schema = self.settings_schema(plugin)?;
        let settings = plugins::state::settings(&self.activation.loader.services.core, plugin).await?;
        Ok(self.shown(plugin, schema, &settings))
    }

    /// Stores settings in the place of all that were stored before, when schema and plugin take them; secrets that are
    /// sent back as they are shown stay. Gives the settings as they are now and the names of those that have changed.
    pub async fn configure(
        &self,
        plugin: &str,
        sent: Map<String, Value>,
        precondition: &Precondition,
    ) -> Result<(Configuration, Vec<String>), RegistryError> {
        let schema = self.settings_schema(plugin)?;
        if let (None, Some(name)) = (&schema, sent.keys().next()) {
            let pointer = format!("/{}", escape(name));
            let detail = "The plugin has no settings: its manifest has no settings_schema.";
            return Err(RegistryError::setting(pointer, detail));
        }
        let core = &self.activation.loader.services.core;
        let before = plugins::state::settings(core, plugin).await?;
        precondition.check(before.version)?;
        let tried = self.accept(plugin, schema.as_ref(), Value::Object(sent.clone()), &before)?;
        if !tried.changed.is_empty() {
            self.try_settings(plugin, schema.as_ref(), &tried.whole, &before).await?;
        }
        let mut changed = Vec::new();
        let change = |before: &Settings| {
            let accepted = self.accept(plugin, schema.as_ref(), Value::Object(sent), before)?;
            if accepted.whole != tried.whole {
                return Err(RegistryError::Conflict(CHANGED_MEANWHILE.to_owned()));
            }
            changed = accepted.changed;
            if changed.is_empty() {
                return Ok(None);
            }
            let sealed = self.policy.seal(plugin, accepted.secrets).map_err(RegistryError::internal)?;
            Ok(Some(Settings { open: accepted.open, sealed, version: 0 }))
        };
        let (_, now) = plugins::state::change_settings(core, plugin, precondition, change).await??;
        Ok((self.shown(plugin, schema, &now), changed))
    }

    /// What is to be stored of what was sent, when it fits.
    fn accept(
        &self,
        plugin: &str,
        schema: Option<&Value>,
        mut sent: Value,
        before: &Settings,
    ) -> Result<CheckedSettings, RegistryError> {
        let stored = self.policy.stored(plugin, before);
        let environment = self.policy.environment(plugin);
        let hidden = hidden(schema, &settings::layered(schema, environment, Some(&stored.document)), before);
        let own = schema.map(|schema| secret::pointers(schema, &sent)).unwrap_or_default();
        secret::keep(&mut sent, &stored.document, &hidden, &own, &stored.unreadable)
            .map_err(RegistryError::settings)?;
        let whole = settings::layered(schema, environment, Some(&sent));
        if let Some(schema) = schema {
            check(schema, &whole)?;
        }
        let changed = changed(&stored, &sent);
        let mut secrets = schema.map(|schema| secret::pointers(schema, &sent)).unwrap_or_default();
        secrets.extend(before.sealed.keys().cloned());
        let secrets = secret::take(&mut sent, &secrets);
        Ok(CheckedSettings { whole, open: sent, secrets, changed })
    }

    /// Has the plugin's `routes` take the settings in a process of its own. One that does not take them in service
    /// keeps the plugin out of it from the host's next start on.
    async fn try_settings(
        &self,
        plugin: &str,
        schema: Option<&Value>,
        new: &Value,
        before: &Settings,
    ) -> Result<(), RegistryError> {
        // What lies in the folder and does not serve may be waiting for just these.
        let Some(service) = self.snapshot().served_from_folder(plugin) else { return Ok(()) };
        // Those of both: the settings in service may be tried, too, and what is said of it is logged.
        let secrets = &Secrets::from_settings(schema, [new, &service.settings], before.sealed.keys());
        let (Some(new), Some(now)) = (new.as_object(), service.settings.as_object()) else { return Ok(()) };
        let begun = Instant::now();
        let left = || TRIAL_TIME.saturating_sub(begun.elapsed());
        // One plugin's settings that hang must not take all the places that there are.
        let one_at_a_time = self.trials.of_plugin(plugin);
        let _alone = timeout(left(), one_at_a_time.lock())
            .await
            .map_err(|_| not_tried("Other settings of this plugin are being tried and take long.".to_owned()))?;
        let library = service.active.instance.library().fd();
        let prober = &self.activation.loader.services.prober;
        let trial = async |settings: &Map<String, Value>| {
            timeout(left(), prober.try_settings(library, settings, secrets)).await
        };
        let (refusal, fields) = match trial(new).await {
            Ok(SettingsTrial::Taken) => return Ok(()),
            Ok(SettingsTrial::NotTried(refusal)) => return Err(not_tried(refusal.to_string())),
            Err(_) => return Err(not_tried(format!("The settings were not tried within {} s.", TRIAL_TIME.as_secs()))),
            Ok(SettingsTrial::Broke(refusal)) => (refusal, Vec::new()),
            Ok(SettingsTrial::Refused(refusal, fields)) => match trial(now).await {
                // One that does not even take those that it works with needs more than a probe has.
                Ok(SettingsTrial::Refused(..)) => return Ok(()),
                _ => (refusal, fields),
            },
        };
        tracing::info!(plugin, %refusal, "a plugin does not take the settings that it was to get");
        if !fields.is_empty() {
            return Err(RegistryError::settings(fields));
        }
        let reason = refusal.found.unwrap_or(refusal.reason);
        Err(RegistryError::setting("", format!("The plugin does not take these settings: {reason}")))
    }

    fn shown(&self, plugin: &str, schema: Option<Value>, settings: &Settings) -> Configuration {
        let StoredSettings { document, unreadable } = self.policy.stored(plugin, settings);
        let nothing = Value::Object(Map::new());
        let environment = self.policy.environment(plugin).unwrap_or(&nothing);
        let defaults = Value::Object(schema.as_ref().map(manifest::defaults).unwrap_or_default());
        let mut document = document;
        secret::put(&mut document, unreadable.iter().map(|pointer| (pointer.clone(), secret::mask())).collect());
        let whole = settings::layered(schema.as_ref(), Some(environment), Some(&document));
        let masked = |layer: &Value| secret::masked(layer, &hidden(schema.as_ref(), layer, settings));
        Configuration {
            version: settings.version,
            settings: masked(&whole),
            stored: masked(&document),
            environment: masked(environment),
            defaults: masked(&defaults),
            schema,
            unreadable,
        }
    }

    /// The schema of what lies in the plugins folder under this name.
    fn settings_schema(&self, plugin: &str) -> Result<Option<Value>, RegistryError> {
        let snapshot = self.snapshot();
        let in_folder = snapshot.in_folder(plugin).ok_or(RegistryError::NotFound("plugin"))?;
        let manifest = in_folder.manifest.as_ref().ok_or_else(|| {
            let detail = "The plugin's manifest can't be read, so it is not known which settings it has.";
            RegistryError::Conflict(detail.to_owned())
        })?;
        Ok(manifest.settings_schema.clone())
    }
}

fn not_tried(detail: String) -> RegistryError {
    RegistryError::SettingsNotTried { detail, retry_after: RETRY_AFTER }
}

/// What must not be shown of a document: what the schema marks, and what was stored as a secret when an older one did.
fn hidden(schema: Option<&Value>, document: &Value, settings: &Settings) -> BTreeSet<String> {
    let mut hidden = schema.map(|schema| secret::pointers(schema, document)).unwrap_or_default();
    hidden.extend(settings.sealed.keys().cloned());
    hidden
}

fn check(schema: &Value, settings: &Value) -> Result<(), RegistryError> {
    let faults = settings::faults(schema, settings).map_err(|refusal| RegistryError::Conflict(refusal.reason))?;
    if faults.is_empty() { Ok(()) } else { Err(RegistryError::settings(faults)) }
}

/// Settings whose value is another one than before, by their names; whatever takes the place of a secret that can't be
/// read is another one.
fn changed(before: &StoredSettings, now: &Value) -> Vec<String> {
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (old, new) = (members(&before.document), members(now));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let unreadable = before.unreadable.iter().filter_map(|pointer| pointer.split('/').nth(1));
    let mut changed: BTreeSet<String> =
        names.into_iter().filter(|name| old.get(*name) != new.get(*name)).cloned().collect();
    changed.extend(unreadable.map(str::to_owned));
    changed.into_iter().collect()
}
