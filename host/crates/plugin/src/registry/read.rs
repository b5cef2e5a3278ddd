//! What lies in the plugins folder, read and judged package by package.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
};

use futures_util::{StreamExt, stream};
use tokio::task::spawn_blocking;

use super::{
    Registry, ScanScope,
    candidate::FoundPackage,
    folder::{self, FolderListing},
};
use cardinal_package::{owners, package, refusal::Refusal, stages::Scanned};

/// Packages that are read at the same time; each may take a library's size of memory.
const MAX_READS: usize = 4;

impl Registry {
    /// Everything in the plugins folder, read and judged by itself, and what of it is only half there.
    pub(super) async fn look(&self, scope: &ScanScope) -> io::Result<(Vec<FoundPackage>, HashSet<PathBuf>)> {
        let (folder, rules, known) = (self.watcher.folder().to_owned(), self.policy.rules(), self.watcher.read());
        let (read, as_read, mut unsettled) = (known.clone(), scope.as_read, scope.unsettled.clone());
        let wanted = scope.reload.as_ref().map(|reload| reload.origin.clone());
        let listed = spawn_blocking(move || {
            let ScannedFolder { folder, is_safe, mut packages } = scan_folder(&folder)?;
            if as_read {
                let seen = folder::list(&folder, &rules)?;
                let changed = seen.keys().chain(read.keys()).filter(|path| seen.get(*path) != read.get(*path));
                let wanted = |path: &&PathBuf| wanted.as_deref().is_some_and(|name| path.ends_with(name));
                unsettled.extend(changed.filter(|path| !wanted(path)).cloned());
            }
            // One that is gone for a moment is being replaced.
            let gone = unsettled.iter().filter(|path| !path.exists());
            packages.extend(gone.map(|path| Scanned::new(path.clone(), is_safe.clone())));
            Ok::<_, io::Error>((folder, packages, unsettled))
        });
        let (folder, packages, unsettled) = listed.await.map_err(io::Error::other)??;
        let (keys, rule) = self.policy.trust_rule().await;
        let reads = packages.into_iter().map(|scanned| {
            let (path, folder, rules) = (scanned.path().to_owned(), folder.clone(), self.policy.rules());
            let (keys, rule) = (keys.clone(), rule.clone());
            let (is_unsettled, is_incomplete) = (unsettled.contains(&path), scope.incomplete.contains(&path));
            let at = path.clone();
            let read = move || match is_unsettled {
                true => (FoundPackage::unsettled(&path), None),
                false => {
                    let before = folder::look_at(&folder, &rules, &path);
                    let found = FoundPackage::examine(scanned, &keys, &rule);
                    let is_still = before == folder::look_at(&folder, &rules, &path);
                    match is_still && !(is_incomplete && found.looks_half()) {
                        true => (found, Some(before)),
                        // It changed meanwhile, or its rest is waited for.
                        false => (FoundPackage::unsettled(&path), None),
                    }
                }
            };
            async move {
                let (found, fingerprint) =
                    spawn_blocking(read).await.unwrap_or_else(|error| (FoundPackage::broken(&at, &error), None));
                (at, found, fingerprint)
            }
        });
        let (mut all, mut look, mut half) = (Vec::new(), FolderListing::new(), HashSet::new());
        let mut reads = stream::iter(reads).buffered(MAX_READS);
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
        self.watcher.set_read(look);
        Ok((all, half))
    }
}

/// The plugins folder and what lies in it.
pub(super) struct ScannedFolder {
    /// Without links in its path.
    pub folder: PathBuf,
    /// Why none of its packages may be loaded, when the folder itself is at fault.
    pub is_safe: Result<(), Refusal>,
    pub packages: Vec<Scanned>,
}

/// Lists the packages; none is read. Blocks.
pub(super) fn scan_folder(folder: &Path) -> io::Result<ScannedFolder> {
    let (real, is_safe) = match owners::Owners::current().check_folder(folder) {
        Ok(real) => (real, Ok(())),
        Err(refusal) => {
            let real = folder.canonicalize()?;
            tracing::error!(%refusal, "no plugin is loaded: the plugins folder is not safe");
            (real, Err(refusal))
        }
    };
    let paths = package::find(&real)?;
    let packages = paths.into_iter().map(|path| Scanned::new(path, is_safe.clone())).collect();
    Ok(ScannedFolder { folder: real, is_safe, packages })
}
