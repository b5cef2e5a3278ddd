//! The stages of a package before any of its code runs, each a type that is made from the one before and in no other
//! way:
//!
//! [`Scanned`] (it lies in the folder) → [`Examined`] (its files, their hash and signature) → [`Trusted`] (the
//! operator's rule takes it) → [`Described`] (its manifest) → [`Verified`] (fit for this host). So a manifest is parsed
//! when its package is trusted and not before; until then only the plugin's name and prefix are read, by [`hints`].

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    compat,
    manifest::{Hints, Manifest, Warning, hints},
    owners::Owners,
    package::{self, MANIFEST, Package},
    preflight,
    refusal::{Code, Refusal},
    signature::{Keys, SignatureState},
    trust::TrustRule,
};

/// A file or folder of the plugins folder that is meant to be a package.
#[derive(Clone, Debug)]
pub struct Scanned {
    path: PathBuf,
    /// The folder itself is not safe, so none of its packages is read.
    folder: Result<(), Refusal>,
}

/// A package whose files were read once: owners and modes are right, hash and signature are known.
#[derive(Debug)]
pub struct Examined {
    package: Package,
    signed: SignatureState,
}

/// A package that the operator's rule takes.
#[derive(Debug)]
pub struct Trusted(Package);

/// A trusted package and its manifest.
#[derive(Debug)]
pub struct Described {
    package: Package,
    manifest: Manifest,
    warnings: Vec<Warning>,
}

/// A trusted package whose manifest and library fit each other and this host.
#[derive(Clone, Debug)]
pub struct Verified {
    package: Package,
    manifest: Manifest,
}

impl Scanned {
    pub fn new(path: PathBuf, folder: Result<(), Refusal>) -> Self {
        Self { path, folder }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the files; nothing is opened twice. Blocks.
    ///
    /// # Errors
    /// The folder is not safe, the package is not whole, or others may write its files.
    pub fn examine(self, keys: &Keys) -> Result<Examined, Refusal> {
        self.folder?;
        let package = package::read_for(&self.path, &Owners::current())?;
        let signature = package.signature.clone();
        Ok(Examined::new(package, signature.as_deref(), keys))
    }
}

impl Examined {
    /// A package that was read, and the signature that came with it.
    pub fn new(package: Package, signature: Option<&[u8]>, keys: &Keys) -> Self {
        let signed = keys.check(signature, &package.signed_bytes());
        Self { package, signed }
    }

    pub fn package(&self) -> &Package {
        &self.package
    }

    pub fn signed(&self) -> &SignatureState {
        &self.signed
    }

    /// Which plugin it says it is.
    pub fn hints(&self) -> Hints {
        hints(&self.package.manifest)
    }

    /// # Errors
    /// The rule does not take it.
    pub fn trust(self, rule: &TrustRule) -> Result<Trusted, Refusal> {
        let name = self.hints().name.unwrap_or_else(|| self.package.origin.clone());
        rule.admit(&name, &self.package.sha256, &self.signed)?;
        Ok(Trusted(self.package))
    }

    /// Takes a package that one of the operator's keys has signed, whatever the rule is.
    ///
    /// # Errors
    /// None of them has.
    pub fn trust_signer(self) -> Result<Trusted, Refusal> {
        self.signed.demand()?;
        Ok(Trusted(self.package))
    }
}

impl Trusted {
    /// # Errors
    /// The manifest is not valid.
    pub fn parse_manifest(self) -> Result<Described, Refusal> {
        let (manifest, warnings) = Manifest::read(&self.0.manifest)?;
        Ok(Described { package: self.0, manifest, warnings })
    }
}

impl Described {
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The package without what was checked of it, for the schema step, which loads no library.
    pub fn into_parts(self) -> (Manifest, Package) {
        (self.manifest, self.package)
    }

    /// Checks the manifest against this host and against the library, which is looked at and not run.
    ///
    /// # Errors
    /// They do not fit.
    pub fn verify(self) -> Result<Verified, Refusal> {
        let Self { package, manifest, .. } = self;
        check_fit(&manifest, &package)?;
        Ok(Verified { package, manifest })
    }
}

/// Whether a manifest fits this host and its library, which is looked at and not run. Also for a package that is only
/// shown, to who has made it or is about to install it, and becomes no stage.
///
/// # Errors
/// They do not fit.
pub fn check_fit(manifest: &Manifest, package: &Package) -> Result<(), Refusal> {
    compat::check_engine(&manifest.engine, &compat::core_version(), &compat::api_version())?;
    compat::check_features(&manifest.requires)?;
    let checked = preflight::check(&package.library)?;
    match checked.package {
        Some(section) => same_manifest(manifest, &package.manifest, section),
        None => Ok(()),
    }
}

impl Verified {
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub fn package(&self) -> &Package {
        &self.package
    }

    pub fn sha256(&self) -> &str {
        &self.package.sha256
    }
}

/// The manifest beside the library against the one inside it: in a folder the files count, but both
/// must have the same name, version and engine.
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
    Err(other_manifest(describe(&identity(inside)), describe(&identity(beside))))
}

/// The library is of another plugin, or another version of it.
pub fn other_manifest(expected: String, found: String) -> Refusal {
    Refusal::new(Code::ManifestMismatch, "manifest.json is not the one that the library was built with.")
        .expected(expected)
        .found(found)
}

/// Name, version, core range and API version, as they are written.
fn identity(manifest: &[u8]) -> [Value; 4] {
    let manifest: Value = crate::manifest::json(manifest).unwrap_or_default();
    ["/name", "/version", "/engine/core_version", "/engine/plugin_api_version"]
        .map(|pointer| manifest.pointer(pointer).cloned().unwrap_or_default())
}

fn describe([name, version, core, api]: &[Value; 4]) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("{} {} for core {}, API {}", text(name), text(version), text(core), text(api))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::trust::Lock;
    use cardinal_base::config::Trust;

    /// A folder whose manifest says its name and is wrong everywhere else.
    fn package() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("origin");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        for (name, text) in [("manifest.json", r#"{"name": "echo", "version": 7}"#), ("libecho.so", "no library")] {
            fs::write(folder.join(name), text).unwrap();
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o644)).unwrap();
        }
        (root, folder)
    }

    fn examined(path: &Path) -> Examined {
        Scanned::new(path.to_owned(), Ok(())).examine(&Keys::default()).unwrap()
    }

    #[test]
    fn trust_is_judged_before_the_manifest_is_parsed() {
        let (_root, folder) = package();
        let refusal_code = |trust, lock: Option<Lock>| {
            let rule = TrustRule::new(trust, lock, Path::new("plugins.lock"));
            examined(&folder).trust(&rule).and_then(Trusted::parse_manifest).map_err(|refusal| refusal.code).err()
        };
        assert_eq!(refusal_code(Trust::Signed, Some(Lock::default())), Some(Code::SignatureMissing));
        assert_eq!(refusal_code(Trust::Lock, Some(Lock::default())), Some(Code::HashNotTrusted));
        assert_eq!(refusal_code(Trust::Lock, None), Some(Code::HashNotTrusted), "a damaged lock is no empty one");
        let mut lock = Lock::default();
        lock.record("echo", examined(&folder).package().sha256.as_str(), time::OffsetDateTime::UNIX_EPOCH);
        assert_eq!(refusal_code(Trust::Lock, Some(lock)), Some(Code::BadManifest), "the lock lists it by its name");
        assert_eq!(refusal_code(Trust::Record, None), Some(Code::BadManifest));
    }

    #[test]
    fn no_package_of_an_unsafe_folder_is_read() {
        let (_root, folder) = package();
        let unsafe_folder = Refusal::new(Code::WorldWritable, "The folder can be written by others.");
        let refusal = Scanned::new(folder, Err(unsafe_folder.clone())).examine(&Keys::default()).unwrap_err();
        assert_eq!(refusal, unsafe_folder);
    }
}
