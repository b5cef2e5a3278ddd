//! What can be seen of the plugins folder without reading a package: enough to see that something has changed.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use cardinal_package::{
    package::{self, FRONTEND, MANIFEST, SCHEMA},
    signature::SUFFIX,
};

/// Folders inside folders that are looked into, and files of one package that are looked at; what has more is refused
/// when it is read.
const DEPTH: usize = 20;
const FILES: usize = 10_000;

/// Every package of the folder, as it looks from outside.
pub(super) type FolderListing = BTreeMap<PathBuf, Fingerprint>;

/// Of each file that counts: name, inode, length, modes and times. A change of a file changes one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint(Vec<(PathBuf, [i64; 8])>);

/// All packages. `rules` are files that they are judged by (lock, keys): when one of these changes, so does every
/// package.
pub(super) fn list(folder: &Path, rules: &[PathBuf]) -> io::Result<FolderListing> {
    let mut common = Fingerprint::default();
    common.note_owner(folder);
    rules.iter().for_each(|file| common.add(file));
    let packages = package::find(folder)?;
    Ok(packages.into_iter().map(|path| (path.clone(), Fingerprint::over(&common, &path))).collect())
}

/// One package of the folder.
pub(super) fn look_at(folder: &Path, rules: &[PathBuf], package: &Path) -> Fingerprint {
    let mut common = Fingerprint::default();
    common.note_owner(folder);
    rules.iter().for_each(|file| common.add(file));
    Fingerprint::over(&common, package)
}

impl Fingerprint {
    fn over(common: &Self, package: &Path) -> Self {
        let mut all = common.clone();
        match fs::symlink_metadata(package) {
            Ok(found) if found.is_dir() => all.add_folder(package),
            Ok(_) => {
                all.add(package);
                let mut signature = package.as_os_str().to_owned();
                signature.push(SUFFIX);
                all.add(Path::new(&signature));
            }
            Err(_) => {}
        }
        all
    }

    /// The folder of a package: unknown files in it are none of our business.
    fn add_folder(&mut self, folder: &Path) {
        self.note_owner(folder);
        let frontend = folder.join(FRONTEND);
        for path in names(folder) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let library = [".so", ".dll", ".dylib", SUFFIX].iter().any(|end| name.ends_with(end));
            if library || name == MANIFEST || name == SCHEMA {
                self.add(&path);
            }
        }
        self.add_tree(&frontend, DEPTH);
    }

    fn add_tree(&mut self, folder: &Path, depth: usize) {
        for path in names(folder) {
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() && depth > 0 => {
                    self.note_owner(&path);
                    self.add_tree(&path, depth - 1);
                }
                _ => self.add(&path),
            }
        }
    }

    fn add(&mut self, file: &Path) {
        if self.0.len() >= FILES {
            return;
        }
        // One that is gone by now is as if it had never been.
        if let Ok(found) = fs::symlink_metadata(file) {
            self.0.push((file.to_owned(), seen(&found)));
        }
    }

    /// Of a folder only whose it is: its times change with files that do not count.
    fn note_owner(&mut self, folder: &Path) {
        if let Ok(found) = fs::symlink_metadata(folder) {
            let owner = [i64::from(found.mode()), i64::from(found.uid()), i64::from(found.gid()), 0, 0, 0, 0, 0];
            self.0.push((folder.to_owned(), owner));
        }
    }
}

fn seen(found: &Metadata) -> [i64; 8] {
    let number = |value: u64| i64::from_ne_bytes(value.to_ne_bytes());
    [
        i64::from(found.mode()),
        i64::from(found.uid()),
        number(found.ino()),
        number(found.len()),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    ]
}

/// In order; a folder that cannot be read has none.
fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> =
        folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).take(FILES).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &Path) -> PathBuf {
        let package = folder.join("p");
        fs::create_dir_all(package.join(FRONTEND)).unwrap();
        for (name, text) in [(MANIFEST, "{}"), ("libp.so", "library"), ("frontend/plugin.js", "js")] {
            fs::write(package.join(name), text).unwrap();
        }
        package
    }

    #[test]
    fn whatever_counts_changes_the_fingerprint_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let package = package(folder.path());
        let lock = folder.path().join("lock");
        let now = || list(folder.path(), std::slice::from_ref(&lock)).unwrap()[&package].clone();
        let mut before = now();
        fs::write(package.join("README"), "it does not count").unwrap();
        assert_eq!(now(), before);
        for name in
            [MANIFEST, "libp.so", SCHEMA, "frontend/plugin.js", "frontend/more.js", "SHA256SUMS.minisig", "../lock"]
        {
            fs::write(package.join(name), format!("new {name}")).unwrap();
            assert_ne!(now(), before, "{name}");
            before = now();
        }
        fs::remove_file(package.join("libp.so")).unwrap();
        assert_ne!(now(), before);
        assert_eq!(look_at(folder.path(), std::slice::from_ref(&lock), &package), now());
    }

    #[test]
    fn a_folder_that_is_not_there_is_no_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        assert!(list(&folder.path().join("none"), &[]).is_err());
        assert!(list(folder.path(), &[]).unwrap().is_empty());
    }
}
