//! The walk of every plugin, from the plugins folder to one immutable snapshot.
//!
//! A scan looks at all packages, leads each on its own way, and publishes once, at its end.
//! Whoever serves takes a snapshot and keeps it for the request: what it holds stays alive. A
//! package that is unchanged keeps its running instance; one that is refused stops nobody else, its
//! own predecessor included.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use futures_util::{StreamExt, future::join_all, stream};
use tokio::{
    sync::{Mutex, watch},
    task::spawn_blocking,
    time::Instant,
};

pub use self::{configure::Configuration, found::examine, report::PluginReport, snapshot::Snapshot};
use self::{
    found::Found,
    judge::{Judge, Owners},
    load::Loader,
    settle::settle,
    snapshot::Entry,
};
pub use super::active::ToolEntry;
use super::{
    active::Active, context::Services, package, past::Past, signature::Keys, state::Refusal, trust, watchdog::Watchdog,
};
use crate::{
    clock::Clock,
    config::Config,
    db::{
        plugin_owners,
        plugin_state::{self, PluginState},
    },
    http::error::ApiResult,
    link::KeeperLink,
    observe::Telemetry,
    seal::SealingKey,
};

mod configure;
mod found;
mod judge;
mod load;
mod report;
mod settle;
mod snapshot;
pub mod survey;

/// Packages that are read at the same time; each may take a library's size of memory.
const READ_AT_ONCE: usize = 4;
/// How long a request waits for the first look at the plugins folder.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// How long calls of a replaced instance may take to their end.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// How often a replaced instance is looked at: whether somebody still holds its snapshot.
const DRAIN_TICK: Duration = Duration::from_millis(20);

/// All plugins of this host.
pub struct Registry {
    plugins_dir: PathBuf,
    judge: Judge,
    loader: Arc<Loader>,
    current: ArcSwap<Snapshot>,
    published: watch::Sender<u64>,
    /// One scan at a time.
    scanning: Mutex<()>,
    scans: AtomicU64,
}

impl Registry {
    /// An empty registry; [`scan`](Self::scan) fills it.
    ///
    /// # Errors
    /// The thread that watches over plugins can't be started.
    pub fn new(
        config: &Config,
        key: SealingKey,
        services: Arc<Services>,
        keeper: KeeperLink,
        past: Arc<Past>,
        clock: Clock,
        telemetry: Arc<Telemetry>,
    ) -> io::Result<Self> {
        Ok(Self {
            plugins_dir: config.paths.plugins_dir.clone(),
            judge: Judge::new(&config.plugins, key, clock, Arc::clone(&past)),
            loader: Arc::new(Loader::new(services, keeper, past, telemetry)?),
            current: ArcSwap::default(),
            published: watch::Sender::new(0),
            scanning: Mutex::default(),
            scans: AtomicU64::new(0),
        })
    }

    /// What is in service now. Holding it keeps its plugins alive.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// The same for a look that ends at once: nobody else's count is touched. Not to be held over an await.
    pub fn current(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// Who watches over all plugins' code.
    pub fn watchdog(&self) -> &Watchdog {
        &self.loader.services.watchdog
    }

    /// Counts up whenever another snapshot is published.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// Every plugin that was found, in the order of the names.
    pub fn reports(&self) -> Vec<PluginReport> {
        let mut reports = self.snapshot().reports();
        for report in &mut reports {
            report.crash = self.judge.past.last_crash(&report.name);
        }
        reports
    }

    /// Whether the plugins folder has been looked through.
    pub fn has_looked(&self) -> bool {
        *self.published.borrow() > 0
    }

    /// Waits until the plugins folder has been looked through once: a worker that was just started knows of none, and
    /// its clients need not notice.
    pub async fn first_look(&self) {
        let mut changes = self.changes();
        // Whoever has waited in vain is told that the plugin is not there yet.
        let _ = tokio::time::timeout(FIRST_LOOK, changes.wait_for(|count| *count > 0)).await;
    }

    /// Leads every package in the plugins folder on its walk and publishes the outcome.
    pub async fn scan(&self) {
        let _alone = self.scanning.lock().await;
        let started = Instant::now();
        let found = self.look().await;
        let entries = match self.decided().await {
            Ok((states, owners)) => {
                let before = self.snapshot();
                let steps = self.judge.judge(found, &states, &owners, &before).await;
                let mut entries = settle(&self.loader, steps, &before).await;
                self.judge.record(&mut entries).await;
                self.judge.claim(&entries, &owners, &self.loader.services.core).await;
                entries
            }
            Err(error) if self.scans.load(Ordering::Relaxed) > 0 => {
                tracing::warn!(error = ?error, "the plugins were not looked at again: the database is away");
                return;
            }
            // What an operator has disabled must not run; so nothing runs until that is known.
            Err(error) => {
                tracing::error!(error = ?error, "no plugin is loaded: the database is away");
                found.into_iter().map(|found| Entry::failed(found.about, "The database is away.".to_owned())).collect()
            }
        };
        self.scans.fetch_add(1, Ordering::Relaxed);
        let active = entries.iter().filter(|entry| entry.service.is_some()).count();
        let (all, took) = (entries.len(), started.elapsed().as_millis() as u64);
        self.publish(entries);
        tracing::info!(found = all, active, ms = took, "plugins looked at");
    }

    /// What stands in the database about plugins.
    async fn decided(&self) -> ApiResult<(HashMap<String, PluginState>, Owners)> {
        let core = &self.loader.services.core;
        Ok((plugin_state::all(core).await?, plugin_owners::all(core).await?))
    }

    /// Everything in the plugins folder, read and judged by itself.
    async fn look(&self) -> Vec<Found> {
        let folder = self.plugins_dir.clone();
        let looked = spawn_blocking(move || packages(&folder)).await;
        let (paths, refusal) = looked.unwrap_or_else(|error| {
            tracing::error!(%error, "looking into the plugins folder failed");
            (Vec::new(), None)
        });
        let files = self.judge.keys.clone();
        let keys = spawn_blocking(move || Keys::load(&files)).await.unwrap_or_default();
        let read = paths.into_iter().map(|path| {
            let (refusal, keys) = (refusal.clone(), keys.clone());
            async move {
                let at = path.clone();
                let found = spawn_blocking(move || found::inspect(&path, refusal, &keys)).await;
                found.unwrap_or_else(|error| Found::broken(&at, &error))
            }
        });
        stream::iter(read).buffered(READ_AT_ONCE).collect().await
    }

    /// Swaps the snapshot once, then lets go of what is not in it any more.
    fn publish(&self, entries: Vec<Entry>) {
        let new = Arc::new(Snapshot::of(entries));
        let kept: Vec<Arc<Active>> = new.active().cloned().collect();
        let old = self.current.swap(new);
        self.published.send_modify(|count| *count += 1);
        let leaving: Vec<_> =
            old.active().filter(|old| !kept.iter().any(|kept| Arc::ptr_eq(kept, old))).cloned().collect();
        drop(old);
        for active in leaving {
            self.loader.services.runtime.spawn(retire(active));
        }
    }

    /// Stops every plugin: nothing new begins, what is under way has `grace` to end.
    pub async fn shutdown(&self, grace: Duration) {
        let _alone = self.scanning.lock().await;
        let last = self.current.swap(Arc::default());
        self.published.send_modify(|count| *count += 1);
        join_all(last.active().map(|active| active.instance.shutdown(grace))).await;
    }
}

/// Waits until nobody can begin a call any more, so that none is turned away, then stops it.
async fn retire(active: Arc<Active>) {
    let deadline = Instant::now() + DRAIN_LIMIT;
    while Arc::strong_count(&active) > 1 && Instant::now() < deadline {
        tokio::time::sleep(DRAIN_TICK).await;
    }
    active.instance.shutdown(deadline.saturating_duration_since(Instant::now())).await;
    tracing::info!(plugin = active.manifest.name, generation = active.generation, "retired");
}

/// The packages, and why none of them may be loaded when the folder itself is at fault.
fn packages(folder: &Path) -> (Vec<PathBuf>, Option<Refusal>) {
    if !folder.exists() {
        tracing::warn!(folder = %folder.display(), "there is no plugins folder");
        return (Vec::new(), None);
    }
    let (real, refusal) = match trust::Owners::of_this_process().check_folder(folder) {
        Ok(real) => (real, None),
        Err(refusal) => {
            tracing::error!(%refusal, "no plugin is loaded: the plugins folder is not safe");
            (folder.to_owned(), Some(refusal))
        }
    };
    let paths = package::find(&real).unwrap_or_else(|error| {
        tracing::error!(folder = %real.display(), %error, "the plugins folder cannot be read");
        Vec::new()
    });
    (paths, refusal)
}
