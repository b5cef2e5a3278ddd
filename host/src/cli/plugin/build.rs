use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, ensure};

use super::{
    cargo::{self, Profile},
    check::{check_manifest, findings, verdict},
    remote::block_on,
    stop::Stop,
};
use crate::cli::{check::finding_text, text::plain};
use cardinal_package::package::MANIFEST;
use cardinal_plugin_host::inspect::Inspection;
use cardinal_serve::check::finding::{Finding, Severity};

/// Build a plugin's crate and check what came of it
///
/// Runs `cargo build --release` in the crate's folder, then looks at the library as `cardinal plugin check --open`
/// does, and prints where it is. Arguments after -- go to cargo.
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
    check_manifest(&args.folder)?;
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
    writeln!(std::io::stdout(), "{}", library.display()).context("writing to standard output")?;
    if !args.quiet {
        let text = describe(&seen, &findings(&seen, &library, None));
        std::io::stderr().write_all(text.as_bytes()).context("writing to standard error")?;
    }
    Ok(if seen.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The verdict on a line, and below it what is wrong, as `cardinal plugin check` prints it.
fn describe(seen: &Inspection, findings: &[Finding]) -> String {
    let name = plain(seen.name.as_deref().unwrap_or("the plugin"));
    let version = seen.version.as_deref().map(|version| format!(" {}", plain(version))).unwrap_or_default();
    let mut text = match seen.ok {
        true => format!("a host would accept {name}{version}; install it with `cardinal plugin install`\n"),
        false => format!("a host would refuse {name}{version}\n"),
    };
    text.extend(findings.iter().filter(|finding| finding.severity != Severity::Ok).map(finding_text));
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_a_line_and_each_finding_stands_below_it() {
        let problem = Finding::error("bad-manifest", "manifest.json:7 (/backend)", "The manifest breaks a rule.");
        let findings = [Finding::ok("plugin-good", "x.so", "Fine."), problem.found("a\u{7}").expected("b")];
        let seen = Inspection { name: Some("notes".to_owned()), ..Inspection::default() };
        let text = describe(&seen, &findings);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "a host would refuse notes");
        assert!(lines[1].starts_with("ERROR   bad-manifest") && lines[1].contains("manifest.json:7 (/backend): The"));
        assert_eq!(lines[2..], ["          found     a\\u{7}", "          expected  b"]);
        let good = Inspection { ok: true, ..seen };
        assert_eq!(describe(&good, &findings[..1]).lines().count(), 1);
    }
}
