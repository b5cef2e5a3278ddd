use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::cli::text::plain;
use cardinal_package::package::MANIFEST;
use cardinal_plugin_host::inspect::inspect;

/// Build a plugin's crate and check what came of it
///
/// Runs `cargo build --release` in the crate's folder, then looks at the library as `cardinal plugin check` does, and
/// prints where it is. Arguments after -- go to cargo.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin build
  cardinal plugin build notes -- --offline
  cardinal plugin install \"$(cardinal plugin build --quiet)\"")]
pub struct Args {
    /// Folder of the crate
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Build without optimisation, which is quicker
    #[arg(long)]
    debug: bool,
    /// Print the library's path and nothing else
    #[arg(long, short)]
    quiet: bool,
    /// Arguments for cargo
    #[arg(last = true)]
    cargo: Vec<String>,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let manifest = args.folder.join(MANIFEST);
    ensure!(manifest.is_file(), "{} is missing: `cardinal plugin new NAME` makes a crate with one", manifest.display());
    let Some(library) = build(args)? else { return Ok(ExitCode::FAILURE) };
    let (seen, _) = inspect(&library);
    let mut told = String::new();
    if !args.quiet {
        let name = seen.name.as_deref().unwrap_or("the plugin");
        let version = seen.version.as_deref().unwrap_or_default();
        told = match &seen.refusal {
            Some(refusal) => format!("{name} {version} would be refused: {refusal}"),
            None => {
                format!("{name} {version} would be taken by a host; put it into one with `cardinal plugin install`")
            }
        };
        for warning in &seen.warnings {
            told.push_str(&format!("; warning: {warning}"));
        }
    }
    writeln!(std::io::stdout(), "{}", library.display()).context("telling where the library is")?;
    if !told.is_empty() {
        writeln!(std::io::stderr(), "{}", plain(&told)).context("telling what it is")?;
    }
    Ok(if seen.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The library that cargo has made; none when it could not, which it has told itself.
fn build(args: &Args) -> anyhow::Result<Option<PathBuf>> {
    let mut command = Command::new("cargo");
    command.args(["build", "--lib", "--message-format=json-render-diagnostics"]).current_dir(&args.folder);
    if !args.debug {
        command.arg("--release");
    }
    command.args(&args.cargo).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("starting cargo (is a Rust toolchain installed?)")?;
    let output = child.stdout.take().context("listening to cargo")?;
    let mut library = None;
    for line in BufReader::new(output).lines() {
        let line = line.context("listening to cargo")?;
        library = library_of(&line, &args.folder).or(library);
    }
    if !child.wait().context("waiting for cargo")?.success() {
        return Ok(None);
    }
    match library {
        Some(library) => Ok(Some(library)),
        None => bail!("the crate makes no shared library: write crate-type = [\"cdylib\"] below [lib] in Cargo.toml"),
    }
}

/// The shared library in a message of cargo's about a crate of this folder.
fn library_of(message: &str, folder: &Path) -> Option<PathBuf> {
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
        let found = library_of(&message(own.join("Cargo.toml"), files.clone()), folder.path());
        assert_eq!(found, Some(PathBuf::from("/t/libnotes.so")));
        assert_eq!(library_of(&message("/other/Cargo.toml".into(), files), folder.path()), None);
        assert_eq!(library_of("no JSON", folder.path()), None);
    }
}
