//! Commands on plugins, a file each: on crates and packages of one's own, and on those of a host.

use std::process::ExitCode;

use crate::cli::exit_code;

mod build;
mod cargo;
mod check;
mod database;
mod dev;
mod install;
mod logs;
mod new;
mod own_host;
mod pack;
mod remote;
mod settings;
mod sign;
mod stop;
mod test;

use remote::PluginCommand;

/// Make, check and install plugins, and say which a host runs
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  cardinal plugin new notes
  cardinal plugin dev notes
  cardinal plugin install target/release/libnotes.so")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    New(new::Args),
    Dev(Box<dev::Args>),
    Test(test::Args),
    Build(build::Args),
    Check(check::Args),
    Pack(pack::Args),
    Sign(sign::Args),
    Install(Box<install::Args>),
    List(remote::List),
    Logs(logs::Args),
    Settings(settings::Args),
    /// Enable a disabled plugin on every host of the database
    #[command(after_help = "Example:\n  cardinal plugin enable supplier")]
    Enable(remote::PluginArgs),
    /// Take a plugin out of service, on every host of the database; its data stays
    #[command(after_help = "Example:\n  cardinal plugin disable supplier")]
    Disable(remote::PluginArgs),
    /// Load a plugin again from its files
    #[command(after_help = "Example:\n  cardinal plugin reload supplier")]
    Reload(remote::PluginArgs),
    /// Roll back to the previous version
    #[command(after_help = "Example:\n  cardinal plugin rollback supplier")]
    Rollback(remote::PluginArgs),
    /// Release a plugin from quarantine
    #[command(after_help = "Example:\n  cardinal plugin release supplier")]
    Release(remote::PluginArgs),
    #[command(hide = true)]
    Database(database::Args),
}

pub(super) fn run(args: Args) -> ExitCode {
    let outcome = match args.command {
        Command::New(args) => new::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Dev(args) => dev::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Pack(args) => pack::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Sign(args) => sign::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Install(args) => install::run(&args),
        Command::List(args) => remote::list(&args).map(|()| ExitCode::SUCCESS),
        Command::Logs(args) => logs::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Settings(args) => settings::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Enable(args) => remote::run(&args, PluginCommand::Enable),
        Command::Disable(args) => remote::run(&args, PluginCommand::Disable),
        Command::Reload(args) => remote::run(&args, PluginCommand::Reload),
        Command::Rollback(args) => remote::run(&args, PluginCommand::Rollback),
        Command::Release(args) => remote::run(&args, PluginCommand::Release),
        Command::Database(args) => database::run(&args),
    };
    outcome.unwrap_or_else(|error| exit_code(Err(error)))
}
