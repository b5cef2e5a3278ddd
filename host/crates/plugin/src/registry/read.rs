//! What lies in the plugins folder, read and judged package by package.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::PoisonError,
};

use futures_util::{StreamExt, stream};
use tokio::task::spawn_blocking;

use super::{
    Registry, ScanScope,
    candidate::{self, FoundPackage},
    folder::{self, Fingerprint, Look},
};
use cardinal_package::{package, signature::Keys, state::Refusal, trust};

/// Packages that are read at the same time; each may take a library's size of memory.
const READ_AT_ONCE: usize = 4;

impl Registry {
    /// Everything in the plugins folder, read and judged by itself, and what of it is only half there.
    pub(super) async fn look(&self, scope: &ScanScope) -> io::Result<(Vec<FoundPackage>, HashSet<PathBuf>)> {
        let (folder, rules, known) = (self.plugins_dir.clone(), self.policy.rules(), self.read());
        let (read, as_read, mut unsettled) = (known.clone(), scope.as_read, scope.unsettled.clone());
        let wanted = scope.reload.as_ref().map(|reload| reload.origin.clone());
        let listed = spawn_blocking(move || {
            let (folder, mut paths, refusal) = packages(&folder)?;
            if as_read {
                let seen = folder::look(&folder, &rules)?;
                let changed = seen.keys().chain(read.keys()).filter(|path| seen.get(*path) != read.get(*path));
                let wanted = |path: &&PathBuf| wanted.as_deref().is_some_and(|name| path.ends_with(name));
                unsettled.extend(changed.filter(|path| !wanted(path)).cloned());
            }
            // One that is gone for a moment is being replaced.
            paths.extend(unsettled.iter().filter(|path| !path.exists()).cloned());
            Ok::<_, io::Error>((folder, paths, refusal, unsettled))
        });
        let (folder, paths, refusal, unsettled) = listed.await.map_err(io::Error::other)??;
        let files = self.policy.keys.clone();
        let keys = spawn_blocking(move || Keys::load(&files)).await.unwrap_or_default();
        let reads = paths.into_iter().map(|path| {
            let (folder, refusal, keys) = (folder.clone(), refusal.clone(), keys.clone());
            let (rules, at) = (self.policy.rules(), path.clone());
            let (is_unsettled, is_young) = (unsettled.contains(&path), scope.young.contains(&path));
            let read = move || match is_unsettled {
                true => (FoundPackage::unsettled(&path), None),
                false => read_still(&folder, &rules, &path, (refusal, is_young), &keys),
            };
            async move {
                let (found, fingerprint) =
                    spawn_blocking(read).await.unwrap_or_else(|error| (FoundPackage::broken(&at, &error), None));
                (at, found, fingerprint)
            }
        });
        let (mut all, mut look, mut half) = (Vec::new(), Look::new(), HashSet::new());
        let mut reads = stream::iter(reads).buffered(READ_AT_ONCE);
        while let Some((path, found, fingerprint)) = reads.next().await {
            if let Some(fingerprint) = fingerprint.or_else(|| known.get(&path).cloned()) {
                look.insert(path.clone(), fingerprint);
            }
            if found.is_unsettled() {
                half.insert(path);
            }
            all.push(found);
        }
        drop(reads);
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = look;
        Ok((all, half))
    }
}

/// Reads a package, and says how it looked unless that changed meanwhile or its rest is waited for.
fn read_still(
    folder: &Path,
    rules: &[PathBuf],
    path: &Path,
    (refusal, is_young): (Option<Refusal>, bool),
    keys: &Keys,
) -> (FoundPackage, Option<Fingerprint>) {
    let before = folder::look_at(folder, rules, path);
    let found = candidate::inspect(path, refusal, keys);
    if before != folder::look_at(folder, rules, path) || (is_young && found.looks_half()) {
        return (FoundPackage::unsettled(path), None);
    }
    (found, Some(before))
}

/// The folder without links in its path, its packages, and why none of them may be loaded when it is itself at fault.
pub(super) fn packages(folder: &Path) -> io::Result<(PathBuf, Vec<PathBuf>, Option<Refusal>)> {
    let (real, refusal) = match trust::Owners::of_this_process().check_folder(folder) {
        Ok(real) => (real, None),
        Err(refusal) => {
            let real = folder.canonicalize()?;
            tracing::error!(%refusal, "no plugin is loaded: the plugins folder is not safe");
            (real, Some(refusal))
        }
    };
    let paths = package::find(&real)?;
    Ok((real, paths, refusal))
}
