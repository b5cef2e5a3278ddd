//! The database: whether there is one, whether it is this program's, and whether its roles are kept apart.

mod open_rights;
mod role_findings;

use std::path::Path;

use time::OffsetDateTime;
use tokio_postgres::Client;

use cardinal_base::{
    clock::Clock,
    config::{Config, SettingsError},
};
use cardinal_database::{
    connect::ConnectParams,
    pool::Pools,
    roles::{self, RoleNames, RolePasswords},
};
use cardinal_plugin_host::registry::preview::Decisions;
use cardinal_schema::{
    dump,
    isolation::{self, DatabaseTimes, Isolation, PluginRecord},
    migrate,
    plugin_schema::catalog,
    prepare::{self, SecretSource},
};
use cardinal_serve::check::finding::Finding;
use cardinal_store::{kinds, plugins, proxy_routes};
use cardinal_supervisor::{
    access::{Access, MissingDatabase},
    crashes::Crashes,
    postgres::{PrivatePostgres, installation},
};

/// Seconds that the clocks of host and server may differ.
const CLOCK_DIFFERS: f64 = 5.0;
/// Seconds that something may have happened in the future.
const CLOCK_WENT_BACK: f64 = 60.0;

/// What was found, and what of it others need.
#[derive(Default)]
pub struct DatabaseReport {
    pub findings: Vec<Finding>,
    pub decided: Decisions,
    pub plugins: Vec<PluginRecord>,
    pub proxy_routes: Vec<proxy_routes::ProxyRouteRow>,
    /// Kinds of which cards hold data, and on how many.
    pub kinds: Vec<kinds::StoredKind>,
}

/// Looks at the database of these settings; a private one that is stopped runs for as long as it takes.
pub async fn check(config: &Config, clock: &Clock) -> DatabaseReport {
    let mut seen = DatabaseReport::default();
    match Crashes::peek(&config.paths.data_dir) {
        Ok(history) => seen.decided.crashes = history,
        Err(error) => seen.findings.push(
            Finding::warning(
                "crash-journal-damaged",
                "DATA_DIR/crashes.json",
                "The list of quarantined plugins cannot be read.",
            )
            .found(error.to_string())
            .fix("The host sets the file aside at its next start, and loads every plugin again."),
        ),
    }
    if config.database.url.is_none() {
        match PrivatePostgres::has_data(&config.paths.data_dir) {
            Ok(true) => {}
            Ok(false) => {
                seen.findings.push(to_be_made(config, &config.paths.data_dir));
                return seen;
            }
            Err(error) => {
                seen.findings.push(unusable(&error));
                return seen;
            }
        }
    }
    match Access::open(config, MissingDatabase::Refused).await {
        Ok(access) => {
            if let Err(error) = seen.look(&access, clock).await {
                seen.findings.push(unusable(&error));
            }
            access.close().await;
        }
        Err(error) => seen.findings.push(unusable(&error)),
    }
    seen
}

fn to_be_made(config: &Config, data_dir: &Path) -> Finding {
    match installation::choose(config.database.bin_dir.as_deref(), data_dir, None) {
        Ok(chosen) => Finding::ok(
            "database-new",
            "database",
            format!("A private PostgreSQL {} will be created in {}.", chosen.major, data_dir.display()),
        ),
        Err(error) => Finding::error(
            "postgres-missing",
            "database",
            "No suitable PostgreSQL was found for the private \
                database.",
        )
        .found(format!("{error:#}"))
        .fix("Install PostgreSQL, or name a running server in DATABASE_URL."),
    }
}

fn unusable(error: &anyhow::Error) -> Finding {
    let finding = Finding::error("database-unusable", "database", "The host cannot use its database.");
    match error.downcast_ref::<SettingsError>() {
        Some(bad) => finding.found(bad.to_string()),
        None => finding.found(format!("{error:#}")).fix("Start the database, or correct DATABASE_URL."),
    }
}

impl DatabaseReport {
    async fn look(&mut self, access: &Access, clock: &Clock) -> anyhow::Result<()> {
        let preparation = access.preparation();
        // It may be a superuser's: it looks at catalogs alone.
        let session = preparation.session().await?;
        let open = open_rights::find(&session, &preparation.names).await?;
        let is_used = dump::is_used(&session).await?;
        drop(session);
        if !is_used {
            self.findings.push(empty());
            return Ok(());
        }
        let mut owner = preparation.owner_session().await?;
        if migrate::applied(&owner).await?.is_empty() {
            self.findings.push(empty());
            return Ok(());
        }
        let pending = match migrate::pending(&mut owner).await {
            Ok(pending) => pending,
            Err(error) => {
                let finding = Finding::error("database-foreign", "migrations", "This version cannot use the database.");
                self.findings.push(finding.found(format!("{error:#}")));
                return Ok(());
            }
        };
        self.findings.push(Finding::ok("database-reachable", "database", "The database is reachable."));
        self.findings.push(migrations(&pending));
        self.findings.extend(open);
        self.plugins = isolation::plugins(&owner).await?;
        self.findings.extend(schemas(&mut owner, &preparation.names, &self.plugins).await?);
        let started = clock.now();
        let times = isolation::times(&owner).await?;
        // The answer is from some moment in between; a busy machine can take long to give it.
        let between = started + (clock.now() - started) / 2;
        self.findings.extend(clocks(between, &times));
        self.try_roles(&owner, access, pending.is_empty()).await
    }

    /// Tries what each role may do, then reads what operators have decided, which needs a current schema.
    async fn try_roles(&mut self, owner: &Client, access: &Access, is_current: bool) -> anyhow::Result<()> {
        let secret = match &access.secret {
            SecretSource::Known(secret) => Some(secret.clone()),
            SecretSource::InDatabase => prepare::secret_in(owner).await?,
        };
        let Some(secret) = secret else {
            let message = "The database has no secret for its roles; the next start creates one.";
            self.findings.push(Finding::warning("isolation-not-tried", "roles", message));
            return Ok(());
        };
        let passwords = RolePasswords::from_secret(secret);
        self.decided.key = Some(passwords.sealing_key());
        let preparation = access.preparation();
        let names = &preparation.names;
        let core_tables = isolation::core_tables(owner).await?;
        let login = access.login();
        let isolation = Isolation {
            owner,
            login: &login,
            names,
            passwords: &passwords,
            plugins: &self.plugins,
            core_tables: &core_tables,
        };
        let tried = isolation.try_all().await;
        self.findings.extend(role_findings::report_attempts(&tried));
        if is_current {
            let role = |role: String| login.with_login(role.clone(), passwords.for_role(&role));
            self.read(&role(names.core()), &role(names.reaper())).await;
        }
        Ok(())
    }

    /// What operators have decided, with the core's own rights.
    async fn read(&mut self, core: &ConnectParams, reaper: &ConnectParams) {
        let read = async {
            let pools = Pools::new(core.pg_config(), reaper.pg_config())?;
            let pool = &pools.core;
            self.decided.states = plugins::state::all(pool).await?;
            self.decided.owners = plugins::owners::all(pool).await?;
            self.proxy_routes = proxy_routes::get(pool).await?.lines;
            self.kinds = kinds::stored(pool).await?;
            anyhow::Ok(())
        };
        if let Err(error) = read.await {
            let finding = Finding::error(
                "core-cannot-read",
                "roles",
                "The core's role lacks rights on tables that it \
                needs.",
            );
            let fix = "Start the host, which repairs the core's rights.";
            self.findings.push(finding.found(format!("{error:#}")).fix(fix));
        }
    }
}

fn empty() -> Finding {
    let message = "The database is reachable and empty; the first start prepares it.";
    Finding::ok("database-new", "database", message)
}

fn migrations(pending: &[&str]) -> Finding {
    if pending.is_empty() {
        return Finding::ok("migrations-current", "migrations", format!("All {} migrations have run.", migrate::COUNT));
    }
    let message = format!("The next start runs {} migrations. Only a backup can undo them.", pending.len());
    let finding = Finding::warning("migrations-pending", "migrations", message);
    finding.found(pending.join(", ")).fix("Make a backup (`cardinal backup FILE`), then start the host.")
}

/// What plugins' schemas hold that a host does not know; such a plugin is not served.
async fn schemas(owner: &mut Client, names: &RoleNames, plugins: &[PluginRecord]) -> anyhow::Result<Vec<Finding>> {
    let mut found = Vec::new();
    let tx = catalog::looking(owner).await?;
    let questions = catalog::Questions::prepare(&tx).await?;
    // Those without a recorded step, too: it may have been killed between its commit and its record.
    for known in plugins {
        let roles = [names.plugin_schema(&known.plugin), names.plugin_runtime(&known.plugin)];
        let schema = roles::plugin_schema_name(&known.plugin);
        if !catalog::is_there(&tx, &schema, &roles).await? {
            continue;
        }
        found.extend(unindexed(&known.plugin, &catalog::unindexed_keys(&tx, &schema).await?));
        let unknown = catalog::unknown(&tx, &questions, &schema, &roles).await?;
        if unknown.is_empty() {
            continue;
        }
        let named: Vec<String> = unknown.iter().map(ToString::to_string).collect();
        let message = format!(
            "The schema of {} contains something that plugins may not have, so the plugin is not served.",
            known.plugin
        );
        let finding = Finding::error("schema-unsafe", &known.plugin, message).found(named.join("; "));
        found.push(finding.expected(catalog::EXPECTED).fix(catalog::fix(&known.plugin)));
    }
    Ok(found)
}

/// A step gives new keys an index; those of older versions have none where their schema.sql made none.
fn unindexed(plugin: &str, columns: &[String]) -> Option<Finding> {
    if columns.is_empty() {
        return None;
    }
    let message = format!("Removing any card reads whole tables of {plugin}: their keys to the cards have no index.");
    let fix = "Add CREATE INDEX for these columns to schema.sql in the plugin's next version.";
    Some(Finding::warning("card-key-unindexed", plugin, message).found(columns.join(", ")).fix(fix))
}

fn clocks(now: OffsetDateTime, database: &DatabaseTimes) -> Vec<Finding> {
    let here = now.unix_timestamp_nanos() as f64 / 1e9;
    let mut found = Vec::new();
    let ahead = database.now - here;
    if ahead.abs() > CLOCK_DIFFERS {
        found.push(
            Finding::warning("clock-differs", "clock", "The clocks of this machine and of the database differ.")
                .found(format!("the database is {ahead:.0} s ahead"))
                .expected(format!("less than {CLOCK_DIFFERS} s"))
                .fix("Synchronise both clocks by NTP."),
        );
    }
    if let Some(newest) = database.newest.filter(|newest| newest - here > CLOCK_WENT_BACK) {
        found.push(
            Finding::warning(
                "clock-went-back",
                "clock",
                "The audit log has lines from the future: logins and keys may expire too late.",
            )
            .found(format!("the newest line of the audit log is {:.0} s ahead", newest - here))
            .fix("Set this machine's clock, and synchronise it by NTP."),
        );
    }
    if found.is_empty() {
        found.push(Finding::ok("clock", "clock", "The clocks of this machine and of the database agree."));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_differ_are_warned_about() {
        let now = OffsetDateTime::UNIX_EPOCH + time::Duration::days(20_000);
        let here = now.unix_timestamp() as f64;
        let codes = |server, newest| {
            clocks(now, &DatabaseTimes { now: server, newest }).iter().map(|it| it.code).collect::<Vec<_>>()
        };
        assert_eq!(codes(here + 1.0, Some(here - 100.0)), ["clock"]);
        assert_eq!(codes(here + 90.0, None), ["clock-differs"]);
        assert_eq!(codes(here, Some(here + 3_600.0)), ["clock-went-back"]);
    }
}
