//! A plugin's roles and schema: made, and `schema.sql` run, once per content.
//!
//! Three sessions take part. The provisioner's first one holds the lock on the plugin's row of `plugin_schema_state`
//! for as long as the step lasts, so that hosts side by side take turns (a plugin cannot take that lock, as it could an
//! advisory one). Its second one makes roles and schema, which must be committed before anybody can log in with them,
//! watches the third and looks at the catalog afterwards. The third one is the plugin's own schema role, in one
//! transaction that schema.sql cannot leave.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use semver::Version;
use sha2::{Digest as _, Sha256};
use tokio_postgres::{Client, Transaction};

use cardinal_control::link::{PluginDatabase, ProvisionFault, STATEMENT_TIMEOUT_MS};
use cardinal_database::{
    connect::{self, ConnectParams},
    roles::{self, RoleNames, RolePasswords},
    sql,
};
use cardinal_schema_sql as schema_sql;
use cardinal_schema_sql::Statement;
use catalog::Observer;
use failure::Failure;
use record::StepRecord;
use run::Done;
pub use watch::LockLimits;

mod block;
mod blockers;
mod card_keys;
mod card_lock;
mod cards_turn;
pub mod catalog;
pub mod close;
mod confirmed;
mod connections;
mod constraints;
mod diff;
pub mod drop_object;
pub mod dump;
mod failure;
mod late_checks;
mod plugin_roles;
pub mod purge;
mod record;
pub mod review;
mod rows;
mod run;
mod types;
mod watch;

/// How long to wait for another host that is at the same plugin; longer than its whole step may take.
const STEP_LOCK_TIMEOUT: &str = "90s";
/// How long a statement waits for a lock, but for one that may have to lock the cards.
const LOCK_TIMEOUT: &str = "1s";
/// How long schema.sql may run. Writers of cards wait for moments of it only, see `watch`.
pub const SCHEMA_TIMEOUT: Duration = Duration::from_secs(30);
/// What logging in, the look at what was done and the commit may take beyond it.
const CHECKS_TIMEOUT: Duration = Duration::from_secs(30);
/// For deadlocks, and for locks on cards that busy writers did not let it have in time.
const MAX_TRIES: u32 = 5;
/// After the first try, and as much longer after each further one: whoever waited for the step goes first.
const TRY_PAUSE: Duration = Duration::from_millis(250);
/// What DISCARD ALL does, without DEALLOCATE and DISCARD PLANS.
const DISCARD_ALL_BUT_PLANS: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
    SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";
/// What a plugin's session begins with. As start-up options these win over whatever the plugin made its login's
/// defaults.
const RUNTIME_SETTINGS: [(&str, u64); 4] = [
    ("statement_timeout", STATEMENT_TIMEOUT_MS),
    ("idle_in_transaction_session_timeout", 15_000),
    ("lock_timeout", 3_000),
    // Ends a statement soon after its host was killed.
    ("client_connection_check_interval", 1_000),
];

/// What is asked for.
#[derive(Debug)]
pub struct Step<'a> {
    pub plugin: &'a str,
    pub version: &'a str,
    /// SHA-256 of the package: an operator's word holds for it alone.
    pub package: &'a str,
    /// Empty when the package has none.
    pub schema_sql: &'a str,
    /// Of the plugin's pool on each host (`limits.db_connections`).
    pub connections: u32,
    /// The provisioner's login.
    pub provisioner: &'a ConnectParams,
    pub names: &'a RoleNames,
    pub passwords: &'a RolePasswords,
    /// Whether sessions may begin with settings of their own; a pooler between may refuse that.
    pub start_options: bool,
    pub schema_timeout: Duration,
    pub lock_limits: LockLimits,
    /// Whether the package is one that a worker has kept. Its SQL does not run: workers run plugins and are not
    /// believed, and it has run when it lay in the plugins folder.
    pub is_kept: bool,
    /// Whether this step was made before and comes from a backup: its losses were agreed to then.
    pub replay: bool,
}

/// The provisioner's two sessions of a step. A step that was made leaves them fit for the next one.
pub struct Sessions {
    first: Client,
    second: Observer,
}

impl Sessions {
    async fn open(provisioner: &ConnectParams) -> anyhow::Result<Self> {
        let first = connect::connect(provisioner).await.context("logging in as the provisioner")?;
        let second = connect::connect(provisioner).await.context("logging in as the provisioner")?;
        Ok(Self { first, second: Observer::new(second) })
    }

    /// As they were when they were opened, but for what the second one has planned; none where that fails.
    async fn renewed(self) -> Option<Self> {
        let (first, second) =
            tokio::join!(self.first.batch_execute("DISCARD ALL"), self.second.batch_execute(DISCARD_ALL_BUT_PLANS));
        (first.is_ok() && second.is_ok()).then_some(self)
    }
}

/// Why a step was not made.
#[derive(Debug)]
pub enum StepError {
    /// Told to the operator as it is; nothing was changed.
    Refused(ProvisionFault),
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for StepError {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl Step<'_> {
    /// Brings roles and schema in line with the package.
    ///
    /// # Errors
    /// Refused: see `schema_sql`, `run`, `diff` and `catalog`. Failed: the database was not there.
    pub async fn make(&self) -> Result<PluginDatabase, StepError> {
        Ok(self.make_with(None).await?.0)
    }

    /// The same with the sessions of the step before, if there are any; gives them, or new ones, for the next step.
    ///
    /// # Errors
    /// As for [`Self::make`]. The sessions of a step that was not made are closed.
    pub async fn make_with(&self, known: Option<Sessions>) -> Result<(PluginDatabase, Option<Sessions>), StepError> {
        let mut sessions = match known {
            Some(sessions) => sessions,
            None => Sessions::open(self.provisioner).await?,
        };
        let made = self.make_in(&mut sessions).await?;
        Ok((made, sessions.renewed().await))
    }

    async fn make_in(&self, Sessions { first, second }: &mut Sessions) -> Result<PluginDatabase, StepError> {
        self.make_row(first).await?;
        let step_tx = first.transaction().await.context("beginning the step")?;
        let recorded = self.lock_step(&step_tx).await?;
        self.check_enabled(&step_tx).await?;
        let hash = Sha256::digest(self.schema_sql.as_bytes()).to_vec();
        let unchanged = recorded.hash.as_ref() == Some(&hash);
        let is_behind = !unchanged && self.is_behind(&recorded);
        if !unchanged && !is_behind && self.is_kept {
            return Err(StepError::Refused(never_ran()));
        }
        let runs = !unchanged && !is_behind;
        let statements = if runs { self.read()? } else { Vec::new() };
        let logs_in = !statements.is_empty() || !recorded.first_time;
        self.make_roles(second, runs && logs_in).await?;
        self.check_login(second).await?;
        if !runs {
            self.check_catalog(second).await?;
            if unchanged {
                self.record_step(&step_tx, &hash, None).await?;
            }
            step_tx.commit().await.context("ending the turn")?;
            return Ok(self.database());
        }
        let started = Instant::now();
        if statements.is_empty() && recorded.first_time {
            self.make_empty(second).await?;
            self.record(&step_tx, &hash, started, &[]).await?;
            step_tx.commit().await.context("recording the step")?;
            return Ok(self.database());
        }
        let agreed = self.agreed_losses(&step_tx).await?;
        let run = self.run_schema(&statements, &agreed, second).await;
        self.close_login(second).await?;
        let checked = match run {
            Ok(done) => self.check_committed(second, recorded.first_time).await.map(|()| done),
            Err(error) => {
                match recorded.first_time {
                    true => self.unmake(second).await,
                    false => self.check_left(second).await,
                }
                Err(error)
            }
        };
        let done = checked?;
        self.record(&step_tx, &hash, started, &done.lost).await?;
        step_tx.commit().await.context("recording the step")?;
        Ok(self.database())
    }

    /// For a plugin without schema.sql: no session of its own has anything to do.
    async fn make_empty(&self, session: &mut Observer) -> Result<(), StepError> {
        let checked = self.check_catalog(session).await;
        if checked.is_err() {
            self.unmake(session).await;
        }
        checked
    }

    /// The statements that schema.sql may have, in the words that PostgreSQL gets.
    fn read(&self) -> Result<Vec<Statement>, StepError> {
        schema_sql::read(&self.schema(), self.schema_sql).map_err(|error| StepError::Refused(error.into()))
    }

    fn schema(&self) -> String {
        roles::plugin_schema_name(self.plugin)
    }

    /// As the functions of `sql/roles.sql` want it.
    fn plugin_literal(&self) -> String {
        sql::literal(&self.plugin.replace('-', "_"))
    }

    /// What was dropped of a plugin that was disabled meanwhile is not made again.
    async fn check_enabled(&self, step_tx: &Transaction<'_>) -> Result<(), StepError> {
        let sql = "SELECT FROM public.plugin_state WHERE plugin = $1 AND disabled_at IS NOT NULL";
        let disabled =
            step_tx.query_opt(sql, &[&self.plugin]).await.context("asking whether the plugin is disabled")?;
        if disabled.is_some() && !self.replay {
            return Err(StepError::Refused(ProvisionFault::Unavailable(
                "the plugin was disabled meanwhile".to_owned(),
            )));
        }
        Ok(())
    }

    /// Whether the schema has moved on from this package: code that is gone back to runs on the newer schema, and its
    /// own schema.sql does not run again. Two builds of one version are equals; the one that lies in the folder is
    /// meant.
    fn is_behind(&self, recorded: &StepRecord) -> bool {
        if self.replay || recorded.hash.is_none() {
            return false;
        }
        let later = recorded.version.as_deref();
        self.is_kept || later.is_some_and(|later| order(self.version, later) == Some(Ordering::Less))
    }

    async fn run_schema(
        &self,
        statements: &[Statement],
        agreed: &[String],
        observer: &Client,
    ) -> Result<Done, StepError> {
        let (mut tries, waits) = (1, watch::Waits::default());
        loop {
            match watch::run(self, statements, agreed, observer, &waits).await {
                Err(Failure::Busy(met)) if tries < MAX_TRIES && !waits.is_over(self.lock_limits) => {
                    tracing::info!(plugin = self.plugin, met, "schema.sql met other work; trying again");
                    tokio::time::sleep(TRY_PAUSE * tries).await;
                    tries += 1;
                }
                Err(Failure::Busy(met)) => {
                    let fault = failure::waited_in_vain(&met, tries, &waits.blockers(self.names));
                    return Err(StepError::Refused(fault));
                }
                run => return run.map_err(StepError::from),
            }
        }
    }

    fn database(&self) -> PluginDatabase {
        let role = self.names.plugin_runtime(self.plugin);
        let options = if self.start_options { start_options(&self.schema()) } else { String::new() };
        PluginDatabase {
            schema: self.schema(),
            connect: self.provisioner.with_login(&role, self.passwords.for_role(&role)).with_options(options),
            role,
        }
    }
}

fn order(version: &str, other: &str) -> Option<Ordering> {
    let (version, other) = (Version::parse(version).ok()?, Version::parse(other).ok()?);
    Some(version.cmp_precedence(&other))
}

fn never_ran() -> ProvisionFault {
    ProvisionFault::refused(
        "package-changed",
        "a package in the plugins folder, or one whose schema.sql has run in this database",
        "a kept package whose schema.sql never ran here",
        "put the package into the plugins folder",
    )
}

fn start_options(schema: &str) -> String {
    let mut options = format!("-c search_path={schema},pg_temp");
    for (name, value) in RUNTIME_SETTINGS {
        options.push_str(&format!(" -c {name}={value}"));
    }
    options
}
