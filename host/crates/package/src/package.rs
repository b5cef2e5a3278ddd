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
use sha2::{Digest, Sha256};

use self::folder::Folder;
pub use self::single::files as embedded_files;
use super::{
    owners::Owners,
    refusal::{Code, Refusal},
    signature::{SIGNATURE_LIMIT, SUFFIX, SUMS},
};

mod folder;
mod single;

pub const MANIFEST: &str = "manifest.json";
pub const SCHEMA: &str = "schema.sql";
pub const FRONTEND: &str = "frontend";
/// What no package has: the folder is the source of one.
const CRATE: &str = "Cargo.toml";

/// The largest library: 256 MiB.
pub const LIBRARY_LIMIT: u64 = 256 << 20;
/// The largest manifest.json: 1 MiB.
pub(crate) const MANIFEST_LIMIT: u64 = 1 << 20;
/// The largest schema.sql: 4 MiB.
pub const SCHEMA_LIMIT: u64 = 4 << 20;
/// All frontend files of a plugin together: 16 MiB.
pub(crate) const FRONTEND_LIMIT: u64 = 16 << 20;
/// The most frontend files of a plugin.
pub(crate) const FRONTEND_FILES: usize = 2_000;

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
    /// The minisign file beside it, unchecked.
    pub signature: Option<Bytes>,
    pub form: Form,
}

/// How a package lies in the plugins folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// A folder with a manifest and a library.
    Folder,
    /// A library that carries everything.
    SingleFile,
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
    read_for(path, &Owners::current())
}

/// Reads a package of either form that lies where these owners may have put it. Blocks.
pub fn read_for(path: &Path, owners: &Owners) -> Result<Package, Refusal> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(Refusal::new(Code::Unreadable, "A package has a name in UTF-8.")
            .expected("a name in UTF-8")
            .found(path.display().to_string()));
    };
    if is_foreign_library(name) {
        return Err(wrong_platform(name));
    }
    let parent = Folder::open(parent, owners)?;
    let package = if is_library(name) && !parent.has_folder(name) {
        Package {
            signature: signature_beside(&parent, name)?,
            ..single::read(name, parent.file(name, LIBRARY_LIMIT)?)?
        }
    } else if parent.has_file(name) {
        let reason = format!("{name} is neither a folder with a manifest.json nor a library (.so).");
        return Err(Refusal::new(Code::NotAPlugin, reason).expected("a folder or a file *.so").found(name));
    } else {
        read_folder(name, &parent.folder(name)?)?
    };
    Ok(Package { sha256: package.content_hash(), ..package })
}

/// The manifest of a package that is refused as a whole, to say which one it is; not to be loaded.
pub fn read_manifest(path: &Path) -> Option<Bytes> {
    let owners = Owners::anybody();
    let name = path.file_name()?.to_str()?;
    let parent = Folder::open(path.parent()?, &owners).ok()?;
    if is_library(name) && !parent.has_folder(name) {
        return single::manifest_in(&parent.file(name, LIBRARY_LIMIT).ok()?);
    }
    parent.folder(name).ok()?.file(MANIFEST, MANIFEST_LIMIT).ok()
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
        signature: signature_beside(folder, SUMS)?,
        form: Form::Folder,
    })
}

/// The signature of the file `name`, if there is one.
fn signature_beside(folder: &Folder, name: &str) -> Result<Option<Bytes>, Refusal> {
    let name = format!("{name}{SUFFIX}");
    if folder.has(&name) { folder.file(&name, SIGNATURE_LIMIT).map(Some) } else { Ok(None) }
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
            None => no_library(names),
        }),
        _ => Err(Refusal::new(Code::SeveralLibraries, "The folder has several shared libraries.")
            .expected("exactly one file *.so")
            .found(libraries.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", "))),
    }
}

/// Authors show the folder that they write in, which is not what a host loads.
fn no_library(names: &[String]) -> Refusal {
    let refusal = Refusal::new(Code::LibraryMissing, "The folder has no shared library.")
        .expected("exactly one file *.so")
        .found(listed(names));
    if names.iter().any(|name| name == CRATE) {
        return refusal
            .fix("This is the plugin's source. Run `cardinal plugin build` in it, which checks what it builds.");
    }
    refusal
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
    /// Every file but the library, by its name in a package.
    pub fn carried(&self) -> BTreeMap<String, &[u8]> {
        let mut files: BTreeMap<String, &[u8]> =
            self.frontend.iter().map(|(path, data)| (format!("{FRONTEND}/{path}"), &data[..])).collect();
        files.insert(MANIFEST.to_owned(), &self.manifest);
        files.extend(self.schema_sql.as_ref().map(|sql| (SCHEMA.to_owned(), sql.as_bytes())));
        files
    }

    /// What a signature is over: the library that is the package, or the sums of a folder's files.
    pub fn signed_bytes(&self) -> Bytes {
        match self.form {
            Form::SingleFile => self.library.clone(),
            Form::Folder => Bytes::from(self.sums()),
        }
    }

    /// The files that count, in the order of their names, as `sha256sum` writes them.
    pub fn sums(&self) -> String {
        let mut files = self.carried();
        files.insert(self.library_name.clone(), &self.library);
        files.into_iter().map(|(name, data)| format!("{}  {name}\n", hash(data))).collect()
    }

    /// Over every file, in the order of their names: `name \0 length (u64, little-endian) bytes`.
    fn content_hash(&self) -> String {
        let mut files = self.carried();
        files.insert(self.library_name.clone(), &self.library);
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

/// SHA-256, in hex.
pub fn hash(data: &[u8]) -> String {
    hex(&Sha256::digest(data))
}

/// Lower-case hex.
pub use cardinal_base::hex::hex;

#[cfg(test)]
mod tests;
