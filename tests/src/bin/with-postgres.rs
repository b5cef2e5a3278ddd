//! Runs a command while a PostgreSQL of its own is up, with its address in `CARDINAL_TEST_DATABASE`: what tests of plugins
//! with tables need. The server is that of a host that the harness starts, so it has an account that PostgreSQL accepts
//! also when root runs the tests, and is gone with its data when the command ends.

use std::process::ExitCode;

use anyhow::Context as _;
use cardinal_tests::Host;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

const VARIABLE: &str = "CARDINAL_TEST_DATABASE";
const EXIT_USAGE: u8 = 64;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("Usage: with-postgres COMMAND [ARGUMENTS]");
        return Ok(ExitCode::from(EXIT_USAGE));
    };
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let run = async {
        let host = Host::settings().start().await;
        let mut command = Command::new(&program);
        command.args(arguments).env(VARIABLE, host.database_url()).kill_on_drop(true);
        command.status().await.with_context(|| format!("starting {}", program.display()))
    };
    let status = tokio::select! {
        status = run => status?,
        _ = interrupt.recv() => anyhow::bail!("interrupted"),
        _ = terminate.recv() => anyhow::bail!("terminated"),
    };
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
