//! Which user of the system the worker runs as, and what of the host's folders is its own. Started as root, the host
//! gives the worker an account that is neither root nor the private server's. A worker that cannot get to its files
//! that way (plugins below `/root`, a container without the right to change users) runs as root, and says so.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid};

use crate::{
    data_dir::DataDir,
    launch::{Account, Launcher},
    postgres::{self, SERVER_FOLDER},
    temp_folder,
};
use cardinal_base::{account::worker_accounts, config::Config};
use cardinal_database::connect::ConnectParams;
use cardinal_package::kept;

const ROOT: u32 = 0;
/// Folders in folders of one that is handed over; a package has three.
const MAX_DEPTH: usize = 16;

/// The worker's account, with its files handed over to it; `None` when it runs as the supervisor does.
///
/// # Errors
/// `DATA_DIR` cannot be used.
pub async fn prepare(config: &Config, data: &mut DataDir, launcher: &Launcher) -> anyhow::Result<Option<Account>> {
    let packages = data.path().join(kept::FOLDER);
    DirBuilder::new().recursive(true).mode(0o700).create(&packages).context("making the folder of kept packages")?;
    temp_folder::make_empty(&data.path().join(temp_folder::FOLDER))?;
    if rustix::process::geteuid().as_raw() != ROOT {
        return Ok(None);
    }
    let server = match config.database.url {
        Some(_) => None,
        None => postgres::account::for_server(&data.path().join(SERVER_FOLDER))?,
    };
    // It must not own the cluster.
    let taken = server.map(|account| account.user);
    let Some(account) = worker_accounts().into_iter().find(|it| Some(it.user) != taken) else { return Ok(None) };
    match hand_over(config, data, launcher, account).await {
        Ok(()) => {
            tracing::info!(user = account.user, group = account.group, "the worker runs under an account of its own");
            Ok(Some(account))
        }
        Err(error) => {
            let error = format!("{error:#}");
            tracing::warn!(user = account.user, error, "the worker runs as root: its own account cannot be used");
            // What this worker keeps is root's, and is handed over again when the account can be used.
            take_back(&packages).with_context(|| format!("taking back {}", packages.display()))?;
            Ok(None)
        }
    }
}

async fn hand_over(config: &Config, data: &mut DataDir, launcher: &Launcher, account: Account) -> anyhow::Result<()> {
    data.open_to_group(account.group).with_context(|| format!("opening {}", data.path().display()))?;
    reach(config, data.path(), launcher, account).await?;
    let packages = data.path().join(kept::FOLDER);
    give_tree(&packages, account).with_context(|| format!("handing over {}", packages.display()))?;
    let temporary = data.path().join(temp_folder::FOLDER);
    std::os::unix::fs::lchown(&temporary, Some(account.user), Some(account.group))
        .with_context(|| format!("handing over {}", temporary.display()))?;
    if config.plugins.upload {
        let folder = &config.paths.plugins_dir;
        give_folder(folder, account)
            .with_context(|| format!("handing over {}, where uploads are written", folder.display()))?;
    }
    Ok(())
}

/// One that is another user's stays so; the worker may be able to write there all the same.
fn give_folder(folder: &Path, account: Account) -> io::Result<()> {
    let owner = fs::metadata(folder)?.uid();
    if owner == ROOT || worker_accounts().iter().any(|it| it.user == owner) {
        std::os::unix::fs::chown(folder, Some(account.user), None)?;
    }
    Ok(())
}

/// Has a process of that account try what the worker needs.
async fn reach(config: &Config, data_dir: &Path, launcher: &Launcher, account: Account) -> anyhow::Result<()> {
    let mut command = launcher.command_as("reach", Some(account));
    command.arg("--").arg(data_dir);
    command.args(Some(&config.paths.plugins_dir).filter(|folder| folder.exists())).args(&config.plugins.trust_keys);
    command.args(database_socket(config));
    let output = tokio::process::Command::from(command).output().await.context("trying the worker's account")?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("{}", message.trim().trim_start_matches("cardinal: "));
    }
    Ok(())
}

/// Of a `DATABASE_URL` on this machine.
fn database_socket(config: &Config) -> Option<PathBuf> {
    let login = ConnectParams::from_url(config.database.url.as_ref()?).ok()?;
    let socket = login.host.starts_with('/').then(|| Path::new(&login.host).join(format!(".s.PGSQL.{}", login.port)));
    // One that is not there yet is waited for, and tried by the worker.
    socket.filter(|socket| socket.exists())
}

/// What a `cardinal reach` process does: becomes the account and tries to get to each path. Files have to be readable
/// and sockets writable; of folders, `data_dir` can be walked through and the others can be read.
///
/// # Errors
/// Names the path, and says what to do.
pub fn try_reach(account: Account, data_dir: &Path, paths: &[PathBuf]) -> anyhow::Result<()> {
    use rustix::fs::Access;
    crate::launch::drop_rights(account)?;
    let this_program = Path::new("/proc/self/exe");
    let wanted = [(this_program, Access::EXEC_OK), (data_dir, Access::EXEC_OK)];
    let readable = paths.iter().map(|path| {
        let access = match fs::metadata(path).map(|found| found.file_type()) {
            Ok(kind) if kind.is_dir() => Access::READ_OK | Access::EXEC_OK,
            Ok(kind) if kind.is_socket() => Access::READ_OK | Access::WRITE_OK,
            _ => Access::READ_OK,
        };
        (path.as_path(), access)
    });
    for (path, access) in wanted.into_iter().chain(readable) {
        rustix::fs::access(path, access).with_context(|| {
            let path = if path == this_program { fs::read_link(path).unwrap_or_default() } else { path.to_owned() };
            let user = account.user;
            format!(
                "user {user} cannot get to {}: open it and the folders above it (chmod o+rX), or move it",
                path.display()
            )
        })?;
    }
    Ok(())
}

/// A folder that is the account's already is left alone: it may have put there what must not become its own.
fn give_tree(path: &Path, account: Account) -> io::Result<()> {
    if fs::symlink_metadata(path)?.uid() == account.user {
        return Ok(());
    }
    let folder = open_folder(CWD, path)?;
    give_entries(&folder, account, MAX_DEPTH)?;
    // Last, so that a walk that was cut off is made again.
    give(folder.as_fd(), account)
}

fn give_entries(folder: &impl AsFd, account: Account, depth: usize) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        let file = rustix::fs::openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let found = rustix::fs::fstat(&file)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory if depth > 0 => {
                give_entries(&open_folder(folder, name)?, account, depth - 1)?;
                give(file.as_fd(), account)?;
            }
            // Another name of the file may lie where it must stay root's.
            FileType::RegularFile if found.st_nlink == 1 => give(file.as_fd(), account)?,
            _ => {}
        }
    }
    Ok(())
}

fn open_folder<P: rustix::path::Arg>(folder: impl AsFd, name: P) -> rustix::io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

/// What was opened, whatever lies under its name by now.
fn give(file: BorrowedFd<'_>, Account { user, group }: Account) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    Ok(rustix::fs::chownat(file, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?)
}

fn take_back(packages: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(packages)?;
    if found.uid() == ROOT {
        return Ok(());
    }
    std::os::unix::fs::lchown(packages, Some(ROOT), Some(ROOT))?;
    fs::set_permissions(packages, fs::Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only root may give files away.
    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    #[test]
    fn a_tree_is_handed_over_without_what_is_linked_into_it() {
        if !is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (tree, secret) = (folder.path().join("tree"), folder.path().join("secret"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::write(tree.join("a/b/file"), "x").unwrap();
        fs::write(&secret, "x").unwrap();
        fs::hard_link(&secret, tree.join("a/hard")).unwrap();
        std::os::unix::fs::symlink(&secret, tree.join("a/soft")).unwrap();
        let account = Account { user: 61_001, group: 61_002 };
        give_tree(&tree, account).unwrap();
        let owner = |path: &Path| fs::metadata(path).map(|it| (it.uid(), it.gid())).unwrap();
        for given in ["", "a", "a/b", "a/b/file"] {
            assert_eq!(owner(&tree.join(given)), (61_001, 61_002), "{given:?}");
        }
        assert_eq!(owner(&secret), (0, 0));
        // Later nothing of it is touched, whatever the account has put there.
        fs::write(tree.join("late"), "x").unwrap();
        give_tree(&tree, account).unwrap();
        assert_eq!(owner(&tree.join("late")), (0, 0));
        take_back(&tree).unwrap();
        give_tree(&tree, account).unwrap();
        assert_eq!(owner(&tree.join("late")), (61_001, 61_002));
    }
}
