use std::io;
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use rustix::process::Signal;

use cardinal_control::sandbox;
use cardinal_plugin_host::probe::starter;
use cardinal_supervisor::launch;

use super::probe;

/// The process that starts probes for the worker; started by a worker alone.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(long)]
    parent: u32,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    sandbox::close_process()?;
    launch::be_called(c"cardinal-probes");
    launch::end_with(args.parent, Signal::KILL)?;
    let socket = io::stdin().as_fd().try_clone_to_owned().context("taking the worker's socket")?;
    let this = std::process::id();
    let probe = |settings| probe::try_library(this, settings).map_err(io::Error::other);
    starter::serve(&socket, probe).context("listening to the worker")
}
