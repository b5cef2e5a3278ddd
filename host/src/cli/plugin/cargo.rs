//! cargo, as the commands on crates run it.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Whether the compiler optimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    Debug,
    Release,
}

/// The library that cargo makes of the crate; none when it cannot, which it has said itself. Cancelled, it ends.
pub(super) async fn build(folder: &Path, profile: Profile, arguments: &[String]) -> anyhow::Result<Option<PathBuf>> {
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
        None => bail!("the crate builds no shared library: write crate-type = [\"cdylib\"] below [lib] in Cargo.toml"),
    }
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
}
