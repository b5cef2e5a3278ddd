//! A plugin's job on its way: what its handler reports, and what the one who runs it answers. The handler's doors put
//! in, the runner takes out and records; neither knows of the other.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{fault::Fault, progress};
use cardinal_identity::auth::caller::SharedCaller;
use cardinal_store::plugins::jobs::JobReport;

/// The largest arguments and checkpoint, as JSON text.
pub const ARGS_LIMIT: usize = 64 << 10;
pub(crate) const CHECKPOINT_LIMIT: usize = 64 << 10;
/// The largest error of one item, as JSON text; a larger one is cut to its code and this much of its text.
const ERROR_LIMIT: usize = 4 << 10;
/// Errors that are held between two writes; more are only counted.
const MAX_ERRORS_HELD: usize = 1_000;
/// Questions of a handler that wait for the runner.
const QUESTIONS: usize = 16;

/// What a handler asks of the one who runs its job.
#[derive(Debug)]
pub enum JobQuestion {
    /// Record what was reported; `true` when the job is to stop.
    Save(oneshot::Sender<Result<bool, Fault>>),
    /// Who the starter is by now, with the rights that it has by now.
    Caller(oneshot::Sender<Result<SharedCaller, Fault>>),
}

/// A job's end that its handler has, and its host's doors.
#[derive(Debug)]
pub struct JobHandle {
    pub id: Uuid,
    /// Cancelled when the job is to stop at its next checkpoint.
    pub stop: CancellationToken,
    report: Mutex<JobReport>,
    questions: mpsc::Sender<JobQuestion>,
}

/// A job that is run as a call.
#[derive(Clone, Debug)]
pub struct JobCall {
    pub handle: Arc<JobHandle>,
    /// Where the run before left off, as JSON.
    pub checkpoint: Option<String>,
}

/// A handle and the questions that come from it.
pub fn channel(id: Uuid) -> (Arc<JobHandle>, mpsc::Receiver<JobQuestion>) {
    let (questions, receiver) = mpsc::channel(QUESTIONS);
    let handle = JobHandle { id, stop: CancellationToken::new(), report: Mutex::default(), questions };
    (Arc::new(handle), receiver)
}

impl JobHandle {
    /// How far the job is; a number that is absent or none leaves the one before.
    pub fn report(&self, done: Option<u64>, total: Option<u64>, text: &[u8]) {
        let number = |number: Option<u64>| number.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let mut report = self.report.lock();
        report.done = number(done).or(report.done);
        report.total = number(total).or(report.total);
        report.message = progress::readable(text).or(report.message.take());
    }

    /// Something that failed: an object of JSON, with `code` and `detail`.
    pub fn fail(&self, error: &[u8]) {
        let mut report = self.report.lock();
        if report.errors.len() >= MAX_ERRORS_HELD {
            report.unreported = report.unreported.saturating_add(1);
        } else {
            report.errors.push(tidy(error));
        }
    }

    /// Where a later run may go on: JSON. Nothing of it is recorded before [`save`](Self::save).
    pub(crate) fn set_checkpoint(&self, checkpoint: &[u8]) -> Result<(), Fault> {
        if checkpoint.len() > CHECKPOINT_LIMIT {
            let found = checkpoint.len();
            return Err(Fault::Invalid(format!("the checkpoint has {found} bytes of at most {CHECKPOINT_LIMIT}")));
        }
        let checkpoint: Value = serde_json::from_slice(checkpoint)
            .map_err(|error| Fault::Invalid(format!("the checkpoint is not JSON: {error}")))?;
        self.report.lock().checkpoint = Some(checkpoint);
        Ok(())
    }

    /// Has what was reported recorded; `true` when the job is to stop.
    pub async fn save(&self) -> Result<bool, Fault> {
        self.ask(JobQuestion::Save).await
    }

    /// The starter with the rights that it has now.
    pub async fn caller(&self) -> Result<SharedCaller, Fault> {
        self.ask(JobQuestion::Caller).await
    }

    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<Result<T, Fault>>) -> JobQuestion,
    ) -> Result<T, Fault> {
        let (answer, answered) = oneshot::channel();
        let over = || Fault::Gone("the job is over".to_owned());
        self.questions.send(question(answer)).await.map_err(|_| over())?;
        answered.await.map_err(|_| over())?
    }

    /// What was reported since the last time.
    pub fn take_report(&self) -> JobReport {
        std::mem::take(&mut *self.report.lock())
    }

    /// Puts back what could not be recorded; what has been reported since then counts.
    pub fn put_back(&self, before: JobReport) {
        let mut report = self.report.lock();
        let since = std::mem::replace(&mut *report, before);
        report.done = since.done.or(report.done);
        report.total = since.total.or(report.total);
        report.message = since.message.or(report.message.take());
        report.checkpoint = since.checkpoint.or(report.checkpoint.take());
        report.errors.extend(since.errors);
        let over = report.errors.len().saturating_sub(MAX_ERRORS_HELD);
        report.errors.truncate(MAX_ERRORS_HELD);
        report.unreported =
            report.unreported.saturating_add(since.unreported).saturating_add(i64::try_from(over).unwrap_or(0));
    }
}

/// An error as readers get it: an object with a code and a detail, within bounds.
fn tidy(error: &[u8]) -> Value {
    let fields: Map<String, Value> = serde_json::from_slice(error).unwrap_or_default();
    let text = |name: &str, otherwise: &str, max_chars: usize| {
        let text = fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).unwrap_or(otherwise);
        Value::from(text.chars().take(max_chars).collect::<String>())
    };
    let (code, detail) = (text("code", "failed", 64), text("detail", "The plugin gave no reason.", 1_000));
    // A database cannot hold a NUL in JSON.
    if error.len() > ERROR_LIMIT || error.contains(&0) || String::from_utf8_lossy(error).contains("\\u0000") {
        return json!({"code": code, "detail": detail.as_str().unwrap_or_default().replace('\0', " ")});
    }
    let mut fields = fields;
    fields.insert("code".to_owned(), code);
    fields.insert("detail".to_owned(), detail);
    Value::Object(fields)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_is_kept_and_the_newest_counts() {
        let (handle, _asked) = channel(Uuid::nil());
        handle.report(Some(1), Some(9), b"one");
        handle.fail(br#"{"line": 3, "code": "no-price", "detail": "It has no price."}"#);
        handle.set_checkpoint(b"{\"page\": 1}").unwrap();
        let lost = handle.take_report();
        handle.report(Some(2), None, b"");
        handle.fail(b"nonsense");
        handle.put_back(lost);
        let report = handle.take_report();
        assert_eq!((report.done, report.total, report.message.as_deref()), (Some(2), Some(9), Some("one")));
        assert_eq!(report.errors[0], json!({"line": 3, "code": "no-price", "detail": "It has no price."}));
        assert_eq!(report.errors[1]["code"], "failed");
        assert_eq!(report.checkpoint, Some(json!({"page": 1})));
        assert_eq!(handle.take_report().done, None);
    }

    #[test]
    fn what_a_handler_reports_is_bounded() {
        let (handle, _asked) = channel(Uuid::nil());
        for _ in 0..MAX_ERRORS_HELD + 5 {
            handle.fail(b"{}");
        }
        let report = handle.take_report();
        assert_eq!((report.errors.len(), report.unreported), (MAX_ERRORS_HELD, 5));
        handle.put_back(report);
        handle.fail(b"{}");
        let report = handle.take_report();
        assert_eq!((report.errors.len(), report.unreported), (MAX_ERRORS_HELD, 6));
        let long = json!({"code": "x".repeat(100), "detail": "y".repeat(ERROR_LIMIT), "more": 1}).to_string();
        handle.fail(long.as_bytes());
        handle.fail(br#"{"detail": "a\u0000b", "item": "\u0000"}"#);
        let errors = handle.take_report().errors;
        assert_eq!(errors[0], json!({"code": "x".repeat(64), "detail": "y".repeat(1_000)}));
        assert_eq!(errors[1], json!({"code": "failed", "detail": "a b"}));
        assert!(handle.set_checkpoint(&vec![b'1'; CHECKPOINT_LIMIT + 1]).is_err());
        assert!(handle.set_checkpoint(b"{").is_err());
    }

    #[tokio::test]
    async fn a_question_to_a_runner_that_has_gone_is_an_error() {
        let (handle, receiver) = channel(Uuid::nil());
        drop(receiver);
        assert!(matches!(handle.save().await, Err(Fault::Gone(_))));
        assert!(matches!(handle.caller().await, Err(Fault::Gone(_))));
    }
}
