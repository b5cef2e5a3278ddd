//! What an operator may set; defaults and limits stand in the manifest's `settings_schema`.

use serde::Deserialize;

/// Read anew for each call.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Settings {
    max_mebibytes: u32,
    max_megapixels: u32,
    max_thumbnails: u32,
    pub keep_days: i32,
}

impl Settings {
    pub(crate) fn max_bytes(&self) -> usize {
        usize::try_from(self.max_mebibytes).unwrap_or(1) << 20
    }

    pub(crate) fn max_pixels(&self) -> u64 {
        u64::from(self.max_megapixels) * 1_000_000
    }

    pub(crate) fn max_thumbnails(&self) -> i64 {
        self.max_thumbnails.into()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Map, Value};

    use super::Settings;

    /// The host opens private networks to the plugin by it.
    const READ_BY_THE_HOST: &str = "allow_private_addresses";

    #[test]
    fn the_defaults_of_the_manifest_are_settings_and_nothing_is_left_over() {
        let manifest: Value = serde_json::from_str(include_str!("../manifest.json")).unwrap();
        let fields = manifest["settings_schema"]["properties"].as_object().unwrap();
        let defaults: Map<String, Value> =
            fields.iter().map(|(name, field)| (name.clone(), field["default"].clone())).collect();
        serde_json::from_value::<Settings>(defaults.clone().into()).unwrap();
        assert_eq!(defaults[READ_BY_THE_HOST], false);
        for name in defaults.keys().filter(|name| *name != READ_BY_THE_HOST) {
            let mut fewer = defaults.clone();
            fewer.remove(name);
            assert!(serde_json::from_value::<Settings>(fewer.into()).is_err(), "nobody reads `{name}`");
        }
    }
}
