use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tokio_postgres::config::SslMode;

use super::paths;
use super::reader::{Reader, switch};
use super::secret::Secret;

/// Which PostgreSQL holds the cards. Without `url` the keeper starts a private one below `DATA_DIR`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Database {
    pub url: Option<Secret>,
    pub secret_file: Option<PathBuf>,
    /// Off when a pooler stands between that does not carry prepared statements from one transaction to the next.
    pub prepared: bool,
    /// Where `initdb` and `postgres` are, for the private server.
    pub bin_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Database")]
#[group(skip)]
pub(super) struct Args {
    /// PostgreSQL to use, e.g. postgres://admin:secret@db.internal/cardinal [default: a private one in DATA_DIR]
    #[arg(long, env, value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Secret from which the role passwords are made, for a DATABASE_URL without superuser, e.g. /etc/cardinal/db.secret
    #[arg(long, env, value_name = "FILE")]
    database_secret_file: Option<String>,
    /// on or off: prepared statements; off behind a transaction pooler that does not keep them, e.g. off [default: on]
    #[arg(long, env, value_name = "SWITCH")]
    db_prepared: Option<String>,
    /// Folder with the private server's programs, e.g. /usr/lib/postgresql/17/bin [default: the newest one found]
    #[arg(long, env, value_name = "DIR")]
    postgres_bin_dir: Option<String>,
}

impl Database {
    pub(super) fn read(args: &Args, reader: &mut Reader) -> Database {
        Database {
            url: reader.optional("DATABASE_URL", &args.database_url, url),
            secret_file: reader.optional("DATABASE_SECRET_FILE", &args.database_secret_file, paths::existing_file),
            prepared: reader.value("DB_PREPARED", &args.db_prepared, true, switch),
            bin_dir: reader.optional("POSTGRES_BIN_DIR", &args.postgres_bin_dir, bin_dir),
        }
    }
}

/// The text is never repeated in the message: it holds a password.
fn url(text: &str) -> Result<Secret, String> {
    const FORM: &str = "write it as postgres://user:password@host:5432/database";
    let parsed = tokio_postgres::Config::from_str(text)
        .map_err(|error| format!("it is not a PostgreSQL address ({error}); {FORM}"))?;
    if parsed.get_user().is_none() || parsed.get_hosts().is_empty() || parsed.get_dbname().is_none() {
        return Err(format!("it must name user, host and database; {FORM}"));
    }
    if parsed.get_ssl_mode() == SslMode::Require {
        return Err("sslmode=require: this version does not speak TLS to PostgreSQL".to_owned());
    }
    Ok(Secret::new(text))
}

fn bin_dir(text: &str) -> Result<PathBuf, String> {
    let dir = paths::absolute(text)?;
    for program in ["initdb", "postgres"] {
        if !dir.join(program).is_file() {
            return Err(format!("{} has no program {program}", dir.display()));
        }
    }
    Ok(dir)
}
