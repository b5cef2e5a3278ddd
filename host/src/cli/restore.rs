use std::path::PathBuf;
use std::process::ExitCode;

use super::{
    progress::Lines,
    text::{plain, print_line},
};
use crate::backup::{archive::OnExisting, restore};
use cardinal_base::config::{Config, Settings};
use cardinal_observe::log::Log;

/// Bring back what `cardinal backup` wrote
///
/// The file is checked to its last byte before anything is touched. Into an empty database (a new DATA_DIR, or an empty
/// database behind DATABASE_URL) it goes at once. A database in use is left alone unless --replace is said: then a new
/// one is filled beside it and put in its place when it is complete; a host that is running should be started again
/// afterwards. When anything fails, the database holds what it held before; but a plugin whose tables cannot be filled
/// is left out and named, and the exit code is 65.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal restore /backups/cardinal-2026-03-01.tar
      into a DATA_DIR that was lost; then: cardinal serve
  cardinal restore --database-url postgres://admin:secret@db.internal/cardinal /backups/cardinal.tar")]
pub(super) struct Args {
    /// The file to restore
    file: PathBuf,
    /// Replace a database that is in use, and the files in DATA_DIR
    #[arg(long)]
    replace: bool,
    /// Leave a plugin's tables out, for one whose rows keep the rest from being restored; can be given several times
    #[arg(long, value_name = "NAME")]
    without_plugin: Vec<String>,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = Config::read(&args.settings)?;
    Log::start_quiet(&config.observe)?;
    let existing = if args.replace { OnExisting::Replace } else { OnExisting::Refuse };
    let runtime = crate::cli::runtime()?;
    let done =
        runtime.block_on(restore::restore(&config, &args.file, existing, &args.without_plugin, &mut Lines::new()))?;
    let plugins = if done.plugins.is_empty() { "no plugin".to_owned() } else { done.plugins.join(", ") };
    let mut summary = format!("Restored {} cards, {} rows in all, tables of {plugins}.", done.cards, done.rows);
    for file in &done.files {
        summary.push_str(&format!("\nWritten: {}", file.display()));
    }
    for file in &done.kept {
        summary.push_str(&format!("\nKept as it was: {}", file.display()));
    }
    if !done.secrets {
        summary.push_str("\nThe backup has no secrets: everyone has to log in again.");
    }
    if !done.unreadable.is_empty() {
        let plugins = done.unreadable.join(", ");
        summary.push_str(&format!(
            "\nSecret settings of plugins were stored with another key and have to be entered again: {plugins}."
        ));
    }
    for left_out in &done.without {
        let (plugin, why) = (&left_out.plugin, plain(&left_out.why));
        summary.push_str(&format!(
            "\nNot restored: the tables of {plugin}: {why}. The backup has their rows: keep it until a version with a schema.sql that \
             passes `cardinal plugin check` has been restored with them."
        ));
    }
    print_line(&summary)?;
    Ok(super::whole_or_not(&done))
}
