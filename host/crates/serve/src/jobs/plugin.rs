//! A plugin's job: its handler is called, watched and asked to stop. What the handler reports is recorded every two
//! seconds and whenever it saves a checkpoint, under the job's lease.
//!
//! A job is asked to stop when somebody cancels it, when its starter's rights are gone, and when its plugin or its host
//! is being replaced; after [`STOP_GRACE`] its call is dropped. In the last two cases it goes on from its checkpoint.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::{sync::mpsc, time::Duration};
use tokio_util::sync::CancellationToken;

use super::{
    End, JobKind, Jobs, LEASE_INTERVAL, describe, finish, may_pass,
    step::{call_parts, refusal, starter},
};
use crate::http::error::{ApiError, ApiResult};
use cardinal_identity::auth::{
    caller::{Caller, SharedCaller},
    credential::Credential,
};
use cardinal_plugin_host::{
    arguments,
    call::{CallParts, PluginReply},
    error::CallError,
    fault::Fault,
    job::{self, ARGS_LIMIT, JobCall, JobHandle, JobQuestion},
    registry::JobEntry,
};
use cardinal_store::{
    jobs::Job,
    plugins::{self, jobs::NewPluginJob},
};

/// Plugins' jobs that one host runs at the same time.
const MAX_RUNNING: usize = 8;
/// How long a job that is asked to stop may take to its next checkpoint.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// A run whose lease could not be held for so long ends before another host takes the job over: the lease lasts 15 s.
const LEASE_LOST_AFTER: Duration = Duration::from_secs(10);
const REPLACED: &str = "The plugin or its host was replaced while the job was running, and it had saved no checkpoint. \
                        What it had done by then stays done.";

/// A plugin's job, as it is asked for.
#[derive(Debug)]
pub(crate) struct PluginJobRequest {
    pub plugin: String,
    pub name: String,
    pub args: Map<String, Value>,
}

impl Jobs {
    /// Queues a job of a plugin for `caller`. 422 when there is no such job or it takes no such arguments, 403 when the
    /// caller may not start it.
    pub(crate) async fn start_plugin_job(
        &self,
        caller: &Caller,
        request_id: &str,
        wanted: PluginJobRequest,
    ) -> ApiResult<Job> {
        let PluginJobRequest { plugin, name, args } = wanted;
        let entry = self.plugins.snapshot().jobs.get(&(plugin.clone(), name.clone())).cloned();
        let unknown = || ApiError::invalid("/name", "No active plugin of this name has a job of this name.");
        let entry = entry.ok_or_else(unknown)?;
        caller.require(&entry.scope)?;
        if let Some(complaints) = complaints(&entry, &args) {
            return Err(ApiError::invalid("/args", complaints));
        }
        let args = Value::Object(args);
        if args.to_string().len() > ARGS_LIMIT {
            return Err(ApiError::invalid("/args", format!("At most {ARGS_LIMIT} bytes of JSON.")));
        }
        let new = NewPluginJob {
            plugin: &plugin,
            name: &name,
            resumable: entry.job.resumable,
            user_id: caller.user_id,
            actor: &caller.actor(),
            credential: &serde_json::to_value(Credential::from_caller(caller)).map_err(ApiError::internal)?,
            request_id,
            args: &args,
        };
        let job = plugins::jobs::queue(&self.pool, &new).await?;
        self.changed.notify_one();
        Ok(job)
    }
}

fn complaints(entry: &JobEntry, args: &Map<String, Value>) -> Option<String> {
    arguments::complaints(entry.validator.as_ref()?, args)
}

/// Takes jobs of this host's plugins that wait, and ends those whose process has died.
pub(super) async fn take_what_waits(jobs: &Arc<Jobs>) -> ApiResult<()> {
    for job in plugins::jobs::fail_abandoned(&jobs.pool, jobs.runner).await? {
        tracing::warn!(job = %job.id, plugin = job.plugin, name = job.plugin_job, "a job ended with its host");
    }
    let offered: Vec<_> = jobs.plugins.snapshot().jobs.keys().cloned().collect();
    while !offered.is_empty() && jobs.running(JobKind::Plugin) < MAX_RUNNING && !jobs.draining.is_cancelled() {
        let Some(job) = plugins::jobs::claim(&jobs.pool, jobs.runner, &offered).await? else { break };
        tracing::info!(job = %job.id, plugin = job.plugin, name = job.plugin_job, "a job runs");
        let (runner, own) = (Arc::clone(jobs), jobs.own(job.id, JobKind::Plugin));
        jobs.spawn(async move {
            let end = run(&runner, &job, &own.cancelled).await;
            finish(&runner, job.id, &end, None).await;
        });
    }
    Ok(())
}

/// Why a job is asked to stop.
#[derive(Debug)]
enum Stop {
    Cancelled,
    RightsGone(End),
    /// Its plugin or its host is being replaced.
    Replaced,
}

/// A job whose handler is called.
struct Run<'a> {
    jobs: &'a Jobs,
    job: &'a Job,
    entry: &'a JobEntry,
    handle: Arc<JobHandle>,
    stop: OnceLock<Stop>,
    /// The job is somebody else's by now.
    is_lost: AtomicBool,
    has_checkpoint: AtomicBool,
    held_at: Mutex<Instant>,
}

async fn run(jobs: &Jobs, job: &Job, cancelled: &CancellationToken) -> End {
    let key = (job.plugin.clone().unwrap_or_default(), job.plugin_job.clone().unwrap_or_default());
    let Some(entry) = jobs.plugins.snapshot().jobs.get(&key).cloned() else { return End::Released };
    let caller = match starter(jobs, job, &entry.scope).await {
        Ok(caller) => caller,
        Err(error) if may_pass(&error) => return End::Released,
        Err(error) => return refusal(&error),
    };
    let args = job.args.as_object().cloned().unwrap_or_default();
    if let Some(complaints) = complaints(&entry, &args) {
        return End::Failed(complaints);
    }
    let (handle, questions) = job::channel(job.id);
    let run = Run {
        jobs,
        job,
        entry: &entry,
        handle,
        stop: OnceLock::new(),
        is_lost: AtomicBool::new(false),
        has_checkpoint: AtomicBool::new(job.checkpoint.is_some()),
        held_at: Mutex::new(Instant::now()),
    };
    run.to_its_end(caller, questions, cancelled).await
}

impl Run<'_> {
    async fn to_its_end(
        &self,
        caller: SharedCaller,
        questions: mpsc::Receiver<JobQuestion>,
        cancelled: &CancellationToken,
    ) -> End {
        let (ended, give_up) = (CancellationToken::new(), CancellationToken::new());
        let call = async {
            let outcome = tokio::select! {
                outcome = self.call(caller) => Some(outcome),
                () = give_up.cancelled() => None,
            };
            ended.cancel();
            outcome
        };
        // Side by side: what is being recorded when the handler ends is not lost.
        let (outcome, ()) = tokio::join!(call, self.watch(questions, cancelled, &ended, &give_up));
        self.extend_lease().await;
        if self.is_lost.load(Ordering::Relaxed) {
            return End::Lost;
        }
        self.end(outcome)
    }

    async fn call(&self, caller: SharedCaller) -> Result<PluginReply, CallError> {
        let job = self.job;
        let parts = CallParts {
            job: Some(JobCall {
                handle: Arc::clone(&self.handle),
                checkpoint: job.checkpoint.as_ref().map(Value::to_string),
            }),
            ..call_parts(job, caller, &job.args, self.entry.job.timeout)
        };
        self.entry.call(parts).await
    }

    /// Answers the handler, holds the lease and asks the handler to stop when it must, until it has ended.
    async fn watch(
        &self,
        mut questions: mpsc::Receiver<JobQuestion>,
        cancelled: &CancellationToken,
        ended: &CancellationToken,
        give_up: &CancellationToken,
    ) {
        let mut every = tokio::time::interval(LEASE_INTERVAL);
        let mut changes = self.jobs.plugins.changes();
        self.look_at_plugin();
        let grace_over = async {
            self.handle.stop.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        };
        let mut grace_over = std::pin::pin!(grace_over);
        loop {
            let is_asked = self.stop.get().is_some();
            tokio::select! {
                () = ended.cancelled() => return,
                Some(question) = questions.recv() => self.answer(question).await,
                _ = every.tick() => {
                    self.extend_lease().await;
                    self.look_at_rights().await;
                }
                () = cancelled.cancelled(), if !is_asked => self.ask_to_stop(Stop::Cancelled),
                () = self.jobs.draining.cancelled(), if !is_asked => self.ask_to_stop(Stop::Replaced),
                Ok(()) = changes.changed(), if !is_asked => self.look_at_plugin(),
                () = &mut grace_over, if !give_up.is_cancelled() => give_up.cancel(),
            }
            if self.is_lost.load(Ordering::Relaxed) {
                give_up.cancel();
            }
        }
    }

    fn ask_to_stop(&self, why: Stop) {
        if self.stop.set(why).is_ok() {
            self.handle.stop.cancel();
        }
    }

    /// Another instance of the plugin takes over, or none does.
    fn look_at_plugin(&self) {
        let key = (self.entry.plugin.manifest.name.clone(), self.entry.job.name.clone());
        let snapshot = self.jobs.plugins.snapshot();
        if !snapshot.jobs.get(&key).is_some_and(|now| Arc::ptr_eq(&now.plugin, &self.entry.plugin)) {
            self.ask_to_stop(Stop::Replaced);
        }
    }

    async fn look_at_rights(&self) {
        if let Err(error) = starter(self.jobs, self.job, &self.entry.scope).await
            && !may_pass(&error)
        {
            self.ask_to_stop(Stop::RightsGone(refusal(&error)));
        }
    }

    async fn answer(&self, question: JobQuestion) {
        match question {
            // Who does not wait for the answer any more needs none.
            JobQuestion::Save(answer) => drop(answer.send(self.save().await)),
            JobQuestion::Caller(answer) => drop(answer.send(self.caller().await)),
        }
    }

    /// Whether the job is to stop.
    async fn save(&self) -> Result<bool, Fault> {
        match self.record().await {
            Ok(()) if self.is_lost.load(Ordering::Relaxed) => Err(Fault::Gone("the job is another host's".to_owned())),
            Ok(()) => Ok(self.stop.get().is_some()),
            Err(error) => Err(error.into()),
        }
    }

    async fn caller(&self) -> Result<SharedCaller, Fault> {
        starter(self.jobs, self.job, &self.entry.scope).await.map_err(|error| {
            if may_pass(&error) {
                return Fault::Unavailable(anyhow::anyhow!("the starter of a job could not be looked up: {error}"));
            }
            Fault::Forbidden { detail: describe(&error), scope: Some(self.entry.scope.clone()) }
        })
    }

    /// Records what was reported; a database that is away for a moment costs nothing.
    async fn extend_lease(&self) {
        if let Err(error) = self.record().await {
            tracing::warn!(job = %self.job.id, error = ?error, "failed to record the progress of a job");
            if self.held_at.lock().elapsed() > LEASE_LOST_AFTER {
                self.is_lost.store(true, Ordering::Relaxed);
            }
        }
    }

    async fn record(&self) -> Result<(), cardinal_store::error::StoreError> {
        let report = self.handle.take_report();
        match plugins::jobs::record(&self.jobs.pool, self.job.id, self.jobs.runner, &report).await {
            Ok(Some(is_cancelled)) => {
                *self.held_at.lock() = Instant::now();
                if report.checkpoint.is_some() {
                    self.has_checkpoint.store(true, Ordering::Relaxed);
                }
                if is_cancelled {
                    self.ask_to_stop(Stop::Cancelled);
                }
                Ok(())
            }
            Ok(None) => {
                self.is_lost.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                self.handle.put_back(report);
                Err(error)
            }
        }
    }

    /// How the job ended; `None` when its call was dropped.
    fn end(&self, outcome: Option<Result<PluginReply, CallError>>) -> End {
        match (outcome, self.stop.get()) {
            (Some(Ok(reply)), _) if reply.status.is_success() && reply.status != StatusCode::ACCEPTED => End::Done,
            (Some(Err(CallError::Timeout(_))), _) => {
                let minutes = self.entry.job.timeout.as_secs() / 60;
                End::Failed(format!("The job did not end within its {minutes} minutes."))
            }
            (_, Some(stop)) => self.stopped(stop),
            // The instance was retired before its end was published here.
            (None | Some(Err(CallError::Unavailable { retry_after: None, .. })), None) => self.stopped(&Stop::Replaced),
            (Some(Ok(reply)), None) if reply.status == StatusCode::ACCEPTED => {
                End::Interrupted("The plugin stopped the job before it finished.".to_owned())
            }
            (Some(Ok(reply)), None) => End::Failed(format!("The plugin answered with status {}.", reply.status)),
            (Some(Err(error)), None) => {
                tracing::warn!(job = %self.job.id, error = ?error, "a plugin's job failed");
                End::Failed(describe(&ApiError::from(error)))
            }
        }
    }

    fn stopped(&self, why: &Stop) -> End {
        let goes_on = self.job.resumable || self.has_checkpoint.load(Ordering::Relaxed);
        match why {
            Stop::Cancelled => End::Cancelled,
            Stop::RightsGone(End::Failed(reason)) => End::Failed(reason.clone()),
            Stop::RightsGone(_) => End::Failed("The user who started this is no longer allowed to run it.".to_owned()),
            Stop::Replaced if goes_on => End::Released,
            Stop::Replaced => End::Interrupted(REPLACED.to_owned()),
        }
    }
}
