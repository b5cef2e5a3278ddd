use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};

use super::{EXIT_USAGE, exit_code, print_error};
use cardinal_base::config::{self, Config, Settings};
use cardinal_database::connect::ConnectParams;
use cardinal_observe::log::Log;
use cardinal_supervisor::{
    access::{Access, MissingDatabase},
    postgres::installation,
};

/// Open the host's database in psql, as the owner of Cardinal's tables
///
/// The private one of DATA_DIR, beside a running host or with the host stopped, or that of DATABASE_URL. Settings come
/// first; everything from the first flag of psql on goes to psql. psql is looked for beside the PostgreSQL in use
/// (POSTGRES_BIN_DIR), then in PATH; Debian and Ubuntu have it in the package postgresql-client.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal psql
  cardinal psql --data-dir /var/lib/cardinal -- -c 'SELECT count(*) FROM master_cards'")]
pub(super) struct Args {
    #[command(flatten)]
    settings: Settings,
    /// Arguments of psql
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS OF PSQL")]
    arguments: Vec<OsString>,
}

/// Of the operator's environment. What names programs (PAGER, PSQL_EDITOR) or files that say what to run (PSQLRC,
/// PGSERVICEFILE) is not among it; HOME is where psql keeps its history.
const KEPT_VARIABLES: [&str; 7] = ["HOME", "TERM", "LANG", "LANGUAGE", "TZ", "COLUMNS", "LINES"];
const SYSTEM_PROGRAMS: &str = "/usr/bin:/bin";

pub(super) fn run(args: &Args) -> ExitCode {
    let config = match Config::read(&args.settings) {
        Ok(config) => config,
        Err(bad) => {
            print_error(&format!("cardinal psql: {bad}"));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match open(&config, &args.arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => exit_code(Err(error)),
    }
}

fn open(config: &Config, arguments: &[OsString]) -> anyhow::Result<u8> {
    Log::start_quiet(&config.observe)?;
    let program = find(config)?;
    let runtime = crate::cli::runtime()?;
    runtime.block_on(async {
        let access = Access::open(config, MissingDatabase::Refused).await?;
        let code = match access.preparation().owner_login().await {
            Ok(login) => run_psql(&program, &login, arguments).await,
            Err(error) => Err(error),
        };
        access.close().await;
        code
    })
}

/// Ctrl-C is psql's, not ours.
async fn run_psql(program: &PathBuf, login: &ConnectParams, arguments: &[OsString]) -> anyhow::Result<u8> {
    let _deaf = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).context(
        "installing \
        signal handlers",
    )?;
    // By this process's name for it: psql is not the one that holds the socket's folder open.
    let host = login.host.replace("/proc/self/", &format!("/proc/{}/", std::process::id()));
    let mut command = Command::new(program);
    // No start file, and of the environment what it takes to speak to this terminal.
    command.arg("-X").args(arguments).env_clear().envs(config::environment().filter(|(name, _)| is_kept(name)));
    command.env("PATH", SYSTEM_PROGRAMS);
    command.env("PGHOST", host).env("PGPORT", login.port.to_string()).env("PGUSER", &login.user);
    command.env("PGDATABASE", &login.dbname).env("PGPASSWORD", login.password.expose());
    command.env("PGAPPNAME", "cardinal psql");
    let status = tokio::process::Command::from(command).status().await.context("starting psql")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn is_kept(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    KEPT_VARIABLES.iter().any(|kept| kept.as_bytes() == name) || name.starts_with(b"LC_") || name.starts_with(b"PGSSL")
}

fn find(config: &Config) -> anyhow::Result<PathBuf> {
    let beside = config.database.bin_dir.clone().or_else(|| {
        let found = installation::choose(None, &config.paths.data_dir, None).ok()?;
        Some(found.bin_dir)
    });
    let folders: Vec<PathBuf> = beside.into_iter().chain(config::program_folders()).collect();
    match folders.iter().map(|folder| folder.join("psql")).find(|program| program.is_file()) {
        Some(program) => Ok(program),
        None => {
            let looked: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
            bail!(
                "psql was not found in {}: install it (Debian and Ubuntu: apt-get install postgresql-client), or \
                 add its folder to PATH; `cardinal backup` and `cardinal restore` do not need it",
                looked.join(", ")
            )
        }
    }
}
