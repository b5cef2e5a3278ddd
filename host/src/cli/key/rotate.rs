use std::io::Write as _;

use anyhow::Context as _;

use super::keys::{KeySettings, find};
use cardinal_serve::api::api_keys::MAX_OVERLAP;

/// Replace an API key with a new one and print it once
///
/// Standard output is the new key alone, so that it can go into a file or a variable. Name, scopes, owner, limits and
/// the end of its life are those of the old key.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal key rotate ci
  (umask 077; cardinal key rotate shop --overlap-seconds 3600 > shop.key)")]
pub(super) struct Rotate {
    /// Id of the key, or its name where no other active key has it; never the key itself
    key: String,
    /// Seconds that the old key goes on working, up to a week
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=MAX_OVERLAP))]
    overlap_seconds: u32,
    /// Print the key and its record as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: KeySettings,
}

impl Rotate {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let keys = self.settings.read()?;
        let id = find(&keys.list()?, &self.key)?;
        let made = keys.rotate(id, self.overlap_seconds)?;
        let text = match made["key"].as_str() {
            Some(key) if !self.json => key.to_owned(),
            _ => serde_json::to_string_pretty(&made)?,
        };
        writeln!(std::io::stdout(), "{text}").context("writing to standard output")
    }
}
