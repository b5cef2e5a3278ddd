//! An operator's settings for a plugin: the schema's defaults, below what the environment says, below what is stored.
//! Objects are laid over each other member by member. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use cardinal_base::{
    config::PluginNetworks,
    seal::{SealingKey, settings_place},
    spelling::nearest,
};
use cardinal_package::{
    manifest::defaults,
    refusal::{Code, Refusal},
};

use crate::whole_numbers;

pub(crate) mod quoted;
pub mod secret;

/// What is stored for a plugin, opened.
pub(crate) struct StoredSettings {
    /// With the secrets in it that could be read.
    pub document: Value,
    /// Secrets that were stored with another key.
    pub unreadable: BTreeSet<String>,
}

impl StoredSettings {
    /// Opens what is stored for a plugin: an object, and its secrets by JSON pointer.
    pub(crate) fn open(plugin: &str, settings: &Value, sealed: &BTreeMap<String, String>, key: &SealingKey) -> Self {
        let (mut document, mut secrets, mut unreadable) = (settings.clone(), BTreeMap::new(), BTreeSet::new());
        for (pointer, text) in sealed {
            let value =
                key.open(&settings_place(plugin, pointer), text).ok().and_then(|it| serde_json::from_slice(&it).ok());
            match value {
                Some(value) => drop(secrets.insert(pointer.clone(), value)),
                None => drop(unreadable.insert(pointer.clone())),
            }
        }
        secret::put(&mut document, secrets);
        Self { document, unreadable }
    }

    /// The document, unless something of it can't be read.
    pub(crate) fn whole(&self) -> Result<&Value, Refusal> {
        if self.unreadable.is_empty() {
            return Ok(&self.document);
        }
        let places: Vec<&str> = self.unreadable.iter().map(String::as_str).collect();
        Err(Refusal::new(Code::SettingsInvalid, "Secret settings of the plugin were stored with another key.")
            .expected("settings that this host's database secret opens")
            .found(places.join(", "))
            .fix("Give these settings again; or restore from a backup that was made with its secrets."))
    }
}

/// Seals the secrets of a plugin's settings, each for its place.
///
/// # Errors
/// The system has no random numbers.
pub fn seal(
    plugin: &str,
    secrets: BTreeMap<String, Value>,
    key: &SealingKey,
) -> anyhow::Result<BTreeMap<String, String>> {
    let seal = |(pointer, value): (String, Value)| {
        let text = key.seal(&settings_place(plugin, &pointer), value.to_string().as_bytes())?;
        Ok((pointer, text))
    };
    secrets.into_iter().map(seal).collect()
}

/// The settings that an instance is given.
pub fn resolve(schema: Option<&Value>, environment: Option<&Value>, stored: Option<&Value>) -> Result<Value, Refusal> {
    let mut settings = layered(schema, environment, stored);
    let Some(schema) = schema else { return Ok(settings) };
    if let (Some(schema), Some(settings)) = (schema.as_object(), settings.as_object_mut()) {
        whole_numbers::fit(schema, settings);
    }
    let faults = faults(schema, &settings)?;
    if faults.is_empty() {
        return Ok(settings);
    }
    let (default_faults, set): (Vec<_>, Vec<_>) =
        faults.iter().partition(|(pointer, _)| is_default(schema, environment, stored, pointer));
    let refusal = match (default_faults.is_empty(), set.is_empty()) {
        (true, _) => Refusal::new(Code::SettingsInvalid, "The plugin's settings do not fit its settings_schema."),
        (false, is_alone) => {
            let pointers: Vec<&str> = default_faults.iter().map(|(pointer, _)| pointer.as_str()).collect();
            let pointers = pointers.join(", ");
            let others = if is_alone { "" } else { " The other settings are the operator's to correct." };
            Refusal::new(Code::SettingsInvalid, "A default in settings_schema does not fit settings_schema itself.")
                .fix(format!("Correct the default of {pointers} in settings_schema of manifest.json.{others}"))
        }
    };
    let places: Vec<String> = faults.iter().map(|(pointer, detail)| format!("{pointer} ({detail})")).collect();
    Err(refusal.expected("settings that fit settings_schema").found(places.join("; ")))
}

/// Whether the value there comes from the schema. An object may lack what an operator has to set: that is no default's
/// fault.
fn is_default(schema: &Value, environment: Option<&Value>, stored: Option<&Value>, pointer: &str) -> bool {
    let is_set = [environment, stored].into_iter().flatten().any(|layer| layer.pointer(pointer).is_some());
    let defaults = Value::Object(defaults(schema));
    !is_set && defaults.pointer(pointer).is_some_and(|value| !value.is_object())
}

/// All layers as one, unchecked.
pub(crate) fn layered(schema: Option<&Value>, environment: Option<&Value>, stored: Option<&Value>) -> Value {
    let mut settings = schema.map(defaults).unwrap_or_default();
    for layer in [environment, stored].into_iter().flatten().filter_map(Value::as_object) {
        merge(&mut settings, layer);
    }
    Value::Object(settings)
}

fn merge(below: &mut Map<String, Value>, above: &Map<String, Value>) {
    for (name, value) in above {
        match (below.get_mut(name), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge(below, above),
            _ => drop(below.insert(name.clone(), value.clone())),
        }
    }
}

/// What is wrong with settings, by JSON pointer. Values are not repeated: they may be credentials.
pub fn faults(schema: &Value, settings: &Value) -> Result<Vec<(String, String)>, Refusal> {
    let validator = jsonschema::validator_for(schema).map_err(|error| {
        Refusal::new(Code::BadManifest, "settings_schema is not a JSON Schema.")
            .expected("a JSON Schema")
            .found(error.to_string())
    })?;
    let fault = |error: jsonschema::ValidationError<'_>| (error.instance_path().to_string(), in_words(&error));
    Ok(validator.iter_errors(settings).take(REPORTED).map(fault).collect())
}

/// For whoever types the value; without it.
fn in_words(error: &jsonschema::ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Minimum { limit } => format!("Enter {limit} or more."),
        ValidationErrorKind::Maximum { limit } => format!("Enter {limit} or less."),
        _ => error.masked().to_string(),
    }
}

/// Faults that are reported together.
const REPORTED: usize = 100;

/// The setting by which an operator opens private networks to a plugin that declares it.
const PRIVATE_NETWORKS: &str = "allow_private_addresses";

/// Whether the settings open all private networks to the plugin. Only an operator's word counts: where the manifest's
/// own default is not `false`, nobody knows whose word it is.
pub(crate) fn open_private_networks(schema: Option<&Value>, settings: &Value) -> bool {
    let default = schema.and_then(|schema| schema.get("properties")?.get(PRIVATE_NETWORKS)?.get("default"));
    default == Some(&Value::Bool(false)) && settings.get(PRIVATE_NETWORKS) == Some(&Value::Bool(true))
}

/// What an operator said of a plugin that is not there: a slip in a name changes nothing.
#[derive(Debug, PartialEq, Eq)]
pub struct UnusedSetting {
    /// The variable that says it.
    pub variable: String,
    pub message: String,
    /// What was meant, it seems.
    pub guess: Option<String>,
}

/// Each `PLUGIN_SETTINGS_<NAME>`, and each name in `PLUGIN_NETWORKS`, of a plugin that is not among `plugins`.
pub fn find_unused(
    settings: &BTreeMap<String, Value>,
    networks: &PluginNetworks,
    plugins: &[&str],
) -> Vec<UnusedSetting> {
    let variable = |name: &str| format!("PLUGIN_SETTINGS_{}", name.replace('-', "_").to_ascii_uppercase());
    let known: Vec<String> = plugins.iter().map(|name| variable(name)).collect();
    let set = settings.keys().map(|name| variable(name)).filter(|name| !known.contains(name));
    let settings = set.map(|variable| UnusedSetting {
        message: "No plugin of this name is in PLUGINS_DIR, so the setting has no effect.".to_owned(),
        guess: nearest(&variable, known.iter().map(String::as_str)).map(str::to_owned),
        variable,
    });
    let named = networks.names().filter(|name| !plugins.contains(name));
    let networks = named.map(|name| UnusedSetting {
        variable: "PLUGIN_NETWORKS".to_owned(),
        message: format!("PLUGIN_NETWORKS names the plugin `{name}`, which is not in PLUGINS_DIR."),
        guess: nearest(name, plugins.iter().copied()).map(str::to_owned),
    });
    settings.chain(networks).collect()
}

/// Logs each of those.
pub fn warn_of_no_plugin(settings: &BTreeMap<String, Value>, networks: &PluginNetworks, plugins: &[&str]) {
    for UnusedSetting { variable, message, guess } in find_unused(settings, networks, plugins) {
        let guess = guess.map(|name| format!(" Did you mean `{name}`?")).unwrap_or_default();
        tracing::warn!(variable, "{message}{guess}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_of_no_plugin_are_named_with_what_was_meant() {
        let settings = ["suplier", "price_watch", "other"].map(|name| (name.to_owned(), json!({})));
        let found = find_unused(&settings.into(), &PluginNetworks::default(), &["supplier", "price-watch"]);
        let found: Vec<_> = found.iter().map(|it| (it.variable.as_str(), it.guess.as_deref())).collect();
        let expected = [("PLUGIN_SETTINGS_OTHER", None), ("PLUGIN_SETTINGS_SUPLIER", Some("PLUGIN_SETTINGS_SUPPLIER"))];
        assert_eq!(found, expected);
    }

    #[test]
    fn private_networks_are_opened_by_an_operator_alone() {
        let schema = |default: Value| json!({"properties": {"allow_private_addresses": {"default": default}}});
        let (on, off) = (json!({"allow_private_addresses": true}), json!({"allow_private_addresses": false}));
        assert!(open_private_networks(Some(&schema(json!(false))), &on));
        assert!(!open_private_networks(Some(&schema(json!(false))), &off));
        assert!(!open_private_networks(Some(&schema(json!(true))), &on));
        assert!(!open_private_networks(Some(&json!({})), &on) && !open_private_networks(None, &on));
    }

    #[test]
    fn what_is_stored_wins_over_the_environment_and_that_over_defaults() {
        let schema = json!({"properties": {"a": {"default": 1}, "b": {"default": 1}, "c": {"default": 1}, "d": {}}});
        let settings = resolve(Some(&schema), Some(&json!({"b": 2, "c": 2})), Some(&json!({"c": 3}))).unwrap();
        assert_eq!(settings, json!({"a": 1, "b": 2, "c": 3}));
        assert_eq!(resolve(None, None, None).unwrap(), json!({}));
    }

    #[test]
    fn integers_are_given_as_such_however_they_are_written() {
        let schema =
            json!({"properties": {"delay_ms": {"type": "integer", "default": 1e3}, "rate": {"type": "number"}}});
        let settings = resolve(Some(&schema), Some(&json!({"rate": 2.0})), None).unwrap();
        assert_eq!(settings.to_string(), r#"{"delay_ms":1000,"rate":2.0}"#);
    }

    #[test]
    fn objects_are_laid_over_each_other_member_by_member() {
        let environment = json!({"smtp": {"host": "a", "port": 25}, "list": [1, 2]});
        let stored = json!({"smtp": {"host": "b"}, "list": [3]});
        let settings = resolve(None, Some(&environment), Some(&stored)).unwrap();
        assert_eq!(settings, json!({"smtp": {"host": "b", "port": 25}, "list": [3]}));
    }

    #[test]
    fn secrets_are_sealed_for_their_plugin_and_place() {
        let key = |secret: &str| SealingKey::derive(&cardinal_base::config::Secret::new(secret));
        let secrets = BTreeMap::from([("/smtp/password".to_owned(), json!("hunter2"))]);
        let sealed = seal("echo", secrets, &key("one")).unwrap();
        let open = json!({"smtp": {"host": "h"}});
        let stored = StoredSettings::open("echo", &open, &sealed, &key("one"));
        assert_eq!(stored.whole().unwrap(), &json!({"smtp": {"host": "h", "password": "hunter2"}}));
        for (plugin, secret) in [("other", "one"), ("echo", "two")] {
            let stored = StoredSettings::open(plugin, &open, &sealed, &key(secret));
            assert_eq!(stored.document, open);
            let refusal = stored.whole().unwrap_err();
            assert_eq!((refusal.code, refusal.found.as_deref()), (Code::SettingsInvalid, Some("/smtp/password")));
        }
    }

    #[test]
    fn a_bound_is_said_as_what_to_enter() {
        let schema = json!({"properties": {"pages": {"type": "integer", "minimum": 1, "maximum": 9}}});
        let said = |pages| faults(&schema, &json!({"pages": pages})).unwrap();
        assert_eq!(said(0), [("/pages".to_owned(), "Enter 1 or more.".to_owned())]);
        assert_eq!(said(10), [("/pages".to_owned(), "Enter 9 or less.".to_owned())]);
    }

    #[test]
    fn a_default_that_does_not_fit_is_the_manifests_fault() {
        let schema = json!({"type": "object", "required": ["token"], "properties": {
            "longest": {"type": "integer", "minimum": 1, "default": 0}, "smtp": {"type": "object", "default": {},
                "required": ["host"]}, "token": {}}});
        let (full, token) = (json!({"token": 1, "smtp": {"host": "h"}}), json!({"smtp": {"host": "h"}}));
        let refusal = resolve(Some(&schema), None, Some(&full)).unwrap_err();
        assert_eq!(refusal.fix, "Correct the default of /longest in settings_schema of manifest.json.");
        assert!(refusal.reason.starts_with("A default in settings_schema") && refusal.found.is_some(), "{refusal}");
        let refusal = resolve(Some(&schema), Some(&token), None).unwrap_err();
        assert!(refusal.fix.ends_with("manifest.json. The other settings are the operator's to correct."), "{refusal}");
        // Set below the minimum, or not set at all: the operator's.
        for set in [json!({"longest": 0, "token": 1, "smtp": {"host": "h"}}), json!({"longest": 1, "token": 1})] {
            let refusal = resolve(Some(&schema), None, Some(&set)).unwrap_err();
            assert_eq!(refusal.fix, "Correct the plugin's settings.", "{set}");
        }
    }

    #[test]
    fn settings_that_do_not_fit_are_refused_without_being_shown() {
        let schema =
            json!({"type": "object", "properties": {"token": {"type": "integer"}}, "additionalProperties": false});
        let refusal = resolve(Some(&schema), Some(&json!({"token": "hunter2"})), None).unwrap_err();
        assert_eq!(refusal.code, Code::SettingsInvalid);
        let found = refusal.found.unwrap();
        assert!(found.contains("/token") && !found.contains("hunter2"), "{found}");
        assert!(resolve(Some(&schema), Some(&json!({"tokem": 1})), None).is_err());
    }
}
