//! Whether PostgreSQL keeps plugins, core, reaper and provisioner apart: found out by trying. Each attempt is made as
//! the role itself, in a transaction that is rolled back, and has to be refused.

use std::time::Duration;

use anyhow::Context as _;
use tokio_postgres::{Client, error::SqlState};

mod attempts;
mod open_rights;

pub use open_rights::{
    advisory_locks_are_open, json_deletion_is_open, large_objects_are_open, lock_looks_are_open, log_messages_are_open,
    object_locks_are_open, open_databases, snapshots_are_open, temporary_files_are_unbounded,
    transactions_can_be_prepared,
};

use self::attempts::Attempt;
use cardinal_database::{
    connect::{self, ConnectParams},
    roles::{self, RoleNames, RolePasswords},
    sql,
};

/// Tables of one schema that are tried; a plugin that others can look into is found by its first.
const TABLES_TRIED: usize = 100;
/// An attempt that waits for longer than this says nothing.
const ATTEMPT_TIMEOUT: &str = "2s";
/// All attempts of one role together.
const ROLE_LIMIT: Duration = Duration::from_secs(60);

/// What a role must not be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    PluginWritesCards,
    PluginReadsCore,
    PluginReadsPlugin,
    PluginRunsDdl,
    PluginBecomesAnother,
    CoreReadsPlugin,
    CoreDeletesCards,
    CoreRewritesAudit,
    CoreRunsDdl,
    CoreBecomesAnother,
    ReaperDoesMore,
    ProvisionerDoesMore,
    CardsRoleDoesMore,
    SchemaRoleIsOpen,
}

/// A plugin as the database knows it.
#[derive(Clone, Debug)]
pub struct PluginRecord {
    pub plugin: String,
    pub version: Option<String>,
    pub schema_sha256: Option<Vec<u8>>,
    /// In its schema, at most [`TABLES_TRIED`].
    pub tables: Vec<String>,
}

/// What became of one role's attempts.
#[derive(Debug, Default)]
pub struct RoleReport {
    pub role: String,
    pub refused: usize,
    /// What was let through.
    pub allowed: Vec<(Violation, String)>,
    /// What could not be tried, and why.
    pub untried: Vec<String>,
}

/// Every role of the database and what it tries.
pub struct Isolation<'a> {
    /// A session of the owner: the one way to be the cards' role, which nobody logs in as.
    pub owner: &'a Client,
    pub login: &'a ConnectParams,
    pub names: &'a RoleNames,
    pub passwords: &'a RolePasswords,
    pub plugins: &'a [PluginRecord],
    /// The core's tables but the cards.
    pub core_tables: &'a [String],
}

/// The plugins that were given a schema here, as the owner of the core's tables sees them.
///
/// # Errors
/// As the server reports them.
pub async fn plugins(owner: &Client) -> anyhow::Result<Vec<PluginRecord>> {
    let rows = owner
        .query(
            "SELECT s.plugin, s.plugin_version, s.schema_sha256, ARRAY(
               SELECT c.relname::text FROM pg_catalog.pg_class c
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p')
               AND n.nspname = 'plugin_' || replace(s.plugin, '-', '_') ORDER BY 1 LIMIT $1) AS tables
             FROM public.plugin_schema_state s WHERE EXISTS (
               SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = 'plugin_' || replace(s.plugin, '-', '_'))
             ORDER BY 1",
            &[&(TABLES_TRIED as i64)],
        )
        .await
        .context("asking which plugins have a schema")?;
    let known = |row: &tokio_postgres::Row| -> Result<PluginRecord, tokio_postgres::Error> {
        Ok(PluginRecord {
            plugin: row.try_get("plugin")?,
            version: row.try_get("plugin_version")?,
            schema_sha256: row.try_get("schema_sha256")?,
            tables: row.try_get("tables")?,
        })
    };
    Ok(rows.iter().map(known).collect::<Result<_, _>>()?)
}

/// The core's tables and views but the cards.
///
/// # Errors
/// As the server reports them.
pub async fn core_tables(owner: &Client) -> anyhow::Result<Vec<String>> {
    let rows = owner
        .query(
            "SELECT relname::text FROM pg_catalog.pg_class
             WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')
             AND relname <> 'master_cards' ORDER BY 1",
            &[],
        )
        .await
        .context("asking for the core's tables")?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// Whether nothing keeps the cards' role and schema roles from changing their tables at run time.
///
/// # Errors
/// As the server reports them.
pub async fn ddl_is_unfenced(session: &Client) -> anyhow::Result<bool> {
    let sql = "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_event_trigger
                 WHERE evtname = 'cardinal_ddl_fence' AND evtenabled IN ('O', 'A'))";
    let row = session.query_one(sql, &[]).await.context("looking for the fence against DDL")?;
    Ok(row.try_get(0)?)
}

/// Times of the database's, in seconds of unix time.
pub struct DatabaseTimes {
    /// What its clock says.
    pub now: f64,
    /// Of the newest line in the audit log.
    pub newest: Option<f64>,
}

///
/// # Errors
/// As the server reports them.
pub async fn times(owner: &Client) -> anyhow::Result<DatabaseTimes> {
    let row = owner
        .query_one(
            "SELECT extract(epoch FROM clock_timestamp())::float8 AS now,
                    extract(epoch FROM (SELECT at FROM public.admin_audit_log ORDER BY seq DESC LIMIT 1))::float8
                      AS newest",
            &[],
        )
        .await
        .context("asking for the server's time")?;
    Ok(DatabaseTimes { now: row.try_get("now")?, newest: row.try_get("newest")? })
}

impl Isolation<'_> {
    /// Has every role try, one after another.
    pub async fn try_all(&self) -> Vec<RoleReport> {
        let mut tried = vec![
            self.try_as(&self.names.core(), self.core_attempts()).await,
            self.try_as(&self.names.reaper(), self.reaper_attempts()).await,
            self.try_as(&self.names.provision(), self.provisioner_attempts()).await,
            self.try_as_cards().await,
        ];
        for known in self.plugins {
            tried.push(self.try_as(&self.names.plugin_runtime(&known.plugin), self.plugin_attempts(known)).await);
            tried.push(self.look_at_schema_role(known).await);
        }
        tried
    }

    /// Whatever a plugin smuggled into the check of a foreign key would run as this role.
    async fn try_as_cards(&self) -> RoleReport {
        let role = self.names.cards();
        let mut tried = RoleReport { role: role.clone(), ..RoleReport::default() };
        let begun = self.owner.batch_execute(&format!("SET ROLE {}", sql::identifier(&role))).await;
        if let Err(error) = begun {
            tried.untried.push(format!("the owner cannot become the role: {error}"));
            return tried;
        }
        let all = tried.make(self.owner, self.cards_attempts());
        let in_time = tokio::time::timeout(ROLE_LIMIT, all).await.is_ok();
        if let Err(error) = self.owner.batch_execute("RESET ROLE").await {
            tried.untried.push(format!("the session ended: {error}"));
        }
        if !in_time {
            tried.untried.push(format!("not all attempts were over after {} s", ROLE_LIMIT.as_secs()));
        }
        tried
    }

    /// A schema role is closed but for its step: no login, nothing that it may make, no foreign keys to cards.
    async fn look_at_schema_role(&self, known: &PluginRecord) -> RoleReport {
        let role = self.names.plugin_schema(&known.plugin);
        let mut tried = RoleReport { role: role.clone(), ..RoleReport::default() };
        match connect::connect(&self.login.with_login(&role, self.passwords.for_role(&role))).await {
            Ok(_) => tried.allowed.push((Violation::SchemaRoleIsOpen, "log in outside of a step".to_owned())),
            Err(error) if error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => tried.refused += 1,
            // Its password is wrong, which says nothing of whether it may log in.
            Err(_) => {}
        }
        let sql = "SELECT r.rolcanlogin, coalesce(has_schema_privilege(r.oid, n.oid, 'CREATE'), false),
                            pg_has_role(r.oid, $3, 'MEMBER'), pg_has_role(r.oid, $4, 'MEMBER')
                     FROM pg_catalog.pg_roles r LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = $2
                     WHERE r.rolname = $1";
        let schema = roles::plugin_schema_name(&known.plugin);
        let groups = (self.names.plugin_ddl(), self.names.plugin());
        let row = match self.owner.query_opt(sql, &[&role, &schema, &groups.0, &groups.1]).await {
            Ok(Some(row)) => row,
            // Its data was dropped.
            Ok(None) => return tried,
            Err(error) => {
                tried.untried.push(format!("its rights cannot be read: {error}"));
                return tried;
            }
        };
        for (column, what) in
            ["have a login", "make objects in its schema", "point foreign keys at cards", "read cards"]
                .iter()
                .enumerate()
        {
            match row.try_get(column) {
                Ok(true) => tried.allowed.push((Violation::SchemaRoleIsOpen, format!("{what} outside of a step"))),
                Ok(false) => tried.refused += 1,
                Err(error) => tried.untried.push(format!("{what}: {error}")),
            }
        }
        tried
    }

    async fn try_as(&self, role: &str, attempts: Vec<Attempt>) -> RoleReport {
        let mut tried = RoleReport { role: role.to_owned(), ..RoleReport::default() };
        let login = self.login.with_login(role, self.passwords.for_role(role));
        match connect::connect(&login).await {
            Ok(session) => {
                let all = tried.make(&session, attempts);
                if tokio::time::timeout(ROLE_LIMIT, all).await.is_err() {
                    tried.untried.push(format!("not all attempts were over after {} s", ROLE_LIMIT.as_secs()));
                }
            }
            Err(error) => {
                let db_error =
                    error.as_db_error().map_or_else(|| error.to_string(), |db_error| db_error.message().to_owned());
                tried.untried.push(format!("the role cannot log in: {db_error}"));
            }
        }
        tried
    }
}

impl RoleReport {
    async fn make(&mut self, session: &Client, attempts: Vec<Attempt>) {
        for Attempt { violation, what, sql } in attempts {
            let begin = format!(
                "BEGIN READ WRITE; SET LOCAL lock_timeout = '{ATTEMPT_TIMEOUT}'; SET LOCAL statement_timeout = '{ATTEMPT_TIMEOUT}'"
            );
            let tried = match session.batch_execute(&begin).await {
                Ok(()) => session.batch_execute(&sql).await,
                Err(error) => Err(error),
            };
            match verdict(tried) {
                ProbeResult::Refused => self.refused += 1,
                ProbeResult::Allowed => self.allowed.push((violation, what)),
                ProbeResult::Unknown(why) => self.untried.push(format!("{what}: {why}")),
            }
            if let Err(error) = session.batch_execute("ROLLBACK").await {
                self.untried.push(format!("the session ended: {error}"));
                return;
            }
        }
    }
}

enum ProbeResult {
    Refused,
    Allowed,
    Unknown(String),
}

/// Rights are looked at before anything else that a statement can fail on: whatever fails later was let through.
fn verdict(tried: Result<(), tokio_postgres::Error>) -> ProbeResult {
    let Err(error) = tried else { return ProbeResult::Allowed };
    let Some(db_error) = error.as_db_error() else { return ProbeResult::Unknown(error.to_string()) };
    const SAY_NOTHING: [&SqlState; 6] = [
        &SqlState::LOCK_NOT_AVAILABLE,
        &SqlState::QUERY_CANCELED,
        &SqlState::UNDEFINED_TABLE,
        &SqlState::INVALID_SCHEMA_NAME,
        &SqlState::T_R_DEADLOCK_DETECTED,
        &SqlState::UNDEFINED_OBJECT,
    ];
    match db_error.code() {
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => ProbeResult::Refused,
        // `SET ROLE` of a role that is not there.
        code if *code == SqlState::INVALID_PARAMETER_VALUE => ProbeResult::Unknown(db_error.message().to_owned()),
        // The session was ended, by whomever.
        code if code.code().starts_with("57P") || code.code().starts_with("25P") => {
            ProbeResult::Unknown(db_error.message().to_owned())
        }
        code if SAY_NOTHING.contains(&code) => ProbeResult::Unknown(db_error.message().to_owned()),
        _ => ProbeResult::Allowed,
    }
}
