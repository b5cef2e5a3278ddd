//! Steps of a job that runs: what each did is counted in the transaction that did it.

use deadpool_postgres::{GenericClient, Transaction};
use serde_json::{Map, Value};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{LEASE, Runner};
use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// Errors of one job that are kept; the rest is only counted.
const MAX_ERRORS: i64 = 1_000_000;

/// Where a job goes on: with this item of this part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobPlace {
    pub part: i32,
    pub item: i32,
}

impl JobPlace {
    /// The first item of a part.
    pub fn from_part(part: i32) -> Self {
        Self { part, item: 0 }
    }
}

/// What a step did.
#[derive(Debug, Default)]
pub struct Step {
    pub done: i64,
    /// Each that failed, as readers get it.
    pub errors: Vec<Value>,
    /// What became of the done ones; added to what is there.
    pub counts: Vec<(&'static str, i64)>,
    /// Where the job was before it: a step that was committed, though nobody heard of it, is not counted again.
    pub from: JobPlace,
    /// Where the job goes on.
    pub next: JobPlace,
    pub begun: i32,
    pub note: Option<&'static str>,
}

/// Why a step was not counted; its transaction must not be committed.
#[derive(Debug)]
pub enum CountError {
    /// The job is another process's by now, or over, or not where the step began.
    Lost,
    Error(StoreError),
}

impl<E: Into<StoreError>> From<E> for CountError {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Counts a step, as the last thing in its transaction. `true` when somebody wants the job stopped.
pub async fn count(tx: &Transaction<'_>, id: Uuid, runner: Runner, step: &Step) -> Result<bool, CountError> {
    let failed = i64::try_from(step.errors.len()).unwrap_or(i64::MAX);
    let counts: Map<String, Value> =
        step.counts.iter().filter(|(_, n)| *n > 0).map(|(name, n)| ((*name).to_owned(), Value::from(*n))).collect();
    let counts = Value::Object(counts);
    let sql = format!(
        "UPDATE public.jobs AS j SET done = j.done + $3, failed = j.failed + $4, next_part = $5, next_item = $6, begun = $7, \
         lease_until = now() + {LEASE}, \
         counts = j.counts || coalesce((SELECT jsonb_object_agg(key, coalesce((j.counts->>key)::bigint, 0) + value::bigint) \
           FROM jsonb_each_text($8::jsonb)), '{{}}'), \
         notes = CASE WHEN $9::text IS NULL OR j.notes ? $9 THEN j.notes ELSE j.notes || to_jsonb($9) END \
         WHERE j.id = $1 AND j.runner = $2 AND j.state = 'running' AND j.next_part = $10 AND j.next_item = $11 \
         RETURNING j.failed, j.cancel_asked_at IS NOT NULL AS is_cancelled"
    );
    let values: [&(dyn ToSql + Sync); 11] = [
        &id,
        &runner.process,
        &step.done,
        &failed,
        &step.next.part,
        &step.next.item,
        &step.begun,
        &counts,
        &step.note,
        &step.from.part,
        &step.from.item,
    ];
    let row = tx.query_opt(&tx.prepare_cached(&sql).await?, &values).await?;
    let row = row.ok_or(CountError::Lost)?;
    let after: i64 = row.try_get("failed")?;
    let first = after - failed;
    keep_errors(tx, id, first, &step.errors, MAX_ERRORS).await?;
    Ok(row.try_get("is_cancelled")?)
}

/// Adds errors behind the first `first` ones, as far as not more than `max_errors` are kept.
pub(crate) async fn keep_errors(
    tx: &Transaction<'_>,
    id: Uuid,
    first: i64,
    errors: &[Value],
    max_errors: i64,
) -> Result<(), StoreError> {
    if errors.is_empty() || first >= max_errors {
        return Ok(());
    }
    let room = usize::try_from(max_errors - first).unwrap_or_default();
    let kept = &errors[..errors.len().min(room)];
    let sql = "INSERT INTO public.job_errors (job_id, number, error) \
               SELECT $1, $2 + e.n, e.error FROM unnest($3::jsonb[]) WITH ORDINALITY AS e (error, n)";
    tx.execute(&tx.prepare_cached(sql).await?, &[&id, &first, &kept]).await?;
    Ok(())
}

/// Where a job is that this process still runs.
pub async fn place(pool: &Pool, id: Uuid, runner: Runner) -> Result<Option<JobPlace>, StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT next_part, next_item FROM public.jobs WHERE id = $1 AND runner = $2 AND state = 'running'";
    let row = client.query_opt(sql, &[&id, &runner.process]).await?;
    row.map(|row| Ok(JobPlace { part: row.try_get("next_part")?, item: row.try_get("next_item")? })).transpose()
}

/// The cards of a part.
pub async fn part(tx: &Transaction<'_>, id: Uuid, number: i32) -> Result<Option<Vec<Uuid>>, StoreError> {
    let sql = "SELECT ids FROM public.job_parts WHERE job_id = $1 AND number = $2";
    let row = tx.query_opt(&tx.prepare_cached(sql).await?, &[&id, &number]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}
