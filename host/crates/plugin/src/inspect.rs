//! A package looked at by itself, for its author or operator: what the host would say of it before
//! it runs any of it.

use std::path::Path;

use serde::Serialize;

use super::registry::{Examination, examine_for_display};
use cardinal_package::{
    manifest::Manifest,
    owners::Owners,
    package::{self, Form, Package},
    preflight,
    refusal::{Code, Refusal},
};

/// What a package is and carries, and whether a host would go on with it.
#[derive(Debug, Default, Serialize)]
pub struct Inspection {
    pub ok: bool,
    /// The name of its folder or file.
    pub package: String,
    pub form: Option<Form>,
    pub name: Option<String>,
    pub version: Option<String>,
    pub title: Option<String>,
    pub core_version: Option<String>,
    pub plugin_api_version: Option<String>,
    /// What its library was built for: `arch-os-env`.
    pub target: Option<String>,
    /// The hash that the lock file and the registry know it by.
    pub sha256: Option<String>,
    pub library_bytes: Option<usize>,
    /// manifest.json, schema.sql and frontend files.
    pub files: Vec<CarriedFile>,
    pub warnings: Vec<String>,
    pub refusal: Option<Refusal>,
}

#[derive(Debug, Serialize)]
pub struct CarriedFile {
    pub name: String,
    pub bytes: usize,
    pub sha256: String,
}

/// Reads and judges what lies at `path`, as the host does; none of its code runs. Whom the files
/// belong to is a matter of where they lie: a warning here. Blocks.
pub fn inspect(path: &Path) -> (Inspection, Option<Package>) {
    let mut seen = Inspection {
        package: path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        ..Inspection::default()
    };
    let read = package::read(path).or_else(|refusal| match refusal.code {
        Code::WorldWritable | Code::UntrustedOwner => {
            seen.warnings.push(format!("A host would refuse it in its current location: {refusal}"));
            package::read_for(path, &Owners::anybody())
        }
        _ => Err(refusal),
    });
    let package = match read {
        Ok(package) => package,
        Err(refusal) => {
            if let Some((manifest, _)) = package::read_manifest(path).and_then(|bytes| Manifest::read(&bytes).ok()) {
                seen.add_manifest(&manifest);
            }
            return (seen.refused(refusal), None);
        }
    };
    seen.add_files(&package);
    let Examination { manifest, warnings, refusal } = examine_for_display(&package);
    seen.warnings.extend(warnings);
    if let Some(manifest) = manifest {
        seen.add_manifest(&manifest);
    }
    let seen = match refusal {
        Some(refusal) => seen.refused(refusal),
        None => Inspection { ok: true, ..seen },
    };
    (seen, Some(package))
}

/// Why a host would turn a package away that need not lie anywhere yet. Blocks.
pub fn refusal(package: &Package) -> Option<Refusal> {
    examine_for_display(package).refusal
}

impl Inspection {
    /// With why a host turns it away.
    pub fn refused(self, refusal: Refusal) -> Self {
        Self { ok: false, refusal: Some(refusal), ..self }
    }

    fn add_manifest(&mut self, manifest: &Manifest) {
        self.name = Some(manifest.name.clone());
        self.version = Some(manifest.version.to_string());
        self.title = manifest.title.clone();
        self.core_version = Some(manifest.engine.core_version.to_string());
        self.plugin_api_version = Some(manifest.engine.plugin_api_version.clone());
    }

    fn add_files(&mut self, package: &Package) {
        self.form = Some(package.form);
        self.target = preflight::check(&package.library).ok().map(|checked| checked.header.target_text());
        self.sha256 = Some(package.sha256.clone());
        self.library_bytes = Some(package.library.len());
        self.files = package
            .carried()
            .into_iter()
            .map(|(name, data)| CarriedFile { name, bytes: data.len(), sha256: package::hash(data) })
            .collect();
    }
}
