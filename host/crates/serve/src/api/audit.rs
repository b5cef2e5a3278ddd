//! `/v1/admin/audit`: who did what, newest first.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    call::{Call, Query},
    http::reply::{self, Reply},
};
use cardinal_base::{codes, page::Page};
use cardinal_store::audit::{self, Filter};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/admin/audit", list).scope("audit:read").describe(|op| {
        op.named("listAudit", "audit", "Who did what, newest first")
            .paged()
            .param("actor", "An id, or else a name.", json!({}))
            .param("since", "From this time on.", json!({"format": "date-time"}))
            .param("until", "Before this time.", json!({"format": "date-time"}))
            .param("outcome", "`ok`, `refused`, or `failed`: a tool's call that came to nothing.", json!({}))
            .ok::<Page<audit::AuditRow>>();
    })]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    cursor: Option<String>,
    limit: Option<i64>,
    actor: Option<String>,
    action: Option<String>,
    target: Option<String>,
    outcome: Option<String>,
    since: Option<String>,
    until: Option<String>,
}

const OUTCOMES: [&str; 3] = ["ok", "refused", "failed"];

async fn list(app: &Arc<App>, call: Call<Query<ListQuery>>) -> ApiResult<Reply> {
    let query = call.query()?;
    if query.outcome.as_deref().is_some_and(|outcome| !OUTCOMES.contains(&outcome)) {
        let detail = format!("`outcome` is one of {}.", OUTCOMES.join(", "));
        return Err(ApiError::new(&codes::INVALID_REQUEST).detail(detail));
    }
    let filter = Filter {
        actor: query.actor,
        action: query.action,
        target: query.target,
        outcome: query.outcome,
        since: time("since", query.since.as_deref())?,
        until: time("until", query.until.as_deref())?,
    };
    let request = app.cursors.request(("audit", &filter), query.limit, query.cursor.as_deref())?;
    app.audit.write_calls().await;
    let lines = audit::list(&app.pools.core, &filter, request.before, request.rows()).await?;
    reply::ok(&request.page(lines, |line| line.seq)?)
}

fn time(name: &str, text: Option<&str>) -> ApiResult<Option<OffsetDateTime>> {
    let parse = |text| OffsetDateTime::parse(text, &Rfc3339);
    text.map(parse).transpose().map_err(|_| {
        ApiError::new(&codes::INVALID_REQUEST)
            .detail(format!("`{name}` is a time of RFC 3339, such as 2026-01-31T12:00:00Z; `+` is sent as %2B."))
    })
}
