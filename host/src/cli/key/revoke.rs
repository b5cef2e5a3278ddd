use std::io::Write as _;

use anyhow::Context as _;
use serde_json::json;

use super::keys::{KeySettings, find};

/// Revoke an API key and the keys that were made with it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal key revoke ci
  cardinal key revoke 0199c0de-0000-7000-8000-000000000000 --keep-children")]
pub(super) struct Revoke {
    /// Id of the key, or its name where no other active key has it; never the key itself
    key: String,
    /// Keep the keys that were created with it active
    #[arg(long)]
    keep_children: bool,
    /// Print the key's record as it is afterwards as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: KeySettings,
}

impl Revoke {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let keys = self.settings.read()?;
        let id = find(&keys.list()?, &self.key)?;
        keys.revoke(id, self.keep_children)?;
        let text = if self.json {
            let record = keys.list()?.into_iter().find(|key| key["id"] == json!(id));
            format!("{:#}", json!({"item": record}))
        } else {
            format!("Revoked {id}.")
        };
        writeln!(std::io::stdout(), "{text}").context("writing to standard output")
    }
}
