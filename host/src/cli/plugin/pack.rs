use std::{
    fs::{self, Permissions},
    io::{ErrorKind, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};
use cardinal_plugin_abi::section;

use super::sign;
use crate::cli::text::shell_word;
use cardinal_package::{package::Package, preflight};
use cardinal_plugin_host::inspect::inspect;

/// The programs that can strip a library, best known first.
const STRIPPERS: [&str; 2] = ["strip", "llvm-strip"];

/// Make one small file of a built plugin, to be dropped into PLUGINS_DIR
///
/// The library is checked as by `cardinal plugin check`, stripped of symbols and debug information (by `strip` of
/// binutils or llvm-strip), checked again and written to one file. A folder is packed when its files are those that the
/// library was built with. The library as it was stays beside it as NAME.debug, for `addr2line`: the packed one has no
/// names any more. Hosts need and read the packed one alone. Packing changes the bytes, so a signature comes after it:
/// by `cardinal plugin sign`, or at once with --key. One that lies there of the file before is removed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin pack target/release/libnotes.so
      writes ./notes.so and ./notes.debug
  addr2line -Cfie notes.debug 0x82fa8
      says where the crash or panic at that offset was
  cardinal plugin pack target/release/libnotes.so --key vendor.key
      and signs it: ./notes.so.minisig
  cardinal plugin pack var/plugins/notes --output /srv/plugins/notes.so")]
pub(super) struct Args {
    /// A shared library, or a plugin's folder
    package: PathBuf,
    /// Output file [default: ./NAME.so]
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// File with the secret key to sign the packed library with
    #[arg(long, short, value_name = "FILE")]
    key: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let package = checked(&args.package)?;
    let name = cardinal_package::manifest::hints(&package.manifest).name.context("the plugin has no name")?;
    let output = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.so")));
    anyhow::ensure!(output.extension().is_some_and(|kind| kind == "so"), "{} does not end in .so", output.display());
    same_files(&package)?;
    // Before anything is written.
    let key = args.key.as_deref().map(sign::secret).transpose()?;
    let folder = match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // A name that begins with a dot: a host that watches the folder does not look at it. The rename puts it in whole.
    let mut file = tempfile::Builder::new()
        .prefix(".cardinal-pack-")
        .suffix(".so")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)
        .with_context(|| format!("writing into {}", folder.display()))?;
    file.write_all(&package.library).context("writing the library")?;
    strip(file.path())?;
    let packed = checked(file.path()).context("the stripped library is not valid")?;
    anyhow::ensure!(packed.carried() == package.carried(), "the files inside did not survive stripping");
    fs::set_permissions(file.path(), Permissions::from_mode(0o644)).context("setting the file's mode")?;
    file.persist(&output).with_context(|| format!("writing {}", output.display()))?;
    let (before, after) = (package.library.len(), packed.library.len());
    writeln!(std::io::stdout(), "{} ({after} bytes, {before} before)", output.display())?;
    if after < before {
        let symbols = output.with_extension("debug");
        fs::write(&symbols, &package.library).with_context(|| format!("writing {}", symbols.display()))?;
        writeln!(std::io::stdout(), "{} (its symbols, for addr2line)", symbols.display())?;
    }
    let was_signed = remove_signature(&output)? || package.signature.is_some();
    match key {
        Some(key) => writeln!(std::io::stdout(), "{}", sign::sign(&output, &key)?)?,
        None if was_signed => writeln!(
            std::io::stderr(),
            "The signature was of the file before: sign the packed one, `cardinal plugin sign --key FILE {}`",
            shell_word(&output.display().to_string())
        )?,
        None => {}
    }
    Ok(())
}

/// Removes the signature of what was in the output's place; whether there was one.
fn remove_signature(output: &Path) -> anyhow::Result<bool> {
    let file = sign::signature_of(output);
    match fs::remove_file(&file) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("removing {}", file.display())),
    }
}

fn checked(path: &Path) -> anyhow::Result<Package> {
    let path = path.canonicalize().with_context(|| format!("looking for {}", path.display()))?;
    match inspect(&path) {
        (seen, Some(package)) if seen.ok => Ok(package),
        (seen, _) => match seen.refusal {
            Some(refusal) => bail!("{}: {refusal}", path.display()),
            None => bail!("{} cannot be read", path.display()),
        },
    }
}

/// A folder's files become the inside of the library only by building it.
fn same_files(package: &Package) -> anyhow::Result<()> {
    let inside = preflight::embedded_package(&package.library).and_then(|section| section::read_package(section).ok());
    let inside = inside.context("the library carries no package: build it with the Cardinal plugin SDK")?;
    let beside = package.carried();
    let differs = |name: &str, data: &[u8]| beside.get(name).is_none_or(|beside| *beside != data);
    if let Some((name, _)) = inside.iter().find(|(name, data)| differs(name, data)) {
        bail!("{name} is not the one that the library was built with; build the plugin again, then pack its library");
    }
    if let Some(name) = beside.keys().find(|name| inside.iter().all(|(inside, _)| inside != name)) {
        bail!("{name} came after the library was built; build the plugin again, then pack its library");
    }
    Ok(())
}

fn strip(library: &Path) -> anyhow::Result<()> {
    for program in STRIPPERS {
        match Command::new(program).arg("--strip-all").arg(library).output() {
            Ok(done) if done.status.success() => return Ok(()),
            Ok(done) => bail!("{program} failed: {}", String::from_utf8_lossy(&done.stderr).trim()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("running {program}")),
        }
    }
    bail!("neither of {} is installed; install binutils", STRIPPERS.join(", "))
}
