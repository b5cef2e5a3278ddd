//! A plugin's tool on many cards. A call may do anything anywhere, so it is no part of a transaction: what is begun is
//! recorded before, and counted after. A host that dies in between leaves calls of which nobody knows whether they
//! took effect; they are reported as that and not made again.

use std::sync::Arc;

use futures_util::future::join_all;
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    End, Jobs, StepError, card_fault, describe, may_pass,
    step::{self, call_parts, pause, refusal, starter},
};
use crate::audit::AuditAction;
use crate::http::error::{ApiError, ApiResult};
use cardinal_base::{
    codes,
    input::{self, InputError},
    scope::{APPROVE, UNATTENDED},
};
use cardinal_identity::auth::caller::{Caller, SharedCaller, insufficient};
use cardinal_plugin_host::{
    arguments,
    call::{CallParts, PluginReply, ReplyBody},
    registry::{Registry, ToolEntry},
};
use cardinal_store::jobs::{self, CountError, Job, JobPlace, Step};

/// Calls of one job at a time.
const MAX_CALLS: usize = 4;
/// How often a tool that is not there is looked for again, a second apart: its plugin may be being replaced.
const MAX_LOOKUPS: u32 = 30;
/// Bytes of a tool's answer that are read; of one that failed, so many are shown.
const ANSWER_LIMIT: usize = 1 << 20;
const MAX_SHOWN_BYTES: usize = 500;
const CARD_ARGUMENT: &str = "card_id";

/// `args` of a job with this action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    /// The argument that takes the card's id.
    card_argument: Option<String>,
}

impl Task {
    pub(super) fn read(args: &Map<String, Value>) -> ApiResult<Self> {
        input::json(Value::Object(args.clone()).to_string().as_bytes()).map_err(|error| match error {
            InputError::Field { pointer, detail } => ApiError::invalid(format!("/args{pointer}"), detail),
            other => other.into(),
        })
    }

    /// Whether the caller may run this tool on cards, and whether it takes such arguments.
    pub(super) fn check(&self, caller: &Caller, registry: &Registry) -> ApiResult<()> {
        let entry = find(registry, &self.tool)
            .ok_or_else(|| ApiError::invalid("/args/tool", "No active plugin has a tool of this name."))?;
        may_run(&entry, caller)?;
        let complaints =
            entry.validator.as_ref().and_then(|known| arguments::complaints(known, &self.for_card(Uuid::nil())));
        complaints.map_or(Ok(()), |complaints| Err(ApiError::invalid("/args/arguments", complaints)))
    }

    fn for_card(&self, id: Uuid) -> Map<String, Value> {
        let mut arguments = self.arguments.clone();
        let name = self.card_argument.as_deref().unwrap_or(CARD_ARGUMENT);
        arguments.insert(name.to_owned(), Value::from(id.to_string()));
        arguments
    }
}

fn find(registry: &Registry, name: &str) -> Option<Arc<ToolEntry>> {
    registry.snapshot().tools.get(name).cloned()
}

/// The tool's own scope, and for one that has to be confirmed the right to confirm it: nobody is asked card by card.
fn may_run(entry: &ToolEntry, caller: &Caller) -> ApiResult<()> {
    caller.require(&entry.scope)?;
    if entry.tool.requires_confirmation && !caller.holds(APPROVE) && !caller.holds(UNATTENDED) {
        return Err(ApiError::from(insufficient(UNATTENDED)).detail(
            "This tool has to be confirmed. A person with the scope `mcp:approve`, or a key with `mcp:unattended`, \
             may run it on many cards.",
        ));
    }
    Ok(())
}

/// Calls the tool for every card that is left.
pub(super) async fn all(jobs: &Jobs, job: &Job, cancelled: &CancellationToken) -> End {
    let task = match job.args.as_object().map(Task::read) {
        Some(Ok(task)) => task,
        _ => return End::Failed("The job's arguments are damaged.".to_owned()),
    };
    let place = JobPlace { part: job.next_part, item: job.next_item };
    let mut at = Position { place, unknown: job.begun };
    loop {
        if cancelled.is_cancelled() {
            return End::Cancelled;
        }
        if jobs.draining.is_cancelled() {
            return End::Released;
        }
        match part(jobs, job, &task, &mut at, cancelled).await {
            Ok(true) => {}
            Ok(false) => return End::Done,
            Err(end) => return end,
        }
    }
}

/// Where a job is.
struct Position {
    place: JobPlace,
    /// Calls from there on that an earlier process began.
    unknown: i32,
}

/// Does the rest of a part; `false` when there is none.
async fn part(
    jobs: &Jobs,
    job: &Job,
    task: &Task,
    at: &mut Position,
    cancelled: &CancellationToken,
) -> Result<bool, End> {
    let Some(ids) = retried(cancelled, || find_ids(jobs, job, at.place.part)).await? else { return Ok(false) };
    while usize::try_from(at.place.item).unwrap_or(usize::MAX) < ids.len() {
        if cancelled.is_cancelled() {
            return Err(End::Cancelled);
        }
        if jobs.draining.is_cancelled() {
            return Err(End::Released);
        }
        let rest = &ids[usize::try_from(at.place.item).unwrap_or_default()..];
        let batch = &rest[..rest.len().min(MAX_CALLS)];
        let step = if at.unknown > 0 {
            let begun = usize::try_from(at.unknown).unwrap_or_default().min(rest.len());
            let errors = rest[..begun].iter().map(|id| nobody_knows(*id)).collect();
            Step { errors, ..Step::default() }
        } else {
            call_batch(jobs, job, task, batch, at, cancelled).await?
        };
        let from = at.place;
        at.place.item +=
            i32::try_from(step.errors.len()).unwrap_or_default() + i32::try_from(step.done).unwrap_or_default();
        at.unknown = 0;
        let step = Step { from, next: at.place, ..step };
        let stop = retried(cancelled, || counted(jobs, job, &step)).await?;
        if stop {
            return Err(End::Cancelled);
        }
    }
    let step = Step { from: at.place, next: JobPlace::from_part(at.place.part + 1), ..Step::default() };
    let stop = retried(cancelled, || counted(jobs, job, &step)).await?;
    at.place = step.next;
    if stop { Err(End::Cancelled) } else { Ok(true) }
}

/// Records that these calls begin, then makes them.
async fn call_batch(
    jobs: &Jobs,
    job: &Job,
    task: &Task,
    batch: &[Uuid],
    at: &Position,
    cancelled: &CancellationToken,
) -> Result<Step, End> {
    let entry = found(jobs, &task.tool, cancelled).await?;
    let caller = retried(cancelled, || async { Ok(starter(jobs, job, &entry.scope).await?) }).await?;
    may_run(&entry, &caller).map_err(|error| refusal(&error))?;
    let begun = i32::try_from(batch.len()).unwrap_or_default();
    let begin = Step { from: at.place, next: at.place, begun, ..Step::default() };
    if retried(cancelled, || counted(jobs, job, &begin)).await? {
        return Err(End::Cancelled);
    }
    if entry.tool.requires_confirmation {
        let (actor, name) = (job.actor.clone(), Some(task.tool.clone()));
        let detail = serde_json::json!({"job": job.id, "cards": batch});
        jobs.audit.done_by(actor, None, job.request_id.clone(), AuditAction::RunUnattended, name, Some(detail)).await;
    }
    let outcomes = join_all(batch.iter().map(|id| call(&entry, job, &caller, task.for_card(*id), *id))).await;
    let mut step = Step::default();
    for outcome in outcomes {
        match outcome {
            Ok(()) => step.done += 1,
            Err(error) => step.errors.push(error),
        }
    }
    step.counts = vec![("called", step.done)];
    Ok(step)
}

/// The tool, waited for while its plugin is being replaced.
async fn found(jobs: &Jobs, name: &str, cancelled: &CancellationToken) -> Result<Arc<ToolEntry>, End> {
    for _ in 0..MAX_LOOKUPS {
        if let Some(entry) = find(&jobs.plugins, name) {
            return Ok(entry);
        }
        if jobs.draining.is_cancelled() {
            return Err(End::Released);
        }
        pause(std::time::Duration::from_secs(1), cancelled).await;
        if cancelled.is_cancelled() {
            return Err(End::Cancelled);
        }
    }
    Err(End::Failed(format!("No active plugin has the tool `{name}` any more.")))
}

async fn call(
    entry: &ToolEntry,
    job: &Job,
    caller: &SharedCaller,
    arguments: Map<String, Value>,
    card: Uuid,
) -> Result<(), Value> {
    let failed = |code: &str, detail: String| Err(card_fault(card, code, detail));
    if let Some(complaints) = entry.validator.as_ref().and_then(|known| arguments::complaints(known, &arguments)) {
        return failed(codes::VALIDATION_FAILED.name, complaints);
    }
    let arguments = Value::Object(arguments);
    let parts =
        CallParts { tool: Some(&entry.tool.name), ..call_parts(job, Arc::clone(caller), &arguments, entry.timeout) };
    match entry.call(parts).await {
        Ok(reply) => answered(reply).await.or_else(|(code, detail)| failed(&code, detail)),
        Err(error) => {
            tracing::warn!(job = %job.id, tool = entry.tool.name, %card, error = ?error, "a tool call of a job failed");
            let problem = ApiError::from(error);
            failed(problem.code(), describe(&problem))
        }
    }
}

/// An answer is read to its end, and looked at only when it tells of a failure.
async fn answered(reply: PluginReply) -> Result<(), (String, String)> {
    let body = match reply.body {
        ReplyBody::Full(bytes) => bytes,
        ReplyBody::Stream(stream) => Limited::new(stream, ANSWER_LIMIT)
            .collect()
            .await
            .map_err(|_| {
                (codes::PLUGIN_ERROR.name.to_owned(), "The tool's answer is incomplete or too long.".to_owned())
            })?
            .to_bytes(),
    };
    if !reply.status.is_client_error() && !reply.status.is_server_error() {
        return Ok(());
    }
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    let member = |name: &str| problem.get(name).and_then(Value::as_str).map(str::to_owned);
    let text = || String::from_utf8_lossy(&body[..body.len().min(MAX_SHOWN_BYTES)]).into_owned();
    Err((member("code").unwrap_or_else(|| "plugin-error".to_owned()), member("detail").unwrap_or_else(text)))
}

fn nobody_knows(card: Uuid) -> Value {
    let detail = "The host ended during this call. It may have taken effect, and was not repeated.";
    card_fault(card, "interrupted", detail)
}

async fn find_ids(jobs: &Jobs, job: &Job, number: i32) -> Result<Option<Vec<Uuid>>, StepError> {
    let mut client = jobs.pool.get().await?;
    let tx = client.transaction().await?;
    Ok(jobs::part(&tx, job.id, number).await?)
}

async fn counted(jobs: &Jobs, job: &Job, step: &Step) -> Result<bool, StepError> {
    let mut client = jobs.pool.get().await?;
    let tx = client.transaction().await?;
    let stop = match jobs::count(&tx, job.id, jobs.runner, step).await {
        // The attempt before this one was committed, though nobody heard of it.
        Err(CountError::Lost) if step::find_progress(jobs, job.id, step.from).await == Some(step.next) => false,
        counted => counted?,
    };
    tx.commit().await?;
    Ok(stop)
}

/// Tries again what may pass.
async fn retried<T, F>(cancelled: &CancellationToken, mut attempt: impl FnMut() -> F) -> Result<T, End>
where
    F: Future<Output = Result<T, StepError>>,
{
    let mut failures = 0;
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(StepError::Error(error)) if may_pass(&error) && failures < step::ATTEMPTS => {
                failures += 1;
                tracing::warn!(error = ?error, "a step of a job failed and is tried again");
                pause(step::MAX_WAIT, cancelled).await;
            }
            Err(StepError::Error(error)) if error.status().is_client_error() => return Err(refusal(&error)),
            Err(end) => return Err(end.into()),
        }
    }
}
