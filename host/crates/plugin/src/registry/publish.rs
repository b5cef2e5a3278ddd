//! The swap: one store makes a new snapshot everybody's, and what is not in it any more leaves in peace.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Registry,
    canary::Canary,
    generations::fresh,
    snapshot::{Entry, Service, Snapshot},
};
use crate::active::Active;
use cardinal_package::state::State;

/// How long calls of a replaced instance may take to their end.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// How often a replaced instance is looked at: whether somebody still holds its snapshot.
const DRAIN_TICK: Duration = Duration::from_millis(20);

impl Registry {
    /// Swaps the snapshot once, then lets go of what is not in it any more.
    pub(super) fn publish(&self, entries: Vec<Entry>) {
        let new = Arc::new(Snapshot::new(entries));
        let (now, serving): (_, Vec<Arc<Service>>) = (self.clock.now(), new.services().cloned().collect());
        let before: Vec<Arc<Service>> = self.current.load().services().cloned().collect();
        fresh(&before, &serving).for_each(|service| self.generations.begin(service, now));
        let old = self.current.swap(new);
        self.published.send_modify(|count| *count += 1);
        drop(old);
        self.try_out(&before, &serving);
        let leaving: Vec<Arc<Active>> = fresh(&serving, &before).map(|service| Arc::clone(&service.active)).collect();
        drop((before, serving));
        for active in leaving {
            self.generations.turn(&active.manifest.name, active.generation, State::Draining, now);
            let (generations, clock) = (Arc::clone(&self.generations), self.clock.clone());
            self.loader.services.runtime.spawn(async move {
                let (name, number) = (active.manifest.name.clone(), active.generation);
                retire(active).await;
                generations.turn(&name, number, State::Retired, clock.now());
            });
        }
    }

    /// Whatever takes the place of another package is on trial, unless that one was rolled back.
    fn try_out(&self, before: &[Arc<Service>], now: &[Arc<Service>]) {
        let decided = self.decided.load();
        let trials = fresh(before, now).filter_map(|new| {
            let name = &new.active.manifest.name;
            let old = before.iter().find(|old| old.active.manifest.name == *name)?;
            Canary::start(new, old).filter(|_| !decided.is_set_aside(name, &old.sha256))
        });
        self.trials.lock().unwrap_or_else(PoisonError::into_inner).extend(trials);
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
