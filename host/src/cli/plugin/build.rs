use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, ensure};

use super::{
    cargo::{self, Profile},
    check::verdict,
    remote::block_on,
    stop::Stop,
};
use crate::cli::text::plain;
use cardinal_package::package::MANIFEST;

/// Build a plugin's crate and check what came of it
///
/// Runs `cargo build --release` in the crate's folder, then looks at the library as `cardinal plugin check --open` does,
/// and prints where it is. Arguments after -- go to cargo.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin build
  cardinal plugin build notes -- --offline
  cardinal plugin install \"$(cardinal plugin build --quiet)\"")]
pub(super) struct Args {
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

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    is_plugin(&args.folder)?;
    let profile = if args.debug { Profile::Debug } else { Profile::Release };
    let built = block_on(async {
        let mut stop = Stop::listen()?;
        tokio::select! {
            () = stop.requested() => Ok(None),
            built = cargo::build(&args.folder, profile, &args.cargo) => built,
        }
    });
    let Some(library) = built? else { return Ok(ExitCode::FAILURE) };
    // The crate's own code, which cargo has run parts of already.
    let seen = verdict(&library, true)?;
    let mut verdict_text = String::new();
    if !args.quiet {
        let name = seen.name.as_deref().unwrap_or("the plugin");
        let version = seen.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
        verdict_text = match &seen.refusal {
            Some(refusal) => format!("{name}{version} would be refused: {refusal}"),
            None => format!("a host would accept {name}{version}; install it with `cardinal plugin install`"),
        };
        for warning in &seen.warnings {
            verdict_text.push_str(&format!("; warning: {warning}"));
        }
    }
    writeln!(std::io::stdout(), "{}", library.display()).context("writing to standard output")?;
    if !verdict_text.is_empty() {
        writeln!(std::io::stderr(), "{}", plain(&verdict_text)).context("writing to standard output")?;
    }
    Ok(if seen.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A folder with a manifest.
pub(super) fn is_plugin(folder: &Path) -> anyhow::Result<()> {
    let manifest = folder.join(MANIFEST);
    ensure!(
        manifest.is_file(),
        "{} is missing: `cardinal plugin new NAME` creates a crate with one",
        manifest.display()
    );
    Ok(())
}
