//! Looks after the plugins folder and after what other hosts decide, as long as the worker lives.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use notify::{
    EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode, ModifyKind, RenameMode},
};
use tokio::{sync::Notify, task::spawn_blocking, time::sleep};

use super::{
    Course, Registry,
    folder::{self, Look},
    settling::Settling,
};
use cardinal_package::state::State;
use cardinal_store::plugin_state;

/// How often the folder is looked at without being told that something changed there: not every file system tells.
const POLL: Duration = Duration::from_secs(3);
/// Changes come in flocks.
const FLOCK: Duration = Duration::from_millis(50);
/// How often a host asks whether another one has decided something; the contract allows 5 s.
const FOLLOW: Duration = Duration::from_secs(1);
/// How often plugins are tried again that the host itself failed.
const RETRY: Duration = Duration::from_secs(15);
/// Names of what was moved into the folder that are remembered; the rest waits like any other.
const MOVED: usize = 1_000;

impl Registry {
    /// Follows what happens in the plugins folder.
    pub async fn watch_folder(&self) {
        self.looked().await;
        let bell = Arc::new(Bell::default());
        let (mut watching, mut settling, mut wait) = (None, Settling::default(), Duration::ZERO);
        loop {
            tokio::select! {
                () = bell.rings.notified() => sleep(FLOCK).await,
                () = sleep(wait) => {}
            }
            wait = POLL;
            let Some((folder, seen)) = self.see().await else { continue };
            watching = watch(watching, folder, &bell).await;
            let observed = settling.observe(&seen, &self.read(), &bell.moved(), Instant::now());
            wait = observed.wait.unwrap_or(POLL).min(POLL);
            if observed.due {
                let half =
                    self.walk(Course { unsettled: observed.unsettled, young: observed.young, ..Course::default() });
                settling.doubt(&half.await);
                wait = FLOCK;
            }
        }
    }

    /// Follows what is decided on any host, and tries again what the host could not do.
    pub async fn follow_decisions(&self) {
        self.looked().await;
        let mut tried = Instant::now();
        loop {
            sleep(FOLLOW).await;
            let is_new = match plugin_state::stamp(&self.loader.services.core).await {
                Ok(stamp) => self.stamp() != Some(stamp),
                Err(error) => {
                    tracing::debug!(error = ?error, "what was decided about plugins could not be read; what serves stays");
                    continue;
                }
            };
            let failed = tried.elapsed() > RETRY && self.current().states().any(|state| state == State::Failed);
            if is_new || failed {
                tried = Instant::now();
                self.apply_decisions().await;
            }
        }
    }

    /// Waits for the first look at the folder, which is the start's own.
    async fn looked(&self) {
        // The sender lives as long as this registry does.
        let _ = self.changes().wait_for(|count| *count > 0).await;
    }

    /// The folder without links in its path, and its packages; nothing while it cannot be read.
    async fn see(&self) -> Option<(PathBuf, Look)> {
        let (folder, rules) = (self.plugins_dir.clone(), self.judge.rules());
        let seen = spawn_blocking(move || {
            let folder = folder.canonicalize()?;
            let seen = folder::look(&folder, &rules)?;
            Ok::<_, std::io::Error>((folder, seen))
        });
        match seen.await.map_err(std::io::Error::other).and_then(|seen| seen) {
            Ok(seen) => Some(seen),
            Err(error) => {
                tracing::debug!(folder = %self.plugins_dir.display(), %error, "the plugins folder cannot be seen; what serves stays");
                None
            }
        }
    }
}

/// Rings when something has changed in the folder.
#[derive(Default)]
struct Bell {
    rings: Notify,
    moved: Mutex<HashSet<PathBuf>>,
}

impl Bell {
    fn ring(&self, event: notify::Result<notify::Event>) {
        if let Ok(event) = event {
            match event.kind {
                // Our own reading.
                EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write) => return,
                EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)) => {
                    let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
                    if moved.len() < MOVED {
                        moved.extend(event.paths.into_iter().last());
                    }
                }
                _ => {}
            }
        }
        self.rings.notify_one();
    }

    fn moved(&self) -> HashSet<PathBuf> {
        std::mem::take(&mut *self.moved.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What tells of changes, and in which folder, known by its inode: another one may lie under the same name.
type Watching = Option<(RecommendedWatcher, (PathBuf, u64))>;

/// Goes on watching, or begins to. Where that is not possible the folder is looked at every few seconds all the same.
async fn watch(before: Watching, folder: PathBuf, bell: &Arc<Bell>) -> Watching {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(&folder).map_or(0, |found| found.ino());
    if before.as_ref().is_some_and(|(_, watched)| *watched == (folder.clone(), inode)) {
        return before;
    }
    let bell = Arc::clone(bell);
    let begin = move || {
        drop(before); // it may wait for a thread
        begin(&folder, bell).map(|watcher| (watcher, (folder, inode)))
    };
    match spawn_blocking(begin).await {
        Ok(Ok(watching)) => Some(watching),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the system does not tell of changes in the plugins folder; it is looked at every few seconds");
            None
        }
        Err(error) => {
            tracing::error!(%error, "beginning to watch the plugins folder failed");
            None
        }
    }
}

fn begin(folder: &Path, bell: Arc<Bell>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event| bell.ring(event))?;
    watcher.watch(folder, RecursiveMode::Recursive)?;
    Ok(watcher)
}
