//! Programs that the server's user can start. As root we may have found PostgreSQL in a folder of root's that nobody
//! else can walk to; then a copy of it, owned by root and open to read, does the work.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use super::installation::Installation;
use crate::launch::{Account, Launcher};
use cardinal_base::hex::hex;

const COPIES: &str = "/var/lib/cardinal";
/// What an installation consists of. One of a distribution may keep a part elsewhere, at a place built into it.
const PARTS: [&str; 3] = ["bin", "lib", "share"];
const OPEN_TO_READ: u32 = 0o755;

/// The installation, or a copy of it that `account` can use.
///
/// # Errors
/// It can be used neither where it is nor elsewhere.
pub(super) async fn reachable(
    installation: Installation,
    account: Option<Account>,
    launcher: &Launcher,
) -> anyhow::Result<Installation> {
    if account.is_none() || starts(&installation, account, launcher).await? {
        return Ok(installation);
    }
    let copy = copy(&installation).with_context(|| {
        format!(
            "the user that PostgreSQL runs as cannot reach {}, and it cannot be copied to {COPIES}: open the folders \
             on the way to it (chmod o+x), or name another in POSTGRES_BIN_DIR",
            installation.bin_dir.display()
        )
    })?;
    if starts(&copy, account, launcher).await? {
        return Ok(copy);
    }
    bail!("the copy of PostgreSQL in {} does not start", copy.bin_dir.display())
}

async fn starts(installation: &Installation, account: Option<Account>, launcher: &Launcher) -> anyhow::Result<bool> {
    let mut command = launcher.server_command(account, Path::new("/"), &installation.program("postgres"));
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = tokio::process::Command::from(command).status().await.context("trying PostgreSQL as its user")?;
    Ok(status.success())
}

/// Made once for each installation and version, under a name that only root could have made.
fn copy(installation: &Installation) -> anyhow::Result<Installation> {
    let program = installation.program("postgres");
    let found = fs::metadata(&program).with_context(|| format!("looking at {}", program.display()))?;
    let identity = format!("{} {} {:?}", program.display(), found.len(), found.modified()?);
    let name = format!("postgres-{}", &hex(&Sha256::digest(identity.as_bytes()))[..16]);
    let (done, draft) = (Path::new(COPIES).join(&name), Path::new(COPIES).join(format!("{name}.new")));
    let copied = Installation { bin_dir: done.join("bin"), major: installation.major };
    if copied.bin_dir.is_dir() {
        return Ok(copied);
    }
    tracing::info!(from = %installation.bin_dir.display(), to = %done.display(), "copying PostgreSQL to where its user gets");
    fs::DirBuilder::new().recursive(true).mode(OPEN_TO_READ).create(COPIES).context("making the folder")?;
    match fs::remove_dir_all(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).context("removing an unfinished copy"),
        _ => {}
    }
    let source = installation.bin_dir.parent().context("no folder above the programs")?;
    make_open(&draft)?;
    for part in PARTS.into_iter().filter(|part| source.join(part).is_dir()) {
        copy_tree(&source.join(part), &draft.join(part)).with_context(|| format!("copying {part}"))?;
    }
    fs::rename(&draft, &done).context("putting the copy in its place")?;
    Ok(copied)
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    make_open(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target: PathBuf = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            let executable = entry.metadata()?.permissions().mode() & 0o111 != 0;
            fs::set_permissions(&target, fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))?;
        }
    }
    Ok(())
}

/// Whatever the umask says.
fn make_open(path: &Path) -> std::io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(OPEN_TO_READ))
}
