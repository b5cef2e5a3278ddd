use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use anyhow::Context as _;
use rustix::process::Signal;

use crate::keeper::launch;
use crate::observe::log::Log;
use crate::{lifecycle, link};

/// The process that serves; started by `cardinal serve` alone.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(long)]
    parent: u32,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    launch::be_called(c"cardinal-worker");
    launch::end_with(args.parent, Signal::KILL)?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned().context("taking the control socket")?;
    // Whoever reads standard input from now on, a plugin above all, must not read the keeper's words.
    let nothing = File::open("/dev/null").context("opening /dev/null")?;
    rustix::stdio::dup2_stdin(&nothing).context("closing standard input")?;
    let (start, link, listeners) =
        link::receive_start(UnixStream::from(socket)).context("listening to the keeper (start `cardinal serve`)")?;
    let (log, _flush) = Log::start_buffered(&start.config.observe)?;
    lifecycle::run_worker(start, link, listeners, log)
}
