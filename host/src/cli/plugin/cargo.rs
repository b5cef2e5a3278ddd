//! cargo, as the commands on crates run it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

const NO_LIBRARY: &str =
    "the crate builds no shared library: write crate-type = [\"cdylib\"] below [lib] in Cargo.toml";

/// Whether the compiler optimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    Debug,
    Release,
}

/// The library that cargo makes of the crate; none when it cannot, which it has said itself. Cancelled, it ends.
pub(super) async fn build(folder: &Path, profile: Profile, arguments: &[String]) -> anyhow::Result<Option<PathBuf>> {
    // Before a build that takes minutes.
    ensure!(makes_library(folder).await != Some(false), NO_LIBRARY);
    let mut command = Command::new("cargo");
    command.args(["build", "--lib", "--message-format=json-render-diagnostics"]).current_dir(folder);
    if profile == Profile::Release {
        command.arg("--release");
    }
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut cargo = Group::spawn(&mut command)?;
    let output = cargo.child.stdout.take().context("reading cargo's output")?;
    let mut lines = BufReader::new(output).lines();
    let mut library = None;
    while let Some(line) = lines.next_line().await.context("reading cargo's output")? {
        library = library_in(&line, folder).or(library);
    }
    if !cargo.child.wait().await.context("waiting for cargo")?.success() {
        return Ok(None);
    }
    match library {
        Some(library) => Ok(Some(library)),
        None => bail!(NO_LIBRARY),
    }
}

/// Whether the crate of this folder has a target that becomes a shared library. None where cargo cannot read it: the
/// build says what is wrong.
async fn makes_library(folder: &Path) -> Option<bool> {
    cdylib_in(&metadata(folder).await?, folder)
}

/// The folders of the crates that this one is built from and that lie on this machine as their author edits them: its
/// path dependencies, and theirs. Asked without a network and without a lock, so that it can be known before a build
/// that fails. What cargo cannot read has none.
pub(super) async fn local_dependencies(folder: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut unread) = (BTreeSet::new(), vec![folder.to_owned()]);
    while let Some(next) = unread.pop() {
        let Some(metadata) = metadata(&next).await else { continue };
        for path in path_dependencies_in(&metadata, &next) {
            if path != folder && found.insert(path.clone()) {
                unread.push(path);
            }
        }
    }
    found
}

/// What cargo says of the crate of this folder and of those in its workspace.
async fn metadata(folder: &Path) -> Option<Value> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(folder);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).output().await.ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

fn package_in<'a>(metadata: &'a Value, folder: &Path) -> Option<&'a Value> {
    let manifest = folder.canonicalize().ok()?.join("Cargo.toml");
    let mut packages = metadata["packages"].as_array()?.iter();
    packages.find(|package| package["manifest_path"].as_str().map(Path::new) == Some(&manifest))
}

fn cdylib_in(metadata: &Value, folder: &Path) -> Option<bool> {
    let kinds = package_in(metadata, folder)?["targets"].as_array()?;
    let mut kinds = kinds.iter().filter_map(|target| target["crate_types"].as_array()).flatten();
    Some(kinds.any(|kind| kind == "cdylib"))
}

/// Those of its tests are not in the library.
fn path_dependencies_in(metadata: &Value, folder: &Path) -> Vec<PathBuf> {
    let package = package_in(metadata, folder);
    let dependencies = package.and_then(|package| package["dependencies"].as_array()).into_iter().flatten();
    let built = dependencies.filter(|dependency| dependency["kind"] != "dev");
    let paths = built.filter_map(|dependency| dependency["path"].as_str());
    paths.filter_map(|path| Path::new(path).canonicalize().ok()).collect()
}

/// `cargo test` with these variables; whether all tests passed.
pub(super) async fn test(folder: &Path, arguments: &[String], variables: &[(&str, &str)]) -> anyhow::Result<bool> {
    let mut command = Command::new("cargo");
    command.arg("test").args(arguments).current_dir(folder).envs(variables.iter().copied()).stdin(Stdio::null());
    let mut cargo = Group::spawn(&mut command)?;
    Ok(cargo.child.wait().await.context("waiting for cargo")?.success())
}

/// cargo and the compilers that it starts: a group of its own, so that all of them end with it.
struct Group {
    child: Child,
}

impl Group {
    fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let child = command.process_group(0).spawn().context("starting cargo (is a Rust toolchain installed?)")?;
        Ok(Self { child })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // None once it was waited for: the number may be another's then.
        let leader = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader {
            let _ = kill_process_group(leader, Signal::TERM);
        }
    }
}

/// The shared library in a message of cargo's about a crate of this folder.
fn library_in(message: &str, folder: &Path) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_this_crate = Path::new(message["manifest_path"].as_str()?).parent()? == folder.canonicalize().ok()?;
    if message["reason"] != "compiler-artifact" || !is_this_crate {
        return None;
    }
    let files = message["filenames"].as_array()?.iter().filter_map(Value::as_str);
    files.map(PathBuf::from).find(|file| file.extension().is_some_and(|kind| kind == "so"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_library_is_the_one_of_this_crate() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().canonicalize().unwrap();
        let message = |manifest: PathBuf, files: Value| {
            json!({"reason": "compiler-artifact", "manifest_path": manifest, "filenames": files}).to_string()
        };
        let files = json!(["/t/libnotes.rlib", "/t/libnotes.so"]);
        let found = library_in(&message(own.join("Cargo.toml"), files.clone()), folder.path());
        assert_eq!(found, Some(PathBuf::from("/t/libnotes.so")));
        assert_eq!(library_in(&message("/other/Cargo.toml".into(), files), folder.path()), None);
        assert_eq!(library_in("no JSON", folder.path()), None);
    }

    #[test]
    fn what_becomes_no_shared_library_is_found_without_a_build() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().canonicalize().unwrap().join("Cargo.toml");
        let found = |manifest: &Path, kinds: Value| {
            let packages = json!({"packages": [{"manifest_path": "/other/Cargo.toml", "targets": []},
                {"manifest_path": manifest, "targets": [{"crate_types": ["bin"]}, {"crate_types": kinds}]}]});
            cdylib_in(&packages, folder.path())
        };
        assert_eq!(found(&manifest, json!(["cdylib", "rlib"])), Some(true));
        assert_eq!(found(&manifest, json!(["lib"])), Some(false));
        assert_eq!(found(Path::new("/elsewhere/Cargo.toml"), json!(["lib"])), None, "the build judges it");
        assert_eq!(cdylib_in(&Value::Null, folder.path()), None, "cargo said nothing");
    }

    #[tokio::test]
    async fn crates_beside_it_are_followed_by_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let write = |name: &str, dependencies: &str| {
            std::fs::create_dir_all(root.join(name).join("src")).unwrap();
            std::fs::write(root.join(name).join("src/lib.rs"), "").unwrap();
            let package = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\n");
            std::fs::write(root.join(name).join("Cargo.toml"), package + dependencies).unwrap();
        };
        write("made", "[build-dependencies]\nshared = { path = \"../shared\" }\nregistered = \"1\"\n");
        write("shared", "[dependencies]\nunits = { path = \"../units\" }\n");
        write("units", "[dev-dependencies]\nmade = { path = \"../made\" }\ntried = { path = \"../tried\" }\n");
        write("tried", "");
        let found = local_dependencies(&root.join("made")).await;
        assert_eq!(found, BTreeSet::from([root.join("shared"), root.join("units")]));
        assert_eq!(local_dependencies(&root).await, BTreeSet::new(), "there is no crate");
    }
}
