//! A host that a command starts for itself: its data, its plugins and its log in one folder. It ends with the command,
//! however that ends.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::cli::client::Client;
use cardinal_base::config::{self, Secret};
use cardinal_database::connect::ConnectParams;
use cardinal_package::{manifest, package::MANIFEST};
use cardinal_supervisor::postgres::PrivatePostgres;

/// A database that has to be made takes seconds; a busy machine needs several times that.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// What requests get to end, and then the whole host.
const GRACE_SECONDS: &str = "5";
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Of the log, when it does not start.
const MAX_SHOWN_LINES: usize = 12;
/// What a program's last words begin with.
const PREFIXES: [&str; 2] = ["cardinal: ", "cardinal serve: "];
/// Of the environment. Settings of another host are not meant for this one: least of all its DATABASE_URL.
const KEPT_VARIABLES: [&str; 8] =
    ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "POSTGRES_BIN_DIR", "LOG_LEVEL", "PLUGIN_NETWORKS"];
const KEPT_PREFIX: &str = "PLUGIN_SETTINGS_";

pub(super) struct OwnHost {
    process: Child,
    folder: PathBuf,
}

impl OwnHost {
    /// Starts it; see [`until_it_serves`](Self::until_it_serves).
    pub(super) fn launch(folder: &Path, listen: SocketAddr, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let plugins = plugins_dir(folder);
        fs::create_dir_all(&plugins).with_context(|| format!("making {}", plugins.display()))?;
        // What stands there is the address of the host before.
        let _ = fs::remove_file(data_dir(folder).join("addresses.json"));
        let log = File::create(log_file(folder)).with_context(|| format!("making {}", log_file(folder).display()))?;
        // The very file that is running, even if another one was put in its place since.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("cardinal").arg("serve").args(["--parent", &std::process::id().to_string()]);
        set_environment(&mut command, folder);
        command.env("LISTEN_ADDR", listen.to_string()).env("SHUTDOWN_GRACE_SECONDS", GRACE_SECONDS);
        command.envs(settings.iter().copied());
        command.stdin(Stdio::null()).stdout(log.try_clone().context("opening the log")?).stderr(log);
        // Ctrl+C is for this command, which ends the host in order.
        let process = command.process_group(0).spawn().context("starting the host")?;
        Ok(Self { process, folder: folder.to_owned() })
    }

    pub(super) async fn until_it_serves(&mut self) -> anyhow::Result<()> {
        let (client, started) = (self.client(), Instant::now());
        loop {
            if self.process.try_wait().context("watching the host")?.is_some() {
                bail!("the host did not start: {}", last_words(&self.folder));
            }
            match client.get("/v1/admin/system").await {
                Ok(_) => return Ok(()),
                Err(failure) if started.elapsed() > START_TIMEOUT => {
                    bail!("the host is not ready after {START_TIMEOUT:?}: {failure}\n{}", last_words(&self.folder))
                }
                // Nobody answers yet, it is not ready, or its first user is still to be made.
                Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    pub(super) fn client(&self) -> Client {
        Client::local(&data_dir(&self.folder))
    }

    /// Ends it in order: requests, then the database. An error is an end that was not.
    pub(super) async fn stop(mut self) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::TERM);
        match tokio::time::timeout(STOP_TIMEOUT, self.process.wait()).await {
            Ok(ended) => ended.context("waiting for the host to stop"),
            Err(_) => {
                self.process.kill().await.context("stopping the host")?;
                bail!("the host did not stop within {STOP_TIMEOUT:?} and was killed");
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = self.process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Gone already is fine.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for OwnHost {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
    }
}

pub(super) fn data_dir(folder: &Path) -> PathBuf {
    folder.join("data")
}

pub(super) fn plugins_dir(folder: &Path) -> PathBuf {
    folder.join("plugins")
}

pub(super) fn log_file(folder: &Path) -> PathBuf {
    folder.join("log")
}

/// Why it ended, from its log.
pub(super) fn last_words(folder: &Path) -> String {
    let text = fs::read(log_file(folder)).unwrap_or_default();
    words_in(&String::from_utf8_lossy(&text))
}

/// What the program said in words as it ended stands among the log's lines of JSON. Without any, the newest of those.
fn words_in(log: &str) -> String {
    let is_event = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line.is_object());
    let (events, words): (Vec<&str>, Vec<&str>) = log.lines().partition(|line| is_event(line));
    let shown = if words.is_empty() { events } else { words };
    let newest = &shown[shown.len().saturating_sub(MAX_SHOWN_LINES)..];
    let plain = |line: &&str| PREFIXES.iter().find_map(|name| line.strip_prefix(name)).unwrap_or(line).to_owned();
    newest.iter().map(plain).collect::<Vec<_>>().join("\n")
}

/// For a command of this program on the host of this folder.
pub(super) fn set_environment(command: &mut Command, folder: &Path) {
    command.env_clear().envs(config::environment().filter(|(name, _)| is_kept(name)));
    command.env("DATA_DIR", data_dir(folder)).env("PLUGINS_DIR", plugins_dir(folder));
}

/// Where the host of this folder listens, as `http://127.0.0.1:8080`.
pub(super) fn url(folder: &Path) -> anyhow::Result<String> {
    let file = data_dir(folder).join("addresses.json");
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let addresses: Value = serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))?;
    Ok(addresses["base_url"].as_str().context("the host reports no address")?.to_owned())
}

/// The address of its private PostgreSQL, with a login that may make databases, as `CARDINAL_TEST_DATABASE` has it.
pub(super) fn database_url(folder: &Path) -> anyhow::Result<Secret> {
    Ok(address(&PrivatePostgres::login_beside(&data_dir(folder))?))
}

pub(super) fn address(login: &ConnectParams) -> Secret {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let (user, password) = (encoded(&login.user), encoded(login.password.expose()));
    let (host, dbname) = (encoded(&login.host), encoded(&login.dbname));
    Secret::new(format!("postgres://{user}:{password}@{host}:{}/{dbname}", login.port))
}

/// The address that is wished for where it is free, else a port that the system chooses.
pub(super) fn free_address(wished: SocketAddr) -> SocketAddr {
    match TcpListener::bind(wished) {
        Ok(_) => wished,
        Err(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    }
}

/// `LOG_LEVEL` for a host that shows every line of the plugin in this folder, unless the environment has one.
pub(super) fn log_levels(folder: &Path) -> anyhow::Result<Option<String>> {
    if config::environment().any(|(name, _)| name.eq_ignore_ascii_case("LOG_LEVEL")) {
        return Ok(None);
    }
    let file = folder.join(MANIFEST);
    let text = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    Ok(levels_from_manifest(&text))
}

/// A name that is wrong is told by the build.
fn levels_from_manifest(manifest: &[u8]) -> Option<String> {
    let name = manifest::hints(manifest).name.filter(|name| manifest::is_kebab(name))?;
    Some(format!("info,plugin::{name}=trace"))
}

fn is_kept(name: &OsStr) -> bool {
    let name: OsString = name.to_ascii_uppercase();
    name.to_str().is_some_and(|name| KEPT_VARIABLES.contains(&name) || name.starts_with(KEPT_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_host_ended_is_told_without_the_log_around_it() {
        let event = r#"{"level":"INFO","message":"starting"}"#;
        assert_eq!(words_in(&format!("{event}\ncardinal: no PostgreSQL was found\n")), "no PostgreSQL was found");
        assert_eq!(words_in(&format!("{event}\n{event}\n")), format!("{event}\n{event}"));
        assert_eq!(words_in(""), "");
    }

    #[test]
    fn another_hosts_settings_are_not_handed_on() {
        assert!(is_kept("PATH".as_ref()) && is_kept("PLUGIN_SETTINGS_NOTES".as_ref()));
        assert!(is_kept("PLUGIN_NETWORKS".as_ref()), "what the plugin may reach is the author's choice");
        assert!(!is_kept("DATABASE_URL".as_ref()) && !is_kept("PLUGINS_DIR".as_ref()));
    }

    #[test]
    fn every_line_of_the_own_plugin_is_shown() {
        assert_eq!(levels_from_manifest(br#"{"name": "notes"}"#).as_deref(), Some("info,plugin::notes=trace"));
        assert_eq!(levels_from_manifest(br#"{"name": "a,b=off"}"#), None);
        assert_eq!(levels_from_manifest(b"{"), None);
    }

    #[test]
    fn a_taken_port_is_left_to_who_has_it() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = taken.local_addr().unwrap();
        assert_eq!(free_address(address).port(), 0);
        // A process that another test has just started may have it for a moment more.
        rustix::net::shutdown(&taken, rustix::net::Shutdown::Both).unwrap();
        drop(taken);
        assert_eq!(free_address(address), address);
    }
}
