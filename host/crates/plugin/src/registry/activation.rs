//! How plugins get into service and out of it: they are loaded, one store publishes a new snapshot, and a plugin that
//! is not in it any more drains.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use super::{
    canary::Canary,
    decisions::Decisions,
    entry::{Entry, Service},
    generations::{Generations, fresh},
    load::Loader,
    loads::Loads,
    snapshot::Snapshot,
};
use crate::active::Active;
use cardinal_base::clock::Clock;
use cardinal_package::state::State;

/// How long calls of a replaced instance may take to their end.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// How often a replaced instance is looked at: whether a request still holds its snapshot.
const DRAIN_TICK: Duration = Duration::from_millis(20);

/// The plugins in service, and the loads that are to put others there.
pub(super) struct Activation {
    pub loader: Arc<Loader>,
    pub loads: Loads,
    pub generations: Arc<Generations>,
    pub canaries: Mutex<Vec<Canary>>,
    current: ArcSwap<Snapshot>,
    published: watch::Sender<u64>,
    /// The worker ends: nothing gets into service any more.
    closed: AtomicBool,
    clock: Clock,
}

impl Activation {
    pub(super) fn new(loader: Loader, clock: Clock) -> Self {
        Self {
            loader: Arc::new(loader),
            loads: Loads::default(),
            generations: Arc::default(),
            canaries: Mutex::default(),
            current: ArcSwap::default(),
            published: watch::Sender::new(0),
            closed: AtomicBool::new(false),
            clock,
        }
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    pub(super) fn current(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.current.load()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    pub(super) fn has_published(&self) -> bool {
        *self.published.borrow() > 0
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// From now on nothing gets into service.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Swaps the snapshot once, then lets go of what is not in it any more.
    pub(super) fn publish(&self, entries: Vec<Entry>, decided: &Decisions) {
        let new = Arc::new(Snapshot::new(entries, &self.current.load()));
        let (now, serving): (_, Vec<Arc<Service>>) = (self.clock.now(), new.services().cloned().collect());
        let before: Vec<Arc<Service>> = self.current.load().services().cloned().collect();
        fresh(&before, &serving).for_each(|service| self.generations.begin(service, now));
        let old = self.current.swap(new);
        self.published.send_modify(|count| *count += 1);
        drop(old);
        self.try_out(&before, &serving, decided);
        let leaving: Vec<Arc<Active>> = fresh(&serving, &before).map(|service| Arc::clone(&service.active)).collect();
        drop((before, serving));
        for active in leaving {
            let draining = Draining::begin(active, Arc::clone(&self.generations), self.clock.clone());
            self.loader.services.runtime.spawn(draining.retire());
        }
    }

    /// Whatever takes the place of another package is watched, unless that one was rolled back.
    fn try_out(&self, before: &[Arc<Service>], now: &[Arc<Service>], decided: &Decisions) {
        let canaries = fresh(before, now).filter_map(|new| {
            let name = &new.active.manifest.name;
            let old = before.iter().find(|old| old.active.manifest.name == *name)?;
            Canary::start(new, old).filter(|_| !decided.is_set_aside(name, &old.sha256))
        });
        self.canaries.lock().extend(canaries);
    }

    /// Takes everything out of service; calls under way have `grace` to end.
    pub(super) async fn shutdown(&self, grace: Duration) {
        let last = self.current.swap(Arc::default());
        self.published.send_modify(|count| *count += 1);
        join_all(last.active().map(|active| active.instance.shutdown(grace))).await;
    }
}

/// An instance that is in no snapshot any more and still has calls. Made from an [`Active`] one; retired is what ends
/// it.
struct Draining {
    active: Arc<Active>,
    generations: Arc<Generations>,
    clock: Clock,
}

impl Draining {
    fn begin(active: Arc<Active>, generations: Arc<Generations>, clock: Clock) -> Self {
        generations.set_state(&active.manifest.name, active.generation, State::Draining, clock.now());
        active.instance.drain();
        Self { active, generations, clock }
    }

    /// Waits until no new call can begin, so that none is turned away, then stops the instance.
    async fn retire(self) {
        let Self { active, generations, clock } = self;
        let deadline = Instant::now() + DRAIN_LIMIT;
        while Arc::strong_count(&active) > 1 && Instant::now() < deadline {
            tokio::time::sleep(DRAIN_TICK).await;
        }
        active.instance.shutdown(deadline.saturating_duration_since(Instant::now())).await;
        let (name, generation) = (active.manifest.name.clone(), active.generation);
        drop(active);
        tracing::info!(plugin = name, generation, "retired");
        generations.set_state(&name, generation, State::Retired, clock.now());
    }
}
