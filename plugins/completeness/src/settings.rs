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
    use cardinal_plugin::testing::check_settings;
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
    fn settings_are_what_the_manifest_says() {
        check_settings::<Settings>(include_str!("../manifest.json"), &[]);
    }

    #[test]
    fn rules_have_fingerprints_and_what_lists_show_is_no_rule() {
        let fingerprint = |settings: Value| with(&settings).fingerprint().unwrap();
        let usual = fingerprint(Value::Null);
        assert_eq!(fingerprint(serde_json::json!({ "statuses": ["archived"] })), usual);
        assert_ne!(fingerprint(serde_json::json!({ "min_pictures": 2 })), usual);
    }
}
