//! Where this host is found: for people on standard output, for programs in `DATA_DIR/addresses.json`.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Once};

use anyhow::Context as _;

use crate::data_dir::DataDir;
use cardinal_base::config::{Config, Secret};

const ADDRESSES_FILE: &str = "addresses.json";

/// What is announced when the first worker is ready; later ones change none of it.
#[derive(Debug, Clone)]
pub(crate) struct Announcement {
    text: String,
    name: String,
    made_up: Option<Secret>,
    announced: Arc<Once>,
}

impl Announcement {
    pub(crate) fn new(config: &Config) -> Self {
        let base = &config.http.base_url;
        let text = format!("Cardinal is ready.\n  Admin UI     {base}/admin/\n  MCP          {base}/api");
        let name = config.auth.bootstrap_username.as_deref().unwrap_or("admin");
        Self { text, name: name.to_owned(), made_up: None, announced: Arc::new(Once::new()) }
    }

    /// The first user's password that was made up, or that it is nobody's after all.
    pub(crate) fn made_up(&mut self, password: Option<Secret>) {
        self.made_up = password;
    }

    /// `first_login` is the name and the place of a password that still lets its owner in.
    pub(crate) fn ready(&self, first_login: Option<&str>) {
        self.announced.call_once(|| {
            let first_login = first_login.map(|login| format!("\n  First login  {login}")).unwrap_or_default();
            let text = format!("{}{first_login}\n", self.text);
            // A closed standard output must not stop the host.
            let _ = std::io::stdout().write_all(text.as_bytes());
        });
    }
}

impl Announcement {
    /// A password is shown to a person at a terminal only, never written to a log.
    pub(crate) fn print_to_terminal(&mut self) {
        let mut terminal = std::io::stderr();
        if let Some(password) = self.made_up.take().filter(|_| terminal.is_terminal()) {
            let _ = writeln!(terminal, "\n  First login:  {}  {}\n", self.name, password.expose());
        }
    }
}

/// Leaves the bound addresses where programs on this machine find them, port 0 resolved.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_addresses(data: &DataDir, config: &Config) -> anyhow::Result<()> {
    let addresses = serde_json::json!({
        "listen": config.http.listen_addr,
        "admin": config.http.admin_listen_addr,
        "metrics": config.observe.metrics_addr,
        "base_url": config.http.base_url,
    });
    data.put(ADDRESSES_FILE, &addresses.to_string()).context("leaving the bound addresses")
}
