mod findings;
mod pointer;

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, ensure};
use semver::Version;

use crate::cli::{
    check::{core_version, finding_text},
    text::plain,
};
use cardinal_package::{
    manifest::Manifest,
    package::{self, Form, MANIFEST, Package},
    refusal::Refusal,
};
use cardinal_plugin_host::{
    agreement,
    inspect::{Inspection, inspect},
    library::SealedLibrary,
    probe::{Priority, ProbeOutcome, Prober},
};
use cardinal_serve::check::finding::{Finding, Severity};

/// Check a plugin package as a host does before it loads it
///
/// Reads a library that carries everything, or a folder with manifest.json and a library. None of the plugin's code
/// runs, unless --open is given. Each finding has a rule, a place and what to do. Exits 0 when a host would take it, 1
/// when it would refuse it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin check target/release/libnotes.so
  cardinal plugin check --json var/plugins/notes | jq '.findings[] | {code, subject, fix}'
  cardinal plugin check --against 2.0.0 libnotes.so
      and whether core 2.0.0 would take it
  cardinal plugin check --open target/release/libnotes.so
      and open it in a process of its own, run its `routes` there with the default settings,
      and hold the router against the manifest")]
pub(super) struct Args {
    /// A shared library, or a plugin's folder
    package: PathBuf,
    /// Open the library and run its `routes` in a process of its own, too
    #[arg(long)]
    open: bool,
    /// Judge it by this version of the core, too
    #[arg(long, value_name = "CORE_VERSION", value_parser = core_version)]
    against: Option<Version>,
    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // `.` and `..` have no name; a package does. A link is looked at by its own name, and refused.
    let path = if args.package.file_name().is_some() {
        std::path::absolute(&args.package)
    } else {
        args.package.canonicalize()
    };
    let path = path.with_context(|| format!("looking for {}", args.package.display()))?;
    let mut seen = verdict(&path, args.open)?;
    seen.warnings.sort();
    let findings = findings(&seen, &path, args.against.as_ref());
    let text = if args.json {
        serde_json::to_string_pretty(&findings::report(&seen, &findings)?)? + "\n"
    } else {
        describe(&seen) + "\n" + &findings.iter().map(finding_text).collect::<String>()
    };
    std::io::stdout().write_all(text.as_bytes())?;
    let is_good = seen.ok && findings.iter().all(|finding| finding.severity != Severity::Error);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a host says of it; with `open`, after running its `routes` in a process of its own.
pub(super) fn verdict(path: &Path, open: bool) -> anyhow::Result<Inspection> {
    let (seen, package) = inspect(path);
    match package {
        Some(package) if open && seen.ok => Ok(match try_out(&package)? {
            Ok(()) => seen,
            Err(refusal) => seen.refused(refusal),
        }),
        _ => Ok(seen),
    }
}

/// What is to be said of what lies at `path`.
pub(super) fn findings(seen: &Inspection, path: &Path, against: Option<&Version>) -> Vec<Finding> {
    let manifest = package::read_manifest(path).unwrap_or_default();
    findings::list(seen, &String::from_utf8_lossy(&manifest), against)
}

/// What a host would refuse of this manifest, before anything is built. Handlers are not looked for.
pub(super) fn check_manifest(folder: &Path) -> anyhow::Result<()> {
    let file = folder.join(MANIFEST);
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let findings = findings::from_manifest(&String::from_utf8_lossy(&bytes));
    let text: String = findings.iter().map(finding_text).collect();
    ensure!(findings.is_empty(), "a host would refuse {}\n{}", file.display(), text.trim_end());
    Ok(())
}

fn try_out(package: &Package) -> anyhow::Result<Result<(), Refusal>> {
    let manifest = match Manifest::read(&package.manifest) {
        Ok((manifest, _)) => manifest,
        Err(problems) => return Ok(Err(problems.into())),
    };
    let sealed = SealedLibrary::seal(&package.library).context("copying the library")?;
    let (prober, defaults) = (Prober::from_current_exe(), manifest.default_settings());
    let tried = crate::cli::runtime()?.block_on(prober.try_out(sealed.fd(), &defaults, Priority::New));
    Ok(tried.and_then(|tried| match tried {
        ProbeOutcome::Made(exports) => agreement::check(&manifest, &exports),
        ProbeOutcome::NotMade { refusal, .. } => Err(refusal),
    }))
}

fn describe(seen: &Inspection) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |what: &str, value: Option<&str>| {
        if let Some(value) = value {
            let _ = writeln!(text, "{what:<10} {}", plain(value));
        }
    };
    let form = seen.form.map(|form| match form {
        Form::Folder => "folder",
        Form::SingleFile => "single file",
    });
    line("package", Some(&seen.package));
    line("form", form);
    line("name", seen.name.as_deref());
    line("version", seen.version.as_deref());
    line("core", seen.core_version.as_deref());
    line("plugin API", seen.plugin_api_version.as_deref());
    line("target", seen.target.as_deref());
    line("sha256", seen.sha256.as_deref());
    line("library", seen.library_bytes.map(|bytes| format!("{bytes} bytes")).as_deref());
    for file in &seen.files {
        line("file", Some(&format!("{} ({} bytes)", file.name, file.bytes)));
    }
    text
}
