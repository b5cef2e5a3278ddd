use std::io::Write as _;

use anyhow::Context as _;
use http::Method;
use serde_json::json;

use crate::cli::client::Client;
use cardinal_base::config::ClientSettings;

/// Create an API key and print it once
///
/// Standard output is the key alone, so that it can go into a file or a variable. On the host's own machine no
/// credential is needed: the key then belongs to the owner who has been there longest.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal key create --name ci --scopes cards:read
  cardinal key create --name assistant --scopes mcp:use,cards:read,plugin:supplier:write --mcp-only
  (umask 077; cardinal key create --name shop --scopes 'cards:*,plugin:*:write' --expires-in-days 90 > shop.key)
  CARDINAL_API_KEY=mpk_... cardinal key create --url https://shop.example.com --name reader --scopes cards:read --json")]
pub(super) struct Create {
    /// What the key is for, as lists and the audit log show it
    #[arg(long)]
    name: String,
    /// What it may do, e.g. cards:read,plugin:supplier:write
    #[arg(long, required = true, value_delimiter = ',', alias = "scope")]
    scopes: Vec<String>,
    /// Days until the key expires [default: never]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=3_650))]
    expires_in_days: Option<u32>,
    /// Requests per minute [default: API_KEY_RATE_PER_MINUTE]
    #[arg(long, value_name = "NUMBER")]
    rate_per_minute: Option<u32>,
    /// Burst size [default: a tenth of the requests per minute]
    #[arg(long, value_name = "NUMBER", requires = "rate_per_minute")]
    burst: Option<u32>,
    /// Restrict the key to the MCP endpoint
    #[arg(long)]
    mcp_only: bool,
    /// Print the key and its record as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: ClientSettings,
}

impl Create {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        crate::cli::runtime()?.block_on(self.create())
    }

    async fn create(&self) -> anyhow::Result<()> {
        let client = Client::new(&self.host.read()?)?;
        let mut body = json!({"name": self.name, "scopes": self.scopes});
        if self.mcp_only {
            body["mcp_only"] = json!(true);
        }
        if let Some(days) = self.expires_in_days {
            body["expires_in_days"] = json!(days);
        }
        if let Some(per_minute) = self.rate_per_minute {
            body["rate_limit"] = json!({"per_minute": per_minute});
            if let Some(burst) = self.burst {
                body["rate_limit"]["burst"] = json!(burst);
            }
        }
        let made = client.ask(Method::POST, "/v1/admin/api-keys", Some(&body)).await?;
        let text = match made["key"].as_str() {
            Some(key) if !self.json => key.to_owned(),
            _ => serde_json::to_string_pretty(&made)?,
        };
        writeln!(std::io::stdout(), "{text}").context("writing to standard output")
    }
}
