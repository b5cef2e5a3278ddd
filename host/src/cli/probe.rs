use std::{io, process::ExitCode};

use anyhow::Context as _;
use rustix::process::Signal;

use cardinal_base::account;
use cardinal_control::sandbox::{self, programs};
use cardinal_plugin_host::probe;
use cardinal_supervisor::launch;

/// The process in which a plugin's library is tried first.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(long)]
    parent: u32,
    /// The settings that the plugin gets, as JSON.
    #[arg(long, env = probe::SETTINGS_VARIABLE, hide_env_values = true, default_value = "{}")]
    settings: String,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    leave_root();
    // Other plugins of the same user are not to read its settings, or its memory.
    sandbox::close_process()?;
    launch::end_with(args.parent, Signal::KILL)?;
    let probe = |this| try_library(this, args.settings).map_err(io::Error::other);
    probe::starter::watch(probe).context("making the process that opens the library")
}

/// Root owns files that nobody else reads, and would read them without any capability. Where the accounts of a root
/// host's worker have no number (a namespace of users with few), the library is tried as root.
fn leave_root() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    if !account::worker_accounts().into_iter().any(|account| launch::drop_rights(account).is_ok()) {
        tracing::debug!("the library is tried as root: no account can be taken");
    }
}

/// In a process that is closed to others.
pub(super) fn try_library(parent: u32, settings: String) -> anyhow::Result<()> {
    launch::end_with(parent, Signal::KILL)?;
    // While files in memory may be made.
    let library = probe::child::receive();
    if let Err(error) = programs::refuse().and_then(|()| sandbox::probe::restrict()) {
        tracing::debug!(%error, "this system does not filter system calls");
    }
    probe::child::run(library, settings).context("answering the worker")
}
