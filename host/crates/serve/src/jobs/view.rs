//! A job as its readers see it.

use std::collections::HashMap;

use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use uuid::Uuid;

use crate::http::error::ApiResult;
use cardinal_base::page::Page;
use cardinal_database::pool::Pool;
use cardinal_store::jobs::{self, Job};

/// Errors that are shown inside a job; all of them are at `/errors`.
const MAX_SHOWN_ERRORS: i64 = 100;

/// The same for each job of a list.
const MAX_LISTED_ERRORS: i64 = 5;

/// A job with the first of its errors.
pub(super) async fn whole(pool: &Pool, job: &Job, now: OffsetDateTime) -> ApiResult<Value> {
    let mut errors = first_errors(pool, [job], MAX_SHOWN_ERRORS).await?;
    Ok(show(job, errors.remove(&job.id), now))
}

/// Jobs as a list has them, with the first few of their errors.
pub(crate) async fn listed(pool: &Pool, page: &Page<Job>, now: OffsetDateTime) -> ApiResult<Page<Value>> {
    let errors = first_errors(pool, &page.items, MAX_LISTED_ERRORS).await?;
    Ok(page.show(|job| show(job, errors.get(&job.id).cloned(), now)))
}

async fn first_errors(
    pool: &Pool,
    jobs: impl IntoIterator<Item = &Job>,
    count: i64,
) -> ApiResult<HashMap<Uuid, Vec<Value>>> {
    let failed: Vec<Uuid> = jobs.into_iter().filter(|job| job.failed > 0).map(|job| job.id).collect();
    Ok(if failed.is_empty() { HashMap::new() } else { jobs::first_errors(pool, &failed, count).await? })
}

fn show(job: &Job, errors: Option<Vec<Value>>, now: OffsetDateTime) -> Value {
    let time = |at: Option<OffsetDateTime>| at.and_then(|at| at.format(&Rfc3339).ok());
    json!({
        "id": job.id,
        "action": job.action,
        "plugin": job.plugin,
        "name": job.plugin_job,
        "message": job.message,
        "state": job.state,
        "started_by": job.actor,
        "user_id": job.user_id,
        "request_id": job.request_id,
        "args": job.args,
        "done": job.done,
        "total": job.total,
        "failed": job.failed,
        "rate_per_second": rate(job, now),
        "counts": job.counts,
        "notes": job.notes,
        "reason": job.reason,
        "host_id": job.host_id,
        "cancel_asked_at": time(job.cancel_asked_at),
        "created_at": time(Some(job.created_at)),
        "started_at": time(job.started_at),
        "finished_at": time(job.finished_at),
        "errors": errors.unwrap_or_default(),
        "errors_url": format!("/v1/admin/jobs/{}/errors", job.id),
    })
}

/// Items a second from the start to the end, or to now.
fn rate(job: &Job, now: OffsetDateTime) -> f64 {
    let Some(started) = job.started_at else { return 0.0 };
    let seconds = (job.finished_at.unwrap_or(now) - started).as_seconds_f64().max(0.001);
    ((job.done + job.failed) as f64 / seconds * 10.0).round() / 10.0
}
