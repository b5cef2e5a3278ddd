//! What the steps of every job share: whose rights they have, and when one that failed is tried again.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{End, Jobs, describe};
use crate::http::error::{ApiError, ApiResult};
use cardinal_base::request_id::RequestId;
use cardinal_identity::auth::{caller::SharedCaller, credential::Credential};
use cardinal_observe::trace::Trace;
use cardinal_plugin_host::call::{CallParts, Deadline};
use cardinal_store::jobs::{self, Job, JobPlace};

/// A step that failed is tried again so often before the job is given up; the wait between grows to [`MAX_WAIT`].
pub(super) const ATTEMPTS: u32 = 20;
pub(super) const MAX_WAIT: Duration = Duration::from_secs(5);

/// Who the starter is by now, if the right for it is still there.
pub(super) async fn starter(jobs: &Jobs, job: &Job, scope: &str) -> ApiResult<SharedCaller> {
    let credential: Credential = serde_json::from_value(job.credential.clone()).map_err(ApiError::internal)?;
    let caller = jobs.auth.again(&credential).await?;
    caller.require(scope)?;
    Ok(caller)
}

/// The reason of a job that ended because a step was refused, of which the starter's lost rights are one.
pub(super) fn refusal(error: &ApiError) -> End {
    let reason = describe(error);
    let is_rights = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&error.status());
    End::Failed(if is_rights { format!("The user who started this may no longer do it: {reason}") } else { reason })
}

/// Where a job of this process is, when that is further than `from`: its last step was committed, though the answer to
/// that was lost.
pub(super) async fn find_progress(jobs: &Jobs, id: Uuid, from: JobPlace) -> Option<JobPlace> {
    jobs::place(&jobs.pool, id, jobs.runner).await.ok().flatten().filter(|place| *place > from)
}

/// Waits, unless the job is to stop.
pub(super) async fn pause(time: Duration, cancelled: &CancellationToken) {
    let _ = tokio::time::timeout(time, cancelled.cancelled()).await;
}

/// A call of a plugin that a step makes, under the job's id and in a trace of its own.
pub(super) fn call_parts<'c>(job: &Job, caller: SharedCaller, arguments: &Value, timeout: Duration) -> CallParts<'c> {
    let no_headers = HeaderMap::new();
    let request_id = RequestId::named(&job.id.to_string()).unwrap_or_else(|| RequestId::from_headers(&no_headers));
    let deadline = Deadline::after(timeout);
    CallParts {
        trace: Some(Trace::from_headers(&no_headers, &mut rand::rng())),
        ..CallParts::from_arguments(arguments.to_string().into(), caller, request_id, deadline)
    }
}
