//! Work that outlives a request: bulk actions, imports and plugins' jobs, durable in the table `jobs`.
//!
//! A job is run by one process at a time, which holds its lease and says every two seconds that it is still there.
//! Each step is one transaction that also counts it and fails when the lease has gone to another, so that a process
//! that was killed, or hangs and comes back, counts nothing twice. Bulk actions are gone on with by whoever takes the
//! lease over; an import, whose body went down with its host, is marked as interrupted.

pub(crate) mod bulk;
mod bulk_steps;
pub(crate) mod import;
pub(crate) mod plugin;
pub(crate) mod request;
mod schedule;
mod step;
mod tool;
pub(crate) mod view;

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::bulk::{Bulk, Cards};
use crate::audit::Audit;
use crate::http::error::{ApiError, ApiResult};
use cardinal_base::clock::Clock;
use cardinal_database::pool::{PoolError, StatementError};
use cardinal_database::{log_failure, pool::Pool};
use cardinal_identity::auth::{Auth, caller::Caller, credential::Credential};
use cardinal_plugin_host::registry::Registry;
use cardinal_store::{
    error::StoreError,
    jobs::{self, CardSelection, CountError, Job, NewJob, Runner},
};

/// Jobs that one host runs at the same time, imports apart.
const MAX_RUNNING: usize = 2;
/// How often this host looks for jobs that others queued or left behind.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often a lease is held for longer, and a wish to cancel heard of; the lease lasts 15 s.
const LEASE_INTERVAL: Duration = Duration::from_secs(2);
/// Jobs that ended are kept for so long.
const RETENTION_DAYS: i32 = 30;

/// What jobs work with.
pub struct Services {
    pub pool: Pool,
    pub auth: Arc<Auth>,
    pub plugins: Arc<Registry>,
    pub audit: Arc<Audit>,
    pub clock: Clock,
}

/// The jobs of this host.
pub struct Jobs {
    pool: Pool,
    auth: Arc<Auth>,
    plugins: Arc<Registry>,
    audit: Arc<Audit>,
    clock: Clock,
    runner: Runner,
    /// Rings when this host has queued one.
    changed: Notify,
    /// Jobs that run here and can be asked to stop at once.
    own: Mutex<HashMap<Uuid, Running>>,
    imports: Arc<Semaphore>,
    /// The schedules that were made known last.
    declared: Mutex<Vec<schedule::ScheduleKey>>,
    tasks: Mutex<JoinSet<()>>,
    /// No new steps: what can be gone on with is given back.
    draining: CancellationToken,
}

/// How the running of a job ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// It can't go on; the reason for its starter.
    Failed(String),
    Cancelled,
    Interrupted(String),
    /// Another host, or the next process of this one, goes on.
    Released,
    /// Somebody else has gone on already.
    Lost,
}

impl Jobs {
    pub fn new(services: Services, host: Uuid) -> Self {
        let Services { pool, auth, plugins, audit, clock } = services;
        Self {
            pool,
            auth,
            plugins,
            audit,
            clock,
            runner: Runner { host, process: Uuid::now_v7() },
            changed: Notify::new(),
            own: Mutex::default(),
            imports: Arc::new(Semaphore::new(import::MAX_IMPORTS)),
            declared: Mutex::default(),
            tasks: Mutex::default(),
            draining: CancellationToken::new(),
        }
    }

    /// A bulk action that need not say yet how many cards it is for; what is wrong with it is 422, what the caller may
    /// not do 403.
    pub fn check(&self, wanted: bulk::BulkRequest, caller: &Caller) -> ApiResult<Bulk> {
        wanted.check_uncounted(caller, &self.plugins)
    }

    /// Queues a bulk action of `caller`, who may do it. 409 when it picks other cards than expected.
    pub async fn start(&self, caller: &Caller, request_id: &str, bulk: Bulk) -> Result<Job, StoreError> {
        let (actor, args) = (caller.actor(), Value::Object(bulk.args));
        let credential = serde_json::to_value(Credential::from_caller(caller))?;
        let new = NewJob {
            action: bulk.action.name(),
            user_id: caller.user_id,
            actor: &actor,
            credential: &credential,
            request_id,
            args: &args,
        };
        let picked = match &bulk.cards {
            Cards::Ids(ids) => CardSelection::Ids(ids),
            Cards::Filter(filter) => CardSelection::Filter(filter),
        };
        let job = jobs::queue(&self.pool, &new, picked, &bulk.expected).await?;
        self.changed.notify_one(); // it need not wait to be found
        Ok(job)
    }

    /// A job as its readers see it, with the first of its errors.
    pub async fn show(&self, job: &Job) -> ApiResult<Value> {
        view::whole(&self.pool, job, self.clock.now()).await
    }

    /// Tells a job to stop that runs on this host; elsewhere it hears of it within two seconds.
    pub fn stop(&self, id: Uuid) {
        if let Some(running) = self.own.lock().get(&id) {
            running.cancelled.cancel();
        }
    }

    /// Takes no more jobs and gives those back that others can go on with; waits until the last step is over, at most
    /// for `grace`.
    pub async fn drain(&self, grace: Duration) {
        self.draining.cancel();
        let over = async {
            loop {
                let mut tasks = std::mem::take(&mut *self.tasks.lock());
                if tasks.is_empty() {
                    return;
                }
                while tasks.join_next().await.is_some() {}
            }
        };
        if tokio::time::timeout(grace, over).await.is_err() {
            tracing::warn!(
                "a job's step was still running at the end of the grace period; the job continues after the next \
                 start"
            );
        }
    }

    /// Runs jobs from here on while the host lives.
    pub(crate) fn spawn_keeping(self: &Arc<Self>) {
        self.spawn(keep(Arc::clone(self)));
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Removes jobs that are past their retention.
    pub async fn forget_old(&self) -> ApiResult<u64> {
        Ok(jobs::remove_old(&self.pool, RETENTION_DAYS).await?)
    }

    fn own(self: &Arc<Self>, id: Uuid, kind: JobKind) -> RunningJob {
        let cancelled = CancellationToken::new();
        let running = Running { cancelled: cancelled.clone(), kind };
        self.own.lock().insert(id, running);
        RunningJob { jobs: Arc::clone(self), id, cancelled }
    }

    /// How many of this kind run here.
    fn running(&self, kind: JobKind) -> usize {
        let own = self.own.lock();
        own.values().filter(|running| running.kind == kind).count()
    }
}

/// What is known here of a job that runs here.
struct Running {
    cancelled: CancellationToken,
    kind: JobKind,
}

/// What a job does; each kind has a bound of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobKind {
    Bulk,
    Import,
    Plugin,
}

/// A job that runs on this host.
struct RunningJob {
    jobs: Arc<Jobs>,
    id: Uuid,
    cancelled: CancellationToken,
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        self.jobs.own.lock().remove(&self.id);
        self.jobs.changed.notify_one(); // there is room for the next
    }
}

async fn keep(jobs: Arc<Jobs>) {
    loop {
        if let Err(error) = take_what_waits(&jobs).await {
            log_failure!(error, "failed to look for jobs");
        }
        if let Err(error) = schedule::start_due(&jobs).await {
            log_failure!(error, "jobs whose time has come could not be looked for");
        }
        tokio::select! {
            () = jobs.draining.cancelled() => return,
            () = jobs.changed.notified() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

async fn take_what_waits(jobs: &Arc<Jobs>) -> ApiResult<()> {
    for abandoned in jobs::fail_abandoned_imports(&jobs.pool, jobs.runner).await? {
        tracing::warn!(job = %abandoned.id, done = abandoned.done, "an import ended with its host");
    }
    plugin::take_what_waits(jobs).await?;
    while jobs.running(JobKind::Bulk) < MAX_RUNNING && !jobs.draining.is_cancelled() {
        let Some(job) = jobs::claim(&jobs.pool, jobs.runner).await? else { break };
        tracing::info!(job = %job.id, action = job.action, done = job.done, total = job.total, "a job runs");
        let (runner, own) = (Arc::clone(jobs), jobs.own(job.id, JobKind::Bulk));
        jobs.spawn(async move { run(&runner, &job, own).await });
    }
    Ok(())
}

async fn run(jobs: &Jobs, job: &Job, running: RunningJob) {
    let end = tokio::select! {
        end = bulk_steps::all(jobs, job, &running.cancelled) => end,
        () = hold(jobs, job.id, &running.cancelled) => End::Lost,
    };
    finish(jobs, job.id, &end, None).await;
}

/// Holds the lease; returns when it is lost.
async fn hold(jobs: &Jobs, id: Uuid, cancelled: &CancellationToken) {
    let mut every = tokio::time::interval(LEASE_INTERVAL);
    loop {
        every.tick().await;
        match jobs::extend_lease(&jobs.pool, id, jobs.runner).await {
            Ok(Some(false)) => {}
            Ok(Some(true)) => cancelled.cancel(),
            Ok(None) => return,
            // While the database is away nobody can take it over either; each step is counted under the lease.
            Err(error) => tracing::warn!(job = %id, error = ?error, "failed to extend a job's lease"),
        }
    }
}

/// Records how a job ended.
async fn finish(jobs: &Jobs, id: Uuid, end: &End, total: Option<i64>) -> Option<Job> {
    let (state, reason) = match end {
        End::Lost => {
            tracing::warn!(job = %id, "a job went over to another process");
            return None;
        }
        End::Released => {
            if let Err(error) = jobs::release(&jobs.pool, id, jobs.runner).await {
                tracing::warn!(job = %id, error = ?error, "failed to release a job; its lease will expire");
            }
            return None;
        }
        End::Done => ("done", None),
        End::Failed(reason) => ("failed", Some(reason.as_str())),
        End::Cancelled => ("cancelled", None),
        End::Interrupted(reason) => ("interrupted", Some(reason.as_str())),
    };
    match jobs::finish(&jobs.pool, id, jobs.runner, state, reason, total).await {
        Ok(job) => {
            tracing::info!(job = %id, state, reason, "a job is over");
            job
        }
        // Its lease runs out, and whoever takes it over finds nothing left to do.
        Err(error) => {
            tracing::warn!(job = %id, state, error = ?error, "failed to record the end of a job");
            None
        }
    }
}

/// A failure of one card, as readers get it.
fn card_fault(card: Uuid, code: &str, detail: impl Into<String>) -> Value {
    serde_json::json!({"id": card.to_string(), "code": code, "detail": detail.into()})
}

/// Whether a step that failed so is worth another attempt: the database was away, or two steps met.
fn may_pass(error: &ApiError) -> bool {
    error.status().is_server_error()
}

/// Why a step was not counted; its transaction must not be committed.
#[derive(Debug)]
pub(crate) enum StepError {
    /// The job is another process's by now, or over, or not where the step began.
    Lost,
    Error(ApiError),
}

impl From<CountError> for StepError {
    fn from(uncounted: CountError) -> Self {
        match uncounted {
            CountError::Lost => Self::Lost,
            CountError::Error(error) => Self::Error(error.into()),
        }
    }
}

impl From<ApiError> for StepError {
    fn from(error: ApiError) -> Self {
        Self::Error(error)
    }
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::Error(error.into())
    }
}

impl From<PoolError> for StepError {
    fn from(error: PoolError) -> Self {
        StoreError::from(error).into()
    }
}

impl From<StatementError> for StepError {
    fn from(error: StatementError) -> Self {
        StoreError::from(error).into()
    }
}

impl From<StepError> for End {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Lost => Self::Lost,
            StepError::Error(error) => Self::Failed(describe(&error)),
        }
    }
}

/// The text of an error for a job's reader.
fn describe(error: &ApiError) -> String {
    error.client_detail().map_or_else(|| error.to_string(), str::to_owned)
}
