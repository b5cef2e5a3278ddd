//! An operator's settings for a plugin: the schema's defaults, below what the environment says,
//! below what is stored. Pure.

use serde_json::{Map, Value};

use super::state::{Code, Refusal};

/// The settings that an instance is given.
pub fn resolve(schema: Option<&Value>, environment: Option<&Value>, stored: Option<&Value>) -> Result<Value, Refusal> {
    let mut settings = schema.map(defaults).unwrap_or_default();
    for layer in [environment, stored].into_iter().flatten().filter_map(Value::as_object) {
        settings.extend(layer.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    let settings = Value::Object(settings);
    if let Some(schema) = schema {
        check(schema, &settings)?;
    }
    Ok(settings)
}

/// The defaults of the schema's own properties.
fn defaults(schema: &Value) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let default = |(name, property): (&String, &Value)| Some((name.clone(), property.get("default")?.clone()));
    properties.into_iter().flatten().filter_map(default).collect()
}

/// Values are not repeated in the message: settings may hold credentials.
fn check(schema: &Value, settings: &Value) -> Result<(), Refusal> {
    let validator = jsonschema::validator_for(schema).map_err(|error| {
        Refusal::new(Code::BadManifest, "settings_schema is not a JSON Schema.").found(error.to_string())
    })?;
    let places: Vec<_> = validator
        .iter_errors(settings)
        .map(|error| format!("{} ({})", error.instance_path(), error.masked()))
        .collect();
    if places.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(Code::SettingsInvalid, "The plugin's settings do not fit its settings_schema.")
        .found(places.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_stored_wins_over_the_environment_and_that_over_defaults() {
        let schema = json!({"properties": {"a": {"default": 1}, "b": {"default": 1}, "c": {"default": 1}, "d": {}}});
        let settings = resolve(Some(&schema), Some(&json!({"b": 2, "c": 2})), Some(&json!({"c": 3}))).unwrap();
        assert_eq!(settings, json!({"a": 1, "b": 2, "c": 3}));
        assert_eq!(resolve(None, None, None).unwrap(), json!({}));
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
