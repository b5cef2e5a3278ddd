//! `/v1/admin/approvals`: MCP tool calls that wait for a person, each shown whole. A person alone decides: whoever has
//! logged in and holds `mcp:approve`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, CallHead, MaybeJson, NoQuery, Query},
    http::reply::{self, Item, Reply},
    mcp::confirmation,
    openapi::Operation,
};
use cardinal_base::{codes, page::Page, scope::APPROVE};
use cardinal_store::approvals::{self, Approval, Decision, REASON_LIMIT};

const STATES: [&str; 6] = ["pending", "approved", "denied", "used", "expired", "void"];
/// Bytes of a refusal's body: its reason, with every character escaped.
const REFUSAL: usize = 8 << 10;
/// In the place of a state: all of them.
const ANY: &str = "any";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/approvals", list).scope(APPROVE).describe(|op| {
            let states: Vec<&str> = STATES.into_iter().chain([ANY]).collect();
            op.named("listApprovals", "approvals", "MCP tool calls that wait for a person, newest first")
                .notes("Those that are over are kept for a week, at most the last 1,000.")
                .param("state", "Only in this state.", json!({"enum": states, "default": "pending"}))
                .paged()
                .ok::<Page<Approval>>();
        }),
        Route::get("/v1/admin/approvals/{id}", get).scope(APPROVE).describe(|op| {
            op.named("getApproval", "approvals", "One tool call that waits, or waited, for a person")
                .ok::<Item<Approval>>();
        }),
        Route::post("/v1/admin/approvals/{id}/approve", approve).scope(APPROVE).audits(AuditAction::Approve).describe(
            |op| {
                describe(op, "approveCall", "Approve a tool call: it runs once, exactly as shown");
            },
        ),
        Route::post("/v1/admin/approvals/{id}/deny", deny)
            .scope(APPROVE)
            .body_limit(REFUSAL)
            .audits(AuditAction::Deny)
            .describe(|op| describe(op, "denyCall", "Deny a tool call, with a reason")),
    ]
}

/// The body of a refusal.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Refusal {
    /// Told to whoever made the call, a model as a rule, and kept with the call: one line of plain text.
    #[schemars(length(min = 1, max = REASON_LIMIT))]
    reason: Option<String>,
}

impl Refusal {
    /// The reason without the blanks around it.
    fn reason(&self) -> ApiResult<Option<&str>> {
        let Some(reason) = self.reason.as_deref().map(str::trim) else { return Ok(None) };
        let refused = |detail: String| Err(ApiError::invalid("/reason", detail));
        if reason.is_empty() || reason.chars().count() > REASON_LIMIT {
            return refused(format!("A reason has 1 to {REASON_LIMIT} characters. Leave it out to give none."));
        }
        // The separators of lines and paragraphs are no control characters to Unicode.
        if reason.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
            return refused("A reason is one line of text, without control characters.".to_owned());
        }
        Ok(Some(reason))
    }
}

fn describe(op: &mut Operation, id: &'static str, summary: &'static str) {
    op.named(id, "approvals", summary)
        .notes(
            "A call that still waits goes on at once. 409 when it was decided before, has expired, or its plugin was \
             replaced or its cards have changed since it was asked.",
        )
        .ok::<Item<Approval>>()
        .refuses(&[&codes::CONFLICT]);
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    state: Option<String>,
    cursor: Option<String>,
    limit: Option<i64>,
}

async fn list(app: &Arc<App>, call: Call<Query<ListQuery>>) -> ApiResult<Reply> {
    let query = call.query()?;
    let state = match query.state.as_deref() {
        None => Some("pending"),
        Some(ANY) => None,
        Some(state) if STATES.contains(&state) => Some(state),
        Some(_) => {
            let detail = format!("`state` is {ANY} or one of {}.", STATES.join(", "));
            return Err(ApiError::new(&codes::INVALID_REQUEST).detail(detail));
        }
    };
    let request = app.cursors.request(("approvals", state), query.limit, query.cursor.as_deref())?;
    let found = approvals::list(&app.pools.core, state, request.before, request.rows()).await?;
    reply::ok(&request.page(found, |approval| approval.id)?)
}

async fn get(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    reply::ok(&Item { item: find(app, &call).await? })
}

async fn approve(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let approval = find(app, &call).await?;
    if let Some(plugin) = &approval.plugin
        && approval.state == "pending"
    {
        let snapshot = app.plugins.snapshot();
        let serving = plugin["name"].as_str().and_then(|name| snapshot.package_hash(name));
        if serving != plugin["sha256"].as_str() {
            app.confirmations.void(approval.id).await?;
            return Err(conflict(
                "The plugin was replaced or removed after this call was asked about, so nobody can approve it. The \
                 client has to make the call again.",
            ));
        }
    }
    if approval.state == "pending" && app.confirmations.is_outdated(&approval).await? {
        app.confirmations.void(approval.id).await?;
        return Err(conflict(
            "The cards have changed since this call was asked about, so nobody can approve it. The client has to make \
             the call again.",
        ));
    }
    decide(app, &call, &approval, Decision::Approve).await
}

async fn deny(app: &Arc<App>, call: Call<NoQuery, MaybeJson<Refusal>>) -> ApiResult<Reply> {
    let refusal = call.body()?;
    let reason = refusal.reason()?;
    let approval = find(app, &call).await?;
    decide(app, &call, &approval, Decision::Deny(reason)).await
}

async fn decide(app: &App, call: &CallHead, approval: &Approval, decision: Decision<'_>) -> ApiResult<Reply> {
    let by = call.caller()?.actor();
    let Some(decided) = approvals::decide(&app.pools.core, approval.id, decision, &by, None).await? else {
        let Some(now) = approvals::get(&app.pools.core, approval.id).await? else {
            return Err(conflict("This call no longer waits: it was displaced by newer ones."));
        };
        return Err(conflict(&format!("The call is no longer waiting. It is {}.", now.state)));
    };
    // Before the call that waits goes on: its use is the next line of the audit log.
    let detail = confirmation::audited(&decided);
    app.audit.done(call, Some(decided.id.to_string()), Some(detail)).await;
    app.confirmations.wake(decided.id);
    reply::ok(&Item { item: &decided })
}

fn conflict(detail: &str) -> ApiError {
    ApiError::new(&codes::CONFLICT).detail(detail)
}

async fn find(app: &App, call: &CallHead) -> ApiResult<Approval> {
    let id = call.params.id("id", "approval")?;
    approvals::get(&app.pools.core, id).await?.ok_or_else(|| ApiError::not_found("approval"))
}
