//! What an operator can set. `settings_schema` in manifest.json says what is allowed and holds the defaults.

use serde::Deserialize;

#[derive(Deserialize)]
pub struct Settings {
    /// Characters of a note.
    pub longest_note: usize,
}
