//! A type for settings, held against the manifest's `settings_schema`.

use serde::{
    Deserializer,
    de::{self, DeserializeOwned, Visitor},
};
use serde_json::{Map, Value};

/// Compares the type that a plugin reads its settings as with `settings_schema`: every property is a field of `T`,
/// every field a property, and `T` accepts the defaults and the bounds (`minimum`, `maximum`, each value of an `enum`).
///
/// `manifest` is the text of `manifest.json`. `elsewhere` names properties that something else reads, such as
/// `allow_private_addresses`, which is the host's. A type with `#[serde(flatten)]` does not say what its fields are:
/// then only values are compared.
///
/// ```
/// use cardinal_plugin::testing::check_settings;
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Settings {
///     longest_note: u16,
/// }
///
/// let manifest = r#"{ "settings_schema": { "properties": {
///     "longest_note": { "type": "integer", "minimum": 1, "maximum": 10000, "default": 2000 } } } }"#;
/// check_settings::<Settings>(manifest, &[]);
/// ```
///
/// # Panics
/// When they differ, with all that differs.
pub fn check_settings<T: DeserializeOwned>(manifest: &str, elsewhere: &[&str]) {
    let faults = faults::<T>(manifest, elsewhere);
    assert!(faults.is_empty(), "the type for settings and settings_schema differ:\n{}", faults.join("\n"));
}

fn faults<T: DeserializeOwned>(manifest: &str, elsewhere: &[&str]) -> Vec<String> {
    let manifest: Value = match serde_json::from_str(manifest) {
        Ok(manifest) => manifest,
        Err(error) => return vec![format!("manifest.json cannot be read: {error}")],
    };
    let none = Map::new();
    let properties = manifest["settings_schema"]["properties"].as_object().unwrap_or(&none);
    let mut faults = Vec::new();
    if let Err(Fields::Of(fields)) = T::deserialize(Probe) {
        let unread =
            properties.keys().filter(|name| !fields.contains(&name.as_str()) && !elsewhere.contains(&name.as_str()));
        faults.extend(unread.map(|name| format!("no field of the type reads the property `{name}`")));
        let unknown = fields.iter().filter(|name| !properties.contains_key(**name));
        faults.extend(
            unknown.map(|name| format!("no property of settings_schema is called `{name}`, as a field of the type is")),
        );
    }
    let defaults: Map<String, Value> = properties
        .iter()
        .filter_map(|(name, property)| Some((name.clone(), property.get("default")?.clone())))
        .collect();
    let read = |all: Map<String, Value>| serde_json::from_value::<T>(Value::Object(all)).err();
    if let Some(error) = read(defaults.clone()) {
        faults.push(format!("the type does not take the defaults: {error}"));
        return faults;
    }
    for (name, property) in properties {
        for value in extremes(property) {
            let mut all = defaults.clone();
            all.insert(name.clone(), value.clone());
            if let Some(error) = read(all) {
                faults.push(format!("settings_schema allows {value} for `{name}`, the type does not: {error}"));
            }
        }
    }
    faults
}

/// Values at the bounds of what a property allows.
fn extremes(property: &Value) -> impl Iterator<Item = Value> {
    let bounds = ["minimum", "maximum"].into_iter().filter_map(|name| property.get(name).cloned());
    bounds.chain(property["enum"].as_array().cloned().unwrap_or_default())
}

/// Asks a type which fields it has, and gives it nothing.
struct Probe;

/// What the type says of itself.
#[derive(Debug)]
enum Fields {
    Of(&'static [&'static str]),
    /// It is read as something else than a struct, as with `#[serde(flatten)]`.
    Unknown,
}

impl std::fmt::Display for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the fields of a type")
    }
}

impl std::error::Error for Fields {}

impl de::Error for Fields {
    fn custom<M: std::fmt::Display>(_: M) -> Self {
        Self::Unknown
    }
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Fields;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fields> {
        Err(Fields::Unknown)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Fields> {
        Err(Fields::Of(fields))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Settings {
        pause: u8,
        order: Order,
        label: Option<String>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Order {
        Up,
    }

    fn said(properties: &str) -> Vec<String> {
        faults::<Settings>(
            &format!(r#"{{ "settings_schema": {{ "properties": {{ {properties} }} }} }}"#),
            &["host_own"],
        )
    }

    #[test]
    fn every_difference_is_named() {
        let good = r#""pause": { "minimum": 0, "maximum": 255, "default": 1 }, "order": { "enum": ["up"], "default": "up" },
            "label": {}, "host_own": { "default": true }"#;
        assert_eq!(said(good), [""; 0]);
        let found = said(
            r#""pause": { "minimum": -1, "maximum": 256, "default": 1 }, "order": { "enum": ["up", "down"], "default": "up" },
            "labels": {}"#,
        );
        let expected =
            ["property `labels`", "called `label`", "-1 for `pause`", "256 for `pause`", "\"down\" for `order`"];
        for part in expected {
            assert!(found.iter().any(|fault| fault.contains(part)), "{part}: {found:#?}");
        }
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        assert!(said(r#""pause": {}"#).iter().any(|fault| fault.contains("does not take the defaults")));
    }
}
