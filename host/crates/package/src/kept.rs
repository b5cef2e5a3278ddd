//! Packages that were good once: `DATA_DIR/packages` holds the ones that serve and a few before them, so that there is
//! something to go back to when the plugins folder has only the new one. What is taken from here is judged again like
//! any other package, its hash first.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use semver::Version;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{
    package::{self, Form, Package},
    signature::{SUFFIX, SUMS},
};
use cardinal_base::secret_file::read_regular;

/// Below `DATA_DIR`; the supervisor makes it and the worker writes there.
pub const FOLDER: &str = "packages";
/// Native code of a plugin can put anything in its place, a pipe without a writer, say.
const INDEX: &str = "index.json";
/// Bytes of it; a plugin takes a few hundred.
const INDEX_LIMIT: u64 = 1 << 20;
/// Packages of one plugin: the one that serves, and three to go back to.
pub const MAX_KEPT: usize = 4;
/// Plugins whose packages are kept; of more, those that were removed longest ago are forgotten.
const PLUGINS: usize = 200;

/// The packages that are kept, on this host.
#[derive(Debug)]
pub struct KeptPackages {
    folder: PathBuf,
    index: Mutex<BTreeMap<String, PluginPackages>>,
}

/// Those of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PluginPackages {
    /// When the plugin was removed: what comes next is its first.
    #[serde(default, with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    removed_at: Option<OffsetDateTime>,
    /// The one that was put into service last comes first.
    packages: Vec<KeptPackage>,
}

/// A package that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPackage {
    pub sha256: String,
    pub version: Version,
    /// When it was last put into service.
    #[serde(with = "time::serde::rfc3339")]
    pub activated_at: OffsetDateTime,
}

impl KeptPackages {
    /// What is kept in `data_dir`. An index that cannot be read is an empty one, and said: nothing depends on it but
    /// the way back.
    pub fn open(data_dir: &Path) -> Self {
        let folder = data_dir.join(FOLDER);
        let file = folder.join(INDEX);
        let read = match read_regular(&file, INDEX_LIMIT) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        };
        let index = read.unwrap_or_else(|error| {
            tracing::error!(file = %file.display(), %error, "the list of kept packages cannot be read; rolling back \
                to them is not possible");
            BTreeMap::new()
        });
        Self { folder, index: Mutex::new(index) }
    }

    /// The packages of a plugin, the one that was put into service last first; none of one that was removed since.
    pub fn for_plugin(&self, plugin: &str) -> Vec<KeptPackage> {
        match self.index.lock().get(plugin) {
            Some(kept_plugin) if kept_plugin.removed_at.is_none() => kept_plugin.packages.clone(),
            _ => Vec::new(),
        }
    }

    /// Where a package lies, if it does.
    pub fn find(&self, plugin: &str, sha256: &str) -> Option<PathBuf> {
        find_in(&self.folder, plugin, sha256)
    }

    /// Keeps a package that was just put into service, and forgets the oldest of many. Blocks.
    ///
    /// # Errors
    /// The disk's.
    pub fn keep(&self, plugin: &str, version: &Version, package: &Package, now: OffsetDateTime) -> io::Result<()> {
        let plugin_dir = self.folder.join(plugin);
        DirBuilder::new().recursive(true).mode(0o700).create(&plugin_dir)?;
        if find_in(&self.folder, plugin, &package.sha256).is_none() {
            let place = plugin_dir.join(&package.sha256);
            let new = tempfile::Builder::new().prefix(".new-").tempdir_in(&plugin_dir)?;
            write(new.path(), package)?;
            let _ = fs::remove_dir_all(&place); // what is there is no package
            fs::rename(new.keep(), &place)?;
        }
        let kept = KeptPackage { sha256: package.sha256.clone(), version: version.clone(), activated_at: now };
        let forgotten = {
            let mut index = self.index.lock();
            let kept_plugin = index.entry(plugin.to_owned()).or_default();
            kept_plugin.removed_at = None;
            kept_plugin.packages.retain(|it| it.sha256 != kept.sha256);
            kept_plugin.packages.insert(0, kept);
            let old = kept_plugin.packages.drain(MAX_KEPT.min(kept_plugin.packages.len())..);
            let mut forgotten: Vec<PathBuf> = old.map(|it| self.folder.join(plugin).join(it.sha256)).collect();
            forgotten.extend(forget_plugins(&mut index).into_iter().map(|name| self.folder.join(name)));
            forgotten
        };
        self.save()?;
        forgotten.iter().for_each(|path| drop(fs::remove_dir_all(path)));
        Ok(())
    }

    /// Notes that a plugin was removed: what comes next is its first, whatever its version. Blocks.
    pub fn removed(&self, plugin: &str, now: OffsetDateTime) {
        match self.index.lock().get_mut(plugin) {
            Some(kept_plugin) if kept_plugin.removed_at.is_none() => kept_plugin.removed_at = Some(now),
            _ => return,
        }
        if let Err(error) = self.save() {
            tracing::error!(plugin, %error, "failed to record that the plugin was removed");
        }
    }

    /// Plugins that are kept and were not removed.
    pub fn plugins(&self) -> Vec<String> {
        self.index
            .lock()
            .iter()
            .filter(|(_, kept_plugin)| kept_plugin.removed_at.is_none())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Whole or not at all.
    fn save(&self) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(&*self.index.lock())?;
        let mut file = tempfile::Builder::new()
            .prefix(".index")
            .make_in(&self.folder, |path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path))?;
        file.write_all(&text)?;
        file.as_file().sync_all()?;
        file.persist(self.folder.join(INDEX))?;
        Ok(())
    }
}

/// Where a package is kept below `data_dir`, by its hash alone, whatever the index says.
pub fn find(data_dir: &Path, plugin: &str, sha256: &str) -> Option<PathBuf> {
    find_in(&data_dir.join(FOLDER), plugin, sha256)
}

fn find_in(folder: &Path, plugin: &str, sha256: &str) -> Option<PathBuf> {
    package::find(&folder.join(plugin).join(sha256)).ok()?.into_iter().next()
}

fn forget_plugins(index: &mut BTreeMap<String, PluginPackages>) -> Vec<String> {
    let mut forgotten = Vec::new();
    while index.len() > PLUGINS {
        let removed = index.iter().filter_map(|(name, kept_plugin)| Some((kept_plugin.removed_at?, name.clone())));
        let Some((_, oldest)) = removed.min() else { break };
        index.remove(&oldest);
        forgotten.push(oldest);
    }
    forgotten
}

/// Writes a package as it lay in the plugins folder, so that it has the same hash.
fn write(place: &Path, package: &Package) -> io::Result<()> {
    let (folder, signed) = match package.form {
        Form::SingleFile => (place.to_owned(), package.library_name.as_str()),
        Form::Folder => (place.join(&package.origin), SUMS),
    };
    make_folder(&folder)?;
    if package.form == Form::Folder {
        for (name, data) in package.carried() {
            let path = folder.join(&name);
            path.parent().map_or(Ok(()), make_folder)?;
            write_file(&path, data)?;
        }
    }
    write_file(&folder.join(&package.library_name), &package.library)?;
    if let Some(signature) = &package.signature {
        write_file(&folder.join(format!("{signed}{SUFFIX}")), signature)?;
    }
    Ok(())
}

fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn write_file(path: &Path, data: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(data)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    /// A package in a folder, which need not be one that loads.
    fn package(library: &str) -> Package {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("origin");
        fs::create_dir_all(folder.join("frontend/deep")).unwrap();
        for (name, text) in [
            ("manifest.json", "{}"),
            ("libp.so", library),
            ("schema.sql", "-- none"),
            ("frontend/deep/plugin.js", "js"),
            ("SHA256SUMS.minisig", "signed"),
        ] {
            fs::write(folder.join(name), text).unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o644)).unwrap();
        }
        for name in ["", "frontend", "frontend/deep"] {
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        package::read(&folder).unwrap()
    }

    fn version(patch: u64) -> Version {
        Version::new(1, 0, patch)
    }

    #[test]
    fn a_package_comes_back_as_it_was() {
        let data = tempfile::tempdir().unwrap();
        let kept = KeptPackages::open(data.path());
        let original = package("library");
        kept.keep("p", &version(0), &original, NOW).unwrap();
        let place = kept.find("p", &original.sha256).unwrap();
        let again = package::read(&place).unwrap();
        assert_eq!(
            (again.sha256, again.origin, again.signature),
            (original.sha256.clone(), original.origin, original.signature)
        );
        assert_eq!(fs::metadata(data.path().join(FOLDER)).unwrap().mode() & 0o777, 0o700);
        let reopened = KeptPackages::open(data.path());
        assert_eq!(reopened.for_plugin("p"), kept.for_plugin("p"));
        assert_eq!(find(data.path(), "p", &original.sha256), Some(place));
        assert_eq!(find(data.path(), "q", &original.sha256), None);
    }

    #[test]
    fn the_last_few_are_kept_in_the_order_in_which_they_served() {
        let data = tempfile::tempdir().unwrap();
        let kept = KeptPackages::open(data.path());
        let packages: Vec<Package> = (0..=MAX_KEPT).map(|number| package(&format!("library {number}"))).collect();
        for (number, package) in packages.iter().enumerate() {
            kept.keep("p", &version(number as u64), package, NOW).unwrap();
        }
        kept.keep("p", &version(1), &packages[1], NOW).unwrap();
        let order: Vec<u64> = kept.for_plugin("p").iter().map(|it| it.version.patch).collect();
        assert_eq!(order, [1, 4, 3, 2]);
        assert!(kept.find("p", &packages[0].sha256).is_none(), "the oldest is gone from the disk too");
        assert!(order.iter().all(|number| kept.find("p", &packages[*number as usize].sha256).is_some()));
    }

    #[test]
    fn a_plugin_that_was_removed_begins_anew() {
        let data = tempfile::tempdir().unwrap();
        let kept = KeptPackages::open(data.path());
        kept.keep("p", &version(2), &package("library"), NOW).unwrap();
        kept.removed("p", NOW);
        kept.removed("never-there", NOW);
        assert!(kept.for_plugin("p").is_empty() && kept.plugins().is_empty());
        assert!(KeptPackages::open(data.path()).for_plugin("p").is_empty());
        kept.keep("p", &version(1), &package("older"), NOW).unwrap();
        assert_eq!(kept.for_plugin("p").len(), 2);
    }

    #[test]
    fn a_damaged_index_is_an_empty_one() {
        let data = tempfile::tempdir().unwrap();
        KeptPackages::open(data.path()).keep("p", &version(0), &package("library"), NOW).unwrap();
        let index = data.path().join(FOLDER).join(INDEX);
        fs::write(&index, "no index").unwrap();
        assert!(KeptPackages::open(data.path()).for_plugin("p").is_empty());
        fs::remove_file(&index).unwrap();
        // A pipe without a writer, which is not waited for.
        rustix::fs::mkfifoat(rustix::fs::CWD, &index, rustix::fs::Mode::RUSR).unwrap();
        assert!(KeptPackages::open(data.path()).for_plugin("p").is_empty());
    }
}
