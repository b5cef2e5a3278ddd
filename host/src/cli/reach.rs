use std::path::PathBuf;

use rustix::process::Signal;

use cardinal_base::account::Account;
use cardinal_supervisor::{launch, worker_account};

/// The process that tries whether the worker's account gets to its files; started by `cardinal serve` alone.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(long)]
    parent: u32,
    #[arg(long)]
    user: u32,
    #[arg(long)]
    group: u32,
    /// `DATA_DIR`, then what is to be read.
    #[arg(last = true, required = true)]
    paths: Vec<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    launch::begin_session()?;
    launch::end_with(args.parent, Signal::KILL)?;
    let Some((data_dir, paths)) = args.paths.split_first() else {
        anyhow::bail!("no path to try");
    };
    worker_account::try_reach(Account { user: args.user, group: args.group }, data_dir, paths)
}
