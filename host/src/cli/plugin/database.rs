//! A PostgreSQL for the tests of a plugin's crate, where nothing names one: the SDK starts this command by itself.

use std::{io::Read as _, path::Path, process::ExitCode};

use anyhow::Context as _;
use tokio::sync::oneshot;

use super::{own_host, remote::block_on, stop::Stop};
use crate::cli::{print_error, text::print_line};
use cardinal_supervisor::{
    data_dir::DataDir,
    launch::Launcher,
    postgres::{PrivatePostgres, installation},
};

/// There is no PostgreSQL on this machine: the tests that need one are left out. Any other failure fails them.
const EXIT_NO_POSTGRES: u8 = 69;

/// Run a PostgreSQL with no data in a temporary folder until standard input ends
///
/// Prints its address, as CARDINAL_TEST_DATABASE has it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folder with the server's programs [default: the newest one found]
    #[arg(long, env, value_name = "FOLDER")]
    postgres_bin_dir: Option<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let programs = args.postgres_bin_dir.as_deref().filter(|folder| !folder.is_empty()).map(Path::new);
    // The name is short: below it is a socket, whose whole path has 107 bytes at most.
    let place = tempfile::Builder::new().prefix("cardinal-pg-").tempdir().context("making a temporary folder")?;
    if programs.is_none()
        && let Err(absent) = installation::choose(None, place.path(), None)
    {
        print_error(&format!("{absent:#}"));
        return Ok(ExitCode::from(EXIT_NO_POSTGRES));
    }
    let input_ended = watch_input()?;
    block_on(async {
        let mut stop = Stop::listen()?;
        let unwanted = async {
            tokio::select! {
                () = stop.requested() => {}
                // Whether it ends or breaks: who wanted the server is gone.
                _ = input_ended => {}
            }
        };
        serve(place.path(), programs, unwanted).await
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(place: &Path, programs: Option<&Path>, unwanted: impl Future<Output = ()>) -> anyhow::Result<()> {
    let data = DataDir::open(&own_host::data_dir(place))?;
    let server = PrivatePostgres::start(&data, &Launcher::this_program(), programs).await?;
    print_line(own_host::address(server.superuser()).expose())?;
    unwanted.await;
    server.stop().await;
    Ok(())
}

/// Ends with standard input. On a thread that nobody waits for: a read cannot be given up.
fn watch_input() -> anyhow::Result<oneshot::Receiver<()>> {
    let (ended, input_ended) = oneshot::channel();
    let watch = move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = ended.send(());
    };
    std::thread::Builder::new().name("input".to_owned()).spawn(watch).context("starting a thread")?;
    Ok(input_ended)
}
