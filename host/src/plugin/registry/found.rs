//! A package as it was found: read, and judged by all that needs neither its code nor its
//! neighbours.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use cardinal_plugin_abi::section;

use crate::plugin::{
    compat,
    frontend::Bundle,
    manifest::{self, Manifest},
    package::{self, MANIFEST, Package},
    preflight,
    state::{Code, Refusal},
};

/// Something in the plugins folder that means to be a plugin, and whether it may be tried.
pub(super) struct Found {
    pub about: About,
    pub outcome: Result<Candidate, NotGood>,
}

/// What is known of a package.
#[derive(Clone)]
pub(super) struct About {
    /// The name of its folder or file.
    pub origin: String,
    /// By its manifest if that says it, else its origin.
    pub name: String,
    /// What its routes would be below, to say that they are out of service.
    pub api_prefix: Option<String>,
    pub manifest: Option<Manifest>,
    pub sha256: Option<String>,
    pub warnings: Vec<String>,
}

/// What may be tried.
pub(super) struct Candidate {
    pub manifest: Manifest,
    pub sha256: String,
    pub library: Bytes,
    pub frontend: Option<Arc<Bundle>>,
}

/// Why something can't be tried or loaded.
#[derive(Debug)]
pub(super) enum NotGood {
    Refused(Refusal),
    /// The host's own fault: worth another try.
    Failed(String),
}

impl From<Refusal> for NotGood {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Found {
    fn unread(path: &Path, outcome: NotGood) -> Self {
        let origin = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let hints = package::manifest_of(path).map(|bytes| manifest::hints(&bytes)).unwrap_or_default();
        let about = About {
            name: hints.name.unwrap_or_else(|| origin.clone()),
            origin,
            api_prefix: hints.api_prefix,
            manifest: None,
            sha256: None,
            warnings: Vec::new(),
        };
        Self { about, outcome: Err(outcome) }
    }

    /// One whose reading went wrong in us.
    pub fn broken(path: &Path, error: &tokio::task::JoinError) -> Self {
        tracing::error!(package = %path.display(), %error, "looking at a package failed");
        Self::unread(path, NotGood::Failed("Looking at the package failed; the log says why.".to_owned()))
    }
}

/// Reads and judges the package at `path`; `refusal` is what the whole folder is refused for. Blocks.
pub(super) fn inspect(path: &Path, refusal: Option<Refusal>) -> Found {
    let package = match refusal.map_or_else(|| package::read(path), Err) {
        Ok(package) => package,
        Err(refusal) => return Found::unread(path, refusal.into()),
    };
    let hints = manifest::hints(&package.manifest);
    let mut about = About {
        origin: package.origin.clone(),
        name: hints.name.unwrap_or_else(|| package.origin.clone()),
        api_prefix: hints.api_prefix,
        manifest: None,
        sha256: Some(package.sha256.clone()),
        warnings: Vec::new(),
    };
    let outcome = judge(package, &mut about).map_err(NotGood::from);
    Found { about, outcome }
}

fn judge(package: Package, about: &mut About) -> Result<Candidate, Refusal> {
    let (manifest, warnings) = Manifest::read(&package.manifest)?;
    about.warnings = warnings.iter().map(|it| format!("{MANIFEST} {}: {}", it.pointer, it.message)).collect();
    about.api_prefix = manifest.api_prefix().map(str::to_owned);
    let manifest = about.manifest.insert(manifest);
    compat::check_engine(&manifest.engine, &compat::core_version(), &compat::api_version())?;
    let checked = preflight::check(&package.library)?;
    if let Some(section) = checked.package {
        same_manifest(manifest, section)?;
    }
    let frontend = match &manifest.frontend_main {
        Some(main) => Some(Arc::new(Bundle::build(&manifest.name, main, package.frontend)?)),
        None => None,
    };
    Ok(Candidate { manifest: manifest.clone(), sha256: package.sha256, library: package.library, frontend })
}

/// The manifest beside the library against the one inside it: in a folder the files count, but they
/// must be of one build.
fn same_manifest(manifest: &Manifest, section: &[u8]) -> Result<(), Refusal> {
    let files = section::read_package(section).unwrap_or_default();
    let embedded = files.iter().find(|(name, _)| *name == MANIFEST).map(|(_, data)| Manifest::read(data));
    let Some(Ok((embedded, _))) = embedded else { return Ok(()) };
    let tell = |it: &Manifest| {
        format!("{} {} for core {}, API {}", it.name, it.version, it.engine.core_version, it.engine.plugin_api_version)
    };
    if (&manifest.name, &manifest.version, &manifest.engine) == (&embedded.name, &embedded.version, &embedded.engine) {
        return Ok(());
    }
    Err(Refusal::new(Code::ManifestMismatch, "manifest.json is not the one that the library was built with.")
        .expected(tell(&embedded))
        .found(tell(manifest)))
}
