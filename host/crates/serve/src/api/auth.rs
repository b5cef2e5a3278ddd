//! `/v1/admin/auth`: logging in and out, who am I, changing one's password.

use std::sync::Arc;

use http::header;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::{AuditAction, NamedAccount},
    call::{Call, Json, NoQuery},
    http::reply::{self, Reply},
    router::AddressLimit,
};
use cardinal_base::{codes, config::Secret, schema::DateTime};
use cardinal_identity::auth::{
    authority,
    login::{self, LoginError},
    password,
};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/admin/auth/login", log_in)
            .public()
            .address_limit(AddressLimit::Counts)
            .audits(AuditAction::LogIn)
            .describe(|op| {
                op.named("logIn", "auth", "Log in with a password")
                    .notes(
                        "The token expires after `expires_in` seconds, when the password changes, or when the \
                         session is ended.",
                    )
                    .ok::<LoggedIn>()
                    .refuses(&[&codes::INVALID_CREDENTIALS, &codes::ACCOUNT_DISABLED]);
            }),
        Route::post("/v1/admin/auth/logout", log_out).authenticated().audits(AuditAction::LogOut).describe(|op| {
            op.named("logOut", "auth", "End the session that makes this call").no_content();
        }),
        Route::get("/v1/admin/auth/me", me).authenticated().describe(|op| {
            op.named("whoAmI", "auth", "Who is calling, and what the credential may do").ok::<Me>();
        }),
        Route::post("/v1/admin/auth/password", change_password)
            .authenticated()
            .audits(AuditAction::ChangePassword)
            .describe(|op| {
                op.named("changePassword", "auth", "Change your own password")
                    .notes("Ends every session of the user. Keys and JWTs can't set passwords.")
                    .no_content();
            }),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Login {
    username: String,
    password: Secret,
}

#[derive(Serialize, JsonSchema)]
struct LoggedIn<'a> {
    access_token: &'a str,
    token_type: &'static str,
    /// Seconds.
    expires_in: u64,
}

async fn log_in(app: &Arc<App>, call: Call<NoQuery, Json<Login>>) -> ApiResult<Reply> {
    let body = call.body()?;
    let agent = call.header(header::USER_AGENT);
    let (name, ip) = (body.username.trim(), call.peer);
    let opened = match login::open(&app.auth, &app.pools.core, name, body.password, ip, agent).await {
        Ok(opened) => opened,
        Err(LoginError { error, meant }) => {
            // Neither a flood that is turned away nor a database that is away is an attempt to get in.
            if [401, 403].contains(&error.code().status) {
                let meant = meant.map(|(id, name)| NamedAccount { id, name });
                app.audit.refused_stranger(
                    ip,
                    meant,
                    call.request_id.to_string(),
                    AuditAction::LogIn,
                    error.code().name,
                );
            }
            return Err(error.into());
        }
    };
    let actor = json!({"kind": "user", "id": opened.user_id, "name": opened.username});
    app.audit.done_by(actor, Some(ip), call.request_id.to_string(), AuditAction::LogIn, None, None).await;
    reply::ok(&LoggedIn { access_token: &opened.token, token_type: "bearer", expires_in: opened.expires_in })
}

async fn log_out(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let caller = call.caller()?;
    let Some(session) = caller.session_id else {
        return Err(
            ApiError::new(&codes::INVALID_REQUEST).detail("Only a login can be logged out; revoke a key instead.")
        );
    };
    cardinal_store::sessions::revoke(&app.pools.core, session, "logout").await?;
    app.auth.forget_session(session);
    app.audit.done(&call, None, None).await;
    Ok(reply::no_content())
}

#[derive(Serialize, JsonSchema)]
struct Me<'a> {
    user: UserOfCall<'a>,
    scopes: Vec<String>,
    /// `hmac`, `api_key`, `jwt` or `local`.
    auth: &'static str,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<DateTime>")]
    expires_at: Option<OffsetDateTime>,
}

#[derive(Serialize, JsonSchema)]
struct UserOfCall<'a> {
    id: Uuid,
    username: &'a str,
    /// `user`, `oidc` or `plugin`.
    kind: &'a str,
}

async fn me(_: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let caller = call.caller()?;
    reply::ok(&Me {
        user: UserOfCall { id: caller.user_id, username: &caller.username, kind: &caller.user_kind },
        scopes: caller.scopes.to_strings(),
        auth: caller.auth_method(),
        expires_at: caller.expires_at,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Passwords {
    current_password: Secret,
    new_password: Secret,
}

async fn change_password(app: &Arc<App>, call: Call<NoQuery, Json<Passwords>>) -> ApiResult<Reply> {
    let caller = call.caller()?;
    authority::person(caller)?;
    let body = call.body()?;
    password::check_new(&body.new_password, "/new_password")?;
    let (ip, name) = (call.peer, caller.username.as_str());
    let wrong = || ApiError::invalid("/current_password", "This is not the current password.");
    let find = async || {
        let stored =
            cardinal_store::users::by_id(&app.pools.core, caller.user_id).await?.and_then(|user| user.password_hash);
        Ok((stored.clone(), stored))
    };
    let (stored, is_right) = login::check(&app.auth, &app.pools.core, ip, name, body.current_password, find).await?;
    if !is_right {
        return Err(wrong());
    }
    let hash = app.auth.hasher.hash(body.new_password).await?;
    let old = stored.unwrap_or_default();
    if !cardinal_store::users::set_password(&app.pools.core, caller.user_id, &old, &hash).await? {
        return Err(wrong()); // another one was set while these two were hashed
    }
    app.auth.forget_user(caller.user_id);
    app.audit.done(&call, None, None).await;
    app.review_first_password().await;
    Ok(reply::no_content())
}
