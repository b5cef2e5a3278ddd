//! The steps of a bulk action: each does a part of its cards and counts them, in one transaction.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    End, Jobs, StepError,
    bulk::{self, Action},
    card_fault, may_pass,
    step::{ATTEMPTS, MAX_WAIT, find_progress, pause, refusal, starter},
    tool,
};
use cardinal_base::{card_size, codes};
use cardinal_store::{
    cards::{self, bulk::BulkAction},
    jobs::{self, Job, JobPlace, Step},
};

/// After a step the database has as long for others as the step took, at most this long.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Does what is left of a bulk action.
pub(super) async fn all(jobs: &Jobs, job: &Job, cancelled: &CancellationToken) -> End {
    let Some(action) = Action::named(&job.action) else {
        return End::Failed(format!("This version has no action `{}`.", job.action));
    };
    match action.bulk_action(&job.args) {
        Some(bulk_action) => parts(jobs, job, &bulk_action, cancelled).await,
        None => tool::all(jobs, job, cancelled).await,
    }
}

async fn parts(jobs: &Jobs, job: &Job, bulk_action: &BulkAction, cancelled: &CancellationToken) -> End {
    let mut number = job.next_part;
    let mut failures = 0;
    loop {
        if cancelled.is_cancelled() {
            return End::Cancelled;
        }
        if jobs.draining.is_cancelled() {
            return End::Released;
        }
        let started = Instant::now();
        match part(jobs, job, bulk_action, number).await {
            Ok(Some(true)) => return End::Cancelled,
            Ok(Some(false)) => (number, failures) = (number + 1, 0),
            Ok(None) => return End::Done,
            Err(StepError::Lost) => match find_progress(jobs, job.id, JobPlace::from_part(number)).await {
                Some(next) => (number, failures) = (next.part, 0),
                None => return End::Lost,
            },
            Err(StepError::Error(error)) if may_pass(&error) && failures < ATTEMPTS => {
                failures += 1;
                tracing::warn!(job = %job.id, part = number, error = ?error, "a step of a job failed and is tried again");
                pause(MAX_WAIT.min(Duration::from_millis(100) * failures), cancelled).await;
            }
            Err(StepError::Error(error)) if error.status().is_client_error() => return refusal(&error),
            Err(lost) => return lost.into(),
        }
        pause(started.elapsed().min(MAX_PAUSE), cancelled).await;
    }
}

/// One part; `None` when there is none left, else whether somebody wants the job stopped.
async fn part(jobs: &Jobs, job: &Job, bulk_action: &BulkAction, number: i32) -> Result<Option<bool>, StepError> {
    starter(jobs, job, "cards:write").await?;
    let mut client = jobs.pool.get().await?;
    let tx = client.transaction().await?;
    let Some(ids) = jobs::part(&tx, job.id, number).await? else { return Ok(None) };
    let outcome = if job.args[bulk::DRY_RUN] == true {
        cards::bulk::preview(&tx, bulk_action, &ids).await?
    } else {
        cards::bulk::apply(&tx, bulk_action, &ids, &job.actor, job.id).await?
    };
    let too_large = outcome.too_large.into_iter().map(|(id, bytes)| too_large(id, bytes));
    let step = Step {
        done: outcome.changed + outcome.unchanged,
        errors: outcome.missing.into_iter().map(missing).chain(too_large).collect(),
        counts: vec![("changed", outcome.changed), ("unchanged", outcome.unchanged)],
        from: JobPlace::from_part(number),
        next: JobPlace::from_part(number + 1),
        ..Step::default()
    };
    let stop = jobs::count(&tx, job.id, jobs.runner, &step).await?;
    tx.commit().await?;
    Ok(Some(stop))
}

fn missing(id: Uuid) -> Value {
    card_fault(id, codes::NOT_FOUND.name, "There is no such card, or it is deleted.")
}

fn too_large(id: Uuid, bytes: i32) -> Value {
    let detail = card_size::describe_excess(&bytes.to_string());
    card_fault(id, codes::CARD_TOO_LARGE.name, detail)
}
