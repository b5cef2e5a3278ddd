//! Commands on the cards of a host, a file each.

mod export;
mod import;

/// Import and export cards
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  cardinal cards import --key-file key --dry-run prices.csv
  cardinal cards export --key-file key cards.ndjson")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Import(import::Args),
    Export(export::Args),
}

/// How a file writes cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A line of JSON each
    Ndjson,
    /// With a line of column names first
    Csv,
}

impl Format {
    /// What is said, else what the file's name says, else lines of JSON.
    fn choose(chosen: Option<Self>, file: &std::path::Path) -> Self {
        let is_csv = file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
        chosen.unwrap_or(if is_csv { Self::Csv } else { Self::Ndjson })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv",
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = crate::cli::runtime()?;
    match &args.command {
        Command::Import(args) => runtime.block_on(import::run(args)),
        Command::Export(args) => runtime.block_on(export::run(args)),
    }
}
