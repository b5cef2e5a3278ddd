//! What an operator can set. `settings_schema` in manifest.json says what is allowed and holds the defaults.

use serde::Deserialize;

#[derive(Deserialize)]
pub struct Settings {
    /// Characters of a note.
    pub longest_note: usize,
}

#[cfg(test)]
mod tests {
    use cardinal_plugin::testing::check_settings;

    use super::Settings;

    #[test]
    fn settings_are_what_the_manifest_says() {
        check_settings::<Settings>(include_str!("../manifest.json"), &[]);
    }
}
