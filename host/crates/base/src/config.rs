//! Every setting of the host: read once, by the supervisor, from the environment and the command line; the only readers
//! of the environment. The validated [`Config`] crosses the control socket to the worker, whose environment is empty.

use std::path::Path;

use serde::{Deserialize, Serialize};

mod auth;
mod cards;
mod certificate;
mod client;
mod database;
mod http;
mod in_force;
pub mod log_levels;
mod mcp;
mod network;
mod observe;
pub mod own_paths;
mod paths;
mod per_plugin;
mod plugin_networks;
mod plugins;
mod proxy;
mod readable_secrets;
mod reader;
mod secret;
mod tls;

pub use auth::{Auth, DEFAULT_OIDC_MAX_SCOPES};
pub use cards::Cards;
pub use certificate::{Certificate, Validity};
pub use client::{ClientSettings, HostEndpoint, Remote, RemoteSettings};
pub use database::{BootstrapSettings, Database};
pub use http::Http;
pub use log_levels::LogLevels;
pub use mcp::{Confirm, Mcp};
pub use network::{Cidr, is_loopback, is_safe_provider};
pub use observe::{LogFormat, Observe};
pub use paths::{DEV_DATA_DIR, Paths, PluginsDir, program_folders};
pub use per_plugin::{BreakerMode, Execution, PerPlugin};
pub use plugin_networks::PluginNetworks;
pub use plugins::{Plugins, Trust, parse_trust_key};
pub use proxy::{Proxy, ProxyRoute};
pub use readable_secrets::refuse_readable_secrets;
pub use reader::{Fault, SettingsError};
pub use secret::Secret;
pub use tls::{HANDSHAKE_RECORD, TlsError, TlsFiles, TlsPair};

use crate::spelling::nearest;
use reader::Reader;

/// The settings in force. Built by [`Config::read`] only, so whoever holds one may rely on every value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Config {
    pub http: Http,
    pub auth: Auth,
    pub paths: Paths,
    pub database: Database,
    pub plugins: Plugins,
    pub observe: Observe,
    pub proxy: Proxy,
    pub mcp: Mcp,
    pub cards: Cards,
}

/// Every setting as it was typed: each is an environment variable and a flag of the same name.
///
/// All values are plain text here: clap would otherwise print a rejected value itself, secrets included, and stop at
/// the first one. [`Config::read`] judges them all and names each bad one.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Settings {
    #[command(flatten)]
    http: http::Args,
    #[command(flatten)]
    auth: auth::Args,
    #[command(flatten)]
    paths: paths::Args,
    #[command(flatten)]
    database: database::Args,
    #[command(flatten)]
    plugins: plugins::Args,
    #[command(flatten)]
    observe: observe::Args,
    #[command(flatten)]
    proxy: proxy::Args,
    #[command(flatten)]
    mcp: mcp::Args,
    #[command(flatten)]
    cards: cards::Args,
}

/// The settings that lead to a host's database on this machine, for commands that need no others.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct DatabaseSettings {
    #[command(flatten)]
    data_dir: paths::DataDirArg,
    #[command(flatten)]
    database: database::Args,
}

impl DatabaseSettings {
    /// # Errors
    /// All that is wrong, at once.
    pub fn read(&self) -> Result<Config, SettingsError> {
        let settings =
            Settings { paths: self.data_dir.clone().into(), database: self.database.clone(), ..Settings::default() };
        Config::read_with(&settings, std::iter::empty())
    }
}

impl Config {
    /// Validates every setting, reading `PLUGIN_SETTINGS_<NAME>` from this process's environment.
    ///
    /// # Errors
    /// All bad settings at once, each by the name of its variable and flag.
    pub fn read(settings: &Settings) -> Result<Config, SettingsError> {
        Self::read_with(settings, std::env::vars_os())
    }

    /// For a record of how a host was set up, which others may see.
    #[must_use]
    pub fn without_secrets(&self) -> Config {
        let mut config = self.clone();
        config.database.url = None;
        config.auth.bootstrap_password = None;
        config.auth.token_secret = None;
        config.plugins.settings.clear();
        config
    }

    /// Files that secrets were read from, by their settings.
    pub fn secret_files(&self) -> Vec<(&str, &Path)> {
        let files = [
            ("ADMIN_BOOTSTRAP_PASSWORD_FILE", &self.auth.bootstrap_password_file),
            ("ADMIN_TOKEN_SECRET_FILE", &self.auth.token_secret_file),
            ("DATABASE_URL_FILE", &self.database.url_file),
            ("DATABASE_SECRET_FILE", &self.database.secret_file),
        ];
        let files = files.into_iter().filter_map(|(setting, file)| Some((setting, file.as_deref()?)));
        let files = files.chain(self.http.tls.iter().flat_map(TlsFiles::with_a_key).map(|file| ("TLS_KEY", file)));
        let of_plugins = self.plugins.settings_files.iter().map(|(setting, file)| (setting.as_str(), file.as_path()));
        files.chain(of_plugins).collect()
    }

    fn read_with(
        settings: &Settings,
        environment: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    ) -> Result<Config, SettingsError> {
        let mut reader = Reader::default();
        let paths = Paths::read(&settings.paths, &mut reader);
        let config = Config {
            http: Http::read(&settings.http, &mut reader),
            auth: Auth::read(&settings.auth, &mut reader),
            database: Database::read(&settings.database, &mut reader),
            plugins: Plugins::read(&settings.plugins, &paths, environment, &mut reader),
            observe: Observe::read(&settings.observe, &mut reader),
            proxy: Proxy::read(&settings.proxy, &mut reader),
            mcp: Mcp::read(&settings.mcp, &mut reader),
            cards: Cards::read(&settings.cards, &mut reader),
            paths,
        };
        refuse_shared_addresses(&config, &mut reader);
        reader.finish(config)
    }
}

/// Two listeners cannot have one address; the second would say that the port is in use, by this very host.
fn refuse_shared_addresses(config: &Config, reader: &mut Reader) {
    let addresses = [
        ("LISTEN_ADDR", Some(config.http.listen_addr)),
        ("ADMIN_LISTEN_ADDR", config.http.admin_listen_addr),
        ("METRICS_ADDR", config.observe.metrics_addr),
    ];
    for (index, (setting, address)) in addresses.iter().enumerate() {
        let Some(address) = address else { continue };
        let earlier = addresses[..index].iter().filter_map(|(setting, other)| Some((setting, other.as_ref()?)));
        for (taken_by, other) in earlier.filter(|(_, other)| network::share_port(**other, *address)) {
            let problem = format!("{address} overlaps with {taken_by} ({other}): give each listener a port of its own");
            reader.fault(*setting, problem);
        }
    }
}

/// Variables that look like a setting with a slip in its name, each with the setting that was probably meant.
pub fn misspelt() -> Vec<(String, String)> {
    let known = <Settings as clap::Args>::augment_args(clap::Command::new("settings"));
    let known: Vec<&str> = known.get_arguments().filter_map(|it| it.get_env()?.to_str()).collect();
    let slips = std::env::vars_os().filter_map(|(name, _)| {
        let name = name.into_string().ok()?;
        // Short names of others are near to ours by chance.
        let is_candidate = !known.contains(&name.as_str()) && name.len() >= MIN_MISSPELT_LENGTH;
        let meant = if is_candidate { nearest(&name, known.iter().copied())? } else { return None };
        Some((name, meant.to_owned()))
    });
    slips.collect()
}

/// Letters from which a variable's name is compared with those of settings.
const MIN_MISSPELT_LENGTH: usize = 7;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;

/// The environment of this process, for a program that is given a part of it.
pub fn environment() -> impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)> {
    std::env::vars_os()
}
