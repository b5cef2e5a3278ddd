//! A package of the plugins folder, taken through all stages that need neither its code nor its neighbours.

use std::{path::Path, sync::Arc};

use crate::{frontend::Bundle, schema::check_sql, settings::quoted::Secrets};
use cardinal_package::{
    manifest::{self, Hints, Manifest, Warning},
    package::{self, MANIFEST, Package},
    refusal::{Code, Refusal},
    signature::{Keys, SignatureState},
    stages::{Scanned, Trusted, Verified, check_fit},
    trust::TrustRule,
};

/// A package of the plugins folder, and how far it came by itself.
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
    /// Whether the manifest says it.
    pub is_named: bool,
    /// What its routes would be below, to say that they are out of service.
    pub api_prefix: Option<String>,
    /// Of a package that is trusted.
    pub manifest: Option<Manifest>,
    pub sha256: Option<String>,
    pub signed: SignatureState,
    pub warnings: Vec<String>,
}

/// A verified package whose schema.sql and frontend are sound as well: nothing but its code is unknown.
pub(super) struct Candidate {
    verified: Verified,
    frontend: Option<Arc<Bundle>>,
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

impl PackageError {
    /// The same without these in what is said.
    pub(super) fn without(self, secrets: impl FnOnce() -> Secrets) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(secrets().without(refusal)),
            Self::Failed(reason) => Self::Failed(secrets().hide(&reason)),
            Self::Unsettled => Self::Unsettled,
        }
    }
}

impl PackageSummary {
    fn new(origin: String, hints: Hints) -> Self {
        Self {
            is_named: hints.name.is_some(),
            name: hints.name.unwrap_or_else(|| origin.clone()),
            origin,
            api_prefix: hints.api_prefix,
            manifest: None,
            sha256: None,
            signed: SignatureState::No,
            warnings: Vec::new(),
        }
    }

    pub(super) fn from_package(package: &Package, signed: SignatureState) -> Self {
        let about = Self::new(package.origin.clone(), manifest::hints(&package.manifest));
        Self { sha256: Some(package.sha256.clone()), signed, ..about }
    }

    fn set_manifest(&mut self, manifest: &Manifest, warnings: &[Warning]) {
        let warning = |it: &Warning| format!("{MANIFEST} {}: {}", it.pointer, it.message);
        self.api_prefix = manifest.api_prefix().map(str::to_owned);
        self.warnings = warnings.iter().map(warning).collect();
        self.manifest = Some(manifest.clone());
    }

    /// A plugin that is known and does not lie in the folder.
    pub(super) fn absent(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::new(String::new(), Hints::default()) }
    }
}

impl FoundPackage {
    /// Takes a package as far as it comes by itself: read, trusted, verified. Blocks.
    pub(super) fn examine(scanned: Scanned, keys: &Keys, rule: &TrustRule) -> Self {
        let path = scanned.path().to_owned();
        let examined = match scanned.examine(keys) {
            Ok(examined) => examined,
            Err(refusal) => return Self::unread(&path, refusal.into()),
        };
        let mut about = PackageSummary::from_package(examined.package(), examined.signed().clone());
        let trusted = examined.trust(rule);
        let outcome = trusted.and_then(|trusted| Candidate::from_trusted(trusted, &mut about));
        Self { about, outcome: outcome.map_err(PackageError::from) }
    }

    fn unread(path: &Path, outcome: PackageError) -> Self {
        let origin = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let hints = package::read_manifest(path).as_deref().map(manifest::hints).unwrap_or_default();
        Self { about: PackageSummary::new(origin, hints), outcome: Err(outcome) }
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
        let Err(PackageError::Refused(refusal)) = &self.outcome else { return false };
        matches!(refusal.code, Code::Truncated | Code::LibraryMissing)
    }

    /// One whose reading went wrong in us.
    pub(super) fn broken(path: &Path, error: &tokio::task::JoinError) -> Self {
        tracing::error!(package = %path.display(), %error, "failed to inspect a package");
        Self::unread(path, PackageError::Failed("Inspecting the package failed; the log says why.".to_owned()))
    }
}

/// The host's judgement of a package that is only shown.
pub struct Examination {
    pub manifest: Option<Manifest>,
    pub warnings: Vec<String>,
    pub refusal: Option<Refusal>,
}

pub fn examine_for_display(package: &Package) -> Examination {
    let mut about = PackageSummary::from_package(package, SignatureState::No);
    let mut examine = || {
        let (manifest, warnings) = Manifest::read(&package.manifest)?;
        about.set_manifest(&manifest, &warnings);
        check_fit(&manifest, package)?;
        check_files(&manifest, package, &mut about.warnings)
    };
    let refusal = examine().err();
    Examination { manifest: about.manifest, warnings: about.warnings, refusal }
}

/// Holds schema.sql and the frontend against the rules; gives the frontend as it is served.
fn check_files(
    manifest: &Manifest,
    package: &Package,
    warnings: &mut Vec<String>,
) -> Result<Option<Arc<Bundle>>, Refusal> {
    warnings.extend(check_sql(&manifest.name, package.schema_sql.as_deref())?);
    let build = |main: &String| Bundle::build(&manifest.name, main, package.frontend.clone());
    Ok(manifest.frontend_main.as_ref().map(build).transpose()?.map(Arc::new))
}

impl Candidate {
    /// Parses the manifest and checks everything that it says; `about` learns what there is to show. Blocks.
    pub(super) fn from_trusted(trusted: Trusted, about: &mut PackageSummary) -> Result<Self, Refusal> {
        let described = trusted.parse_manifest()?;
        about.set_manifest(described.manifest(), described.warnings());
        let verified = described.verify()?;
        let frontend = check_files(verified.manifest(), verified.package(), &mut about.warnings)?;
        Ok(Self { verified, frontend })
    }

    pub(super) fn manifest(&self) -> &Manifest {
        self.verified.manifest()
    }

    pub(super) fn package(&self) -> &Package {
        self.verified.package()
    }

    pub(super) fn sha256(&self) -> &str {
        self.verified.sha256()
    }

    pub(super) fn frontend(&self) -> Option<Arc<Bundle>> {
        self.frontend.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn why_a_plugin_does_not_serve_has_no_secret_in_it() {
        let (schema, settings) = (json!({"properties": {"token": {"writeOnly": true}}}), json!({"token": "hunter2"}));
        let refusal = Refusal::new(Code::CreateFailed, "It failed.").found("no server takes hunter2");
        for error in [PackageError::Refused(refusal), PackageError::Failed("hunter2".to_owned())] {
            let shown = format!("{:?}", error.without(|| Secrets::from_settings(Some(&schema), [&settings], [])));
            assert!(shown.contains("[secret]") && !shown.contains("hunter2"), "{shown}");
        }
    }
}
