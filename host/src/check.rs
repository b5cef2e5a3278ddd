//! `cardinal check`: whether a host would be well with these settings, and whether the one that runs with them is.
//!
//! Nothing is changed: no plugin's code runs in this process, no schema.sql at all, and what is tried in the database
//! is rolled back. A private PostgreSQL that is stopped runs for as long as the check takes.

use semver::Version;
use serde::Serialize;

mod changes;
pub mod database;
mod plugins;
pub mod running;

use cardinal_base::{
    clock::Clock,
    config::{Config, SettingsError},
};
use cardinal_plugin_host::registry::preview;
use cardinal_serve::check::{
    finding::{Counts, Finding},
    machine::{self, Asker},
    provider, proxy, settings, tls,
};
use cardinal_supervisor::data_dir::DataDir;
use changes::Before;
use running::Answers;

/// Everything that was found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// No finding is an error.
    pub ok: bool,
    /// Of this program.
    pub version: &'static str,
    pub host: HostState,
    pub counts: Counts,
    pub findings: Vec<Finding>,
}

/// Whether a host has the `DATA_DIR` of these settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HostState {
    Running,
    Stopped,
    /// The settings do not say where it would be.
    Unknown,
}

impl Report {
    fn new(host: HostState, findings: Vec<Finding>) -> Self {
        let counts = Counts::from_findings(&findings);
        Self { ok: counts.error == 0, version: env!("CARGO_PKG_VERSION"), host, counts, findings }
    }

    /// Of settings that cannot be used, with which nothing else can be looked at.
    pub fn from_settings_error(bad: &SettingsError) -> Self {
        Self::new(HostState::Unknown, settings::bad(bad))
    }
}

impl HostState {
    pub fn new(config: &Config) -> Self {
        match DataDir::holder(&config.paths.data_dir) {
            Some(_) => Self::Running,
            None => Self::Stopped,
        }
    }
}

/// Files that cannot be read have been found before, with the settings.
fn tls_certificate(config: &Config) -> Vec<Finding> {
    let pair = config.http.tls.as_ref().and_then(|files| files.read().ok());
    let certificate = pair.and_then(|pair| pair.certificate());
    certificate.map_or_else(Vec::new, |it| tls::check(&it, &config.http.base_url, Clock::System.now()))
}

/// Looks at everything. `core` is another version of the core to judge plugins by, too; `answers` are those of the host
/// that runs, or why there are none.
pub async fn check(config: &Config, core: Option<&Version>, answers: Option<Result<Answers, String>>) -> Report {
    let host = if answers.is_some() { HostState::Running } else { HostState::Stopped };
    let mut findings = settings::check(config);
    findings.extend(machine::check(config, Asker::Command));
    findings.extend(tls_certificate(config));
    if host == HostState::Stopped {
        findings.extend(settings::addresses(config));
    }
    let mut seen = database::check(config, &Clock::System).await;
    findings.append(&mut seen.findings);
    let previews = preview::preview(config, std::mem::take(&mut seen.decided)).await;
    findings.extend(plugins::check(&config.paths.plugins_dir, &previews, &seen, core));
    findings.extend(plugins::settings_of_none(config, &previews));
    let before = match &answers {
        Some(Ok(answers)) => {
            findings.extend(running::check(config, answers));
            Before::serving(&answers.registry)
        }
        Some(Err(why)) => {
            findings.push(running::silent(why));
            Vec::new()
        }
        None => {
            let data_dir = config.paths.data_dir.clone();
            tokio::task::spawn_blocking(move || Before::kept(&data_dir)).await.unwrap_or_default()
        }
    };
    findings.extend(plugins::upgrades(&previews, &before));
    findings.extend(provider::check(config).await);
    findings.extend(proxy::check(config, &seen.proxy_routes).await);
    Report::new(host, findings)
}
