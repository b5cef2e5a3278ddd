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
mod tests {
    use cardinal_plugin::testing::check_settings;

    use super::Settings;

    #[test]
    fn settings_are_what_the_manifest_says() {
        // The host opens private networks to the plugin by the other one.
        check_settings::<Settings>(include_str!("../manifest.json"), &["allow_private_addresses"]);
    }
}
