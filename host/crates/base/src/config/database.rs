use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tokio_postgres::config::SslMode;

use super::paths;
use super::reader::{Reader, SettingsError, switch};
use super::secret::Secret;
use crate::secret_file;

/// Which PostgreSQL holds the cards. Without `url` the supervisor starts a private one below `DATA_DIR`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Database {
    pub url: Option<Secret>,
    /// Where it was read from.
    pub url_file: Option<PathBuf>,
    pub secret_file: Option<PathBuf>,
    /// Whether plugins' sessions get their settings as their connections start, beside those of the roles. A pooler
    /// that refuses them is found out without this.
    pub prepared: bool,
    /// Where `initdb` and `postgres` are, for the private server.
    pub bin_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Database")]
#[group(skip)]
pub(super) struct Args {
    /// PostgreSQL to use, e.g. postgres://admin:secret@db.internal/cardinal; every user of this machine can read a flag
    /// in the list of processes [default: a private one in DATA_DIR]
    #[arg(long, env, value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// File with the address of the PostgreSQL to use, e.g. /run/secrets/database-url
    #[arg(long, env, value_name = "FILE")]
    database_url_file: Option<String>,
    /// Secret that `cardinal database bootstrap-sql` made the role passwords from, e.g. /etc/cardinal/db.secret
    #[arg(long, env, value_name = "FILE")]
    database_secret_file: Option<String>,
    /// on or off: session settings are sent as a connection starts; off for poolers, see sql/README.md, e.g. off
    /// [default: on]
    #[arg(long, env, value_name = "SWITCH")]
    db_prepared: Option<String>,
    /// Folder with the private server's programs, e.g. /usr/lib/postgresql/17/bin [default: the newest one found]
    #[arg(long, env, value_name = "DIR")]
    postgres_bin_dir: Option<String>,
}

impl Database {
    pub(super) fn read(args: &Args, reader: &mut Reader) -> Database {
        let secret_file = reader.optional("DATABASE_SECRET_FILE", &args.database_secret_file, secret_file);
        let address = reader.secret("DATABASE_URL", &args.database_url, "DATABASE_URL_FILE", &args.database_url_file);
        Database {
            url: reader.optional(address.setting, &address.text, |text| url(text, secret_file.is_none())),
            url_file: address.file,
            secret_file,
            prepared: reader.value("DB_PREPARED", &args.db_prepared, true, switch),
            bin_dir: reader.optional("POSTGRES_BIN_DIR", &args.postgres_bin_dir, bin_dir),
        }
    }
}

/// What `cardinal database bootstrap-sql` works with: the database's name, and a file that need not be there yet.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct BootstrapSettings {
    /// The database to make roles for; its login and password are not used, e.g. postgres://db.internal/cardinal
    #[arg(long, env, value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// File for the secret that the role passwords are made from, made when missing, e.g. /etc/cardinal/db.secret
    #[arg(long, env, value_name = "FILE")]
    database_secret_file: Option<String>,
}

impl BootstrapSettings {
    /// The database's name, and the file.
    ///
    /// # Errors
    /// Both are needed.
    pub fn read(&self) -> Result<(String, PathBuf), SettingsError> {
        let mut reader = Reader::default();
        let url = reader.optional("DATABASE_URL", &self.database_url, |text| url(text, false));
        let file = reader.optional("DATABASE_SECRET_FILE", &self.database_secret_file, |text| paths::absolute(text));
        let given = |value: &Option<String>| value.as_deref().is_some_and(|text| !text.trim().is_empty());
        if !given(&self.database_url) {
            reader.fault("DATABASE_URL", format!("it names the database that the roles are for; {URL_FORM}"));
        }
        if !given(&self.database_secret_file) {
            let problem = "it names the file that keeps the secret of the role passwords, e.g. /etc/cardinal/db.secret";
            reader.fault("DATABASE_SECRET_FILE", problem);
        }
        let dbname = url.and_then(|url| tokio_postgres::Config::from_str(url.expose()).ok());
        let dbname = dbname.and_then(|parsed| parsed.get_dbname().map(str::to_owned)).unwrap_or_default();
        reader.finish((dbname, file.unwrap_or_default()))
    }
}

const URL_FORM: &str = "write it as postgres://user:password@host:5432/database";
/// As long as what `cardinal database bootstrap-sql` makes, or long enough.
const MIN_SECRET_CHARS: usize = 32;

fn secret_file(text: &str) -> Result<PathBuf, String> {
    let file = paths::existing_file(text)?;
    let secret =
        secret_file::read_small(&file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    if secret.trim().len() < MIN_SECRET_CHARS {
        return Err(format!(
            "{} has no secret of {MIN_SECRET_CHARS} characters or more: create one with `cardinal database \
             bootstrap-sql`",
            file.display()
        ));
    }
    Ok(file)
}

/// The text is never repeated in the message: it holds a password.
fn url(text: &str, needs_user: bool) -> Result<Secret, String> {
    let parsed = tokio_postgres::Config::from_str(text)
        .map_err(|error| format!("it is not a PostgreSQL address ({error}); {URL_FORM}"))?;
    if needs_user && parsed.get_user().is_none() || parsed.get_hosts().is_empty() || parsed.get_dbname().is_none() {
        return Err(format!("it must name user, host and database; {URL_FORM}"));
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
