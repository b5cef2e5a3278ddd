//! Jobs as the host keeps them: what the plugin has started, and what was reported of a run.

use std::sync::{Arc, Mutex};

use cardinal_plugin_abi::{
    self as abi, CallId, CtxId, Fut, Slice,
    error::{self as codes},
    extension::Jobs,
    host::cancel,
    record::{self, job_report, job_start},
};
use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use super::{FakeHost, host, lock};
use crate::testing::StartedJob;

/// What the extension's number leads to.
pub(super) static EXTENSION: Jobs = Jobs { start, report, save };

/// What was reported of a job so far.
#[derive(Debug)]
pub(in crate::testing) struct JobRecord {
    pub(in crate::testing) stop: watch::Sender<bool>,
    pub(in crate::testing) done: Mutex<u64>,
    pub(in crate::testing) total: Mutex<Option<u64>>,
    pub(in crate::testing) text: Mutex<String>,
    pub(in crate::testing) failures: Mutex<Vec<Value>>,
    pub(in crate::testing) checkpoint: Mutex<Option<Value>>,
}

impl JobRecord {
    pub(in crate::testing) fn new(checkpoint: Option<Value>) -> Self {
        Self {
            stop: watch::Sender::new(false),
            done: Mutex::default(),
            total: Mutex::default(),
            text: Mutex::default(),
            failures: Mutex::default(),
            checkpoint: Mutex::new(checkpoint),
        }
    }
}

impl FakeHost {
    pub(super) fn job(&self, call: CallId) -> Option<Arc<JobRecord>> {
        lock(&self.jobs).get(&call).cloned()
    }

    /// Ready when the job is asked to stop.
    pub(super) fn until_job_stops(&self, call: CallId) -> Option<Fut<abi::host::Answer>> {
        let mut stop = self.job(call)?.stop.subscribe();
        Some(Fut::new(async move {
            match stop.wait_for(|is_asked| *is_asked).await {
                Ok(_) => Ok(cancel::JOB.into()),
                Err(_) => Ok(cancel::CALL_ENDED.into()),
            }
        }))
    }
}

extern "C" fn start(ctx: CtxId, call: CallId, request: Slice<'_>) -> Fut<abi::Bytes> {
    let (host, field) =
        (host(ctx), |number| String::from_utf8_lossy(record::field(request.get(), number)).into_owned());
    let (name, args) = (field(job_start::NAME), field(job_start::ARGS));
    host.note(format!("start job {name} {args}"));
    host.clone().ask_fallible("start_job", || {
        let jobs = host.rules.as_ref().and_then(|rules| rules.backend.as_ref()).map(|backend| &backend.jobs);
        if jobs.is_some_and(|jobs| !jobs.iter().any(|job| job.name == name)) {
            return Err(abi::Error::new(codes::NOT_FOUND, format!("The manifest declares no job `{name}`.")));
        }
        let user_id = lock(&host.callers).get(&call).map(|user| user.id);
        let (id, args) = (Uuid::new_v4(), serde_json::from_str(&args).unwrap_or_default());
        lock(&host.started_jobs).push(StartedJob { id, name, args, user_id });
        Ok(json!({ "id": id }).to_string().into())
    })
}

extern "C" fn report(ctx: CtxId, call: CallId, report: Slice<'_>) {
    if let Some(job) = host(ctx).job(call) {
        take(&job, report.get());
    }
}

extern "C" fn save(ctx: CtxId, call: CallId, report: Slice<'_>) -> Fut<abi::host::Answer> {
    let host = host(ctx);
    let Some(job) = host.job(call) else {
        return Fut::ready(Err(abi::Error::new(codes::UNSUPPORTED, "this call is not a job")));
    };
    take(&job, report.get());
    let checkpoint = serde_json::from_slice(record::field(report.get(), job_report::CHECKPOINT)).ok();
    host.ask("save_job", || {
        if checkpoint.is_some() {
            *lock(&job.checkpoint) = checkpoint;
        }
        u64::from(*job.stop.borrow()).into()
    })
}

fn take(job: &JobRecord, report: &[u8]) {
    let text = |number| std::str::from_utf8(record::field(report, number)).unwrap_or_default();
    if let Ok(done) = text(job_report::DONE).parse() {
        *lock(&job.done) = done;
    }
    if let Ok(total) = text(job_report::TOTAL).parse() {
        *lock(&job.total) = Some(total);
    }
    if !text(job_report::TEXT).is_empty() {
        text(job_report::TEXT).clone_into(&mut lock(&job.text));
    }
    if let Ok(failure) = serde_json::from_str(text(job_report::ERROR)) {
        lock(&job.failures).push(failure);
    }
}
