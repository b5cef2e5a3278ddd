//! The tables `jobs`, `job_parts` and `job_errors`. What is counted is counted in the transaction that did it, and
//! only by the process that holds the job's lease: whoever was killed or overtaken counts nothing twice.

mod errors;
mod step;

use deadpool_postgres::{GenericClient, Transaction};
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

pub use self::errors::{errors, first_errors};
pub(super) use self::step::keep_errors;
pub use self::step::{CountError, JobPlace, Step, count, part, place};
use super::cards::list::{Conditions, Digest};
use crate::error::StoreError;
use crate::{
    event_log::{
        self,
        event::{Event, Topic},
    },
    old_rows,
};
use cardinal_cards::filter::Filter;
use cardinal_database::pool::{Connection, Pool};

/// A job as it is stored.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: Uuid,
    pub action: String,
    pub state: String,
    pub user_id: Uuid,
    pub actor: Value,
    pub credential: Value,
    pub request_id: String,
    pub args: Value,
    pub done: i64,
    pub failed: i64,
    pub total: Option<i64>,
    pub counts: Value,
    pub notes: Value,
    pub reason: Option<String>,
    pub next_part: i32,
    pub next_item: i32,
    pub begun: i32,
    pub host_id: Option<Uuid>,
    pub cancel_asked_at: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
    pub started_at: Option<OffsetDateTime>,
    pub finished_at: Option<OffsetDateTime>,
    /// Of a plugin's job: the plugin and the job's name in its manifest.
    pub plugin: Option<String>,
    pub plugin_job: Option<String>,
    pub resumable: bool,
    pub checkpoint: Option<Value>,
    pub message: Option<String>,
}

pub(super) const COLUMNS: &str = "j.id, j.action, j.state, j.user_id, j.actor, j.credential, j.request_id, j.args, j.done, j.failed, \
     j.total, j.counts, j.notes, j.reason, j.next_part, j.next_item, j.begun, j.host_id, j.cancel_asked_at, j.created_at, \
     j.started_at, j.finished_at, j.plugin, j.plugin_job, j.resumable, j.checkpoint, j.message";
/// When a job that was one too many may be asked for again.
pub(super) const RETRY_SECONDS: u32 = 30;
/// How long a job is its runner's when nothing is heard of it.
pub(super) const LEASE: &str = "interval '15 seconds'";
/// An import of this very process is given up after so long: when the database was away its lease ran out, too.
pub(super) const LONG_SILENT: &str = "interval '2 minutes'";
/// The cards of one part: what one transaction does, and how long others wait for a card of it.
const PART: i64 = 1_000;
/// Jobs that wait or run, of all hosts together.
const OPEN_JOBS: i64 = 200;

pub(super) fn from_row(row: &Row) -> Result<Job, tokio_postgres::Error> {
    Ok(Job {
        id: row.try_get("id")?,
        action: row.try_get("action")?,
        state: row.try_get("state")?,
        user_id: row.try_get("user_id")?,
        actor: row.try_get("actor")?,
        credential: row.try_get("credential")?,
        request_id: row.try_get("request_id")?,
        args: row.try_get("args")?,
        done: row.try_get("done")?,
        failed: row.try_get("failed")?,
        total: row.try_get("total")?,
        counts: row.try_get("counts")?,
        notes: row.try_get("notes")?,
        reason: row.try_get("reason")?,
        next_part: row.try_get("next_part")?,
        next_item: row.try_get("next_item")?,
        begun: row.try_get("begun")?,
        host_id: row.try_get("host_id")?,
        cancel_asked_at: row.try_get("cancel_asked_at")?,
        created_at: row.try_get("created_at")?,
        started_at: row.try_get("started_at")?,
        finished_at: row.try_get("finished_at")?,
        plugin: row.try_get("plugin")?,
        plugin_job: row.try_get("plugin_job")?,
        resumable: row.try_get("resumable")?,
        checkpoint: row.try_get("checkpoint")?,
        message: row.try_get("message")?,
    })
}

/// A process of a host, as leases name it.
#[derive(Clone, Copy, Debug)]
pub struct Runner {
    pub host: Uuid,
    pub process: Uuid,
}

/// What a new job is.
pub struct NewJob<'a> {
    pub action: &'a str,
    pub user_id: Uuid,
    pub actor: &'a Value,
    pub credential: &'a Value,
    pub request_id: &'a str,
    pub args: &'a Value,
}

/// The cards of a new bulk action.
pub enum CardSelection<'a> {
    Ids(&'a [Uuid]),
    /// Those that match now; later ones are none of its business.
    Filter(&'a Filter),
}

/// What was looked at before a bulk action was asked for.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    pub count: Option<i64>,
    /// Of the cards' ids.
    pub digest: Option<Digest>,
}

/// Adds a job that waits; `origin` is the plugin, the job's name in its manifest and whether it is resumable.
pub(super) async fn insert(
    tx: &Transaction<'_>,
    new: &NewJob<'_>,
    origin: Option<(&str, &str, bool)>,
) -> Result<Uuid, StoreError> {
    let open: i64 =
        tx.query_one("SELECT count(*) FROM public.jobs WHERE state IN ('queued', 'running')", &[]).await?.try_get(0)?;
    if open >= OPEN_JOBS {
        let detail = format!("{open} jobs are waiting or running, which is the maximum.");
        return Err(StoreError::Busy { detail, retry_after: RETRY_SECONDS });
    }
    let id = Uuid::now_v7();
    let (plugin, plugin_job) = (origin.map(|of| of.0), origin.map(|of| of.1));
    let resumable = origin.is_some_and(|of| of.2);
    let NewJob { action, user_id, actor, credential, request_id, args } = new;
    let values: [&(dyn ToSql + Sync); 10] =
        [&id, action, user_id, actor, credential, request_id, args, &plugin, &plugin_job, &resumable];
    let insert = "INSERT INTO public.jobs \
                  (id, action, user_id, actor, credential, request_id, args, plugin, plugin_job, resumable) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    tx.execute(insert, &values).await?;
    Ok(id)
}

/// A bulk action that waits to be run, with the cards that are its own. 409 when these are not the expected ones.
pub async fn queue(
    pool: &Pool,
    new: &NewJob<'_>,
    picked: CardSelection<'_>,
    expected: &Expectation,
) -> Result<Job, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let id = insert(&tx, new, None).await?;
    match picked {
        CardSelection::Ids(ids) => {
            let part = usize::try_from(PART).unwrap_or(1);
            for (number, ids) in ids.chunks(part).enumerate() {
                let number = i32::try_from(number).map_err(StoreError::internal)?;
                let sql = "INSERT INTO public.job_parts (job_id, number, ids) VALUES ($1, $2, $3)";
                tx.execute(&tx.prepare_cached(sql).await?, &[&id, &number, &ids]).await?;
            }
        }
        CardSelection::Filter(filter) => {
            let mut query = Conditions::from_filter(filter);
            let (job, part) = (query.bind(id), query.bind(PART));
            let sql = format!(
                "INSERT INTO public.job_parts (job_id, number, ids) \
                 SELECT ${job}, (n / ${part})::integer, array_agg(id ORDER BY id) FROM \
                 (SELECT c.id, row_number() OVER (ORDER BY c.id) - 1 AS n FROM public.master_cards c WHERE {}) AS picked \
                 GROUP BY n / ${part}",
                query.sql
            );
            tx.execute_typed(&sql, &query.typed()).await?;
        }
    }
    let sql = format!(
        "UPDATE public.jobs AS j SET total = (SELECT coalesce(sum(cardinality(p.ids)), 0) FROM public.job_parts p \
         WHERE p.job_id = j.id) WHERE j.id = $1 RETURNING {COLUMNS}"
    );
    let job = from_row(&tx.query_one(&sql, &[&id]).await?)?;
    let count = job.total.unwrap_or_default();
    if let Some(expected) = expected.count.filter(|expected| *expected != count) {
        return Err(StoreError::CountMoved { count, expected });
    }
    if let Some(expected) = &expected.digest
        && *expected != digest(&tx, id).await?
    {
        return Err(StoreError::SelectionMoved);
    }
    raise_event(&tx, "queued", &job).await?;
    tx.commit().await?;
    Ok(job)
}

/// Of the cards of a bulk action.
async fn digest(tx: &Transaction<'_>, job: Uuid) -> Result<Digest, StoreError> {
    let digest = Digest::sql("i.id");
    let sql = format!("SELECT {digest} FROM public.job_parts p, unnest(p.ids) AS i (id) WHERE p.job_id = $1");
    Ok(Digest(tx.query_one(&sql, &[&job]).await?.try_get(0)?))
}

/// What readers of the topic hear of a job.
pub(crate) async fn raise_event(tx: &impl GenericClient, what: &'static str, job: &Job) -> Result<(), StoreError> {
    let data = json!({
        "id": job.id, "action": job.action, "state": job.state, "done": job.done, "failed": job.failed, "total": job.total,
    });
    event_log::raise(tx, &Event::new(Topic::Job, what, data)).await
}

/// A job that is run as it is made, by the process that has what it works on in hand.
pub async fn begin(pool: &Pool, new: &NewJob<'_>, runner: Runner) -> Result<Job, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let id = insert(&tx, new, None).await?;
    let sql = format!(
        "UPDATE public.jobs AS j SET state = 'running', started_at = now(), host_id = $2, runner = $3, \
         lease_until = now() + {LEASE} WHERE j.id = $1 RETURNING {COLUMNS}"
    );
    let job = from_row(&tx.query_one(&sql, &[&id, &runner.host, &runner.process]).await?)?;
    raise_event(&tx, "started", &job).await?;
    tx.commit().await?;
    Ok(job)
}

/// Takes the oldest job that waits, or whose process has died, of those that can be gone on with.
pub async fn claim(pool: &Pool, runner: Runner) -> Result<Option<Job>, StoreError> {
    let mut client = pool.get().await?;
    let sql = format!(
        "UPDATE public.jobs AS j SET state = 'running', started_at = coalesce(j.started_at, now()), host_id = $1, \
         runner = $2, lease_until = now() + {LEASE} \
         WHERE j.id = (SELECT o.id FROM public.jobs o WHERE o.action NOT IN ('import', 'plugin_job') AND (o.state = 'queued' \
           OR (o.state = 'running' AND (o.lease_until < now() OR (o.host_id = $1 AND o.runner <> $2)))) \
           ORDER BY o.id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING {COLUMNS}"
    );
    changed(&mut client, &sql, &[&runner.host, &runner.process], "started").await
}

/// Runs a statement that changes one job at most, and tells of it with the same commit.
pub(super) async fn changed(
    client: &mut Connection,
    sql: &str,
    values: &[&(dyn ToSql + Sync)],
    what: &'static str,
) -> Result<Option<Job>, StoreError> {
    let tx = client.transaction().await?;
    let Some(row) = tx.query_opt(&tx.prepare_cached(sql).await?, values).await? else { return Ok(None) };
    let job = from_row(&row)?;
    raise_event(&tx, what, &job).await?;
    tx.commit().await?;
    Ok(Some(job))
}

/// Says of imports whose process has died that they are interrupted: what they read is gone with it.
pub async fn fail_abandoned_imports(pool: &Pool, runner: Runner) -> Result<Vec<Job>, StoreError> {
    const REASON: &str = "The host ended while the import was running. Rows that are counted as done were written.";
    interrupt_abandoned(pool, runner, "j.action = 'import'", REASON).await
}

/// Ends those of the jobs that `which` picks whose runner is gone.
pub(crate) async fn interrupt_abandoned(
    pool: &Pool,
    runner: Runner,
    which: &str,
    reason: &str,
) -> Result<Vec<Job>, StoreError> {
    let mut client = pool.get().await?;
    let sql = format!(
        "UPDATE public.jobs AS j SET state = 'interrupted', finished_at = now(), reason = $3, runner = NULL, lease_until = NULL \
         WHERE {which} AND j.state = 'running' \
         AND CASE WHEN j.runner = $2 THEN j.lease_until < now() - {LONG_SILENT} \
             ELSE j.lease_until < now() OR j.host_id = $1 END RETURNING {COLUMNS}"
    );
    let tx = client.transaction().await?;
    let rows = tx.query(&tx.prepare_cached(&sql).await?, &[&runner.host, &runner.process, &reason]).await?;
    let abandoned = rows.iter().map(from_row).collect::<Result<Vec<_>, _>>()?;
    for job in &abandoned {
        tx.execute("DELETE FROM public.import_rows WHERE job_id = $1", &[&job.id]).await?;
        raise_event(&tx, "finished", job).await?;
    }
    tx.commit().await?;
    Ok(abandoned)
}

/// Still there: holds the lease for longer, and tells how far the job is. `None` when it is another's by now; else
/// whether somebody wants it stopped.
pub async fn extend_lease(pool: &Pool, id: Uuid, runner: Runner) -> Result<Option<bool>, StoreError> {
    let mut client = pool.get().await?;
    let sql = format!(
        "UPDATE public.jobs AS j SET lease_until = now() + {LEASE} \
         WHERE j.id = $1 AND j.runner = $2 AND j.state = 'running' RETURNING {COLUMNS}"
    );
    let job = changed(&mut client, &sql, &[&id, &runner.process], "progress").await?;
    Ok(job.map(|job| job.cancel_asked_at.is_some()))
}

/// Ends a job that this process runs. `None` when it is another's by now.
pub async fn finish(
    pool: &Pool,
    id: Uuid,
    runner: Runner,
    state: &str,
    reason: Option<&str>,
    total: Option<i64>,
) -> Result<Option<Job>, StoreError> {
    let mut client = pool.get().await?;
    let sql = format!(
        "WITH gone AS (DELETE FROM public.job_parts WHERE job_id = $1 \
           AND EXISTS (SELECT FROM public.jobs WHERE id = $1 AND runner = $2 AND state = 'running')) \
         UPDATE public.jobs AS j SET state = $3, reason = $4, total = coalesce($5, j.total), finished_at = now(), begun = 0, \
         runner = NULL, lease_until = NULL WHERE j.id = $1 AND j.runner = $2 AND j.state = 'running' RETURNING {COLUMNS}"
    );
    changed(&mut client, &sql, &[&id, &runner.process, &state, &reason, &total], "finished").await
}

/// Gives a job back that others can go on with.
pub async fn release(pool: &Pool, id: Uuid, runner: Runner) -> Result<(), StoreError> {
    let client = pool.get().await?;
    let sql = "UPDATE public.jobs SET state = 'queued', runner = NULL, lease_until = NULL \
               WHERE id = $1 AND runner = $2 AND state = 'running'";
    client.execute(sql, &[&id, &runner.process]).await?;
    Ok(())
}

/// Asks for a job's end: one that waits is over at once, one that runs within its next step.
/// `None` when it is over already.
pub async fn cancel(pool: &Pool, id: Uuid) -> Result<Option<Job>, StoreError> {
    let mut client = pool.get().await?;
    let sql = format!(
        "UPDATE public.jobs AS j SET cancel_asked_at = coalesce(j.cancel_asked_at, now()), \
         state = CASE WHEN j.state = 'queued' THEN 'cancelled' ELSE j.state END, \
         finished_at = CASE WHEN j.state = 'queued' THEN now() END \
         WHERE j.id = $1 AND j.state IN ('queued', 'running') RETURNING {COLUMNS}"
    );
    changed(&mut client, &sql, &[&id], "cancelled").await
}

pub async fn get(pool: &Pool, id: Uuid) -> Result<Option<Job>, StoreError> {
    let client = pool.get().await?;
    let sql = format!("SELECT {COLUMNS} FROM public.jobs j WHERE j.id = $1");
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&id]).await?;
    row.as_ref().map(from_row).transpose().map_err(Into::into)
}

/// Which jobs are asked for.
#[derive(Debug, Default, Serialize)]
pub struct JobFilter {
    pub state: Option<String>,
    pub action: Option<String>,
    pub request_id: Option<String>,
    /// Whose jobs: a plugin's name.
    pub plugin: Option<String>,
}

/// Jobs, newest first; `before` is the last one of the page before.
pub async fn list(pool: &Pool, wanted: &JobFilter, before: Option<Uuid>, limit: i64) -> Result<Vec<Job>, StoreError> {
    let client = pool.get().await?;
    let sql = format!(
        "SELECT {COLUMNS} FROM public.jobs j WHERE ($1::text IS NULL OR j.state = $1) AND ($2::text IS NULL OR j.action = $2) \
         AND ($3::text IS NULL OR j.request_id = $3) AND ($4::text IS NULL OR j.plugin = $4) \
         AND ($5::uuid IS NULL OR j.id < $5) ORDER BY j.id DESC LIMIT $6"
    );
    let values: [&(dyn ToSql + Sync); 6] =
        [&wanted.state, &wanted.action, &wanted.request_id, &wanted.plugin, &before, &limit];
    let rows = client.query(&client.prepare_cached(&sql).await?, &values).await?;
    rows.iter().map(from_row).collect::<Result<_, _>>().map_err(Into::into)
}

/// Removes jobs that ended more than `days` ago, some at a time; gives how many.
pub async fn remove_old(pool: &Pool, days: i32) -> Result<u64, StoreError> {
    const BATCH: i64 = 20;
    let delete = "DELETE FROM public.jobs WHERE id IN (SELECT id FROM public.jobs \
                  WHERE finished_at < now() - make_interval(days => $1) ORDER BY id LIMIT $2)";
    old_rows::remove(pool, delete, days, BATCH).await
}
