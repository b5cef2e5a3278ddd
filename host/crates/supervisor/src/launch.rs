//! Starting this program again in another part: worker, provisioner, or the process that becomes PostgreSQL. Every
//! such child has an empty environment, a session of its own (so that Ctrl-C reaches the supervisor alone, and no
//! terminal can be typed into from there) and ends when the supervisor ends, however that happens.

use std::ffi::OsString;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Gid, Pid, Signal, Uid};

use crate::server_memory;
pub use cardinal_base::account::Account;

/// Stands in a server argument for the folder that is handed over open.
pub const FOLDER: &str = "{folder}";

/// What of this program to start.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: PathBuf,
}

impl Launcher {
    /// The very file that is running, even if another one was put in its place since.
    pub fn this_program() -> Self {
        Self { program: PathBuf::from("/proc/self/exe") }
    }

    /// Another build of it; tests run this module from a binary that is not `cardinal`.
    pub fn program(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// To be spawned on the thread that lives as long as the supervisor: Linux signals the death of a parent's
    /// *thread*.
    pub fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().arg0("cardinal").arg(subcommand);
        command.arg("--parent").arg(std::process::id().to_string());
        command
    }

    /// The same for one that becomes `account` where that is not us.
    pub(crate) fn command_as(&self, subcommand: &str, account: Option<Account>) -> Command {
        let mut command = self.command(subcommand);
        if let Some(Account { user, group }) = account {
            command.arg("--user").arg(user.to_string()).arg("--group").arg(group.to_string());
        }
        command
    }

    /// A program of PostgreSQL, as `account` where that is not us, with `folder` open in the place of [`FOLDER`].
    pub(crate) fn server_command(&self, account: Option<Account>, folder: &Path, program: &Path) -> Command {
        let mut command = self.command_as("server", account);
        command.arg("--folder").arg(folder).arg("--").arg(program);
        command
    }
}

/// What `ps` and `top` show for this process; it would be `exe`, by the name that it was started under.
pub fn be_called(name: &std::ffi::CStr) {
    // Of no consequence when it fails.
    let _ = rustix::thread::set_name(name);
}

/// Leaves the supervisor's session and its terminal: who shares that can type into the shell that it was started from.
///
/// # Errors
/// The process leads a group already.
pub fn begin_session() -> anyhow::Result<()> {
    rustix::process::setsid().context("beginning a session")?;
    Ok(())
}

/// Asks the system for `signal` when the parent ends, and makes sure that it has not ended before.
///
/// # Errors
/// The parent is gone already.
pub fn end_with(parent: u32, signal: Signal) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(signal)).context("asking to end with the supervisor")?;
    let parent_now = rustix::process::getppid().map(Pid::as_raw_nonzero).map_or(0, |pid| pid.get());
    if u32::try_from(parent_now) != Ok(parent) {
        bail!("the supervisor (process {parent}) has ended");
    }
    Ok(())
}

/// Gives up all rights but those of `account`, and memory beyond a bound, and becomes `program`. Returns only when that
/// failed.
///
/// The folder is opened while we may still get there and handed over as an open descriptor, so that an account which
/// cannot walk the path to it (a folder of root's) can use it all the same. PostgreSQL's working directory would not
/// do: versions before 16 leave it and cannot come back.
pub fn become_server(
    parent: u32,
    account: Option<Account>,
    folder: &Path,
    program: &Path,
    arguments: &[OsString],
) -> anyhow::Error {
    match try_become_server(parent, account, folder, program, arguments) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn try_become_server(
    parent: u32,
    account: Option<Account>,
    folder: &Path,
    program: &Path,
    arguments: &[OsString],
) -> anyhow::Result<std::convert::Infallible> {
    // Deliberately without CLOEXEC: the server reaches the folder through this descriptor.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let folder =
        rustix::fs::open(folder, flags, Mode::empty()).with_context(|| format!("opening {}", folder.display()))?;
    std::env::set_current_dir("/").context("leaving the working directory")?;
    rustix::process::umask(Mode::from_raw_mode(0o077));
    server_memory::bound()?;
    if let Some(account) = account {
        drop_rights(account)?;
    }
    // After the change of user, which would clear it.
    begin_session()?;
    end_with(parent, Signal::INT)?;
    let reached = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let filled = arguments.iter().map(|argument| match argument.to_str() {
        Some(text) => OsString::from(text.replace(FOLDER, &reached)),
        None => argument.clone(),
    });
    let error = Command::new(program).args(filled).env_clear().env("LC_ALL", "C").env("PATH", "/usr/bin:/bin").exec();
    Err(error).with_context(|| format!("starting {}", program.display()))
}

/// For good. This process has one thread, so a thread's ids are the process's.
///
/// # Errors
/// This process may not change its user.
pub fn drop_rights(Account { user, group }: Account) -> anyhow::Result<()> {
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    rustix::thread::set_thread_groups(&[]).context("giving up the groups")?;
    rustix::thread::set_thread_res_gid(group, group, group).with_context(|| format!("becoming group {group}"))?;
    rustix::thread::set_thread_res_uid(user, user, user).with_context(|| format!("becoming user {user}"))?;
    Ok(())
}
