use std::ffi::OsString;
use std::path::PathBuf;

use cardinal_supervisor::launch::{self, Account};

/// The process that becomes PostgreSQL; started by `cardinal serve` alone.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(long)]
    parent: u32,
    #[arg(long, requires = "group")]
    user: Option<u32>,
    #[arg(long, requires = "user")]
    group: Option<u32>,
    #[arg(long)]
    folder: PathBuf,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let account = args.user.zip(args.group).map(|(user, group)| Account { user, group });
    let Some((program, arguments)) = args.command.split_first() else {
        anyhow::bail!("no program to become");
    };
    Err(launch::become_server(args.parent, account, &args.folder, program.as_ref(), arguments))
}
