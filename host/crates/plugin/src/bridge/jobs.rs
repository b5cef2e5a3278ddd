//! The extension `JOBS`: a plugin starts jobs, and a job's handler tells how far it is.

use cardinal_plugin_abi::{
    Answer, Bytes, CallId, CtxId, Fut, Slice,
    door::contain,
    extension::Jobs,
    record::{self, job_report, job_start},
};
use serde_json::json;

use std::sync::Arc;

use super::{
    call,
    host_fn::{begin, find_call, live},
};
use crate::{fault::Fault, job::JobHandle};

/// What the extension's number leads to.
pub(super) static EXTENSION: Jobs = Jobs { start, report, save };

/// The request id of a job that a plugin starts outside of any call.
const NO_REQUEST: &str = "";

extern "C" fn start(ctx: CtxId, call: CallId, request: Slice<'_>) -> Fut<Bytes> {
    begin(ctx, |scope| {
        let call = find_call(ctx, call)?;
        let field = |number, what: &str| {
            let text = std::str::from_utf8(record::field(request.get(), number));
            text.map(str::to_owned).map_err(|_| Fault::Invalid(format!("{what} is not UTF-8")))
        };
        let (name, args) = (field(job_start::NAME, "the name")?, field(job_start::ARGS, "the arguments")?);
        let scope = Arc::clone(scope);
        Ok(async move {
            let caller = call.as_ref().map(|call| &*call.caller);
            let request_id = call.as_ref().map_or(NO_REQUEST, |call| call.request_id.as_str());
            let id = scope.context.start_job(caller, request_id, &name, &args).await?;
            Ok(Bytes::from(json!({"id": id}).to_string()))
        })
    })
}

extern "C" fn report(ctx: CtxId, call: CallId, report: Slice<'_>) {
    contain(|| {
        if let (Ok(_), Ok(job)) = (live(ctx), find_job(ctx, call)) {
            take(&job, report.get());
        }
    });
}

extern "C" fn save(ctx: CtxId, call: CallId, report: Slice<'_>) -> Fut<Answer> {
    begin(ctx, |_| {
        let job = find_job(ctx, call)?;
        take(&job, report.get());
        let checkpoint = record::field(report.get(), job_report::CHECKPOINT);
        if !checkpoint.is_empty() {
            job.set_checkpoint(checkpoint)?;
        }
        Ok(async move { Ok(Answer::from(u64::from(job.save().await?))) })
    })
}

/// The job whose handler a call is.
fn find_job(ctx: CtxId, call: CallId) -> Result<Arc<JobHandle>, Fault> {
    let call = call::find(ctx, call).ok_or_else(|| Fault::Gone("the job is over".to_owned()))?;
    call.job().cloned().ok_or_else(|| Fault::Unsupported("this call is not a job".to_owned()))
}

fn take(job: &JobHandle, report: &[u8]) {
    let number = |number| std::str::from_utf8(record::field(report, number)).ok()?.parse::<u64>().ok();
    job.report(number(job_report::DONE), number(job_report::TOTAL), record::field(report, job_report::TEXT));
    let error = record::field(report, job_report::ERROR);
    if !error.is_empty() {
        job.fail(error);
    }
}
