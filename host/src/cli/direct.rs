//! The database of a host on this machine, for commands that work beside a running host and with the host stopped.
//! Whoever can read the host's files, or knows its DATABASE_URL, needs no credential; every act is in the audit log as
//! `local`.

use anyhow::Context as _;
use serde_json::Value;

use cardinal_base::{
    clock::Clock,
    config::{Config, DatabaseSettings},
};
use cardinal_database::pool::{Pool, Pools};
use cardinal_identity::auth::caller::local_actor;
use cardinal_observe::log::Log;
use cardinal_schema::prepare::Preparation;
use cardinal_serve::audit::{Audit, AuditAction};
use cardinal_serve::http::error::ApiError;
use cardinal_supervisor::access::{Access, MissingDatabase};

/// An open way to the database, with the rights that a host serves with.
pub(super) struct Direct {
    pub pool: Pool,
    pub clock: Clock,
    /// For what takes another login than the core's.
    pub preparation: Preparation,
    audit: Audit,
}

/// The settings of a command that works on the database, once in its life: its log begins with it.
///
/// # Errors
/// All that is wrong with them, at once.
pub(super) fn begin(settings: &DatabaseSettings) -> anyhow::Result<Config> {
    let config = settings.read()?;
    Log::start_quiet(&config.observe)?;
    Ok(config)
}

impl Direct {
    /// Runs `work` on the database of these settings. A private server that is not running is started for as long.
    ///
    /// # Errors
    /// There is no such database, it cannot be reached, or the work failed.
    pub(super) fn run<T>(config: &Config, work: impl AsyncFnOnce(&Self) -> anyhow::Result<T>) -> anyhow::Result<T> {
        super::runtime()?.block_on(async {
            let access = Access::open(config, MissingDatabase::Refused).await?;
            let outcome = async { work(&Self::open(&access).await?).await }.await;
            access.close().await;
            outcome
        })
    }

    async fn open(access: &Access) -> anyhow::Result<Self> {
        let preparation = access.preparation();
        let login = preparation.core_login().await?.pg_config();
        // These commands remove no card, so the reaper's pool stays empty.
        let pool = Pools::new(login.clone(), login).context("preparing connections")?.core;
        let audit = Audit::new(pool.clone(), Clock::System);
        Ok(Self { pool, clock: Clock::System, preparation, audit })
    }

    /// Adds an act of whoever runs this command to the audit log.
    pub(super) async fn record(&self, act: AuditAction, target: String, detail: Value) {
        let actor = local_actor(rustix::process::geteuid().as_raw());
        self.audit.done_by(actor, None, String::new(), act, Some(target), Some(detail)).await;
    }
}

/// A refusal in the API's words; of a fault the cause, which the API keeps to the log.
pub(super) fn explain(error: impl Into<ApiError>) -> anyhow::Error {
    let error: ApiError = error.into();
    if error.status().is_server_error() {
        let cause = error.cause_text().unwrap_or_default();
        return anyhow::anyhow!("cannot use the database: {error} ({cause})");
    }
    let fields: Vec<&str> = error.fields().iter().map(|(_, detail)| detail.as_str()).collect();
    match (fields.is_empty(), error.client_detail()) {
        (false, _) => anyhow::anyhow!("{}", fields.join(" ")),
        (true, Some(detail)) => anyhow::anyhow!("{detail}"),
        (true, None) => anyhow::anyhow!("{error}"),
    }
}
