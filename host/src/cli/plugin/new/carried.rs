//! The SDK's sources inside this program, for machines without Cardinal's repository: unpacked once for each content
//! into the user's data folder, where crates point to it.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use rust_embed::RustEmbed;
use sha2::{Digest as _, Sha256};

use cardinal_base::config;

#[derive(RustEmbed)]
#[folder = "../plugin-abi"]
struct PluginAbi;

/// Where the SDK lies in a checkout, and in what is carried.
pub(super) const SDK_FOLDER: &str = "plugin-abi/sdk";

/// The workspace that has every dependency's version.
const WORKSPACE: &str = include_str!("../../../../../Cargo.toml");
/// In its place the members that are carried.
const MEMBERS: &str = r#"members = ["plugin-abi", "plugin-abi/sdk", "plugin-abi/sdk/macros"]"#;
/// What is no part of a build.
const LEFT_OUT: [&str; 3] = ["tests/", "sdk/tests/", "sdk/scaffold/"];
/// Digits of the content's hash in the folder's name.
const DIGITS: usize = 8;

/// The folder of the SDK's crate.
pub(super) fn unpack() -> anyhow::Result<PathBuf> {
    let home = data_home(config::environment()).context(
        "there is no folder to unpack the SDK into: set HOME or XDG_DATA_HOME, or name another source with --sdk",
    )?;
    unpack_below(&home.join("cardinal"))
}

fn unpack_below(folder: &Path) -> anyhow::Result<PathBuf> {
    let files = files()?;
    let target = folder.join(format!("sdk-{}-{}", env!("CARGO_PKG_VERSION"), hash(&files)));
    if target.join(SDK_FOLDER).is_dir() {
        return Ok(target.join(SDK_FOLDER));
    }
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let draft = tempfile::Builder::new().prefix(".sdk-").tempdir_in(folder).context("unpacking the SDK")?;
    for (path, bytes) in &files {
        let file = draft.path().join(path);
        let parent = file.parent().unwrap_or(folder);
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        fs::write(&file, bytes).with_context(|| format!("writing {}", file.display()))?;
    }
    let renamed = fs::rename(draft.path(), &target);
    // Another command may have been quicker with the same files.
    ensure!(target.join(SDK_FOLDER).is_dir(), "unpacking the SDK into {}: {:?}", target.display(), renamed.err());
    Ok(target.join(SDK_FOLDER))
}

/// By path, in the order of the paths.
fn files() -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut files = vec![("Cargo.toml".to_owned(), workspace().into_bytes())];
    for name in PluginAbi::iter().filter(|name| !LEFT_OUT.iter().any(|left_out| name.starts_with(left_out))) {
        let file = PluginAbi::get(&name).with_context(|| format!("reading {name}"))?;
        files.push((format!("plugin-abi/{name}"), file.data.into_owned()));
    }
    files.sort();
    Ok(files)
}

fn workspace() -> String {
    let lines = WORKSPACE.lines().filter(|line| !line.starts_with("default-members"));
    lines
        .map(|line| if line.starts_with("members = ") { MEMBERS } else { line })
        .fold(String::new(), |text, line| text + line + "\n")
}

fn hash(files: &[(String, Vec<u8>)]) -> String {
    let mut hash = Sha256::new();
    for (path, bytes) in files {
        hash.update(path);
        hash.update(bytes.len().to_le_bytes());
        hash.update(bytes);
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    hex[..DIGITS].to_owned()
}

/// Where programs keep a user's data (XDG Base Directory Specification).
fn data_home(mut environment: impl Iterator<Item = (OsString, OsString)>) -> Option<PathBuf> {
    let mut home = None;
    let named = environment.find_map(|(name, value)| {
        let folder = PathBuf::from(value);
        if name == "HOME" && folder.is_absolute() {
            home = Some(folder);
            return None;
        }
        (name == "XDG_DATA_HOME" && folder.is_absolute()).then_some(folder)
    });
    named.or_else(|| home.map(|home| home.join(".local/share")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_unpacked_once_and_is_a_workspace_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let first = unpack_below(folder.path()).unwrap();
        assert_eq!(first, unpack_below(folder.path()).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        let root = first.parent().unwrap().parent().unwrap();
        let text = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        assert!(text.contains(MEMBERS) && !text.contains("default-members"), "{text}");
        assert!(first.join("src/lib.rs").is_file() && root.join("plugin-abi/src/lib.rs").is_file());
        assert!(!first.join("scaffold").exists());
    }

    #[test]
    fn the_folder_is_where_the_users_data_is() {
        let environment = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            data_home(pairs.into_iter())
        };
        assert_eq!(environment(&[("HOME", "/home/a")]), Some("/home/a/.local/share".into()));
        assert_eq!(environment(&[("HOME", "/home/a"), ("XDG_DATA_HOME", "/data")]), Some("/data".into()));
        assert_eq!(environment(&[("XDG_DATA_HOME", "relative")]), None);
    }
}
