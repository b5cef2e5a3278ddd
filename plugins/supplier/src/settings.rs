//! What an operator may set. Defaults, limits and words for people stand in the manifest's `settings_schema`.

use std::time::Duration;

use serde::Deserialize;

use crate::fetch::{Manners, OUR_NAME};

/// Read anew for each call: a change takes effect with the next one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Settings {
    honour_robots: bool,
    delay_ms: u32,
    contact: String,
    cache_ttl_seconds: u32,
    cache_max_pages: u32,
}

impl Settings {
    pub(crate) fn manners(&self) -> Manners {
        let contact = self.contact.trim();
        Manners {
            delay: Duration::from_millis(self.delay_ms.into()),
            honour_robots: self.honour_robots,
            user_agent: if contact.is_empty() { OUR_NAME.to_owned() } else { format!("{OUR_NAME} (+{contact})") },
        }
    }

    /// How long a page that was read counts as fresh.
    pub(crate) fn lifetime(&self) -> Duration {
        Duration::from_secs(self.cache_ttl_seconds.into())
    }

    pub(crate) fn max_pages(&self) -> i64 {
        self.cache_max_pages.into()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cardinal_plugin::testing::check_settings;
    use serde_json::{Map, Value};

    use super::*;

    /// The host opens private networks to the plugin by it.
    const READ_BY_THE_HOST: &str = "allow_private_addresses";

    fn defaults() -> Map<String, Value> {
        let manifest: Value = serde_json::from_str(include_str!("../manifest.json")).unwrap();
        let fields = manifest["settings_schema"]["properties"].as_object().unwrap();
        fields.iter().map(|(name, field)| (name.clone(), field["default"].clone())).collect()
    }

    #[test]
    fn settings_are_what_the_manifest_says() {
        check_settings::<Settings>(include_str!("../manifest.json"), &[READ_BY_THE_HOST]);
        let settings: Settings = serde_json::from_value(defaults().into()).unwrap();
        assert!(settings.manners().honour_robots && !settings.manners().delay.is_zero());
    }

    #[test]
    fn who_to_write_to_is_told_when_it_is_known() {
        let mut settings: Settings = serde_json::from_value(defaults().into()).unwrap();
        assert_eq!(settings.manners().user_agent, OUR_NAME);
        settings.contact = " https://example.org/robot ".to_owned();
        assert_eq!(settings.manners().user_agent, format!("{OUR_NAME} (+https://example.org/robot)"));
    }
}
