//! Looks after the plugins folder and after what other hosts decide, as long as the worker lives.

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use notify::{
    EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode, ModifyKind, RenameMode},
};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::spawn_blocking, time::sleep};

use super::{
    Registry, ScanScope,
    debounce::PendingChanges,
    folder::{self, FolderListing},
};
use cardinal_store::plugins;

/// How often the folder is looked at without a notice of a change: not every file system sends one.
const POLL: Duration = Duration::from_secs(3);
/// Changes come in flocks.
const BURST_PAUSE: Duration = Duration::from_millis(50);
/// How often a host asks whether another one has decided something; the contract allows 5 s.
const FOLLOW: Duration = Duration::from_secs(1);
/// When plugins are tried again that the host itself failed. Each time it doubles: what is in the way stays there at
/// times, and a schema step keeps writers of cards waiting for a moment.
const FIRST_RETRY: Duration = Duration::from_secs(15);
const MAX_RETRY: Duration = Duration::from_secs(240);
/// Names of what was moved into the folder that are remembered; the rest waits like any other.
const MOVED: usize = 1_000;

/// What this host has seen of the plugins folder and of decisions.
pub(super) struct Watcher {
    folder: PathBuf,
    /// How the packages looked when they were read last.
    read: Mutex<FolderListing>,
    /// The stamp of the decisions that were read last.
    stamp: Mutex<Option<i64>>,
}

impl Watcher {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), read: Mutex::default(), stamp: Mutex::default() }
    }

    /// The plugins folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// How the packages looked when they were read last.
    pub(super) fn read(&self) -> FolderListing {
        self.read.lock().clone()
    }

    pub(super) fn set_read(&self, look: FolderListing) {
        *self.read.lock() = look;
    }

    fn stamp(&self) -> Option<i64> {
        *self.stamp.lock()
    }

    pub(super) fn set_stamp(&self, stamp: i64) {
        *self.stamp.lock() = Some(stamp);
    }

    /// The folder without links in its path, and its packages; nothing while it cannot be read.
    async fn see(&self, rules: Vec<PathBuf>) -> Option<(PathBuf, FolderListing)> {
        let folder = self.folder.clone();
        let seen = spawn_blocking(move || {
            let folder = folder.canonicalize()?;
            let seen = folder::list(&folder, &rules)?;
            Ok::<_, std::io::Error>((folder, seen))
        });
        match seen.await.map_err(std::io::Error::other).and_then(|seen| seen) {
            Ok(seen) => Some(seen),
            Err(error) => {
                tracing::debug!(folder = %self.folder.display(), %error, "cannot watch the plugins folder; active \
                    plugins stay in service");
                None
            }
        }
    }
}

impl Registry {
    /// Follows what happens in the plugins folder.
    pub async fn watch_folder(&self) {
        self.looked().await;
        let changes = Arc::new(FolderChanges::default());
        let (mut watching, mut pending, mut wait) = (None, PendingChanges::default(), Duration::ZERO);
        loop {
            tokio::select! {
                () = changes.notify_changed.notified() => sleep(BURST_PAUSE).await,
                () = sleep(wait) => {}
            }
            wait = POLL;
            let Some((folder, seen)) = self.watcher.see(self.policy.rules()).await else { continue };
            watching = watch(watching, folder, &changes).await;
            let observed = pending.observe(&seen, &self.watcher.read(), &changes.moved(), Instant::now());
            wait = observed.wait.unwrap_or(POLL).min(POLL);
            if observed.due {
                let half = self.walk(ScanScope {
                    unsettled: observed.unsettled,
                    incomplete: observed.incomplete,
                    ..ScanScope::default()
                });
                pending.mark_incomplete(&half.await);
                wait = BURST_PAUSE;
            }
        }
    }

    /// Follows what is decided on any host, and tries again what the host could not do.
    pub async fn follow_decisions(&self) {
        self.looked().await;
        let mut retry = Retry::new(Instant::now());
        loop {
            sleep(FOLLOW).await;
            let is_new = match plugins::state::stamp(&self.activation.loader.services.core).await {
                Ok(stamp) => self.watcher.stamp() != Some(stamp),
                Err(error) => {
                    tracing::debug!(error = ?error, "failed to read the decisions about plugins; active plugins \
                        stay in service");
                    // What failed for that may work at once when the database is there again.
                    retry = Retry::new(Instant::now());
                    continue;
                }
            };
            let is_due = retry.is_due(self.current().failed(), Instant::now());
            if is_new || is_due {
                self.apply_decisions().await;
            }
        }
    }

    /// Waits for the first look at the folder, which is the start's own.
    async fn looked(&self) {
        // The sender lives as long as this registry does.
        let _ = self.changes().wait_for(|count| *count > 0).await;
    }
}

/// When what failed is tried again.
struct Retry {
    since: Instant,
    wait: Duration,
    failed: BTreeSet<String>,
}

impl Retry {
    fn new(now: Instant) -> Self {
        Self { since: now, wait: FIRST_RETRY, failed: BTreeSet::new() }
    }

    /// Whether it is time to try these again. A plugin that failed anew does not wait for those that fail all the time.
    fn is_due(&mut self, failed: BTreeSet<String>, now: Instant) -> bool {
        if !failed.is_subset(&self.failed) {
            *self = Self::new(now);
        }
        self.failed = failed;
        let is_due = !self.failed.is_empty() && now.duration_since(self.since) >= self.wait;
        if is_due {
            self.since = now;
            self.wait = (self.wait * 2).min(MAX_RETRY);
        }
        is_due
    }
}

/// Rings when something has changed in the folder.
#[derive(Default)]
struct FolderChanges {
    notify_changed: Notify,
    moved: Mutex<HashSet<PathBuf>>,
}

impl FolderChanges {
    fn record(&self, event: notify::Result<notify::Event>) {
        if let Ok(event) = event {
            match event.kind {
                // Our own reading.
                EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write) => return,
                EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)) => {
                    let mut moved = self.moved.lock();
                    if moved.len() < MOVED {
                        moved.extend(event.paths.into_iter().last());
                    }
                }
                _ => {}
            }
        }
        self.notify_changed.notify_one();
    }

    fn moved(&self) -> HashSet<PathBuf> {
        std::mem::take(&mut *self.moved.lock())
    }
}

/// What reports changes, and the folder with its inode: another folder may take the same name.
type Watching = Option<(RecommendedWatcher, (PathBuf, u64))>;

/// Goes on watching, or begins to. Where that is not possible the folder is looked at every few seconds all the same.
async fn watch(before: Watching, folder: PathBuf, changes: &Arc<FolderChanges>) -> Watching {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(&folder).map_or(0, |found| found.ino());
    if before.as_ref().is_some_and(|(_, watched)| *watched == (folder.clone(), inode)) {
        return before;
    }
    let changes = Arc::clone(changes);
    let begin = move || {
        drop(before); // it may wait for a thread
        begin(&folder, changes).map(|watcher| (watcher, (folder, inode)))
    };
    match spawn_blocking(begin).await {
        Ok(Ok(watching)) => Some(watching),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the system reports no changes in the plugins folder; it is polled every few \
                seconds");
            None
        }
        Err(error) => {
            tracing::error!(%error, "failed to watch the plugins folder");
            None
        }
    }
}

fn begin(folder: &Path, changes: Arc<FolderChanges>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event| changes.record(event))?;
    watcher.watch(folder, RecursiveMode::Recursive)?;
    Ok(watcher)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds at which what fails is tried again.
    fn tries(seconds: u64, failed: impl Fn(u64) -> &'static [&'static str]) -> Vec<u64> {
        let start = Instant::now();
        let mut retry = Retry::new(start);
        let at = |second: u64| start + Duration::from_secs(second);
        let names = |second| failed(second).iter().map(|name| (*name).to_owned()).collect();
        (0..seconds).filter(|second| retry.is_due(names(*second), at(*second))).collect()
    }

    #[test]
    fn what_goes_on_failing_is_tried_less_and_less_often() {
        assert_eq!(tries(1_000, |_| &["a"]), [15, 45, 105, 225, 465, 705, 945]);
        assert_eq!(tries(1_000, |_| &[]), [] as [u64; 0]);
    }

    #[test]
    fn what_fails_anew_does_not_wait_for_what_fails_all_the_time() {
        let failed = |second| -> &[&str] { if second < 500 { &["a"] } else { &["a", "b"] } };
        assert_eq!(tries(600, failed), [15, 45, 105, 225, 465, 515, 545]);
    }
}
