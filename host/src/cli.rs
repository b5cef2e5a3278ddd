//! The commands of the one binary, a file each.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::backup::Summary;
use cardinal_base::config::SettingsError;

mod backup;
mod cards;
mod check;
mod client;
mod database;
mod direct;
mod key;
mod mcp;
mod password;
mod plugin;
mod probe;
mod progress;
mod provision;
mod psql;
mod reach;
mod restore;
mod serve;
mod server;
mod table;
mod text;
mod user;
mod version;
mod worker;

/// How an API key begins.
const KEY_PREFIX: &str = "mpk_";
const KEY_WAS_SHOWN: &str = "Everyone on this machine could read the one you typed, and it is now in your shell's \
    history: revoke it (`cardinal key revoke`) and create another one.";
/// What a command that was written wrongly exits with (`EX_USAGE`); a bad setting too.
const EXIT_USAGE: u8 = 64;
/// What a backup or a restore exits with that had to leave a plugin out (`EX_DATAERR`).
const EXIT_INCOMPLETE: u8 = 65;

/// What a command's asynchronous work runs on: one thread does for a command.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")
}

#[derive(Debug, Parser)]
#[command(name = "cardinal", version, about = "Cardinal: product cards, native plugins, an admin API and MCP")]
#[command(propagate_version = true, arg_required_else_help = true, max_term_width = 120)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Args>),
    Check(Box<check::Args>),
    Plugin(plugin::Args),
    User(Box<user::Args>),
    Key(Box<key::Args>),
    Cards(Box<cards::Args>),
    Mcp(Box<mcp::Args>),
    Database(database::Args),
    Psql(Box<psql::Args>),
    Backup(Box<backup::Args>),
    Restore(Box<restore::Args>),
    /// Print the version
    #[command(after_help = "Example:\n  cardinal version")]
    Version,
    #[command(hide = true)]
    Worker(worker::Args),
    #[command(hide = true)]
    Provision(provision::Args),
    #[command(hide = true)]
    Probe(probe::Args),
    #[command(hide = true)]
    Server(server::Args),
    #[command(hide = true)]
    Reach(reach::Args),
}

/// Runs the command that this process was started with.
pub fn main() -> ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => return wrong_line(&without_hidden_commands(error)),
    };
    let outcome = match line.command {
        Command::Serve(args) => return serve::run(&args),
        Command::Check(args) => return check::run(&args),
        Command::Plugin(args) => return plugin::run(args),
        Command::User(args) => user::run(&args),
        Command::Key(args) => key::run(&args),
        Command::Cards(args) => cards::run(&args),
        Command::Mcp(args) => mcp::run(&args),
        Command::Database(args) => database::run(&args),
        Command::Psql(args) => return psql::run(&args),
        Command::Backup(args) => return to_exit_code(backup::run(&args)),
        Command::Restore(args) => return to_exit_code(restore::run(&args)),
        Command::Version => version::run(),
        Command::Worker(args) => worker::run(&args),
        Command::Provision(args) => provision::run(&args),
        Command::Probe(args) => return to_exit_code(probe::run(args)),
        Command::Server(args) => server::run(&args),
        Command::Reach(args) => reach::run(&args),
    };
    exit_code(outcome)
}

/// A wrong line without what clap suggests of the commands that the host alone starts.
fn without_hidden_commands(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::Strings(names)) = error.remove(ContextKind::SuggestedSubcommand) else { return error };
    let line = CommandLine::command();
    let is_hidden = |name: &String| line.find_subcommand(name).is_some_and(clap::Command::is_hide_set);
    let names: Vec<String> = names.into_iter().filter(|name| !is_hidden(name)).collect();
    if !names.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
    }
    error
}

/// clap's own code for a wrong line is 2; help and version are no fault.
fn wrong_line(error: &clap::Error) -> ExitCode {
    // Nothing can be done about a closed standard output.
    let _ = error.print();
    if std::env::args().skip(1).any(|argument| argument.contains(KEY_PREFIX)) {
        print_error(&format!(
            "\nA key is never an argument: it comes from CARDINAL_API_KEY or --key-file. {KEY_WAS_SHOWN}"
        ));
    }
    if error.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS }
}

fn exit_code(outcome: anyhow::Result<()>) -> ExitCode {
    to_exit_code(outcome.map(|()| ExitCode::SUCCESS))
}

/// Of a backup or a restore that was made.
fn whole_or_not(summary: &Summary) -> ExitCode {
    if summary.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_INCOMPLETE) }
}

fn to_exit_code(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(error) => {
            // A setting that proved wrong in use says all there is to say.
            if let Some(bad) = error.downcast_ref::<SettingsError>() {
                print_error(&format!("cardinal: {bad}"));
                return ExitCode::from(EXIT_USAGE);
            }
            // Parts of it may come from files and from other machines.
            print_error(&format!("cardinal: {}", text::plain_lines(&format!("{error:#}"))));
            error.downcast_ref::<client::RequestError>().map_or(ExitCode::FAILURE, client::RequestError::exit_code)
        }
    }
}

fn print_error(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn commands_of_the_host_alone_are_never_suggested() {
        let message = |word: &str| {
            without_hidden_commands(CommandLine::try_parse_from(["cardinal", word]).unwrap_err()).to_string()
        };
        let suggested = message("serv");
        assert!(suggested.contains("'serve'") && !suggested.contains("'server'"), "{suggested}");
        let nothing = message("workr");
        assert!(nothing.contains("unrecognized subcommand") && !nothing.contains("worker"), "{nothing}");
    }
}
