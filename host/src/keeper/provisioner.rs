//! The keeper's side of a schema step: asks nothing of the worker but a name and a hash, and has a short-lived
//! process do the rest with credentials that the worker never sees.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Semaphore;

use super::launch::Launcher;
use crate::link::{PluginDatabase, ProvisionFault, ProvisionRequest, Purged};
use crate::provision::{Job, Task};

/// Side by side; more wait for their turn. Each holds a few connections of the provisioner's login.
const AT_ONCE: usize = 2;
/// How long a step waits for its turn: those before it may hang, and must not hold up other plugins.
const TURN_PATIENCE: Duration = Duration::from_secs(1);
/// Side by side when some hang.
const MOST_AT_ONCE: usize = 12;
/// Longer than the limits within the step itself, which give better reasons.
const TIMEOUT: Duration = Duration::from_secs(120);
const LONGEST_NAME: usize = 40;
const HASH_DIGITS: usize = 64;

/// Starts provision processes; clones share the limit.
#[derive(Debug, Clone)]
pub struct Provisioner {
    launcher: Launcher,
    job: Arc<Job>,
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
    made: Arc<Mutex<HashMap<ProvisionRequest, PluginDatabase>>>,
}

/// Databases that are remembered; far more than a host has plugins.
const MOST_REMEMBERED: usize = 1_000;

impl Provisioner {
    /// `job` is what every step gets; its request is filled in for each.
    pub fn new(launcher: Launcher, job: Job) -> Self {
        let [turns, places] = [AT_ONCE, MOST_AT_ONCE].map(|permits| Arc::new(Semaphore::new(permits)));
        Self { launcher, job: Arc::new(job), turns, places, made: Arc::default() }
    }

    /// What the step for this package gave when it was made last.
    pub fn recall(&self, request: &ProvisionRequest) -> Option<PluginDatabase> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).get(request).cloned()
    }

    fn remember(&self, request: &ProvisionRequest, result: &Result<PluginDatabase, ProvisionFault>) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(database) if made.len() < MOST_REMEMBERED => drop(made.insert(request.clone(), database.clone())),
            _ => drop(made.remove(request)),
        }
    }

    /// # Errors
    /// The plugin was refused, or the step could not be made.
    pub async fn provision(&self, request: &ProvisionRequest) -> Result<PluginDatabase, ProvisionFault> {
        if !well_formed(request) {
            let fault = "the request names no plugin and hash";
            return Err(ProvisionFault::Unavailable(fault.to_owned()));
        }
        let result = self.have_done(Task::Provision(request.clone()), &request.plugin).await;
        self.remember(request, &result);
        if let Err(fault) = &result {
            tracing::warn!(plugin = request.plugin, %fault, "the plugin did not get its database");
        }
        result
    }

    /// Drops a plugin's data.
    ///
    /// # Errors
    /// It is in use, or could not be done.
    pub async fn purge(&self, plugin: &str) -> Result<Purged, ProvisionFault> {
        if !is_name(plugin) {
            return Err(ProvisionFault::Unavailable("the request names no plugin".to_owned()));
        }
        let result: Result<Purged, _> = self.have_done(Task::Purge { plugin: plugin.to_owned() }, plugin).await;
        // What was made for it is not there any more, or may not be.
        self.made.lock().unwrap_or_else(PoisonError::into_inner).retain(|known, _| known.plugin != plugin);
        match &result {
            Ok(purged) => tracing::info!(plugin, tables = purged.tables.len(), "the plugin's data was dropped"),
            Err(fault) => tracing::warn!(plugin, %fault, "the plugin's data was not dropped"),
        }
        result
    }

    async fn have_done<T: DeserializeOwned>(&self, task: Task, plugin: &str) -> Result<T, ProvisionFault> {
        let _turn = tokio::time::timeout(TURN_PATIENCE, self.turns.acquire()).await;
        let _place = self.places.acquire().await;
        match tokio::time::timeout(TIMEOUT, self.ask(task)).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => {
                tracing::error!(plugin, error = format!("{error:#}"), "a schema step failed");
                Err(ProvisionFault::Unavailable(
                    "the schema step could not be made; the keeper's log says why".to_owned(),
                ))
            }
            Err(_) => Err(ProvisionFault::Unavailable("the schema step took too long".to_owned())),
        }
    }

    async fn ask<T: DeserializeOwned>(&self, task: Task) -> anyhow::Result<Result<T, ProvisionFault>> {
        let job = Job { task, ..Job::clone(&self.job) };
        let mut command = self.launcher.command("provision");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            tokio::process::Command::from(command).kill_on_drop(true).spawn().context("starting a schema step")?;
        let mut stdin = child.stdin.take().context("a schema step without standard input")?;
        stdin.write_all(&serde_json::to_vec(&job)?).await.context("telling a schema step what to do")?;
        drop(stdin);
        let output = child.wait_with_output().await.context("waiting for a schema step")?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("the schema step gave no answer ({})", output.status))
    }
}

/// A name and a hash and nothing that could be more.
fn well_formed(request: &ProvisionRequest) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    is_name(&request.plugin) && request.sha256.len() == HASH_DIGITS && request.sha256.bytes().all(hex)
}

fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(plain) && name.as_bytes()[0].is_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_and_a_hash_pass() {
        let ask = |plugin: &str, sha256: &str| {
            well_formed(&ProvisionRequest { plugin: plugin.to_owned(), sha256: sha256.to_owned() })
        };
        let hash = "0f".repeat(32);
        assert!(ask("supplier", &hash) && ask("price-watch-2", &hash));
        for plugin in ["", "../x", "a/b", "A", "a_b", "a\"b", "-a", &"a".repeat(41)] {
            assert!(!ask(plugin, &hash), "{plugin:?} passed");
        }
        for sha256 in ["", "00", &"0F".repeat(32), &"zz".repeat(32)] {
            assert!(!ask("supplier", sha256), "{sha256:?} passed");
        }
    }
}
