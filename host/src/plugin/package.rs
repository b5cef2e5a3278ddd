//! A plugin's files, read once into memory: what is judged is what is loaded.
//!
//! Nothing follows a link, nothing is opened twice, and everything has a size limit. Two forms: a
//! folder, or one library with the other files inside it.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use cardinal_plugin_abi::section;
use sha2::{Digest, Sha256};

use self::folder::Folder;
use super::{
    manifest::is_plain_relative,
    preflight,
    state::{Code, Refusal},
    trust::Owners,
};

mod folder;

pub const MANIFEST: &str = "manifest.json";
pub const SCHEMA: &str = "schema.sql";
pub const FRONTEND: &str = "frontend";

/// The largest library: 256 MiB.
pub const LIBRARY_LIMIT: u64 = 256 << 20;
/// The largest manifest.json: 1 MiB.
pub const MANIFEST_LIMIT: u64 = 1 << 20;
/// The largest schema.sql: 4 MiB.
pub const SCHEMA_LIMIT: u64 = 4 << 20;
/// All frontend files of a plugin together: 16 MiB.
pub const FRONTEND_LIMIT: u64 = 16 << 20;
/// The most frontend files of a plugin.
pub const FRONTEND_FILES: usize = 2_000;

/// A package, whole.
#[derive(Clone, Debug)]
pub struct Package {
    /// The name of the folder, or of the library that stands for itself.
    pub origin: String,
    pub manifest: Bytes,
    pub library_name: String,
    pub library: Bytes,
    pub schema_sql: Option<String>,
    /// By path below `frontend/`, in the order of the paths.
    pub frontend: BTreeMap<String, Bytes>,
    /// SHA-256 over all of the above, in hex.
    pub sha256: String,
}

/// Everything in the plugins folder that means to be a plugin, by name: folders, and libraries that
/// lie there by themselves. Hidden names and other files are none of our business.
pub fn find(plugins_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in plugins_dir.read_dir()? {
        let entry = entry?;
        let name = entry.file_name();
        let hidden = name.as_encoded_bytes().starts_with(b".");
        // Not `metadata`: a link to a folder is looked at, and then refused as one.
        let kind = entry.file_type()?;
        let library = is_library(&name.to_string_lossy()) || is_foreign_library(&name.to_string_lossy());
        if !hidden && (kind.is_dir() || library || (kind.is_symlink() && entry.path().is_dir())) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a package of either form. Owners and modes are checked on what was opened. Blocks.
pub fn read(path: &Path) -> Result<Package, Refusal> {
    let owners = Owners::of_this_process();
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(Refusal::new(Code::Unreadable, "A package has a name in UTF-8.").found(path.display().to_string()));
    };
    if is_foreign_library(name) {
        return Err(wrong_platform(name));
    }
    let parent = Folder::open(parent, &owners)?;
    let package = if is_library(name) && !parent.has_folder(name) {
        read_single(name, parent.file(name, LIBRARY_LIMIT)?)?
    } else {
        read_folder(name, &parent.folder(name)?)?
    };
    Ok(Package { sha256: package.content_hash(), ..package })
}

/// The manifest of a package that is refused as a whole, to say which one it is; not to be loaded.
pub fn manifest_of(path: &Path) -> Option<Bytes> {
    let owners = Owners::anybody();
    let name = path.file_name()?.to_str()?;
    let folder = Folder::open(path.parent()?, &owners).ok()?.folder(name).ok()?;
    folder.file(MANIFEST, MANIFEST_LIMIT).ok()
}

fn read_folder(origin: &str, folder: &Folder) -> Result<Package, Refusal> {
    let names = folder.names()?;
    let library_name = one_library(&names)?;
    if !names.iter().any(|name| name == MANIFEST) {
        return Err(Refusal::new(Code::BadManifest, "The folder has no manifest.json.")
            .expected(MANIFEST)
            .found(listed(&names))
            .fix("Put manifest.json into the folder."));
    }
    let schema = match names.iter().any(|name| name == SCHEMA) {
        true => Some(text(folder.file(SCHEMA, SCHEMA_LIMIT)?)?),
        false => None,
    };
    let frontend = match names.iter().any(|name| name == FRONTEND) {
        true => folder.folder(FRONTEND)?.tree(FRONTEND_LIMIT, FRONTEND_FILES)?,
        false => BTreeMap::new(),
    };
    Ok(Package {
        origin: origin.to_owned(),
        manifest: folder.file(MANIFEST, MANIFEST_LIMIT)?,
        library: folder.file(&library_name, LIBRARY_LIMIT)?,
        library_name,
        schema_sql: schema,
        frontend,
        sha256: String::new(),
    })
}

/// A library that carries its other files in a section.
fn read_single(name: &str, library: Bytes) -> Result<Package, Refusal> {
    let checked = preflight::check(&library)?;
    let files = checked.package.and_then(section::read_package).ok_or_else(|| {
        Refusal::new(Code::BadManifest, "The library has no package inside it.")
            .expected(format!("manifest.json in the section {}", section::PACKAGE_SECTION))
            .fix("Put the library into a folder of its own, beside its manifest.json.")
    })?;
    let mut package = Package {
        origin: name.to_owned(),
        manifest: Bytes::new(),
        library_name: name.to_owned(),
        library: library.clone(),
        schema_sql: None,
        frontend: BTreeMap::new(),
        sha256: String::new(),
    };
    let mut has_manifest = false;
    for (name, data) in files {
        let data = library.slice_ref(data);
        match name {
            MANIFEST => (package.manifest, has_manifest) = (capped(name, data, MANIFEST_LIMIT)?, true),
            SCHEMA => package.schema_sql = Some(text(capped(name, data, SCHEMA_LIMIT)?)?),
            _ => add_frontend(&mut package.frontend, name, data)?,
        }
    }
    if !has_manifest {
        return Err(Refusal::new(Code::BadManifest, "The package inside the library has no manifest.json."));
    }
    Ok(package)
}

fn add_frontend(frontend: &mut BTreeMap<String, Bytes>, name: &str, data: Bytes) -> Result<(), Refusal> {
    let path = name.strip_prefix("frontend/").filter(|path| is_plain_relative(path)).ok_or_else(|| {
        Refusal::new(Code::BadManifest, "The package inside the library has a file that does not belong there.")
            .expected("manifest.json, schema.sql and files below frontend/")
            .found(name)
    })?;
    let total = frontend.values().map(|data| data.len() as u64).sum::<u64>() + data.len() as u64;
    if total > FRONTEND_LIMIT || frontend.len() >= FRONTEND_FILES {
        return Err(folder::frontend_too_large());
    }
    frontend.insert(path.to_owned(), data);
    Ok(())
}

fn capped(name: &str, data: Bytes, limit: u64) -> Result<Bytes, Refusal> {
    if data.len() as u64 > limit { Err(folder::too_large(Path::new(name), limit)) } else { Ok(data) }
}

fn text(bytes: Bytes) -> Result<String, Refusal> {
    String::from_utf8(bytes.into()).map_err(|error| {
        Refusal::new(Code::SchemaFailed, "schema.sql is not UTF-8 text.")
            .expected("UTF-8")
            .found(format!("another byte at {}", error.utf8_error().valid_up_to()))
            .fix("Save schema.sql as UTF-8.")
    })
}

fn one_library(names: &[String]) -> Result<String, Refusal> {
    let libraries: Vec<_> = names.iter().filter(|name| is_library(name)).collect();
    match libraries[..] {
        [one] => Ok(one.clone()),
        [] => Err(match names.iter().find(|name| is_foreign_library(name)) {
            Some(foreign) => wrong_platform(foreign),
            None => Refusal::new(Code::LibraryMissing, "The folder has no shared library.")
                .expected("exactly one file *.so")
                .found(listed(names)),
        }),
        _ => Err(Refusal::new(Code::SeveralLibraries, "The folder has several shared libraries.")
            .expected("exactly one file *.so")
            .found(libraries.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", "))),
    }
}

fn wrong_platform(name: &str) -> Refusal {
    let system = if name.ends_with(".dll") { "Windows" } else { "macOS" };
    Refusal::new(Code::WrongPlatform, format!("{name} is a library for {system}; this host runs on Linux."))
        .expected("a Linux shared library (.so)")
        .found(name)
        .fix("Build the plugin on (or for) Linux and use the .so file.")
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "an empty folder".to_owned() } else { names.join(", ") }
}

fn is_library(name: &str) -> bool {
    name.ends_with(".so")
}

fn is_foreign_library(name: &str) -> bool {
    name.ends_with(".dll") || name.ends_with(".dylib")
}

impl Package {
    /// Over every file, in the order of their names: `name \0 length (u64, little-endian) bytes`.
    fn content_hash(&self) -> String {
        let mut files: BTreeMap<String, &[u8]> =
            self.frontend.iter().map(|(path, data)| (format!("{FRONTEND}/{path}"), &data[..])).collect();
        files.insert(self.library_name.clone(), &self.library);
        files.insert(MANIFEST.to_owned(), &self.manifest);
        files.extend(self.schema_sql.as_ref().map(|sql| (SCHEMA.to_owned(), sql.as_bytes())));
        let mut hash = Sha256::new();
        for (name, data) in files {
            hash.update(name.as_bytes());
            hash.update([0]);
            hash.update((data.len() as u64).to_le_bytes());
            hash.update(data);
        }
        hex(&hash.finalize())
    }
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
