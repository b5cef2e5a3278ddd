//! The operator's rules; defaults and limits stand in the manifest's `settings_schema`.

use cardinal_plugin::Result;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Read anew for each call.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Settings {
    pub required_attributes: Vec<String>,
    pub min_description: u32,
    pub min_pictures: u32,
    pub wanted_kinds: Vec<String>,
    pub count_sources: bool,
    pub weight_attribute: u32,
    pub weight_description: u32,
    pub weight_pictures: u32,
    pub weight_kind: u32,
    /// What lists show; a score does not depend on it.
    #[serde(skip_serializing)]
    pub statuses: Vec<String>,
    pub write_to_cards: bool,
}

impl Settings {
    /// Another text for each set of rules: scores by other rules are computed anew.
    pub(crate) fn fingerprint(&self) -> Result<String> {
        let digest = Sha256::digest(serde_json::to_vec(self)?);
        Ok(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use serde_json::{Map, Value};

    use super::Settings;

    pub(crate) fn with(settings: &Value) -> Settings {
        let manifest: Value = serde_json::from_str(include_str!("../manifest.json")).unwrap();
        let fields = manifest["settings_schema"]["properties"].as_object().unwrap();
        let mut all: Map<String, Value> =
            fields.iter().map(|(name, field)| (name.clone(), field["default"].clone())).collect();
        all.extend(settings.as_object().cloned().unwrap_or_default());
        serde_json::from_value(all.into()).unwrap()
    }

    #[test]
    fn the_defaults_of_the_manifest_are_settings_and_nothing_is_left_over() {
        let manifest: Value = serde_json::from_str(include_str!("../manifest.json")).unwrap();
        let fields = manifest["settings_schema"]["properties"].as_object().unwrap();
        with(&Value::Null);
        for name in fields.keys() {
            let all = fields.iter().filter(|(own, _)| *own != name);
            let fewer: Map<String, Value> = all.map(|(name, field)| (name.clone(), field["default"].clone())).collect();
            assert!(serde_json::from_value::<Settings>(fewer.into()).is_err(), "nobody reads `{name}`");
        }
    }

    #[test]
    fn rules_have_fingerprints_and_what_lists_show_is_no_rule() {
        let fingerprint = |settings: Value| with(&settings).fingerprint().unwrap();
        let usual = fingerprint(Value::Null);
        assert_eq!(fingerprint(serde_json::json!({ "statuses": ["archived"] })), usual);
        assert_ne!(fingerprint(serde_json::json!({ "min_pictures": 2 })), usual);
    }
}
