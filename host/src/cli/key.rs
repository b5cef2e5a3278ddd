//! Commands on API keys.

mod create;
mod keys;
mod list;
mod revoke;
mod rotate;

/// Create, list, rotate and revoke API keys
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  cardinal key create --name ci --scopes cards:read
  cardinal key list")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Create(create::Create),
    List(list::List),
    Revoke(revoke::Revoke),
    Rotate(rotate::Rotate),
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::Create(args) => args.run(),
        Command::List(args) => args.run(),
        Command::Revoke(args) => args.run(),
        Command::Rotate(args) => args.run(),
    }
}
