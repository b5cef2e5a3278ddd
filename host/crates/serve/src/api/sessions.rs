//! `/v1/admin/sessions`: who is logged in, and ending that. One's own need no scope, others' `users:write`; a key is
//! nobody's own self, so it always needs the scope.

use std::{net::IpAddr, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, Query},
    http::reply::{self, Reply},
};
use cardinal_base::{codes, page::Page, schema::DateTime};
use cardinal_identity::auth::{
    authority,
    caller::{Caller, CallerKind},
};
use cardinal_store::{
    sessions::{self, SessionRow},
    users::accounts,
};

const OTHERS: &str = "users:write";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/sessions", list).authenticated().describe(|op| {
            op.named("listSessions", "sessions", "Active sessions, newest first")
                .notes("Your own need no scope, others' `users:write`.")
                .paged()
                .param("user_id", "The user; your own by default.", json!({}))
                .ok::<Page<Session<'_>>>();
        }),
        Route::delete("/v1/admin/sessions", end_all).authenticated().audits(AuditAction::EndSessions).describe(|op| {
            op.named("endSessions", "sessions", "End every session of a user")
                .param("user_id", "The user; required.", json!({}))
                .no_content()
                .fails(&[404]);
        }),
        Route::delete("/v1/admin/sessions/{id}", end).authenticated().audits(AuditAction::EndSession).describe(|op| {
            op.named("endSession", "sessions", "End a session").no_content();
        }),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    user_id: Option<Uuid>,
    cursor: Option<String>,
    limit: Option<i64>,
}

/// The sessions of a user that have not ended; one's own when no user is named.
async fn list(app: &Arc<App>, call: Call<Query<ListQuery>>) -> ApiResult<Reply> {
    let query = call.query()?;
    let caller = call.caller()?;
    let user = query.user_id.unwrap_or(caller.user_id);
    one_s_own_or_with_scope(caller, user)?;
    let request = app.cursors.request(("sessions", user), query.limit, query.cursor.as_deref())?;
    let lines = sessions::list(&app.pools.core, user, request.before, request.rows()).await?;
    reply::ok(&request.page(lines, |line| line.id)?.show(|line| show(line, caller)))
}

async fn end(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let caller = call.caller()?;
    let id = call.params.id("id", "session")?;
    let found = sessions::get(&app.pools.core, id).await?.ok_or_else(|| ApiError::not_found("session"))?;
    may_end(caller, found.user_id, found.role.as_deref())?;
    sessions::revoke(&app.pools.core, id, reason(caller, found.user_id)).await?;
    app.auth.forget_session(id);
    let detail = json!({"user_id": found.user_id, "username": found.username});
    app.audit.done(&call, Some(id.to_string()), Some(detail)).await;
    Ok(reply::no_content())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EndQuery {
    user_id: Option<Uuid>,
}

async fn end_all(app: &Arc<App>, call: Call<Query<EndQuery>>) -> ApiResult<Reply> {
    let query = call.query()?;
    let Some(user) = query.user_id else {
        return Err(ApiError::new(&codes::INVALID_REQUEST).detail(
            "`user_id` is required: it names the user whose \
            sessions end.",
        ));
    };
    let caller = call.caller()?;
    one_s_own_or_with_scope(caller, user)?;
    let account = accounts::get(&app.pools.core, user).await?.ok_or_else(|| ApiError::not_found("user"))?;
    may_end(caller, user, account.role.as_deref())?;
    let ended = sessions::revoke_all(&app.pools.core, user, reason(caller, user)).await?;
    app.auth.forget_sessions(user);
    let detail = json!({"username": account.username, "sessions": ended});
    app.audit.done(&call, Some(user.to_string()), Some(detail)).await;
    Ok(reply::no_content())
}

fn may_end(caller: &Caller, user: Uuid, role: Option<&str>) -> ApiResult<()> {
    one_s_own_or_with_scope(caller, user)?;
    if caller.user_id == user { Ok(()) } else { Ok(authority::over_owner(caller, role)?) }
}

fn one_s_own_or_with_scope(caller: &Caller, user: Uuid) -> ApiResult<()> {
    if caller.user_id == user && !matches!(caller.kind, CallerKind::ApiKey | CallerKind::Local { .. }) {
        return Ok(());
    }
    Ok(caller.require(OTHERS)?)
}

fn reason(caller: &Caller, user: Uuid) -> &'static str {
    if caller.user_id == user { "ended by its user" } else { "ended by an administrator" }
}

/// A login that has not ended.
#[derive(Serialize, JsonSchema)]
struct Session<'a> {
    id: Uuid,
    user_id: Uuid,
    username: &'a str,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    expires_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<DateTime>")]
    last_seen_at: Option<OffsetDateTime>,
    ip: Option<IpAddr>,
    user_agent: Option<&'a str>,
    /// The call is made with it.
    current: bool,
}

fn show<'l>(line: &'l SessionRow, caller: &Caller) -> Session<'l> {
    Session {
        id: line.id,
        user_id: line.user_id,
        username: &line.username,
        created_at: line.created_at,
        expires_at: line.expires_at,
        last_seen_at: line.last_seen_at,
        ip: line.ip,
        user_agent: line.user_agent.as_deref(),
        current: caller.session_id == Some(line.id),
    }
}
