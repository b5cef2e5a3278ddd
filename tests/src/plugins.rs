//! Folders of plugin packages, laid out as `scripts/run` lays them out, and bent where a test wants them bent.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{built, repository};

/// A package as its crate has it: manifest, built library, schema, frontend.
#[derive(Clone)]
pub struct Package {
    source: PathBuf,
    manifest: Vec<u8>,
    schema: Option<String>,
    library: Option<Vec<u8>>,
}

impl Package {
    /// A plugin of `plugins/`.
    pub fn bundled(name: &str) -> Package {
        Package::from_folder(&repository().join("plugins").join(name))
    }

    /// A plugin of `tests/fixtures/`.
    pub fn fixture(name: &str) -> Package {
        Package::from_folder(&repository().join("tests/fixtures").join(name))
    }

    /// A plugin whose library the test has made itself, with the other files of `tests/<folder>/`.
    pub fn made(folder: &str, library: Vec<u8>) -> Package {
        Package::around(&repository().join("tests").join(folder), library)
    }

    fn from_folder(source: &Path) -> Package {
        let name = source.file_name().unwrap().to_str().unwrap().replace('-', "_");
        Package::around(source, std::fs::read(built(&format!("lib{name}.so"))).unwrap())
    }

    fn around(source: &Path, library: Vec<u8>) -> Package {
        Package {
            source: source.to_owned(),
            manifest: std::fs::read(source.join("manifest.json")).unwrap(),
            schema: std::fs::read_to_string(source.join("schema.sql")).ok(),
            library: Some(library),
        }
    }

    #[must_use]
    pub fn manifest(mut self, change: impl FnOnce(&mut Value)) -> Package {
        let mut manifest: Value = serde_json::from_slice(&self.manifest).unwrap();
        change(&mut manifest);
        self.manifest = manifest.to_string().into_bytes();
        self
    }

    #[must_use]
    pub fn manifest_text(mut self, text: &str) -> Package {
        self.manifest = text.as_bytes().to_vec();
        self
    }

    #[must_use]
    pub fn schema(mut self, sql: &str) -> Package {
        self.schema = Some(sql.to_owned());
        self
    }

    #[must_use]
    pub fn library(mut self, change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) -> Package {
        self.library = change(self.library.unwrap_or_default());
        self
    }

    /// The same plugin as another version, which has as many characters as the one that was built.
    #[must_use]
    pub fn version(self, version: &str) -> Package {
        let built: Value = serde_json::from_slice(&self.manifest).unwrap();
        let before = built["version"].as_str().unwrap().to_owned();
        let text = |version: &str| format!("\"version\": \"{version}\"");
        self.manifest(|manifest| manifest["version"] = version.into()).replaced(&text(&before), &text(version))
    }

    /// The same plugin under another name, which has as many characters.
    #[must_use]
    pub fn renamed(self, name: &str) -> Package {
        let built: Value = serde_json::from_slice(&self.manifest).unwrap();
        let before = built["name"].as_str().unwrap().to_owned();
        self.manifest(|manifest| manifest["name"] = name.into()).replaced(&before, name)
    }

    /// Writes `word` after a marker `cardinal-fixture-<marker>:` of the library, in the place of what stands there.
    #[must_use]
    pub fn marked(self, marker: &str, word: &str) -> Package {
        const PADDED: usize = 16;
        assert!(word.len() <= PADDED);
        self.written(marker, format!("{word:.<PADDED$}").as_bytes())
    }

    /// What a fixture does wrong stands in its library's bytes: there this word, `hang.` or `abort`.
    #[must_use]
    pub fn sin(self, sin: &[u8; 5]) -> Package {
        self.written("sin", sin)
    }

    fn written(self, marker: &str, text: &[u8]) -> Package {
        let marker = format!("cardinal-fixture-{marker}:");
        self.library(|mut library| {
            let found = library.windows(marker.len()).position(|window| window == marker.as_bytes());
            let at = found.expect("the library has the marker") + marker.len();
            library[at..at + text.len()].copy_from_slice(text);
            Some(library)
        })
    }

    /// Every `from` in the library becomes `to`, which is as long.
    fn replaced(self, from: &str, to: &str) -> Package {
        assert_eq!(from.len(), to.len());
        self.library(|mut library| {
            let found: Vec<usize> =
                (0..library.len() - from.len()).filter(|at| library[*at..].starts_with(from.as_bytes())).collect();
            assert!(!found.is_empty(), "the library has no {from}");
            for at in found {
                library[at..at + to.len()].copy_from_slice(to.as_bytes());
            }
            Some(library)
        })
    }

    /// The library as it is.
    pub fn bytes(&self) -> &[u8] {
        self.library.as_deref().unwrap_or_default()
    }

    /// Writes the package into a new folder.
    pub fn write(&self, folder: &Path) {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("manifest.json"), &self.manifest).unwrap();
        if let Some(library) = &self.library {
            std::fs::write(folder.join("libplugin.so"), library).unwrap();
        }
        if let Some(schema) = &self.schema {
            std::fs::write(folder.join("schema.sql"), schema).unwrap();
        }
        let frontend = self.source.join("frontend");
        if frontend.is_dir() {
            std::fs::create_dir(folder.join("frontend")).unwrap();
            for file in std::fs::read_dir(frontend).unwrap().flatten().filter(|entry| entry.path().is_file()) {
                std::fs::copy(file.path(), folder.join("frontend").join(file.file_name())).unwrap();
            }
        }
        close_to_others(folder);
    }
}

/// A `PLUGINS_DIR`.
pub struct PluginsFolder {
    folder: TempDir,
}

impl Default for PluginsFolder {
    fn default() -> PluginsFolder {
        PluginsFolder { folder: open_folder("cardinal-plugins-") }
    }
}

impl PluginsFolder {
    /// In a folder that the test made.
    pub fn within(folder: TempDir) -> PluginsFolder {
        PluginsFolder { folder }
    }

    /// What `scripts/run` lays out.
    pub fn bundled() -> PluginsFolder {
        let plugins = repository().join("plugins");
        let names =
            std::fs::read_dir(plugins).unwrap().flatten().filter(|entry| entry.path().join("Cargo.toml").is_file());
        names.fold(PluginsFolder::default(), |folder, entry| {
            let name = entry.file_name().into_string().unwrap();
            folder.with(&name, &Package::bundled(&name))
        })
    }

    /// With one more package in the folder `name`.
    #[must_use]
    pub fn with(self, name: &str, package: &Package) -> PluginsFolder {
        package.write(&self.path().join(name));
        self
    }

    /// With a library that carries everything as the file `<name>.so`.
    #[must_use]
    pub fn with_library(self, name: &str, library: &[u8]) -> PluginsFolder {
        let place = self.path().join(format!("{name}.so"));
        std::fs::write(&place, library).unwrap();
        close_to_others(&place);
        self
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts a package into the folder `name` in one move, as a careful operator does, whatever lies there already.
    pub fn put(&self, name: &str, package: &Package) {
        let (new, old) = (self.path().join(format!(".{name}.new")), self.path().join(format!(".{name}.old")));
        let place = self.path().join(name);
        package.write(&new);
        match place.exists() {
            // One step: the package is there at every moment.
            true => {
                let here = rustix::fs::CWD;
                rustix::fs::renameat_with(here, &new, here, &place, rustix::fs::RenameFlags::EXCHANGE).unwrap();
                std::fs::rename(&new, &old).unwrap();
                std::fs::remove_dir_all(&old).unwrap();
            }
            false => std::fs::rename(&new, &place).unwrap(),
        }
    }

    /// Copies a package into the folder `name` file by file, over what lies there.
    pub fn copy_over(&self, name: &str, package: &Package) {
        let place = self.path().join(name);
        let _ = std::fs::remove_dir_all(&place);
        package.write(&place);
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_dir_all(self.path().join(name)).unwrap();
    }
}

/// A folder that a worker with an account of its own can walk into and read.
pub(crate) fn open_folder(prefix: &str) -> TempDir {
    tempfile::Builder::new().prefix(prefix).permissions(Permissions::from_mode(0o755)).tempdir().unwrap()
}

/// The tests' umask may leave files writable for others, which the host refuses.
fn close_to_others(path: &Path) {
    let mut mode = std::fs::metadata(path).unwrap().permissions();
    mode.set_mode(mode.mode() & !0o022);
    std::fs::set_permissions(path, mode).unwrap();
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().flatten().for_each(|entry| close_to_others(&entry.path()));
    }
}
