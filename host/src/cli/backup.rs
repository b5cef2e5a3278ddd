use std::path::PathBuf;
use std::process::ExitCode;

use super::{
    progress::Lines,
    text::{plain, print_line},
};
use crate::backup::{
    archive::OnExisting,
    make::{self, Secrets},
};
use cardinal_base::config::{Config, Settings};
use cardinal_observe::log::Log;

/// Write cards, users, keys, settings and every plugin's tables into one file
///
/// Works beside a running host and with the host stopped. The file restores to any supported version of PostgreSQL. It
/// holds password hashes and everybody's data: keep it as you keep the host. The plugins themselves are not in it.
///
/// Without --with-secrets the secret that signs logins stays out: after a restore everybody has to log in again. API
/// keys and passwords work either way, and the passwords of the database's roles are always made anew.
///
/// A plugin whose tables cannot be read is left out and named, and the exit code is 65: the file has everything else.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal backup /backups/cardinal-2026-03-01.tar
  cardinal backup --data-dir /var/lib/cardinal --with-secrets /backups/cardinal.tar --overwrite")]
pub(super) struct Args {
    /// The file to write; it appears under its name only when it is complete
    file: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    overwrite: bool,
    /// Include the secret that signs logins
    #[arg(long)]
    with_secrets: bool,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = Config::read(&args.settings)?;
    Log::start_quiet(&config.observe)?;
    let existing = if args.overwrite { OnExisting::Replace } else { OnExisting::Refuse };
    let secrets = if args.with_secrets { Secrets::Included } else { Secrets::LeftOut };
    let runtime = crate::cli::runtime()?;
    let made = runtime.block_on(make::make(&config, &args.file, existing, secrets, &mut Lines::new()))?;
    let plugins = if made.plugins.is_empty() { "no plugin".to_owned() } else { made.plugins.join(", ") };
    let secrets =
        if made.secrets { "" } else { "\nWithout --with-secrets: everyone has to log in again after a restore." };
    let summary = format!(
        "{}: {} cards, {} rows in all, tables of {plugins}.{secrets}",
        args.file.display(),
        made.cards,
        made.rows
    );
    print_line(&summary)?;
    for left_out in &made.without {
        let why = plain(&left_out.why);
        print_line(&format!("Not in the backup: the tables of {}: {why}", left_out.plugin))?;
    }
    Ok(super::whole_or_not(&made))
}
