//! The life of every plugin, from the plugins folder to one immutable snapshot.
//!
//! A scan examines all packages, each by itself, and publishes once, at its end. Every stage is a type that is made
//! from the one before: `Scanned`, `Examined`, `Trusted`, `Described` and `Verified` (`cardinal_package::stages`),
//! `Candidate`, `Approved`, `Probed`, `Loaded`, `Migrated`, `Created`, `Active`, `Draining`. A request takes a snapshot
//! and keeps it: what it holds stays alive. An unchanged package keeps its running instance; one that is refused stops
//! no other, its own predecessor included. The registry scans at the start, when something has changed in the folder
//! and lies still, when something was decided on any host, and when an operator asks.

use std::{
    collections::HashSet,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::{
    sync::{Mutex, watch},
    task::spawn_blocking,
    time::Instant,
};
use uuid::Uuid;

use self::{
    activation::Activation, candidate::FoundPackage, claims::resolve_claims, decisions::Decisions, descriptors::Tally,
    entry::Entry, generations::Threads, load::Loader, policy::Policy, snapshot::Before, watcher::Watcher,
};
pub use self::{
    candidate::{Examination, examine_for_display},
    configure::Configuration,
    history::RollbackTarget,
    report::PluginReport,
    rollback::RollbackReport,
    snapshot::Snapshot,
    unmet_kinds::readers_without,
};
pub use super::active::{JobEntry, PromptEntry, ToolEntry};
use super::{context::Services, quarantine::Quarantine, watchdog::Watchdog};
use cardinal_base::{clock::Clock, config::Config, seal::SealingKey};
use cardinal_control::{crash::record::Crash, link::SupervisorLink};
use cardinal_database::log_failure;
use cardinal_observe::Telemetry;
use cardinal_package::{kept::KeptPackages, state::State};
use cardinal_store::error::StoreError;
use cardinal_store::plugins;

mod activation;
mod canary;
mod candidate;
mod claims;
mod configure;
mod confirm;
mod debounce;
mod decisions;
mod descriptors;
mod entry;
mod folder;
mod generations;
mod history;
mod load;
mod loads;
mod policy;
pub mod preview;
mod read;
mod report;
mod rollback;
mod snapshot;
mod stuck;
mod unmet_kinds;
pub mod upload;
mod watcher;

/// How long a scan waits for all loads, as does a request that comes before the first scan is over, and how long a
/// request about one plugin for its load. Both less than a request may take (`CORE_ANSWER`): what is not done by then
/// is shown as being loaded.
const SCAN_WAIT: Duration = Duration::from_secs(10);
const PLUGIN_WAIT: Duration = Duration::from_secs(15);

/// Which host this is, and what opens its plugins' secrets.
pub struct HostIdentity {
    pub host: Uuid,
    pub key: SealingKey,
}

/// All plugins of this host. Its work is split by job: [`Watcher`] sees what lies in the folder, [`Policy`] decides
/// what may serve, [`Activation`] loads it and swaps the [`Snapshot`].
pub struct Registry {
    watcher: Watcher,
    policy: Policy,
    activation: Activation,
    descriptors: Tally,
    /// One scan at a time.
    scanning: Mutex<()>,
    /// One upload at a time.
    uploading: Mutex<()>,
    trials: configure::Trials,
    scans: AtomicU64,
    kept: Arc<KeptPackages>,
    clock: Clock,
    started: Instant,
    /// The worker before this one ended on its own: what it served is served again, whatever lies in the folder by now.
    after_crash: bool,
    /// What was decided, as it was read last.
    decided: ArcSwap<Decisions>,
}

/// What a scan is to do beyond looking.
#[derive(Default)]
struct ScanScope {
    /// What is still being written, and is left as it is.
    unsettled: HashSet<PathBuf>,
    /// What may be only half there, and is not refused for it yet.
    incomplete: HashSet<PathBuf>,
    /// Whatever has changed since it was read is left as it is: this scan is about something else.
    as_read: bool,
    /// What gets a new generation even when nothing has changed.
    reload: Option<Reload>,
    /// Packages that stay as they are unless they serve or are being loaded.
    left_alone: HashSet<String>,
}

impl ScanScope {
    /// For what was decided alone: what has changed in the folder is left to those who follow it, since it may be
    /// changing still.
    fn for_decisions() -> Self {
        Self { as_read: true, ..Self::default() }
    }
}

/// A plugin that is reloaded, and the package that it is looked for in.
struct Reload {
    plugin: String,
    origin: String,
}

impl Registry {
    /// An empty registry; [`scan`](Self::scan) fills it.
    ///
    /// # Errors
    /// The thread that watches over plugins can't be started.
    pub fn new(
        config: &Config,
        own: HostIdentity,
        services: Arc<Services>,
        supervisor: SupervisorLink,
        quarantine: Arc<Quarantine>,
        clock: Clock,
        telemetry: Arc<Telemetry>,
    ) -> io::Result<Self> {
        let kept = Arc::new(KeptPackages::open(&config.paths.data_dir));
        let policy = Policy::new(
            &config.plugins,
            Some(supervisor.clone()),
            own.key,
            clock.clone(),
            Arc::clone(&quarantine),
            Arc::clone(&kept),
        );
        let after_crash = telemetry.worker_restarts > 0;
        let keeps = Arc::clone(&kept);
        let loader = Loader::new(own.host, services, supervisor, quarantine, telemetry, keeps, clock.clone())?;
        Ok(Self {
            watcher: Watcher::new(&config.paths.plugins_dir),
            policy,
            activation: Activation::new(loader, clock.clone()),
            descriptors: Tally::default(),
            scanning: Mutex::default(),
            uploading: Mutex::default(),
            trials: configure::Trials::default(),
            scans: AtomicU64::new(0),
            kept,
            clock,
            started: Instant::now(),
            after_crash,
            decided: ArcSwap::default(),
        })
    }

    /// What is in service now. Holding it keeps its plugins alive.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.activation.snapshot()
    }

    /// The same for a look that ends at once, without counting a reference. Do not hold it over an await.
    pub fn current(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.activation.current()
    }

    /// Who watches over all plugins' code.
    pub fn watchdog(&self) -> &Watchdog {
        &self.activation.loader.services.watchdog
    }

    /// How many ends of this host's workers are unattributed, and the last of them.
    pub fn unattributed_crashes(&self) -> (usize, Option<Crash>) {
        self.policy.quarantine.unattributed()
    }

    /// Counts up whenever another snapshot is published.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.activation.changes()
    }

    /// Every plugin that was found, in the order of the names.
    pub fn reports(&self) -> Vec<PluginReport> {
        let mut reports = self.snapshot().reports();
        let (threads, decided) = (Threads::now(), self.decided.load());
        for report in &mut reports {
            report.crash = self.policy.quarantine.last_crash(&report.name);
            report.threads = threads.count(&report.name);
            if let Some(budgets) = &mut report.budgets {
                budgets.descriptors = self.descriptors.get(&report.name);
            }
            report.generations = self.activation.generations.reports(&report.name);
            let serving = report.sha256.clone().filter(|_| report.state == State::Active);
            report.versions = decided.shown(&report.name, &self.kept.for_plugin(&report.name), serving.as_deref());
        }
        unmet_kinds::warn(&mut reports);
        reports
    }

    /// Whether the plugins folder has been looked through.
    pub fn has_looked(&self) -> bool {
        self.activation.has_published()
    }

    /// Waits until the plugins folder has been looked through once, and the plugin with this prefix is loaded (any
    /// plugin when none is said): a worker that was just started knows of none, and its clients need not notice.
    pub async fn first_look(&self, prefix: Option<&str>) {
        let mut changes = self.changes();
        let known = changes.wait_for(|count| *count > 0 && !self.current().awaits(prefix));
        // Who has waited in vain gets the answer that the plugin is not there yet.
        let _ = tokio::time::timeout(SCAN_WAIT, known).await;
    }

    /// Leads every package in the plugins folder on its walk and publishes the outcome. What takes long to load is
    /// waited for, but not for ever.
    pub async fn scan(&self) {
        self.walk(ScanScope::default()).await;
        self.activation.loads.settled(None, SCAN_WAIT).await;
    }

    /// The same for what was decided alone, and without waiting for what takes long to load.
    pub(crate) async fn apply_decisions(&self) {
        self.walk(ScanScope::for_decisions()).await;
    }

    /// The same for what was decided about one plugin, which is waited for. Another one that hangs is not.
    pub async fn apply_to(&self, plugin: &str) {
        self.apply_decisions().await;
        self.activation.loads.settled(Some(plugin), PLUGIN_WAIT).await;
    }

    /// Looks at the folder for one plugin, which is waited for.
    pub async fn scan_for(&self, plugin: &str) {
        self.walk(ScanScope::default()).await;
        self.activation.loads.settled(Some(plugin), PLUGIN_WAIT).await;
    }

    /// A scan; gives what turned out to be only half there.
    async fn walk(&self, scope: ScanScope) -> HashSet<PathBuf> {
        let _alone = self.scanning.lock().await;
        if self.activation.is_closed() {
            return HashSet::new();
        }
        let (started, is_first) = (Instant::now(), self.scans.load(Ordering::Relaxed) == 0);
        let (found, half) = match self.look(&scope).await {
            Ok(looked) => looked,
            // A folder that is gone for a moment, as network drives are, takes nothing out of service.
            Err(error) if !is_first => {
                tracing::warn!(folder = %self.watcher.folder().display(), %error, "cannot read the plugins folder; \
                    active plugins stay in service");
                return HashSet::new();
            }
            Err(error) => {
                tracing::warn!(folder = %self.watcher.folder().display(), %error, "there is no plugins folder");
                (Vec::new(), HashSet::new())
            }
        };
        let entries = match self.decided().await {
            Ok(decided) => {
                let decided = Arc::new(decided);
                self.decided.store(Arc::clone(&decided));
                self.lead(found, &decided, &scope).await
            }
            Err(error) if !is_first => {
                log_failure!(error, "the plugins were not scanned: the database is unreachable");
                return half;
            }
            // What an operator has disabled must not run; so nothing runs until that is known.
            Err(error) => {
                tracing::error!(error = ?error, "no plugin is loaded: the database is unreachable");
                found
                    .into_iter()
                    .map(|found| Entry::failed(found.about, "The database is unreachable.".to_owned()))
                    .collect()
            }
        };
        self.scans.fetch_add(1, Ordering::Relaxed);
        self.activation.loads.end_first_scan();
        let active = entries.iter().filter(|entry| entry.service.is_some()).count();
        let (all, took) = (entries.len(), started.elapsed().as_millis() as u64);
        self.activation.publish(entries, &self.decided.load());
        self.activation.loads.forget_unwanted(&self.current());
        self.activation.loader.announce_in_service(&self.snapshot()).await;
        tracing::info!(found = all, active, ms = took, "scanned the plugins");
        half
    }

    /// From what was found to what serves.
    async fn lead(&self, found: Vec<FoundPackage>, decided: &Decisions, scope: &ScanScope) -> Vec<Entry> {
        let snapshot = self.snapshot();
        let before = Before::new(&snapshot, &found);
        let reload = scope.reload.as_ref().map(|reload| reload.plugin.as_str());
        let mut steps = self.policy.decide(found, decided, &before, reload);
        for step in &mut steps {
            step.leave_alone(&scope.left_alone, snapshot.entries());
        }
        let Activation { loader, loads, .. } = &self.activation;
        let entries = resolve_claims(loader, loads, steps, &before).await;
        let always = self.after_crash && self.scans.load(Ordering::Relaxed) == 0;
        let mut steps = Vec::with_capacity(entries.len());
        for entry in entries {
            steps.push(self.policy.find_fallback(entry, decided, &before, always).await);
        }
        let mut entries = resolve_claims(loader, loads, steps, &before).await;
        self.record(&mut entries, |entry| reload == Some(entry.about.name.as_str())).await;
        entries.extend(decided.gone(&entries));
        for name in self.kept.plugins() {
            if !entries.iter().any(|entry| entry.about.name == name && entry.state != State::Retired) {
                let (kept, now) = (Arc::clone(&self.kept), self.clock.now());
                drop(spawn_blocking(move || kept.removed(&name, now)).await);
            }
        }
        entries
    }

    /// Records what got into service. Of those that were `wanted`, what had been rolled back counts as taken back.
    async fn record(&self, entries: &mut [Entry], wanted: impl Fn(&Entry) -> bool) {
        let decided = self.decided.load_full();
        for entry in entries.iter().filter(|entry| wanted(entry)) {
            let serving =
                entry.service.as_ref().filter(|service| decided.is_set_aside(&entry.about.name, &service.sha256));
            if let (Some(service), None) = (serving, &entry.refusal) {
                self.taken_back(&entry.about.name, &service.sha256).await;
            }
        }
        self.policy.record(entries).await;
        self.policy.claim(entries, &decided, &self.activation.loader.services.core).await;
    }

    /// What stands in the database about plugins.
    async fn decided(&self) -> Result<Decisions, StoreError> {
        let core = &self.activation.loader.services.core;
        // The stamp first: what is decided while this is read is read again.
        let stamp = plugins::state::stamp(core).await?;
        let decided = Decisions {
            states: plugins::state::all(core).await?,
            owners: plugins::owners::all(core).await?,
            versions: plugins::versions::all(core).await?,
            losses: plugins::versions::losses(core).await?,
        };
        self.watcher.set_stamp(stamp);
        Ok(decided)
    }

    /// Stops every plugin: nothing new begins, what is under way has `grace` to end.
    pub async fn shutdown(&self, grace: Duration) {
        self.activation.close();
        let _alone = self.scanning.lock().await;
        self.activation.shutdown(grace).await;
    }
}
