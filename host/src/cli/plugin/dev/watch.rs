//! What changes in a crate's folder, and in those of the crates beside it that it is built from. Times and lengths are
//! looked at a few times a second: a crate has some dozens of files, and looking works on every file system.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use cardinal_package::package::{FRONTEND, SCHEMA};

/// A burst of saves is over when nothing has changed between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(80);
/// What cargo keeps in the crate's folder. Further down, as in src/target/, such a name is the author's own.
const IGNORED: [&str; 2] = ["target", "Cargo.lock"];
/// What npm installs, wherever.
const PACKAGES: &str = "node_modules";
/// What is built into `frontend/`, as by `cardinal plugin new --build vite`: the result counts.
const BUILT: &str = "ui";
/// An edit that seems older was made to look so, as when a file is moved here.
const RECENT: Duration = Duration::from_secs(5);

/// In a folder further down it begins another crate, which is watched by itself where it is built, too.
const CRATE: &str = "Cargo.toml";
/// Cargo puts it into its folder, wherever CARGO_TARGET_DIR has that.
const CACHE_MARK: &str = "CACHEDIR.TAG";

type Files = BTreeMap<PathBuf, (SystemTime, u64)>;

/// What changed since the last time.
#[derive(Debug)]
pub(super) struct Changes {
    /// When the last file was saved, as far as is known.
    pub at: Instant,
    /// Nothing that is compiled in a way that counts: `frontend/` and `schema.sql` alone.
    pub only_carried: bool,
    /// A `Cargo.toml`, by which other crates may come in.
    pub dependencies: bool,
}

pub(super) struct Watch {
    folder: PathBuf,
    dependencies: BTreeSet<PathBuf>,
    seen: Files,
}

impl Watch {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), dependencies: BTreeSet::new(), seen: look(folder) }
    }

    /// Watches these folders of other crates, too. What is in a new one now counts as seen.
    pub(super) fn depend_on(&mut self, dependencies: BTreeSet<PathBuf>) {
        for gone in self.dependencies.difference(&dependencies) {
            self.seen.retain(|path, _| !path.starts_with(gone));
        }
        for new in dependencies.difference(&self.dependencies) {
            self.seen.extend(look_at_dependency(new));
        }
        self.dependencies = dependencies;
    }

    fn look(&self) -> Files {
        let mut files = look(&self.folder);
        files.extend(self.dependencies.iter().flat_map(|folder| look_at_dependency(folder)));
        files
    }

    /// Waits for a change, and until no more follow.
    pub(super) async fn changed(&mut self) -> Changes {
        let mut last = self.look();
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let now = self.look();
            if now == last && now != self.seen {
                let changes = between(&self.seen, &now);
                self.seen = now;
                return changes;
            }
            last = now;
        }
    }
}

fn between(before: &Files, now: &Files) -> Changes {
    let changed = now.iter().filter(|(path, state)| before.get(*path) != Some(state));
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    let saved = changed.clone().map(|(_, (time, _))| *time).max();
    let age = saved.and_then(|time| time.elapsed().ok()).filter(|age| *age < RECENT).unwrap_or_default();
    let is_carried = |path: &PathBuf| path.starts_with(FRONTEND) || path == Path::new(SCHEMA);
    let paths = || changed.clone().map(|(path, _)| path).chain(gone.clone());
    Changes {
        at: Instant::now().checked_sub(age).unwrap_or_else(Instant::now),
        only_carried: paths().all(is_carried),
        dependencies: paths().any(|path| path.ends_with(CRATE)),
    }
}

/// Files by their whole paths, so that none is taken for one of the plugin's own.
fn look_at_dependency(folder: &Path) -> Files {
    let is_another_crate = |below: &Path| folder.join(below).join(CRATE).exists();
    let files = look_where(folder, |below| !is_another_crate(below));
    files.into_iter().map(|(path, state)| (folder.join(path), state)).collect()
}

/// Files by their paths below the folder. What cannot be read counts as not there.
fn look(folder: &Path) -> Files {
    look_where(folder, |_| true)
}

fn look_where(folder: &Path, enters: impl Fn(&Path) -> bool) -> Files {
    let mut files = Files::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder.join(&below)) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // Editors keep what is not saved yet in files such as `x~` and `.x.swp`.
            if name.starts_with('.') || name.ends_with('~') || name == PACKAGES {
                continue;
            }
            let path = below.join(&*name);
            if IGNORED.iter().chain([&BUILT]).any(|ignored| path == Path::new(ignored)) {
                continue;
            }
            match entry.metadata() {
                Ok(found) if found.is_dir() => {
                    let is_entered = !folder.join(&path).join(CACHE_MARK).exists() && enters(&path);
                    folders.extend(is_entered.then_some(path));
                }
                Ok(found) => {
                    files.insert(path, (found.modified().unwrap_or(SystemTime::UNIX_EPOCH), found.len()));
                }
                Err(_) => {}
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, path: &str, text: &str) {
        let file = folder.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[tokio::test]
    async fn a_burst_of_saves_is_one_change() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "src/lib.rs", "");
        let mut watch = Watch::new(folder.path());
        for round in 0..20 {
            write(folder.path(), "src/lib.rs", &"x".repeat(round + 1));
        }
        let changes = watch.changed().await;
        assert!(!changes.only_carried && changes.at.elapsed() < RECENT);
        let again = tokio::time::timeout(POLL_INTERVAL * 5, watch.changed()).await;
        assert!(again.is_err(), "nothing has changed since");
    }

    #[tokio::test]
    async fn what_the_library_carries_needs_no_compiler() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "src/lib.rs", "");
        write(folder.path(), "frontend/a.js", "");
        let mut watch = Watch::new(folder.path());
        for ignored in ["ui/plugin.ts", "target/x", ".git/x", "src/lib.rs~", "Cargo.lock"] {
            write(folder.path(), ignored, "");
        }
        write(folder.path(), "frontend/b/c.css", "");
        write(folder.path(), "schema.sql", "");
        fs::remove_file(folder.path().join("frontend/a.js")).unwrap();
        assert!(watch.changed().await.only_carried);
        write(folder.path(), "src/target/mod.rs", "");
        assert!(!watch.changed().await.only_carried, "a module may have the name of cargo's folder");
        fs::remove_file(folder.path().join("src/lib.rs")).unwrap();
        assert!(!watch.changed().await.only_carried);
    }

    #[tokio::test]
    async fn crates_beside_it_are_watched_without_what_cargo_keeps_and_without_other_crates() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "src/lib.rs", "");
        write(root, "made/src/lib.rs", "");
        write(root, "made/Cargo.toml", "");
        let mut watch = Watch::new(&root.join("made"));
        watch.depend_on(BTreeSet::from([root.to_owned()]));
        let others = ["other/Cargo.toml", "other/x.rs", "made/target/cardinal/log"];
        for ignored in ["target/x", "Cargo.lock", "built/CACHEDIR.TAG", "built/debug/x"].iter().chain(&others) {
            write(root, ignored, "");
        }
        let unchanged = tokio::time::timeout(POLL_INTERVAL * 5, watch.changed()).await;
        assert!(unchanged.is_err(), "{unchanged:?}");
        // The plugin would carry its own file of this name.
        write(root, "schema.sql", "");
        let changes = watch.changed().await;
        assert!(!changes.only_carried && !changes.dependencies);
        write(root, "Cargo.toml", "");
        assert!(watch.changed().await.dependencies);
        watch.depend_on(BTreeSet::new());
        write(root, "src/lib.rs", "x");
        let unchanged = tokio::time::timeout(POLL_INTERVAL * 5, watch.changed()).await;
        assert!(unchanged.is_err(), "it is no longer used: {unchanged:?}");
    }
}
