use std::io::Write as _;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::keys::{KeySettings, state};
use crate::cli::table::table;

/// List API keys, never the keys themselves
///
/// On the host's own machine everybody's keys, beside a running host and with the host stopped; with --url or a key
/// those that the key may see.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal key list
  cardinal key list --json | jq -r '.items[] | select(.last_used_at == null) | .name'
  CARDINAL_API_KEY=mpk_... cardinal key list --url https://shop.example.com")]
pub(super) struct List {
    /// Print everything that is known of the keys as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: KeySettings,
}

impl List {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let keys = self.settings.read()?.list()?;
        let text = if self.json {
            serde_json::to_string_pretty(&json!({"items": keys}))? + "\n"
        } else {
            let lines: Vec<[String; 8]> = keys.iter().map(line).collect();
            table(["NAME", "KEY", "STATE", "EXPIRES", "LAST USED", "USE", "ID", "SCOPES"], &lines)
        };
        std::io::stdout().write_all(text.as_bytes()).context("writing to standard output")
    }
}

fn line(key: &Value) -> [String; 8] {
    let text = |member: &str| key[member].as_str().unwrap_or_default().to_owned();
    // To the second; JSON has the rest.
    let time =
        |member: &str| key[member].as_str().map_or_else(|| "never".to_owned(), |at| at.chars().take(19).collect());
    let scopes: Vec<&str> = key["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let scopes = scopes.join(",");
    [
        text("name"),
        text("key_hint"),
        state(key).to_owned(),
        time("expires_at"),
        time("last_used_at"),
        if key["mcp_only"] == true { "MCP" } else { "all" }.to_owned(),
        text("id"),
        scopes,
    ]
}
