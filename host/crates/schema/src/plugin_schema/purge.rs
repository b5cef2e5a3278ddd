//! A plugin's data dropped for good: its schema with all tables, its two roles, its settings and what was recorded of
//! its schema steps. Whose its name is stays, and so does what it wrote into cards.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio_postgres::{Client, Transaction, error::SqlState};

use super::{
    STEP_LOCK_TIMEOUT, StepError,
    failure::is_busy,
    watch::{self, Waits},
};
use cardinal_control::link::{ProvisionFault, PurgeReport};
use cardinal_database::{
    connect::{self, ConnectParams},
    roles::{self, RoleNames},
    sql,
};

/// Of one try: who wants to read or write cards waits behind a try that waits.
const LOCK_TIMEOUT: &str = "100ms";
/// Between two tries, in which whoever waited goes first.
const TRY_PAUSE: Duration = Duration::from_millis(200);
/// How long calls that still run in the plugin, and others that read cards, may be in the way, all tries together.
const TRIES_TIMEOUT: Duration = Duration::from_secs(8);
/// Much longer than the files of a large schema take to be unlinked.
const DROP_TIMEOUT: &str = "60s";
/// Tables with a key to the cards, each of which goes before what it is a partition of.
const KEYED_TABLES: &str = "
    SELECT c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND EXISTS (
      SELECT FROM pg_catalog.pg_constraint k
      WHERE k.conrelid = c.oid AND k.contype = 'f' AND k.confrelid = 'public.master_cards'::pg_catalog.regclass)
    ORDER BY c.relispartition DESC, c.relkind = 'p', c.oid";
/// Tells the next step, and a purge that comes after one that was broken off, that not all of it is there any more.
const UNRECORD: &str = "UPDATE public.plugin_schema_state SET schema_sha256 = NULL WHERE plugin = $1";

/// Which plugin's data is to be dropped.
#[derive(Debug)]
pub struct Purge<'a> {
    pub plugin: &'a str,
    /// Whether a package of this name lies in the plugins folder; then it has to be disabled first.
    pub is_installed: bool,
    /// The provisioner's login.
    pub provisioner: &'a ConnectParams,
    pub names: &'a RoleNames,
}

impl Purge<'_> {
    /// Drops the tables with keys to the cards first, each in a transaction of its own, since that locks the cards;
    /// then the rest in one. Whoever enables the plugin, or has its schema made, waits for the transaction that is
    /// under way, and makes the schema anew behind it. A purge that was broken off is finished by the next one.
    ///
    /// # Errors
    /// Refused: it is not disabled, or some host has it in service. Failed: the database was not there.
    pub async fn make(&self) -> Result<PurgeReport, StepError> {
        let mut client = connect::connect(self.provisioner).await.context("logging in as the provisioner")?;
        let tx = self.begin(&mut client).await?;
        let (tables, keyed) = (self.tables(&tx).await?, self.keyed_tables(&tx).await?);
        tx.commit().await.context("looking at what is to be dropped")?;
        let started = Instant::now();
        for table in &keyed {
            let tx = self.begin(&mut client).await?;
            tx.execute(UNRECORD, &[&self.plugin]).await.context("noting that the schema is not whole any more")?;
            self.drop_keyed(&tx, table, started).await?;
            tx.commit().await.context("dropping a table with a key to the cards")?;
        }
        let tx = self.begin(&mut client).await?;
        self.drop_schema(&tx, started).await?;
        let (schema_steps, settings) = self.forget(&tx).await?;
        tx.commit().await.context("committing the purge")?;
        Ok(PurgeReport { tables, schema_steps, settings })
    }

    async fn begin<'c>(&self, client: &'c mut Client) -> Result<Transaction<'c>, StepError> {
        let tx = client.transaction().await.context("beginning the purge")?;
        self.lock_step(&tx).await?;
        self.check(&tx).await?;
        Ok(tx)
    }

    async fn lock_step(&self, tx: &Transaction<'_>) -> anyhow::Result<()> {
        tx.batch_execute(&format!("SET LOCAL lock_timeout = '{STEP_LOCK_TIMEOUT}'")).await?;
        let sql = "INSERT INTO public.plugin_schema_state (plugin) VALUES ($1)
                    ON CONFLICT (plugin) DO UPDATE SET plugin = excluded.plugin";
        tx.execute(sql, &[&self.plugin]).await.context("waiting for another host that is at this plugin")?;
        Ok(())
    }

    async fn check(&self, tx: &Transaction<'_>) -> Result<(), StepError> {
        // Locked, so that it stays disabled until the end.
        let sql = "SELECT disabled_at IS NOT NULL FROM public.plugin_state WHERE plugin = $1 FOR UPDATE";
        let row = tx.query_opt(sql, &[&self.plugin]).await.context("asking whether the plugin is disabled")?;
        let is_disabled = row.map(|row| row.try_get(0)).transpose().context("reading it")?.unwrap_or(false);
        if self.is_installed && !is_disabled {
            let fix = "disable the plugin first, or remove its package from the plugins folder";
            return Err(refused("not-disabled", "a plugin that is disabled", "it is not disabled", fix));
        }
        let sql = "SELECT s.host::text FROM public.plugin_service s JOIN public.hosts h ON h.id = s.host
                     WHERE s.plugin = $1 AND h.seen_at > now() - interval '15 seconds' ORDER BY 1";
        let rows = tx.query(sql, &[&self.plugin]).await.context("asking where the plugin is in service")?;
        if rows.is_empty() {
            return Ok(());
        }
        let hosts: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let found = format!("it is in service on host {}", hosts.join(", "));
        Err(refused("in-service", "a plugin that no host has in service", &found, "try again in a few seconds"))
    }

    async fn tables(&self, tx: &Transaction<'_>) -> anyhow::Result<Vec<String>> {
        let sql = "SELECT c.relname::text FROM pg_catalog.pg_class c
                     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                     WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') ORDER BY 1";
        let rows = tx.query(sql, &[&self.schema()]).await.context("listing the plugin's tables")?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn keyed_tables(&self, tx: &Transaction<'_>) -> anyhow::Result<Vec<String>> {
        let rows =
            tx.query(KEYED_TABLES, &[&self.schema()]).await.context("listing the tables with keys to the cards")?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    /// Quickly, since it locks the cards.
    async fn drop_keyed(&self, tx: &Transaction<'_>, table: &str, started: Instant) -> Result<(), StepError> {
        let drop = format!(
            "SAVEPOINT try; SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; SET LOCAL statement_timeout = '{DROP_TIMEOUT}';
             DROP TABLE IF EXISTS {}.{} CASCADE",
            sql::identifier(&self.schema()),
            sql::identifier(table)
        );
        self.drop(tx, &drop, started).await
    }

    async fn drop_schema(&self, tx: &Transaction<'_>, started: Instant) -> Result<(), StepError> {
        let sql = "SELECT count(*) > 0 FROM pg_catalog.pg_roles WHERE rolname = $1";
        let row = tx.query_one(sql, &[&self.names.plugin_runtime(self.plugin)]).await;
        let has_roles: bool = row.and_then(|row| row.try_get(0)).context("looking for the plugin's roles")?;
        let roles = match has_roles {
            true => format!("SELECT cardinal.drop_plugin_roles({})", sql::literal(&self.plugin.replace('-', "_"))),
            false => String::new(),
        };
        let drop = format!(
            "SAVEPOINT try; SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; SET LOCAL statement_timeout = '{DROP_TIMEOUT}';
             DROP SCHEMA IF EXISTS {} CASCADE; {roles}",
            sql::identifier(&self.schema())
        );
        self.drop(tx, &drop, started).await
    }

    async fn drop(&self, tx: &Transaction<'_>, drop: &str, started: Instant) -> Result<(), StepError> {
        match self.try_to_drop(tx, drop, started).await? {
            Ok(()) => Ok(()),
            Err((error, blockers)) if error.code().is_some_and(is_busy) => Err(refused(
                "in-use",
                "tables and cards that can be locked for a moment",
                &format!("{blockers} was in the way for {} s", TRIES_TIMEOUT.as_secs()),
                "wait for it to end, or end it, and try again",
            )),
            Err((error, _)) if error.code() == Some(&SqlState::DEPENDENT_OBJECTS_STILL_EXIST) => {
                let held_by = error
                    .as_db_error()
                    .map(|db_error| format!("{} ({})", db_error.message(), db_error.detail().unwrap_or("no detail")));
                let fix = "have an administrator take from that role what it owns or may use elsewhere, and try again";
                Err(refused(
                    "roles-in-use",
                    "roles that nothing else depends on",
                    &held_by.unwrap_or_default().replace('\n', ", "),
                    fix,
                ))
            }
            Err((error, _)) => {
                Err(StepError::Failed(anyhow::Error::new(error).context("dropping the plugin's schema")))
            }
        }
    }

    /// Gives up what a try has locked before the next one. What is in the way at last is named.
    async fn try_to_drop(
        &self,
        tx: &Transaction<'_>,
        drop: &str,
        started: Instant,
    ) -> anyhow::Result<Result<(), (tokio_postgres::Error, String)>> {
        let observer = connect::connect(self.provisioner).await.context("logging in as the provisioner")?;
        let backend = connect::backend_pid(tx).await.context("asking which session it is")?;
        let waits = Waits::default();
        loop {
            let tried = tokio::select! {
                tried = tx.batch_execute(drop) => tried,
                error = watch::note_blockers(&observer, backend, &waits) => return Err(error),
            };
            let Err(error) = tried else { return Ok(Ok(())) };
            if !error.code().is_some_and(is_busy) || started.elapsed() >= TRIES_TIMEOUT {
                return Ok(Err((error, waits.blockers(self.names))));
            }
            tx.batch_execute("ROLLBACK TO try; RELEASE try").await.context("giving up a try")?;
            tokio::time::sleep(TRY_PAUSE).await;
        }
    }

    /// The row that hosts take turns at stays, as that of a plugin that was never there.
    async fn forget(&self, tx: &Transaction<'_>) -> anyhow::Result<(u64, bool)> {
        let steps = "DELETE FROM public.plugin_schema_steps WHERE plugin = $1";
        let steps = tx.execute(steps, &[&self.plugin]).await.context("forgetting the schema steps")?;
        let state =
            "UPDATE public.plugin_schema_state SET schema_sha256 = NULL, plugin_version = NULL, applied_at = NULL,
                     duration_ms = NULL WHERE plugin = $1";
        tx.execute(state, &[&self.plugin]).await.context("forgetting the state of the schema")?;
        let confirmed = "DELETE FROM public.plugin_confirmations WHERE plugin = $1";
        tx.execute(confirmed, &[&self.plugin]).await.context("forgetting what was confirmed")?;
        let schedules = "DELETE FROM public.plugin_schedules WHERE plugin = $1";
        tx.execute(schedules, &[&self.plugin]).await.context("forgetting the schedules")?;
        let settings = "UPDATE public.plugin_state
                        SET settings = '{}', sealed = '{}', settings_version = settings_version + 1, updated_at = now()
                        WHERE plugin = $1 AND (settings <> '{}' OR sealed <> '{}')";
        let settings = tx.execute(settings, &[&self.plugin]).await.context("forgetting the settings")?;
        Ok((steps, settings > 0))
    }

    fn schema(&self) -> String {
        roles::plugin_schema_name(self.plugin)
    }
}

fn refused(code: &str, expected: &str, found: &str, fix: &str) -> StepError {
    StepError::Refused(ProvisionFault::refused(code, expected, found, fix))
}
