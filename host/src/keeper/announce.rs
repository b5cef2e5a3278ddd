//! Where this host is found: for people on standard output, for programs in `DATA_DIR/addresses.json`.

use std::io::Write as _;
use std::sync::{Arc, Once};

use anyhow::Context as _;

use super::data_dir::DataDir;
use crate::config::Config;

const ADDRESSES_FILE: &str = "addresses.json";

/// What is told when the first worker is ready; later ones change none of it.
#[derive(Debug, Clone)]
pub struct Announcement {
    text: String,
    told: Arc<Once>,
}

impl Announcement {
    pub fn new(config: &Config) -> Self {
        let base = &config.http.base_url;
        let text = format!("Cardinal is ready.\n  Admin UI     {base}/admin/\n  MCP          {base}/api");
        Self { text, told: Arc::new(Once::new()) }
    }

    /// `first_login` is the name and the place of a password that still lets its owner in.
    pub fn ready(&self, first_login: Option<&str>) {
        self.told.call_once(|| {
            let first_login = first_login.map(|login| format!("\n  First login  {login}")).unwrap_or_default();
            let text = format!("{}{first_login}\n", self.text);
            // A closed standard output must not stop the host.
            let _ = std::io::stdout().write_all(text.as_bytes());
        });
    }
}

/// Leaves the bound addresses where programs on this machine find them, port 0 resolved.
///
/// # Errors
/// The file cannot be written.
pub fn write_addresses(data: &DataDir, config: &Config) -> anyhow::Result<()> {
    let addresses = serde_json::json!({
        "listen": config.http.listen_addr,
        "admin": config.http.admin_listen_addr,
        "metrics": config.observe.metrics_addr,
        "base_url": config.http.base_url,
    });
    data.put(ADDRESSES_FILE, &addresses.to_string()).context("leaving the bound addresses")
}
