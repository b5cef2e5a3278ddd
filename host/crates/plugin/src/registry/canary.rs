//! A package that was put in the place of another is on trial: when its calls go clearly worse than those of the one
//! before, that one comes back by itself.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::time::sleep;

use super::{Registry, entry::Service, history::RollbackTarget};
use crate::error::RegistryError;
use crate::{active::Active, guard::Counters};
use cardinal_observe::plugins::Cause;

/// How long a canary is watched, when there are calls enough to say.
const MIN_DURATION: Duration = Duration::from_secs(60);
/// And when there are not.
const MAX_DURATION: Duration = Duration::from_secs(600);
/// Fewer calls say nothing.
const MIN_CALLS: u64 = 20;
/// Of a hundred calls so many must have gone wrong by the plugin's own fault, and so many more than before, when twice
/// as many did not.
const MIN_PERCENT: u64 = 20;
/// How often canaries are looked at.
const CHECK_PAUSE: Duration = Duration::from_millis(250);
/// After a roll-back that could not be made.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// A package that is watched.
pub(super) struct Canary {
    plugin: String,
    version: String,
    sha256: String,
    active: Weak<Active>,
    started: Instant,
    before: CallCounts,
}

/// Calls that were let in, and those of them that the plugin failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallCounts {
    calls: u64,
    faults: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum CanaryState {
    Open,
    Passed,
    Failed,
}

/// A package that failed as a canary.
#[derive(Clone, Debug)]
pub struct CanaryFailure {
    pub plugin: String,
    pub from: String,
    pub to: String,
    pub reason: String,
}

impl Canary {
    /// For a package that takes the place of another one.
    pub(super) fn start(new: &Service, old: &Service) -> Option<Self> {
        (new.sha256 != old.sha256).then(|| Self {
            plugin: new.active.manifest.name.clone(),
            version: new.active.manifest.version.to_string(),
            sha256: new.sha256.clone(),
            active: Arc::downgrade(&new.active),
            started: Instant::now(),
            before: CallCounts::from_counters(&old.active.guard.counters),
        })
    }

    fn verdict(&self, now: Instant) -> CanaryState {
        match self.active.upgrade() {
            Some(active) => verdict(
                self.before,
                CallCounts::from_counters(&active.guard.counters),
                now.duration_since(self.started),
            ),
            None => CanaryState::Passed, // something else serves by now
        }
    }

    fn reason(&self) -> String {
        let now = self.active.upgrade().map_or(self.before, |active| CallCounts::from_counters(&active.guard.counters));
        let (seconds, before) = (self.started.elapsed().as_secs(), self.before);
        format!(
            "{} of {} calls failed within {seconds} s of its start; of the package before, {} of {}.",
            now.faults, now.calls, before.faults, before.calls
        )
    }
}

impl CallCounts {
    fn from_counters(counters: &Counters) -> Self {
        Self {
            calls: counters.calls.read().saturating_sub(counters.refused.read()),
            faults: counters.causes[Cause::Plugin as usize].read(),
        }
    }

    fn percent(self) -> u64 {
        if self.calls < MIN_CALLS { 0 } else { self.faults * 100 / self.calls }
    }
}

fn verdict(before: CallCounts, now: CallCounts, lasted: Duration) -> CanaryState {
    let bad = now.percent() >= MIN_PERCENT;
    let worse = now.percent() >= 2 * before.percent() || now.percent() >= before.percent() + MIN_PERCENT;
    match () {
        () if now.calls >= MIN_CALLS && bad && worse => CanaryState::Failed,
        () if lasted >= MAX_DURATION || (lasted >= MIN_DURATION && now.calls >= MIN_CALLS) => CanaryState::Passed,
        () => CanaryState::Open,
    }
}

impl Registry {
    /// Waits until a package has failed as a canary and the one before serves again; `by` is who did it.
    pub async fn failed_trial(&self, by: &Value) -> CanaryFailure {
        loop {
            let failed = self.next_failed();
            let Some(canary) = failed else {
                sleep(CHECK_PAUSE).await;
                continue;
            };
            let (plugin, reason) = (canary.plugin.clone(), canary.reason());
            tracing::warn!(plugin, version = canary.version, reason, "a package fails its trial and is rolled back");
            match self.roll_back(&plugin, &RollbackTarget::Before, Some(&canary.sha256), by, &reason).await {
                Ok(back) => return CanaryFailure { plugin, from: back.from, to: back.to, reason },
                Err(error) => {
                    tracing::error!(plugin, error = ?error, "failed to roll back a package that fails its trial");
                    if matches!(error, RegistryError::Store(_) | RegistryError::Internal(_)) {
                        self.activation.canaries.lock().push(canary);
                    }
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// The first that has failed, taken off the list; those that have passed are forgotten.
    fn next_failed(&self) -> Option<Canary> {
        let now = Instant::now();
        let mut canaries = self.activation.canaries.lock();
        canaries.retain(|canary| canary.verdict(now) != CanaryState::Passed);
        let at = canaries.iter().position(|canary| canary.verdict(now) == CanaryState::Failed)?;
        Some(canaries.swap_remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(1);

    fn seen(calls: u64, faults: u64) -> CallCounts {
        CallCounts { calls, faults }
    }

    #[test]
    fn what_fails_clearly_more_often_than_before_fails_its_trial() {
        let good = seen(1_000, 3);
        assert_eq!(verdict(good, seen(19, 19), SOON), CanaryState::Open, "too few to say");
        assert_eq!(verdict(good, seen(20, 4), SOON), CanaryState::Failed);
        assert_eq!(verdict(good, seen(100, 19), SOON), CanaryState::Open);
        assert_eq!(verdict(seen(0, 0), seen(20, 20), SOON), CanaryState::Failed, "the one before had no calls");
    }

    #[test]
    fn what_is_no_worse_than_before_stays() {
        let bad = seen(1_000, 500);
        assert_eq!(verdict(bad, seen(100, 60), SOON), CanaryState::Open);
        assert_eq!(verdict(bad, seen(100, 70), SOON), CanaryState::Failed);
        assert_eq!(verdict(seen(1_000, 150), seen(100, 25), SOON), CanaryState::Open);
    }

    #[test]
    fn a_trial_ends() {
        let good = seen(1_000, 0);
        assert_eq!(verdict(good, seen(20, 0), MIN_DURATION), CanaryState::Passed);
        assert_eq!(verdict(good, seen(19, 19), MIN_DURATION), CanaryState::Open, "it goes on until there are calls");
        assert_eq!(verdict(good, seen(19, 19), MAX_DURATION), CanaryState::Passed);
        assert_eq!(verdict(good, seen(1_000, 900), MIN_DURATION), CanaryState::Failed);
    }
}
