//! Jobs of the table `jobs` whose work is a plugin's. One run of a plugin's job goes on at a time, which a unique index
//! holds up; further ones wait.

use deadpool_postgres::Transaction;
use serde_json::Value;
use tokio_postgres::{error::SqlState, types::ToSql};
use uuid::Uuid;

use crate::{
    error::StoreError,
    jobs::{self, COLUMNS, Job, LEASE, NewJob, RETRY_SECONDS, Runner},
};
use cardinal_database::pool::Pool;

/// The action of such a job.
pub const ACTION: &str = "plugin_job";
/// Jobs of one plugin that wait or run, of all hosts together.
const OPEN_JOBS: i64 = 50;
/// Jobs of one plugin that run, of all hosts together.
const RUNNING_JOBS: i64 = 4;
/// A job that ended the process that ran it so often is not begun again.
const RUNS: i32 = 5;
/// Errors of one job that are kept; the rest is only counted.
const MAX_ERRORS: i64 = 10_000;

/// What a new job of a plugin is.
pub struct NewPluginJob<'a> {
    pub plugin: &'a str,
    /// Its name in the manifest.
    pub name: &'a str,
    pub resumable: bool,
    pub user_id: Uuid,
    pub actor: &'a Value,
    pub credential: &'a Value,
    pub request_id: &'a str,
    pub args: &'a Value,
}

/// Queues a job.
pub async fn queue(pool: &Pool, new: &NewPluginJob<'_>) -> Result<Job, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let job = insert(&tx, new).await?;
    tx.commit().await?;
    Ok(job)
}

/// Queues a job as a part of `tx`.
pub(crate) async fn insert(tx: &Transaction<'_>, new: &NewPluginJob<'_>) -> Result<Job, StoreError> {
    let sql = "SELECT count(*) FROM public.jobs WHERE plugin = $1 AND state IN ('queued', 'running')";
    let open: i64 = tx.query_one(&tx.prepare_cached(sql).await?, &[&new.plugin]).await?.try_get(0)?;
    if open >= OPEN_JOBS {
        let detail = format!("{open} jobs of this plugin are waiting or running, which is the maximum.");
        return Err(StoreError::Busy { detail, retry_after: RETRY_SECONDS });
    }
    let NewPluginJob { plugin, name, resumable, user_id, actor, credential, request_id, args } = *new;
    let origin = Some((plugin, name, resumable));
    let new = NewJob { action: ACTION, user_id, actor, credential, request_id, args };
    let id = jobs::insert(tx, &new, origin).await?;
    let sql = format!("SELECT {COLUMNS} FROM public.jobs j WHERE j.id = $1");
    let job = jobs::from_row(&tx.query_one(&tx.prepare_cached(&sql).await?, &[&id]).await?)?;
    jobs::raise_event(tx, "queued", &job).await?;
    Ok(job)
}

/// Takes the oldest job that waits, or whose process has died and that goes on after that, of those that this host can
/// run: pairs of plugin and job.
pub async fn claim(pool: &Pool, runner: Runner, offered: &[(String, String)]) -> Result<Option<Job>, StoreError> {
    let (plugins, names): (Vec<&str>, Vec<&str>) =
        offered.iter().map(|(plugin, name)| (plugin.as_str(), name.as_str())).unzip();
    let mut client = pool.get().await?;
    let sql = format!(
        "UPDATE public.jobs AS j SET state = 'running', started_at = coalesce(j.started_at, now()), host_id = $1, \
         runner = $2, lease_until = now() + {LEASE}, runs = j.runs + 1 \
         WHERE j.id = (SELECT o.id FROM public.jobs o \
           JOIN unnest($3::text[], $4::text[]) AS offered (plugin, name) ON o.plugin = offered.plugin AND o.plugin_job = offered.name \
           WHERE (o.state = 'queued' AND (SELECT count(*) FROM public.jobs r WHERE r.plugin = o.plugin AND r.state = 'running') < $5 \
                  OR o.state = 'running' AND o.resumable AND o.runs < $6 AND {DEAD}) \
           AND NOT EXISTS (SELECT FROM public.jobs r WHERE r.plugin = o.plugin AND r.plugin_job = o.plugin_job \
                           AND r.state = 'running' AND r.id <> o.id) \
           ORDER BY o.id LIMIT 1 FOR UPDATE OF o SKIP LOCKED) RETURNING {COLUMNS}"
    );
    let values: [&(dyn ToSql + Sync); 6] = [&runner.host, &runner.process, &plugins, &names, &RUNNING_JOBS, &RUNS];
    match jobs::changed(&mut client, &sql, &values, "started").await {
        // Another host was quicker with a job of the same name.
        Err(StoreError::Database(error)) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(None),
        claimed => claimed,
    }
}

/// A job `o` whose process has died, asked by process `$2` of host `$1`.
const DEAD: &str = "CASE WHEN o.runner = $2 THEN o.lease_until < now() - interval '2 minutes' \
                    ELSE o.lease_until < now() OR o.host_id = $1 END";

/// Says of jobs whose process has died, and that do not go on after that, that they are interrupted.
pub async fn fail_abandoned(pool: &Pool, runner: Runner) -> Result<Vec<Job>, StoreError> {
    const REASON: &str = "The host ended while the job was running. What it had done by then stays done.";
    let which = format!("j.action = '{ACTION}' AND NOT (j.resumable AND j.runs < {RUNS})");
    jobs::interrupt_abandoned(pool, runner, &which, REASON).await
}

/// How far a job is, and what has failed since the report before.
#[derive(Debug, Default)]
pub struct JobReport {
    pub done: Option<i64>,
    pub total: Option<i64>,
    pub message: Option<String>,
    /// As readers get them.
    pub errors: Vec<Value>,
    /// Failures that are not told, as there were too many between two reports.
    pub unreported: i64,
    pub checkpoint: Option<Value>,
}

/// Records how far a job of this process is, and holds its lease for longer. `None` when it is another's by now; else
/// whether somebody wants it stopped.
pub async fn record(pool: &Pool, id: Uuid, runner: Runner, report: &JobReport) -> Result<Option<bool>, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let failed = i64::try_from(report.errors.len()).unwrap_or(i64::MAX).saturating_add(report.unreported);
    let sql = format!(
        "UPDATE public.jobs AS j SET lease_until = now() + {LEASE}, done = coalesce($3, j.done), total = coalesce($4, j.total), \
         message = coalesce($5, j.message), failed = j.failed + $6, checkpoint = coalesce($7, j.checkpoint) \
         WHERE j.id = $1 AND j.runner = $2 AND j.state = 'running' RETURNING {COLUMNS}"
    );
    let JobReport { done, total, message, checkpoint, .. } = report;
    let row = tx
        .query_opt(&tx.prepare_cached(&sql).await?, &[&id, &runner.process, done, total, message, &failed, checkpoint])
        .await?;
    let Some(row) = row else { return Ok(None) };
    let job = jobs::from_row(&row)?;
    jobs::keep_errors(&tx, id, job.failed - failed, &report.errors, MAX_ERRORS).await?;
    jobs::raise_event(&tx, "progress", &job).await?;
    tx.commit().await?;
    Ok(Some(job.cancel_asked_at.is_some()))
}
