//! What earlier workers of this host left for this one: which plugins are set aside, and which libraries have been
//! tried. The supervisor keeps both; here is what it said at the start, and what has changed since.

use std::collections::HashSet;

use parking_lot::{Mutex, MutexGuard, RwLock};
use tracing::Level;

use cardinal_control::{
    crash::{
        history::{CrashEntry, CrashHistory, QuarantinedPackage},
        record::{Cause, Crash},
    },
    link::{LinkError, SupervisorLink},
};
use cardinal_observe::log::{
    Log,
    tail::{Source, TailEntry},
};

pub struct Quarantine {
    history: RwLock<CrashHistory>,
    probed: Mutex<HashSet<String>>,
    /// None where plugins are only looked at.
    supervisor: Option<SupervisorLink>,
}

impl Quarantine {
    pub fn new(history: CrashHistory, probed: Vec<String>, supervisor: SupervisorLink) -> Self {
        Self {
            history: RwLock::new(history),
            probed: Mutex::new(probed.into_iter().collect()),
            supervisor: Some(supervisor),
        }
    }

    /// What was remembered, for a command that looks at plugins and loads none.
    pub fn read_only(history: CrashHistory) -> Self {
        Self { history: RwLock::new(history), probed: Mutex::default(), supervisor: None }
    }

    /// Why a package is not to be loaded.
    pub fn find(&self, plugin: &str, sha256: &str) -> Option<QuarantinedPackage> {
        self.history.read().quarantine(plugin, sha256).cloned()
    }

    /// The last crash that a plugin caused on this host.
    pub(crate) fn last_crash(&self, plugin: &str) -> Option<Crash> {
        self.history.read().find_last(plugin).cloned()
    }

    /// How many crashes of this host are unattributed, and the last of them.
    pub fn unattributed(&self) -> (usize, Option<Crash>) {
        let history = self.history.read();
        (history.unattributed().count(), history.unattributed().next().cloned())
    }

    /// Remembers that a plugin held all its threads; whether it is set aside for it.
    pub fn blocked(&self, crash: Crash) -> bool {
        if let Some(supervisor) = &self.supervisor {
            supervisor.blocked(crash.clone());
        }
        self.history.write().add(crash).is_some()
    }

    /// Puts what is known of crashes where those read along who look into a plugin: the lines of the worker that ended
    /// are gone with it.
    pub fn replay(&self, log: &Log) {
        let history = self.history.read();
        for CrashEntry { crash, .. } in &history.crashes {
            let Some(culprit) = &crash.plugin else { continue };
            let Some(tail) = log.tail(&culprit.name) else { continue };
            let known = [("handler", &culprit.handler), ("offset", &culprit.offset)];
            let known = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into())));
            let version = ("version".to_owned(), culprit.version.clone().into());
            tail.add(&TailEntry {
                at: crash.at,
                level: Level::ERROR,
                source: Source::Host,
                message: &match crash.cause {
                    Cause::Blocked => format!("all its threads were held by {}", crash.describe()),
                    _ => format!("the worker was ended by {}", crash.describe()),
                },
                fields: known.chain([version]).collect(),
                request_id: None,
                trace_id: None,
            });
        }
    }

    /// Lets a plugin out of quarantine, with a clean record; says whether it was there.
    ///
    /// # Errors
    /// The supervisor, which keeps the record, is gone.
    pub async fn release(&self, plugin: &str) -> Result<bool, LinkError> {
        let was_quarantined = self.supervisor.as_ref().ok_or(LinkError)?.release(plugin).await?;
        self.history.write().release(plugin);
        Ok(was_quarantined)
    }

    /// Whether a process of this very program has opened the package before.
    pub(crate) fn was_probed(&self, sha256: &str) -> bool {
        self.known().contains(sha256)
    }

    pub fn probed(&self, sha256: &str) {
        if let Some(supervisor) = &self.supervisor {
            supervisor.probed(sha256);
        }
        self.known().insert(sha256.to_owned());
    }

    fn known(&self) -> MutexGuard<'_, HashSet<String>> {
        self.probed.lock()
    }
}
