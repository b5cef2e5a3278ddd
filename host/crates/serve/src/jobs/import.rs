//! Imports: a file's rows are written while it comes in, some thousands in each transaction, which counts them as well.
//! So nothing is kept of the file, the sender goes no faster than the database, and what is counted as done is there.
//! An import that is all or nothing keeps its rows in a table until it has them all. One whose sender or host goes away
//! is interrupted; with `mode=upsert` it can simply be sent again.

mod batches;
pub(crate) mod intake;
mod write;

use std::{sync::Arc, time::Duration};

use http::header;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use uuid::Uuid;

pub(crate) use self::batches::Upload;
use self::{batches::Piece, write::Writer};
use super::{End, JobKind, Jobs, RunningJob, finish, hold};
use crate::http::error::{ApiError, ApiResult};
use cardinal_base::codes;
use cardinal_cards::row::Terms;
use cardinal_store::{
    cards,
    jobs::{self, Job, NewJob},
};

/// Imports that one host reads at the same time.
pub(crate) const MAX_IMPORTS: usize = 4;
/// The answer waits so long, once the whole body is read, for the import to be over.
const ANSWER_AFTER: Duration = Duration::from_secs(2);

/// A new import, without what it imports.
pub(crate) struct NewImport {
    pub user_id: Uuid,
    pub actor: Value,
    pub credential: Value,
    pub request_id: String,
    pub args: Value,
    pub terms: Terms,
}

/// What its starter waits for.
struct Answers {
    begun: oneshot::Sender<ApiResult<Job>>,
    read: oneshot::Sender<()>,
    over: oneshot::Sender<Job>,
}

/// A place among those that import now.
pub(crate) fn admit(jobs: &Jobs) -> ApiResult<OwnedSemaphorePermit> {
    Arc::clone(&jobs.imports).try_acquire_owned().map_err(|_| {
        let detail = format!("{MAX_IMPORTS} imports are running on this host, which is the maximum.");
        ApiError::new(&codes::OVERLOADED).detail(detail).retry_after(10)
    })
}

/// An import that has begun and goes on, whether or not anybody waits for it.
pub(crate) struct ImportHandle {
    pub job: Job,
    read: oneshot::Receiver<()>,
    over: oneshot::Receiver<Job>,
}

impl ImportHandle {
    /// The job as it is soon after the whole body was read, or over already.
    pub(crate) async fn read(self, jobs: &Jobs) -> ApiResult<Job> {
        // A sender that is dropped says as much as one that speaks.
        let _ = self.read.await;
        match tokio::time::timeout(ANSWER_AFTER, self.over).await {
            Ok(Ok(job)) => Ok(job),
            _ => Ok(jobs::get(&jobs.pool, self.job.id).await?.unwrap_or(self.job)),
        }
    }
}

/// Imports what `upload` holds.
pub(crate) async fn begin(
    jobs: &Arc<Jobs>,
    permit: OwnedSemaphorePermit,
    new: NewImport,
    upload: Upload,
) -> ApiResult<ImportHandle> {
    let (begun, first_state) = oneshot::channel();
    let (read, all_read) = oneshot::channel();
    let (over, ended) = oneshot::channel();
    let answers = Answers { begun, read, over };
    let task = import(Arc::clone(jobs), new, upload, answers);
    jobs.spawn(async move {
        task.await;
        drop(permit);
    });
    let lost = |_| ApiError::internal(anyhow::anyhow!("an import ended without a result"));
    let job = first_state.await.map_err(lost)??;
    Ok(ImportHandle { job, read: all_read, over: ended })
}

async fn import(jobs: Arc<Jobs>, new: NewImport, mut upload: Upload, answers: Answers) {
    let job = NewJob {
        action: "import",
        user_id: new.user_id,
        actor: &new.actor,
        credential: &new.credential,
        request_id: &new.request_id,
        args: &new.args,
    };
    let job = match jobs::begin(&jobs.pool, &job, jobs.runner).await {
        Ok(job) => job,
        Err(error) => {
            let _ = answers.begun.send(Err(error.into()));
            return;
        }
    };
    tracing::info!(job = %job.id, action = "import", "a job runs");
    let running = jobs.own(job.id, JobKind::Import);
    let _ = answers.begun.send(Ok(job.clone()));
    let (end, total) = tokio::select! {
        end = transfer(&jobs, &job, &new.terms, &mut upload, &running, answers.read) => end,
        () = hold(&jobs, job.id, &running.cancelled) => (End::Lost, None),
    };
    // Who still sends gets to read the answer.
    drop(upload);
    if new.terms.atomic || new.terms.dry_run {
        forget(&jobs, job.id).await;
    }
    if let Some(job) = finish(&jobs, job.id, &end, total).await {
        let _ = answers.over.send(job);
    }
}

/// Reads and writes side by side; how it ended, and how many rows there were when all were read.
async fn transfer(
    jobs: &Arc<Jobs>,
    job: &Job,
    terms: &Terms,
    upload: &mut Upload,
    running: &RunningJob,
    read: oneshot::Sender<()>,
) -> (End, Option<i64>) {
    let (sender, pieces) = mpsc::channel(1);
    let mut writer = Writer::new(jobs, job, terms, &running.cancelled);
    let mut writing = std::pin::pin!(write_all(&mut writer, pieces, read));
    tokio::select! {
        end = &mut writing => return end,
        // Also while its sender says nothing. What is being written is counted, or gone.
        () = running.cancelled.cancelled() => {}
        () = upload.send(sender) => {}
    }
    writing.await
}

async fn write_all(
    writer: &mut Writer<'_>,
    mut pieces: mpsc::Receiver<Piece>,
    read: oneshot::Sender<()>,
) -> (End, Option<i64>) {
    loop {
        let batch = match pieces.recv().await {
            Some(Piece::Batch(batch)) => batch,
            Some(Piece::End) => break,
            None => return (End::Cancelled, None),
            Some(Piece::Stopped(stopped)) => return (End::Interrupted(interrupted(writer, &stopped.describe())), None),
            Some(Piece::Unreadable(error)) => return (End::Failed(super::describe(&error)), None),
        };
        if let Some(end) = writer.take(batch).await {
            return (end, None);
        }
    }
    drop(read);
    (writer.finish().await, Some(writer.rows()))
}

fn interrupted(writer: &Writer<'_>, reason: &str) -> String {
    let rest = if writer.writes_at_the_end() {
        "Nothing was written."
    } else {
        "Rows that are counted as done were \
        written."
    };
    format!("{reason} {rest}")
}

async fn forget(jobs: &Jobs, job: Uuid) {
    if let Err(error) = cards::import::forget(&jobs.pool, job).await {
        tracing::warn!(%job, error = ?error, "failed to remove rows that an import kept");
    }
}

/// The format that a media type names.
pub(crate) fn format(media_type: Option<&str>) -> ApiResult<cardinal_cards::file::Format> {
    use cardinal_cards::file::Format;
    match media_type {
        Some("application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/x-jsonlines") => {
            Ok(Format::Ndjson)
        }
        Some("text/csv") => Ok(Format::Csv),
        _ => Err(ApiError::new(&codes::UNSUPPORTED_MEDIA_TYPE)
            .detail("Send lines of JSON as application/x-ndjson, or text/csv.")
            .header(header::ACCEPT, "application/x-ndjson, text/csv")),
    }
}
