//! Loads under way. Each plugin is loaded in a task of its own, and a scan waits for none of them for long: what hangs
//! in one plugin's schema or `routes` holds up that plugin alone. What is done after its scan is put into service by
//! [`Registry::finish_loads`].

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{Notify, oneshot, watch},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Registry, ScanScope,
    candidate::{PackageError, PackageSummary},
    entry::{Entry, Service},
    load::Loader,
    policy::{Approved, Step},
    snapshot::{Before, Snapshot},
};
use cardinal_package::{
    compat::Claims,
    manifest::Manifest,
    refusal::{Code, Refusal},
};

/// How long a scan waits for what it has begun to load; what takes longer is put into service when it is done.
const SCAN_TIMEOUT: Duration = Duration::from_secs(1);
type Outcome = Result<Service, PackageError>;

/// All of them.
pub(super) struct Loads {
    /// Those that begin now belong to the worker's first scan.
    is_first_scan: AtomicBool,
    under_way: Mutex<LoadTable>,
    /// Rings when one has ended.
    wake: Arc<Notify>,
    /// Counts those whose end has been published.
    ended: watch::Sender<u64>,
}

#[derive(Default)]
struct LoadTable {
    next: u64,
    loads: BTreeMap<u64, Load>,
    /// The names of plugins whose loads are not yet to be seen as ended.
    awaited: BTreeMap<u64, String>,
}

/// One of them.
pub(super) struct Load {
    pub number: u64,
    pub about: PackageSummary,
    pub manifest: Manifest,
    settings: Value,
    pub instead_of: Option<Box<Entry>>,
    in_first_scan: bool,
    /// Something else is wanted by now: the outcome is of no use.
    superseded: CancellationToken,
    outcome: oneshot::Receiver<Outcome>,
}

impl Default for Loads {
    fn default() -> Self {
        Self {
            is_first_scan: AtomicBool::new(true),
            under_way: Mutex::default(),
            wake: Arc::default(),
            ended: watch::Sender::new(0),
        }
    }
}

impl Loads {
    /// Begins to load a package, in a task of its own: one that breaks down takes no other with it.
    pub(super) fn begin(&self, loader: &Arc<Loader>, approved: Approved) -> Load {
        let (about, instead_of) = (approved.about.clone(), approved.instead_of.clone());
        let (manifest, settings) = (approved.candidate.manifest().clone(), approved.settings.clone());
        let (loader, wake) = (Arc::clone(loader), Arc::clone(&self.wake));
        let (done, outcome) = oneshot::channel();
        let superseded = CancellationToken::new();
        let is_superseded = superseded.clone();
        tokio::spawn(async move {
            let load = tokio::spawn(async move { loader.load(approved, &is_superseded).await });
            let loaded =
                load.await.unwrap_or_else(|error| Err(PackageError::Failed(format!("Loading it failed: {error}"))));
            let _ = done.send(loaded);
            wake.notify_one();
        });
        let mut under_way = self.under_way.lock();
        under_way.next += 1;
        let (number, in_first_scan) = (under_way.next, self.is_first_scan.load(Ordering::Relaxed));
        Load { number, in_first_scan, about, manifest, settings, instead_of, superseded, outcome }
    }

    pub(super) fn end_first_scan(&self) {
        self.is_first_scan.store(false, Ordering::Relaxed);
    }

    /// Waits for loads as long as a scan may; those that are not done by then stay under way. Gives what became of
    /// each.
    pub(super) async fn wait(&self, begun: Vec<Load>) -> Vec<(Load, Option<Outcome>)> {
        let deadline = Instant::now() + SCAN_TIMEOUT;
        let mut waited = Vec::with_capacity(begun.len());
        for mut load in begun {
            let outcome = timeout_at(deadline, &mut load.outcome).await;
            waited.push((load, outcome.ok().map(|outcome| outcome.unwrap_or_else(|_| Err(broken())))));
        }
        waited
    }

    /// Goes on with a load after its scan.
    pub(super) fn leave(&self, load: Load) {
        let mut under_way = self.under_way.lock();
        under_way.awaited.insert(load.number, load.about.name.clone());
        under_way.loads.insert(load.number, load);
        drop(under_way);
        self.wake.notify_one(); // it may just have ended
    }

    /// The load of this package that is under way, by its number; one with another content or other settings is not
    /// wanted any more when it ends.
    pub(super) fn join(&self, approved: &Approved) -> Option<(u64, Manifest)> {
        let mut under_way = self.under_way.lock();
        let load = under_way.loads.values_mut().find(|load| load.about.origin == approved.about.origin)?;
        if load.about.sha256 != approved.about.sha256 || load.settings != approved.settings {
            load.superseded.cancel();
        }
        Some((load.number, load.manifest.clone()))
    }

    /// Those that have ended, with their outcomes.
    fn take_ended(&self) -> Vec<(Load, Outcome)> {
        let mut under_way = self.under_way.lock();
        let mut ended = Vec::new();
        for (number, load) in &mut under_way.loads {
            match load.outcome.try_recv() {
                Ok(outcome) => ended.push((*number, outcome)),
                Err(oneshot::error::TryRecvError::Closed) => ended.push((*number, Err(broken()))),
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
        }
        ended.into_iter().filter_map(|(number, outcome)| Some((under_way.loads.remove(&number)?, outcome))).collect()
    }

    /// What loads that are under way own: name, prefix, tools, tabs.
    fn claim(&self, claims: &mut Claims) {
        for load in self.under_way.lock().loads.values() {
            let _ = claims.take(&load.manifest, &load.about.origin); // the first has it
        }
    }

    fn show_ended(&self, numbers: &[u64]) {
        self.under_way.lock().awaited.retain(|number, _| !numbers.contains(number));
        self.ended.send_modify(|count| *count += 1);
    }

    /// Ends the waiting for loads that the snapshot does not wait for, and their turns to be tried: something else was
    /// decided meanwhile, or the package is gone.
    pub(super) fn forget_unwanted(&self, snapshot: &Snapshot) {
        let is_wanted = |number: &u64| snapshot.entries().iter().any(|entry| entry.loading == Some(*number));
        let mut under_way = self.under_way.lock();
        under_way.awaited.retain(|number, _| is_wanted(number));
        let unwanted = under_way.loads.values().filter(|load| !is_wanted(&load.number));
        unwanted.for_each(|load| load.superseded.cancel());
        drop(under_way);
        self.ended.send_modify(|count| *count += 1);
    }

    /// Waits until no load of the plugin is under way, of no plugin when none is named; at most for `limit`.
    pub(super) async fn settled(&self, plugin: Option<&str>, limit: Duration) {
        let mut ended = self.ended.subscribe();
        let settled = async {
            loop {
                ended.mark_unchanged();
                let waits = |name: &String| plugin.is_none_or(|plugin| name == plugin);
                if !self.under_way.lock().awaited.values().any(waits) || ended.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(limit, settled).await; // the registry shows what is still being loaded
    }
}

fn broken() -> PackageError {
    PackageError::Failed("Loading it failed; the log says why.".to_owned())
}

impl Registry {
    /// Puts into service what was loaded after its scan, as long as the worker lives.
    pub async fn finish_loads(&self) {
        loop {
            self.activation.loads.wake.notified().await;
            let alone = self.scanning.lock().await;
            if self.activation.is_closed() {
                return;
            }
            let ended = self.activation.loads.take_ended();
            if ended.is_empty() {
                continue;
            }
            let numbers: Vec<u64> = ended.iter().map(|(load, _)| load.number).collect();
            let next = self.finish(ended).await;
            drop(alone);
            if let Some(scope) = next {
                self.walk(scope).await;
            }
            self.activation.loads.show_ended(&numbers);
        }
    }

    /// Publishes what was loaded; gives the scan that has to follow, if any.
    async fn finish(&self, ended: Vec<(Load, Outcome)>) -> Option<ScanScope> {
        let snapshot = self.snapshot();
        let mut entries: Vec<Entry> = snapshot.entries().to_vec();
        let (mut next, mut arrived) = (None, Vec::new());
        for (load, outcome) in ended {
            let at = entries.iter().position(|entry| entry.loading == Some(load.number));
            let Some(at) = at.filter(|_| !load.superseded.is_cancelled()) else {
                next.get_or_insert_with(ScanScope::for_decisions); // what is wanted instead may be loaded now
                continue;
            };
            let (origin, begun_at_start) = (load.about.origin.clone(), load.in_first_scan && load.instead_of.is_none());
            entries[at] = self.arrived(load, outcome, &entries, at);
            if begun_at_start && self.after_crash && entries[at].service.is_none() {
                entries[at] = self.stand_in(entries[at].clone()).await;
            }
            if entries[at].refusal.is_some() && entries.iter().any(Entry::was_turned_away) {
                // What it owned is free for those that it kept out. No other that is refused is tried again with them:
                // two that are slow to fail would take turns without end.
                let refused = entries.iter().filter(|entry| entry.refusal.is_some() && !entry.was_turned_away());
                let refused = refused.map(|entry| entry.about.origin.clone());
                next.get_or_insert_with(ScanScope::for_decisions).left_alone.extend(refused);
            }
            arrived.push(origin);
        }
        self.record(&mut entries, |entry| arrived.contains(&entry.about.origin)).await;
        self.activation.publish(entries, &self.decided.load());
        self.activation.loader.announce_in_service(&self.snapshot()).await;
        next
    }

    /// What becomes of the plugin whose load has ended.
    fn arrived(&self, load: Load, outcome: Outcome, entries: &[Entry], at: usize) -> Entry {
        let serving = entries[at].service.clone().map(|service| (entries[at].about.clone(), service));
        let Load { about, manifest, instead_of, .. } = load;
        let outcome = outcome.and_then(|service| match self.free(&manifest, entries, at) {
            Ok(()) => Ok(service),
            Err(refusal) => Err(refusal.into()),
        });
        let error = match (outcome, &instead_of) {
            (Ok(service), Some(entry)) => return Entry::clone(entry).behind(about, Arc::new(service)),
            (Ok(service), None) => return Entry::in_service(about, Arc::new(service)),
            (Err(error), _) => error,
        };
        let ended = Entry::ended(about, error);
        let ended = match instead_of {
            Some(entry) => entry.without_stand_in(&ended),
            None => ended,
        };
        match serving {
            Some((about, service)) => ended.behind(about, service),
            None => ended,
        }
    }

    /// After a crash what served before serves again, whatever lies in the folder now and took longer than the scan to
    /// turn out to be no good.
    async fn stand_in(&self, entry: Entry) -> Entry {
        let snapshot = self.snapshot();
        let step = self.policy.find_fallback(entry, &self.decided.load(), &Before::at(&snapshot), true).await;
        match step {
            Step::Done(entry) | Step::Keep(entry) => entry,
            Step::Load(approved) => {
                let load = self.activation.loads.begin(&self.activation.loader, *approved);
                let entry = Entry::loading(load.about.clone(), load.number);
                self.activation.loads.leave(load);
                entry
            }
        }
    }

    /// Whether what the plugin wants is still free.
    fn free(&self, manifest: &Manifest, entries: &[Entry], at: usize) -> Result<(), Refusal> {
        let mut claims = Claims::default();
        for entry in entries.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, entry)| entry) {
            if let Some(service) = &entry.service {
                let _ = claims.take(&service.active.manifest, &entry.about.origin);
            }
        }
        self.activation.loads.claim(&mut claims);
        claims.take(manifest, &entries[at].about.origin)
    }
}

impl Entry {
    /// Whether it is refused because another one has what it wants.
    fn was_turned_away(&self) -> bool {
        use Code::{DuplicateContribution, DuplicateName, DuplicatePrefix, DuplicateTab, DuplicateTool};
        let taken = [DuplicateName, DuplicatePrefix, DuplicateTool, DuplicateTab, DuplicateContribution];
        self.refusal.as_ref().is_some_and(|refusal| taken.contains(&refusal.code))
    }
}
