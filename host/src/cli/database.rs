use std::io::Write as _;

use anyhow::Context as _;

use cardinal_base::{
    config::{BootstrapSettings, Secret},
    secret_file,
};
use cardinal_database::roles;
use cardinal_schema::prepare;

mod drop_object;

/// Prepare a PostgreSQL of your own, and drop what a plugin's schema must not hold
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Example:
  cardinal database bootstrap-sql > roles.sql")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    BootstrapSql(BootstrapArgs),
    DropObject(Box<drop_object::Args>),
}

/// Print the SQL that makes Cardinal's roles, for an administrator to run once
///
/// For a DATABASE_URL whose login may not make roles. Makes DATABASE_SECRET_FILE (mode 0600) when it is not there; the
/// host needs the same file. The SQL holds no password, only what PostgreSQL stores of one. It may be run again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  export DATABASE_URL=postgres://db.internal/cardinal DATABASE_SECRET_FILE=/etc/cardinal/db.secret
  cardinal database bootstrap-sql > roles.sql
  psql -h db.internal -U postgres -d cardinal -f roles.sql
  cardinal serve")]
struct BootstrapArgs {
    #[command(flatten)]
    settings: BootstrapSettings,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::BootstrapSql(args) => print_bootstrap_sql(args),
        Command::DropObject(args) => drop_object::run(args),
    }
}

fn print_bootstrap_sql(args: &BootstrapArgs) -> anyhow::Result<()> {
    let (dbname, file) = args.settings.read()?;
    let secret = secret_file::read_or_make(&file, || Ok(roles::random_secret()?.expose().to_owned()))
        .context("DATABASE_SECRET_FILE")?;
    let sql = prepare::bootstrap_sql(&dbname, &Secret::new(secret))?;
    let mut out = std::io::stdout();
    out.write_all(sql.as_bytes()).and_then(|()| out.flush()).context("writing the SQL")
}
