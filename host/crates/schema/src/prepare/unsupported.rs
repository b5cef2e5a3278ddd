//! Databases and logins that will not do, each in one sentence that says what to do about it.

use anyhow::Context as _;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient};

use cardinal_base::config::SettingsError;
use cardinal_database::{connect::ConnectParams, roles::RoleNames};

/// As `server_version_num` counts.
pub(super) const MIN_SERVER_VERSION: i32 = 150_000;
const URL: &str = "DATABASE_URL";
const SECRET: &str = "DATABASE_SECRET_FILE";
const BOOTSTRAP: &str = "let an administrator of the database run the output of `cardinal database bootstrap-sql`";

/// Whether the database was just not there: not reached, starting, stopping or full.
pub fn may_pass(error: &anyhow::Error) -> bool {
    error.downcast_ref::<SettingsError>().is_none()
        && driver_error(error)
            .is_some_and(|error| error.code().is_none_or(|code| ["08", "53", "57"].contains(&&code.code()[..2])))
}

pub(super) fn driver_error(error: &anyhow::Error) -> Option<&tokio_postgres::Error> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

pub(super) fn has_code(error: &anyhow::Error, code: &SqlState) -> bool {
    driver_error(error).is_some_and(|error| error.code() == Some(code))
}

/// The server is there and lets this login not in.
pub(super) fn is_refusal(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code().starts_with("28") || *code == SqlState::INSUFFICIENT_PRIVILEGE)
        || message_starts_with(error, "invalid configuration")
}

/// The driver gives its own errors no kinds to match on.
fn message_starts_with(error: &tokio_postgres::Error, words: &str) -> bool {
    error.code().is_none() && error.to_string().starts_with(words)
}

fn find_cause(error: &tokio_postgres::Error) -> String {
    let cause = error.as_db_error().map(|cause| cause.message().to_owned());
    cause.or_else(|| std::error::Error::source(error).map(ToString::to_string)).unwrap_or_else(|| error.to_string())
}

/// Why a login did not get in.
pub(super) fn explain(error: tokio_postgres::Error, login: &ConnectParams) -> anyhow::Error {
    let cause = find_cause(&error);
    let (user, dbname) = (&login.user, &login.dbname);
    let problem = match error.code() {
        Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
            format!("the server has no database {dbname:?}: correct the name, or make it with CREATE DATABASE")
        }
        Some(_) if is_refusal(&error) => {
            format!(
                "the server does not let {user:?} in ({cause}): correct user and password, or what it allows in pg_hba.conf"
            )
        }
        None if is_refusal(&error) => {
            format!(
                "the login {user:?} cannot be used ({cause}): write it as postgres://user:password@host:5432/database"
            )
        }
        None if message_starts_with(&error, "error performing TLS handshake") => format!(
            "no encrypted connection to the server can be made ({cause}): correct sslmode and sslrootcert, or the server's certificate"
        ),
        _ => {
            let place = format!("the database at {}:{} cannot be reached", login.host, login.port);
            return anyhow::Error::new(error).context(place);
        }
    };
    SettingsError::one(URL, problem).into()
}

pub(super) fn no_right_to_make_roles(login: &ConnectParams) -> SettingsError {
    let (user, dbname) = (&login.user, &login.dbname);
    SettingsError::one(
        URL,
        format!(
            "{user:?} may not make roles: name a superuser, or a login with CREATEROLE that owns the database {dbname:?}, \
             or {BOOTSTRAP} and name its secret in {SECRET}"
        ),
    )
}

pub(super) fn no_roles(owner: &str) -> SettingsError {
    SettingsError::one(
        SECRET,
        format!(
            "the role {owner} is not there, or has another password than this secret makes: {BOOTSTRAP} with this file"
        ),
    )
}

/// A login that may make roles, and may not do it here.
pub(super) fn explain_lack_of_rights(error: anyhow::Error, login: &ConnectParams) -> anyhow::Error {
    match driver_error(&error) {
        Some(db_error) if db_error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            let problem = format!(
                "{:?} may not bring Cardinal's roles in line ({}): name the login that made them or a superuser, or {BOOTSTRAP} \
                 and name its secret in {SECRET}",
                login.user,
                find_cause(db_error)
            );
            SettingsError::one(URL, problem).into()
        }
        _ => error,
    }
}

pub(super) async fn check_server(client: &(impl GenericClient + Sync)) -> anyhow::Result<()> {
    let row = client
        .query_one(
            "SELECT current_setting('server_version_num')::int AS number, current_setting('server_version') AS version,
                    current_setting('server_encoding') AS encoding, current_database()::text AS dbname",
            &[],
        )
        .await
        .context("asking for the server's version")?;
    let (number, version): (i32, String) = (row.try_get("number")?, row.try_get("version")?);
    let (encoding, dbname): (String, String) = (row.try_get("encoding")?, row.try_get("dbname")?);
    if number < MIN_SERVER_VERSION {
        let oldest = MIN_SERVER_VERSION / 10_000;
        let problem =
            format!("the server is PostgreSQL {version}: name one of version {oldest} or newer, or upgrade it");
        return Err(SettingsError::one(URL, problem).into());
    }
    if encoding != "UTF8" {
        let problem = format!(
            "the database {dbname:?} has the encoding {encoding}: name one that was made with ENCODING 'UTF8' TEMPLATE template0"
        );
        return Err(SettingsError::one(URL, problem).into());
    }
    Ok(())
}

/// What the script of this version gives; an older one may have given less.
pub(super) async fn check_roles(client: &Client, names: &RoleNames) -> anyhow::Result<()> {
    let row = client
        .query_one(
            "SELECT has_schema_privilege('public', 'CREATE WITH GRANT OPTION') AND EXISTS (
               SELECT FROM pg_catalog.pg_roles c WHERE c.rolname = $2 AND pg_has_role(c.oid, 'USAGE')
             ) AND EXISTS (
               SELECT FROM pg_catalog.pg_roles r, pg_catalog.pg_proc p
               JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
               WHERE r.rolname = $1 AND n.nspname = 'cardinal' AND p.proname = 'end_plugin_backends' AND p.pronargs = 1
               AND has_database_privilege(r.oid, current_database(), 'CREATE')
               AND has_schema_privilege(r.oid, n.oid, 'USAGE') AND has_function_privilege(r.oid, p.oid, 'EXECUTE'))",
            &[&names.provision(), &names.cards()],
        )
        .await
        .context("asking what the roles may do")?;
    if row.try_get(0)? {
        return Ok(());
    }
    let problem = format!("the roles of this database lack rights that this version needs: {BOOTSTRAP} again");
    Err(SettingsError::one(SECRET, problem).into())
}
