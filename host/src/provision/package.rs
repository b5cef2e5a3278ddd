//! The package that a schema step was asked for, found among the plugins by its content.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::db::roles::hex;
use crate::link::{ProvisionFault, ProvisionRequest};

/// What of a package matters to the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub version: String,
    pub schema_sql: String,
}

const MANIFEST: &str = "manifest.json";
const SCHEMA: &str = "schema.sql";
const FRONTEND: &str = "frontend";
const LIBRARY: &str = "so";

#[derive(Debug, Deserialize)]
struct Manifest {
    name: String,
    version: String,
}

/// # Errors
/// No package of that plugin has this content (any more).
pub fn find(plugins_dir: &Path, request: &ProvisionRequest) -> Result<Package, ProvisionFault> {
    let folders = fs::read_dir(plugins_dir).map_err(|error| {
        ProvisionFault::Unavailable(format!("the folder {} cannot be read: {error}", plugins_dir.display()))
    })?;
    for folder in folders.flatten().map(|entry| entry.path()) {
        if let Some(package) = read(&folder, request) {
            return package;
        }
    }
    Err(ProvisionFault::refused(
        "package-changed",
        format!("plugin {} with content {}", request.plugin, request.sha256),
        "no such package in the plugins folder",
        "load the plugin again",
    ))
}

/// `None` when the folder is not the package that was asked for.
fn read(folder: &Path, request: &ProvisionRequest) -> Option<Result<Package, ProvisionFault>> {
    let manifest: Manifest = serde_json::from_slice(&fs::read(folder.join(MANIFEST)).ok()?).ok()?;
    if manifest.name != request.plugin || content_hash(folder)? != request.sha256 {
        return None;
    }
    let schema = folder.join(SCHEMA);
    if !schema.exists() {
        return Some(Ok(Package { version: manifest.version, schema_sql: String::new() }));
    }
    let text = String::from_utf8(fs::read(schema).ok()?);
    Some(text.map(|schema_sql| Package { version: manifest.version, schema_sql }).map_err(|_| {
        ProvisionFault::refused("schema-failed", "schema.sql in UTF-8", "other bytes", "save it as UTF-8")
    }))
}

/// Over library, manifest, schema and frontend: of each file, sorted by relative name, `name \0 length bytes`.
fn content_hash(folder: &Path) -> Option<String> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).filter(|path| counts(path)).collect();
    collect(&folder.join(FRONTEND), &mut files);
    let mut named: Vec<(String, PathBuf)> = files
        .into_iter()
        .filter_map(|path| Some((path.strip_prefix(folder).ok()?.to_str()?.to_owned(), path)))
        .collect();
    named.sort();
    let mut hash = Sha256::new();
    for (name, path) in named {
        let bytes = fs::read(path).ok()?;
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(&bytes);
    }
    Some(hex(&hash.finalize()))
}

fn counts(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    path.is_file() && (name == MANIFEST || name == SCHEMA || path.extension().is_some_and(|end| end == LIBRARY))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, files);
        } else if path.is_file() {
            files.push(path);
        }
    }
}
