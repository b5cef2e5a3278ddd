//! The plugins of this host: walked from the folder to service, published as one snapshot.
//!
//! A request takes the snapshot once and keeps it: whatever is published meanwhile, it ends on the
//! generation that it began with.

mod report;
mod snapshot;
mod walk;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use deadpool_postgres::Pool;
use futures_util::{StreamExt, stream};
use tokio::sync::{Mutex, watch};

use self::walk::Read;
pub use self::{
    report::PluginReport,
    snapshot::{Entry, Snapshot},
};
pub use super::active::ToolEntry;
use super::{
    active::Active,
    compat::Claims,
    context::Services,
    library::Libraries,
    package,
    state::{Refusal, State},
    trust::{Lock, Verdict},
};
use crate::{
    clock::Clock,
    config::{Config, Plugins},
    db::plugin_state::{self, PluginState},
    link::KeeperLink,
};

/// Plugins that are read, or loaded, at the same time.
const AT_A_TIME: usize = 4;
/// How long a retired generation's calls may still run before it is left to itself.
const RETIRE_GRACE: Duration = Duration::from_secs(60);

/// The registry.
pub struct Registry {
    folder: PathBuf,
    config: Plugins,
    services: Arc<Services>,
    link: KeeperLink,
    pool: Pool,
    clock: Clock,
    libraries: Arc<Libraries>,
    snapshot: ArcSwap<Snapshot>,
    changes: watch::Sender<u64>,
    generation: AtomicU64,
    /// One walk through the folder at a time.
    walking: Mutex<()>,
}

impl Registry {
    pub fn new(config: &Config, services: Arc<Services>, link: KeeperLink, clock: Clock) -> Self {
        Self {
            folder: config.paths.plugins_dir.clone(),
            config: config.plugins.clone(),
            pool: services.core.clone(),
            services,
            link,
            clock,
            libraries: Arc::default(),
            snapshot: ArcSwap::from_pointee(Snapshot::default()),
            changes: watch::channel(0).0,
            generation: AtomicU64::new(0),
            walking: Mutex::new(()),
        }
    }

    /// What is in service now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Told of every snapshot that is published.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Every plugin that was found, for operators.
    pub fn reports(&self) -> Vec<PluginReport> {
        self.snapshot().entries().iter().map(PluginReport::of).collect()
    }

    /// Walks through the folder and publishes what comes of it. What has not changed stays as it is.
    pub async fn scan(&self) {
        let _walking = self.walking.lock().await;
        let decisions = match plugin_state::all(&self.pool).await {
            Ok(decisions) => decisions,
            Err(error) => {
                tracing::error!(error = ?error, "the plugins' stored state cannot be read; nothing changes");
                return;
            }
        };
        let folder = self.folder.clone();
        let candidates = match tokio::task::spawn_blocking(move || package::find(&folder)).await {
            Ok(Ok(candidates)) => candidates,
            Ok(Err(error)) => {
                tracing::error!(folder = %self.folder.display(), %error, "the plugins folder cannot be read; nothing changes");
                return;
            }
            Err(error) => {
                tracing::error!(%error, "looking through the plugins folder broke down");
                return;
            }
        };
        let read = stream::iter(candidates).map(walk::read);
        let read: Vec<Read> = read.buffered(AT_A_TIME).collect().await;
        let admitted = self.trust(admit(read, &decisions));
        let entries = stream::iter(admitted).map(|read| self.load(read, &decisions));
        let entries: Vec<Entry> = entries.buffered(AT_A_TIME).collect().await;
        self.publish(Snapshot::of(entries));
    }

    /// Holds each package against the lock file, which learns what it may.
    fn trust(&self, mut read: Vec<Read>) -> Vec<Read> {
        let file = &self.config.lock_file;
        let mut lock = match Lock::load(file) {
            Ok(lock) => lock,
            Err(error) => {
                tracing::error!(file = %file.display(), %error, "the plugins' lock file cannot be read; no plugin is loaded");
                read.iter_mut().for_each(|read| read.fail("The lock file of plugins cannot be read."));
                return read;
            }
        };
        let known = lock.clone();
        for read in &mut read {
            let Some(accepted) = &read.accepted else { continue };
            let name = accepted.manifest.name.clone();
            match lock.judge(self.config.trust, &name, &accepted.package.sha256, self.clock.now()) {
                Ok(Verdict::Changed { before }) => {
                    tracing::warn!(
                        plugin = name,
                        before,
                        now = accepted.package.sha256,
                        "the plugin's content has changed since it was recorded"
                    );
                }
                Ok(Verdict::Known | Verdict::Recorded) => {}
                Err(refusal) => read.refuse(refusal),
            }
        }
        if lock != known
            && let Err(error) = lock.save(file)
        {
            tracing::error!(file = %file.display(), %error, "the plugins' lock file cannot be written");
        }
        read
    }

    /// Brings one plugin that may come in into service; one that serves already is kept.
    async fn load(&self, read: Read, decisions: &HashMap<String, PluginState>) -> Entry {
        let Some(accepted) = read.accepted else { return read.entry };
        let before = self.snapshot();
        let stored = decisions.get(&accepted.manifest.name).map(|decision| &decision.settings);
        if let Some(kept) = before.unchanged(&read.entry, stored) {
            return kept;
        }
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let step = walk::Step {
            services: Arc::clone(&self.services),
            libraries: Arc::clone(&self.libraries),
            link: self.link.clone(),
            generation,
            environment: self.config.settings.get(&accepted.manifest.snake_name()).cloned(),
            stored: stored.cloned(),
        };
        let name = accepted.manifest.name.clone();
        let mut entry = read.entry;
        // A task of its own: a bug in the walk of one plugin is that plugin's failure.
        match tokio::spawn(walk::into_service(accepted, step)).await {
            Ok(Ok(in_service)) => {
                tracing::info!(plugin = name, generation, "the plugin is active");
                entry.state = State::Active;
                entry.service = Some(in_service);
            }
            Ok(Err(fault)) => {
                tracing::warn!(plugin = name, %fault, "the plugin is not active");
                fault.note(&mut entry);
            }
            Err(error) => {
                tracing::error!(plugin = name, %error, "loading the plugin broke down");
                entry.state = State::Failed;
            }
        }
        entry
    }

    fn publish(&self, next: Snapshot) {
        let next = Arc::new(next);
        let before = self.snapshot.swap(Arc::clone(&next));
        self.changes.send_modify(|count| *count += 1);
        for old in before.active() {
            if !next.active().any(|new| Arc::ptr_eq(new, old)) {
                let old = Arc::clone(old);
                tokio::spawn(async move { retire(&old, RETIRE_GRACE).await });
            }
        }
    }

    /// Ends every plugin; at the end of the process.
    pub async fn shutdown(&self, grace: Duration) {
        let last = self.snapshot.swap(Arc::new(Snapshot::default()));
        let all = last.active().map(|active| retire(active, grace));
        futures_util::future::join_all(all).await;
    }
}

async fn retire(active: &Active, grace: Duration) {
    active.instance.shutdown(grace).await;
    tracing::info!(plugin = active.manifest.name, generation = active.generation, "the plugin's generation is retired");
}

/// Turns away who claims what is somebody else's, in the order of the packages, and who is disabled.
fn admit(read: Vec<Read>, decisions: &HashMap<String, PluginState>) -> Vec<Read> {
    let mut claims = Claims::default();
    let mut admitted = Vec::with_capacity(read.len());
    for mut read in read {
        if let Some(accepted) = &read.accepted {
            let disabled = decisions.get(&accepted.manifest.name).is_some_and(|decision| decision.disabled);
            if let Err(refusal) = claims.take(&accepted.manifest, &read.entry.package) {
                read.refuse(refusal);
            } else if disabled {
                read.entry.state = State::Disabled;
                read.accepted = None;
            }
        }
        admitted.push(read);
    }
    admitted
}

impl Read {
    fn refuse(&mut self, refusal: Refusal) {
        tracing::warn!(package = self.entry.package, %refusal, "the plugin is refused");
        self.entry.state = State::Refused;
        self.entry.refusal = Some(refusal);
        self.accepted = None;
    }

    fn fail(&mut self, reason: &str) {
        if self.accepted.take().is_some() {
            self.entry.state = State::Failed;
            self.entry.failure = Some(reason.to_owned());
        }
    }
}
