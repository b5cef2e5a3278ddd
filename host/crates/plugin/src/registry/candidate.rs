//! A package as it was found: read, and judged by all that needs neither its code nor its
//! neighbours.

use std::{path::Path, sync::Arc};

use serde_json::Value;

use crate::{frontend::Bundle, schema::check_sql};
use cardinal_package::{
    compat,
    manifest::{self, Manifest},
    package::{self, MANIFEST, Package},
    preflight,
    signature::{Keys, Signed},
    state::{Code, Refusal},
};

/// Something in the plugins folder that means to be a plugin, and whether it may be tried.
pub(super) struct FoundPackage {
    pub about: PackageSummary,
    pub outcome: Result<Candidate, PackageError>,
}

/// What is known of a package.
#[derive(Clone)]
pub(super) struct PackageSummary {
    /// The name of its folder or file.
    pub origin: String,
    /// By its manifest if that says it, else its origin.
    pub name: String,
    /// What its routes would be below, to say that they are out of service.
    pub api_prefix: Option<String>,
    pub manifest: Option<Manifest>,
    pub sha256: Option<String>,
    pub signed: Signed,
    pub warnings: Vec<String>,
}

/// What may be tried.
pub(super) struct Candidate {
    pub manifest: Manifest,
    pub sha256: String,
    /// Kept once it is in service, so that there is a way back to it.
    pub package: Arc<Package>,
    pub frontend: Option<Arc<Bundle>>,
}

/// Why something can't be tried or loaded.
#[derive(Debug)]
pub(super) enum PackageError {
    Refused(Refusal),
    /// The host's own fault: worth another try.
    Failed(String),
    /// Its files are still being written.
    Unsettled,
}

impl From<Refusal> for PackageError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl PackageSummary {
    fn from_package(package: &Package) -> Self {
        let hints = manifest::hints(&package.manifest);
        Self {
            origin: package.origin.clone(),
            name: hints.name.unwrap_or_else(|| package.origin.clone()),
            api_prefix: hints.api_prefix,
            manifest: None,
            sha256: Some(package.sha256.clone()),
            signed: Signed::No,
            warnings: Vec::new(),
        }
    }

    /// A plugin that is known and does not lie in the folder.
    pub(super) fn absent(name: &str) -> Self {
        Self {
            origin: String::new(),
            name: name.to_owned(),
            api_prefix: None,
            manifest: None,
            sha256: None,
            signed: Signed::No,
            warnings: Vec::new(),
        }
    }
}

impl FoundPackage {
    fn unread(path: &Path, outcome: PackageError) -> Self {
        let origin = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let manifest = package::manifest_of(path);
        let hints = manifest.as_deref().map(manifest::hints).unwrap_or_default();
        let about = PackageSummary {
            name: hints.name.unwrap_or_else(|| origin.clone()),
            origin,
            api_prefix: hints.api_prefix,
            manifest: manifest.and_then(|bytes| Some(Manifest::read(&bytes).ok()?.0)),
            sha256: None,
            signed: Signed::No,
            warnings: Vec::new(),
        };
        Self { about, outcome: Err(outcome) }
    }

    /// One whose files are still being written.
    pub(super) fn unsettled(path: &Path) -> Self {
        Self::unread(path, PackageError::Unsettled)
    }

    pub(super) fn is_unsettled(&self) -> bool {
        matches!(self.outcome, Err(PackageError::Unsettled))
    }

    /// Whether it is refused for what a copy that has not ended looks like.
    pub(super) fn looks_half(&self) -> bool {
        matches!(&self.outcome, Err(PackageError::Refused(refusal)) if matches!(refusal.code, Code::Truncated | Code::LibraryMissing))
    }

    /// One whose reading went wrong in us.
    pub(super) fn broken(path: &Path, error: &tokio::task::JoinError) -> Self {
        tracing::error!(package = %path.display(), %error, "looking at a package failed");
        Self::unread(path, PackageError::Failed("Looking at the package failed; the log says why.".to_owned()))
    }
}

/// Checks a package that was read: its manifest, what is to be warned about, why it is refused.
pub fn examine(package: Package) -> (Option<Manifest>, Vec<String>, Option<Refusal>) {
    let mut about = PackageSummary::from_package(&package);
    let refusal = check(package, &mut about).err();
    (about.manifest, about.warnings, refusal)
}

/// Reads and checks the package at `path`; `refusal` is what the whole folder is refused for. Blocks.
pub(super) fn inspect(path: &Path, refusal: Option<Refusal>, keys: &Keys) -> FoundPackage {
    let package = match refusal.map_or_else(|| package::read(path), Err) {
        Ok(package) => package,
        Err(refusal) => return FoundPackage::unread(path, refusal.into()),
    };
    let mut about = PackageSummary::from_package(&package);
    about.signed = keys.judge(package.signature.as_deref(), &package.signed_bytes());
    let outcome = check(package, &mut about).map_err(PackageError::from);
    FoundPackage { about, outcome }
}

fn check(package: Package, about: &mut PackageSummary) -> Result<Candidate, Refusal> {
    let (manifest, warnings) = Manifest::read(&package.manifest)?;
    about.warnings = warnings.iter().map(|it| format!("{MANIFEST} {}: {}", it.pointer, it.message)).collect();
    about.api_prefix = manifest.api_prefix().map(str::to_owned);
    let manifest = about.manifest.insert(manifest);
    compat::check_engine(&manifest.engine, &compat::core_version(), &compat::api_version())?;
    let checked = preflight::check(&package.library)?;
    if let Some(section) = checked.package {
        same_manifest(manifest, &package.manifest, section)?;
    }
    check_sql(&manifest.name, package.schema_sql.as_deref())?;
    let frontend = match &manifest.frontend_main {
        Some(main) => Some(Arc::new(Bundle::build(&manifest.name, main, package.frontend.clone())?)),
        None => None,
    };
    let (manifest, sha256) = (manifest.clone(), package.sha256.clone());
    Ok(Candidate { manifest, sha256, package: Arc::new(package), frontend })
}

/// The manifest beside the library against the one inside it: in a folder the files count, but both
/// must say the same of name, version and engine.
fn same_manifest(manifest: &Manifest, beside: &[u8], section: &[u8]) -> Result<(), Refusal> {
    let files = package::embedded_files(section)?;
    let inside = files.iter().find(|(name, _)| *name == MANIFEST).map_or(&[][..], |(_, data)| data);
    let same = match Manifest::read(inside) {
        Ok((it, _)) => (&it.name, &it.version, &it.engine) == (&manifest.name, &manifest.version, &manifest.engine),
        // What else is wrong with it does not matter: the files count.
        Err(_) => identity(inside) == identity(beside),
    };
    if same {
        return Ok(());
    }
    Err(Refusal::new(Code::ManifestMismatch, "manifest.json is not the one that the library was built with.")
        .expected(describe(&identity(inside)))
        .found(describe(&identity(beside))))
}

/// Name, version, core range and API version, as they are written.
fn identity(manifest: &[u8]) -> [Value; 4] {
    let manifest: Value = serde_json::from_slice(manifest).unwrap_or_default();
    ["/name", "/version", "/engine/core_version", "/engine/plugin_api_version"]
        .map(|pointer| manifest.pointer(pointer).cloned().unwrap_or_default())
}

fn describe([name, version, core, api]: &[Value; 4]) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("{} {} for core {}, API {}", text(name), text(version), text(core), text(api))
}
