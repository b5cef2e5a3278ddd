//! Commands on a host's MCP endpoint.

mod bridge;
mod headers;
mod lines;
mod stdio;

/// Connect MCP clients
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Example:
  cardinal mcp stdio --url https://shop.example.com --key-file cardinal.key")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Stdio(stdio::Args),
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::Stdio(args) => stdio::run(args),
    }
}
