//! A plugin as its crate's folder has it now: the built library, and beside it the files that need no compiler.

use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use bytes::Bytes;

use super::super::install::checked;
use cardinal_package::package::{FRONTEND, Form, MANIFEST, Package, SCHEMA};
use cardinal_plugin_host::inspect;

/// The package of a library and of the files of its crate. One that no host would take is an error.
pub(super) fn package(folder: &Path, library: &Path) -> anyhow::Result<Package> {
    let built = checked(library)?;
    let mut frontend = BTreeMap::new();
    let root = folder.join(FRONTEND);
    if root.is_dir() {
        collect(&root, Path::new(""), &mut frontend)?;
    }
    let schema_sql = match fs::read_to_string(folder.join(SCHEMA)) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error).context("reading schema.sql"),
    };
    let package = Package {
        manifest: fs::read(folder.join(MANIFEST)).context("reading manifest.json")?.into(),
        schema_sql,
        frontend,
        form: Form::Folder,
        ..built
    };
    match inspect::refusal(&package) {
        Some(refusal) => Err(refusal.into()),
        None => Ok(package),
    }
}

/// As the SDK's macro takes them: hidden files are left out, links refused.
fn collect(root: &Path, below: &Path, files: &mut BTreeMap<String, Bytes>) -> anyhow::Result<()> {
    let folder = root.join(below);
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry.with_context(|| format!("reading {}", folder.display()))?;
        let Ok(name) = entry.file_name().into_string() else {
            bail!("{}: a name is not UTF-8", folder.display());
        };
        if name.starts_with('.') {
            continue;
        }
        let (path, kind) = (below.join(&name), entry.file_type().context("looking at a file")?);
        if kind.is_dir() {
            collect(root, &path, files)?;
        } else if kind.is_file() {
            let file: PathBuf = root.join(&path);
            let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
            files.insert(path.to_string_lossy().into_owned(), bytes.into());
        } else {
            bail!(
                "{} is neither a file nor a folder; a plugin's frontend cannot contain links",
                root.join(&path).display()
            );
        }
    }
    Ok(())
}
