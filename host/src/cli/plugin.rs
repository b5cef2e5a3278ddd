//! Commands on plugin packages, a file each.

use std::process::ExitCode;

use crate::cli::exit_code;

mod check;
mod pack;

/// Check and pack plugins
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(check::Args),
    Pack(pack::Args),
}

pub fn run(args: Args) -> ExitCode {
    match args.command {
        Command::Check(args) => check::run(&args).unwrap_or_else(|error| exit_code(Err(error))),
        Command::Pack(args) => exit_code(pack::run(&args)),
    }
}
