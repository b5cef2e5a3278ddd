use std::io;
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use rustix::process::Signal;

use cardinal_control::sandbox;
use cardinal_plugin_host::probe::{ProbeCommand, starter};
use cardinal_supervisor::launch;

/// The process that starts probes for the worker; started by a worker alone.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(long)]
    parent: u32,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    launch::be_called(c"cardinal-probes");
    sandbox::close_process()?;
    launch::end_with(args.parent, Signal::KILL)?;
    let socket = io::stdin().as_fd().try_clone_to_owned().context("taking the worker's socket")?;
    starter::serve(socket, &ProbeCommand::from_current_exe()).context("listening to the worker")
}
