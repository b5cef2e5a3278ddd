//! One library that carries its other files in a section: read by file offset, nothing of it runs.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use cardinal_plugin_abi::section;

use super::{
    FRONTEND_FILES, FRONTEND_LIMIT, Form, MANIFEST, MANIFEST_LIMIT, Package, SCHEMA, SCHEMA_LIMIT, folder, text,
};
use crate::{
    manifest::is_plain_relative,
    preflight,
    refusal::{Code, Refusal},
};

/// The files inside a package section, by name.
pub fn files(section: &[u8]) -> Result<Vec<(&str, &[u8])>, Refusal> {
    section::read_package(section).map_err(|fault| {
        Refusal::new(Code::Truncated, "The package inside the library is damaged.")
            .expected(format!("a package in the section {}", section::PACKAGE_SECTION))
            .found(fault.to_string())
            .fix("Copy the library again, or build it again with the Cardinal plugin SDK.")
    })
}

/// The manifest inside a library that may be good for nothing else.
pub(super) fn manifest_in(library: &Bytes) -> Option<Bytes> {
    let files = section::read_package(preflight::embedded_package(library)?).ok()?;
    let (_, manifest) = files.into_iter().find(|(name, _)| *name == MANIFEST)?;
    capped(MANIFEST, library.slice_ref(manifest), MANIFEST_LIMIT).ok()
}

pub(super) fn read(name: &str, library: Bytes) -> Result<Package, Refusal> {
    // Only where the package lies: whether the library is fit for this host is checked once the package is trusted.
    let Some(section) = preflight::embedded_package(&library) else { return Err(no_package(&library)) };
    let (mut manifest, mut schema_sql, mut frontend) = (None, None, BTreeMap::new());
    for (name, data) in files(section)? {
        let data = library.slice_ref(data);
        match name {
            MANIFEST => manifest = Some(capped(name, data, MANIFEST_LIMIT)?),
            SCHEMA => schema_sql = Some(text(capped(name, data, SCHEMA_LIMIT)?)?),
            _ => drop(frontend.insert(frontend_path(name)?.to_owned(), data)),
        }
    }
    let total: u64 = frontend.values().map(|data| data.len() as u64).sum();
    if total > FRONTEND_LIMIT || frontend.len() > FRONTEND_FILES {
        return Err(folder::frontend_too_large(format!("{total} bytes in {} files", frontend.len())));
    }
    let manifest = manifest.ok_or_else(|| {
        Refusal::new(Code::BadManifest, "The package inside the library has no manifest.json.")
            .expected("manifest.json")
            .found("a package without it")
    })?;
    Ok(Package {
        origin: name.to_owned(),
        library_name: name.to_owned(),
        manifest,
        schema_sql,
        frontend,
        sha256: String::new(),
        signature: None,
        form: Form::SingleFile,
        library: library.clone(),
    })
}

fn no_package(library: &[u8]) -> Refusal {
    let no_package = Refusal::new(Code::BadManifest, "The library has no package inside it.")
        .expected(format!("manifest.json in the section {}", section::PACKAGE_SECTION))
        .found("no such section")
        .fix("Put the library into a folder of its own, beside its manifest.json.");
    preflight::check(library).err().unwrap_or(no_package)
}

fn frontend_path(name: &str) -> Result<&str, Refusal> {
    name.strip_prefix("frontend/").filter(|path| is_plain_relative(path)).ok_or_else(|| {
        Refusal::new(Code::BadManifest, "The package inside the library has a file that does not belong there.")
            .expected("manifest.json, schema.sql and files below frontend/")
            .found(name)
    })
}

fn capped(name: &str, data: Bytes, limit: u64) -> Result<Bytes, Refusal> {
    if data.len() as u64 > limit { Err(folder::too_large(Path::new(name), limit, data.len() as u64)) } else { Ok(data) }
}
