//! `/v1/admin/jobs`: bulk actions and plugins' jobs, and how far they and imports are.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use http_body::Frame;
use http_body_util::StreamBody;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, CallHead, Json, NoQuery, Query},
    http::{
        body::Body,
        reply::{self, Item, Reply},
    },
    jobs::{
        bulk,
        request::{JobRequest, JobRequestKind},
        view,
    },
};
use cardinal_base::{
    codes,
    page::Page,
    schema::{Actor, DateTime},
};
use cardinal_identity::auth::caller::Caller;
use cardinal_store::{
    jobs::{self, Job, JobFilter},
    plugins,
};

/// Bytes of a bulk action's body: its ids, one by one.
const BULK: usize = 1 << 20;
/// Errors that are read at a time for who downloads them.
const MAX_ERROR_BATCH: i64 = 1_000;
const READ: &str = "jobs:read";
const WRITE: &str = "jobs:write";

// One's own jobs need no scope of their own: whoever may import sees what became of it.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/jobs", list).scope(READ).describe(|op| {
            op.named("listJobs", "jobs", "Jobs, newest first")
                .paged()
                .param("state", "Only in this state.", json!({"enum": STATES}))
                .param("action", "Only of this action.", json!({}))
                .param("plugin", "Only this plugin's.", json!({}))
                .ok::<Page<JobShown>>();
        }),
        Route::post("/v1/admin/jobs", start).scope(WRITE).body_limit(BULK).audits(AuditAction::StartJob).describe(
            |op| {
                op.named("startJob", "jobs", "Change many cards, or start a plugin's job")
                    .notes(
                        "Cards are those of `ids`, or those that `filter` matches now. A filter needs \
                         `expected_count`: if it matches a different number of cards, nothing is done. `purge` \
                         and plugins' tools need their own scopes, too. `set_attribute` gives each card the \
                         value whole, where a patch of one card merges objects. With `dry_run` the job's `counts` \
                         say how many cards would change, and its errors which would become too large. \
                         `plugin_job` takes `plugin`, `name` and `args` instead of cards.",
                    )
                    .accepted::<Item<JobShown>>()
                    .refuses(&[&codes::COUNT_MOVED]);
            },
        ),
        Route::get("/v1/admin/jobs/{id}", get).authenticated().describe(|op| {
            op.named("getJob", "jobs", "One job and its progress")
                .notes("Your own need no scope, others' `jobs:read`.")
                .ok::<Item<JobShown>>();
        }),
        Route::get("/v1/admin/jobs/{id}/errors", errors).authenticated().describe(|op| {
            op.named("getJobErrors", "jobs", "All errors of a job, one JSON object per line").replies_as(
                200,
                "Lines of JSON.",
                "application/x-ndjson",
                json!({"type": "string"}),
            );
        }),
        Route::post("/v1/admin/jobs/{id}/cancel", cancel).authenticated().audits(AuditAction::CancelJob).describe(
            |op| {
                op.named("cancelJob", "jobs", "Stop a job").accepted::<Item<JobShown>>().refuses(&[&codes::CONFLICT]);
            },
        ),
    ]
}

/// A job alone in its reply.
pub(super) type JobItem = Item<JobShown>;

/// A job as its readers see it.
#[derive(JsonSchema)]
#[schemars(rename = "Job")]
#[allow(dead_code, reason = "a description")]
pub(super) struct JobShown {
    id: Uuid,
    action: String,
    /// Of a plugin's job: the plugin, the job's name in its manifest, and how far it is in the plugin's words.
    plugin: Option<String>,
    name: Option<String>,
    message: Option<String>,
    /// `queued`, `running`, `done`, `failed`, `cancelled` or `interrupted`.
    state: String,
    started_by: Actor,
    user_id: Uuid,
    request_id: Option<String>,
    args: Value,
    done: i64,
    /// Null while it is not known.
    total: Option<i64>,
    failed: i64,
    rate_per_second: f64,
    counts: Value,
    notes: Value,
    reason: Option<String>,
    host_id: Option<Uuid>,
    cancel_asked_at: Option<DateTime>,
    created_at: DateTime,
    started_at: Option<DateTime>,
    finished_at: Option<DateTime>,
    /// The first of them: 100, and 5 in lists.
    errors: Vec<Value>,
    /// Where all of them are.
    errors_url: String,
}

async fn start(app: &Arc<App>, call: Call<NoQuery, Json<JobRequest>>) -> ApiResult<Reply> {
    let (caller, request_id) = (call.caller()?, call.request_id.as_str().to_owned());
    let job = match call.body()?.split()? {
        JobRequestKind::Bulk(wanted) => {
            app.jobs.start(caller, &request_id, wanted.check(caller, &app.plugins)?).await?
        }
        JobRequestKind::Plugin(wanted) => app.jobs.start_plugin_job(caller, &request_id, wanted).await?,
    };
    let detail = json!({"action": job.action, "total": job.total, "plugin": job.plugin, "name": job.plugin_job});
    app.audit.done(&call, Some(job.id.to_string()), Some(detail)).await;
    accepted(app, &job).await
}

/// 202 with the job as it stands.
pub(super) async fn accepted(app: &App, job: &Job) -> ApiResult<Reply> {
    reply::accepted(&format!("/v1/admin/jobs/{}", job.id), &json!({"item": app.jobs.show(job).await?}))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    cursor: Option<String>,
    limit: Option<i64>,
    state: Option<String>,
    action: Option<String>,
    request_id: Option<String>,
    plugin: Option<String>,
}

const STATES: [&str; 6] = ["queued", "running", "done", "failed", "cancelled", "interrupted"];

async fn list(app: &Arc<App>, call: Call<Query<ListQuery>>) -> ApiResult<Reply> {
    let query = call.query()?;
    if query.state.as_deref().is_some_and(|state| !STATES.contains(&state)) {
        return Err(ApiError::new(&codes::INVALID_REQUEST).detail(format!("`state` is one of {}.", STATES.join(", "))));
    }
    let is_action =
        |name: &str| name == "import" || name == plugins::jobs::ACTION || bulk::Action::named(name).is_some();
    if query.action.as_deref().is_some_and(|action| !is_action(action)) {
        return Err(ApiError::new(&codes::INVALID_REQUEST).detail("Unknown `action`."));
    }
    let ListQuery { cursor, limit, state, action, request_id, plugin } = query;
    let wanted = JobFilter { state, action, request_id, plugin };
    let request = app.cursors.request(("jobs", &wanted), limit, cursor.as_deref())?;
    let found = jobs::list(&app.pools.core, &wanted, request.before, request.rows()).await?;
    let page = request.page(found, |job| job.id)?;
    reply::ok(&view::listed(&app.pools.core, &page, app.clock.now()).await?)
}

async fn get(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let job = visible(app, &call, READ).await?;
    reply::ok(&json!({"item": app.jobs.show(&job).await?}))
}

async fn cancel(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let job = visible(app, &call, WRITE).await?;
    let Some(job) = jobs::cancel(&app.pools.core, job.id).await? else {
        let ended = jobs::get(&app.pools.core, job.id).await?.map_or(job.state, |job| job.state);
        return Err(ApiError::new(&codes::CONFLICT).detail(format!("The job has already ended: {ended}.")));
    };
    app.jobs.stop(job.id);
    app.audit.done(&call, Some(job.id.to_string()), None).await;
    accepted(app, &job).await
}

/// The job, for who started it or holds `scope`. Others don't learn whether it exists.
async fn visible(app: &App, call: &CallHead, scope: &str) -> ApiResult<Job> {
    let caller = call.caller()?;
    let id = call.params.id("id", "job");
    let job = match id {
        Ok(id) => jobs::get(&app.pools.core, id).await?,
        Err(_) => None,
    };
    match job {
        Some(job) if caller.holds(scope) || started(&job, caller) => Ok(job),
        _ => {
            caller.require(scope)?;
            Err(ApiError::not_found("job"))
        }
    }
}

/// The same user by the same credential: a key's jobs are not its owner's other keys' business.
fn started(job: &Job, caller: &Caller) -> bool {
    job.user_id == caller.user_id && job.actor == caller.actor()
}

/// Every error that is kept, a line each.
async fn errors(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let job = visible(app, &call, READ).await?;
    let first = lines(app, job.id, 0).await?;
    let (app, id) = (Arc::clone(app), job.id);
    let pages = stream::unfold(Some(first), move |page| {
        let app = Arc::clone(&app);
        async move {
            let (bytes, last) = page?;
            let next = match last {
                None => None,
                Some(last) => match lines(&app, id, last).await {
                    Ok(next) => Some(next),
                    Err(error) => {
                        // The list breaks off where everybody sees it.
                        return Some((Err(std::io::Error::other(error)), None));
                    }
                },
            };
            Some((Ok(Frame::data(bytes)), next))
        }
    });
    let mut reply = Reply::new(Body::stream(StreamBody::new(pages)));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    let name = format!("attachment; filename=\"job-{}-errors.ndjson\"", job.id);
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::try_from(name).map_err(ApiError::internal)?);
    Ok(reply)
}

/// Errors behind number `after` as lines, and the last one's number when there may be more.
async fn lines(app: &App, id: Uuid, after: i64) -> ApiResult<(Bytes, Option<i64>)> {
    let errors = jobs::errors(&app.pools.core, id, after, MAX_ERROR_BATCH).await?;
    let is_full = i64::try_from(errors.len()).unwrap_or(i64::MAX) == MAX_ERROR_BATCH;
    let mut text = String::new();
    for (_, error) in &errors {
        text.push_str(&error.to_string());
        text.push('\n');
    }
    Ok((text.into(), errors.last().filter(|_| is_full).map(|(number, _)| *number)))
}
