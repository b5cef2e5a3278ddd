//! `/v1/admin/users`: accounts and their roles.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, CallHead, Json, MergePatch, NoQuery, Query},
    http::reply::{self, Item, Reply},
};
use cardinal_base::{codes, config::Secret, input::maybe, page::Page, schema::DateTime};
use cardinal_identity::auth::{
    authority::{self, ROLES},
    caller::Caller,
    password, username,
};
use cardinal_store::users::accounts::{self, Account, AccountChange, Change, Filter};

/// What a new user is when nothing else is said.
const DEFAULT_ROLE: &str = "viewer";
const KINDS: [&str; 3] = ["user", "oidc", "plugin"];

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/users", list).scope("users:read").describe(|op| {
            op.named("listUsers", "users", "Accounts, newest first")
                .paged()
                .param("kind", "Only of this kind.", json!({"enum": KINDS}))
                .param("role", "Only of this role.", json!({"enum": ROLES}))
                .param("q", "Only whose name contains it.", json!({}))
                .ok::<Page<User<'_>>>();
        }),
        Route::post("/v1/admin/users", create).scope("users:write").audits(AuditAction::CreateUser).describe(|op| {
            op.named("createUser", "users", "Create an account")
                .created::<Item<User<'_>>>()
                .refuses(&[&codes::NAME_TAKEN]);
        }),
        Route::get("/v1/admin/users/{id}", get).scope("users:read").describe(|op| {
            op.named("getUser", "users", "One account").ok::<Item<User<'_>>>();
        }),
        Route::patch("/v1/admin/users/{id}", update).scope("users:write").audits(AuditAction::UpdateUser).describe(
            |op| {
                op.named("updateUser", "users", "Rename an account, change its role, disable it, set its password")
                    .notes("A new role, a new password or disabling it ends its sessions.")
                    .ok::<Item<User<'_>>>()
                    .refuses(&[&codes::NAME_TAKEN, &codes::CONFLICT]);
            },
        ),
        Route::delete("/v1/admin/users/{id}", delete).scope("users:write").audits(AuditAction::DeleteUser).describe(
            |op| {
                op.named("deleteUser", "users", "Remove an account; its sessions and keys end")
                    .no_content()
                    .refuses(&[&codes::CONFLICT]);
            },
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    cursor: Option<String>,
    limit: Option<i64>,
    kind: Option<String>,
    role: Option<String>,
    disabled: Option<bool>,
    q: Option<String>,
}

async fn list(app: &Arc<App>, call: Call<Query<ListQuery>>) -> ApiResult<Reply> {
    let query = call.query()?;
    check_value("kind", query.kind.as_deref(), &KINDS)?;
    check_value("role", query.role.as_deref(), &ROLES)?;
    let filter = Filter { kind: query.kind, role: query.role, disabled: query.disabled, q: query.q };
    let request = app.cursors.request(("users", &filter), query.limit, query.cursor.as_deref())?;
    let users = accounts::list(&app.pools.core, &filter, request.before, request.rows()).await?;
    reply::ok(&request.page(users, |user| user.id)?.show(show))
}

fn check_value(name: &str, value: Option<&str>, known: &[&str]) -> ApiResult<()> {
    match value {
        Some(value) if !known.contains(&value) => {
            Err(ApiError::new(&codes::INVALID_REQUEST).detail(format!("`{name}` is one of {}.", known.join(", "))))
        }
        _ => Ok(()),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewUser {
    #[schemars(length(min = 1, max = 120))]
    username: String,
    /// 8 to 256 bytes. Without one nobody can log in yet.
    password: Option<Secret>,
    /// `viewer` when nothing is said.
    role: Option<String>,
}

/// Without a password nobody can log in to the new account until one is set: so may a key make users.
async fn create(app: &Arc<App>, call: Call<NoQuery, Json<NewUser>>) -> ApiResult<Reply> {
    let caller = call.caller()?;
    let body = call.body()?;
    let name = username::check(&body.username, "/username")?;
    let role = role(body.role.as_deref().unwrap_or(DEFAULT_ROLE))?;
    authority::over_role(caller, Some(role))?;
    let hash = match body.password {
        Some(password) => {
            authority::person(caller)?;
            Some(hash(app, password).await?)
        }
        None => None,
    };
    let made = accounts::create(&app.pools.core, &name, role, hash.as_deref()).await?;
    let detail = json!({"username": made.username, "role": role});
    app.audit.done(&call, Some(made.id.to_string()), Some(detail)).await;
    reply::created(&format!("/v1/admin/users/{}", made.id), &Item { item: show(&made) })
}

async fn get(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    reply::ok(&Item { item: show(&find(app, &call).await?) })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UserPatch {
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "String")]
    username: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Option<String>")]
    role: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "bool")]
    disabled: Option<Option<bool>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Secret")]
    password: Option<Option<Secret>>,
}

async fn update(app: &Arc<App>, call: Call<NoQuery, MergePatch<UserPatch>>) -> ApiResult<Reply> {
    let caller = call.caller()?;
    let body = call.body()?;
    let user = find(app, &call).await?;
    may_change(caller, &user)?;
    let (mut change, password) = wanted(caller, &user, body)?;
    if let Some(password) = password {
        change.password_hash = Some(hash(app, password).await?);
    }
    let sets_password = change.password_hash.is_some();
    let changed = accounts::change(&app.pools.core, user.id, change, |now| may_change(caller, now)).await??;
    let changed = changed.ok_or_else(|| ApiError::not_found("user"))?;
    app.auth.forget_user(user.id);
    let detail = difference(&changed, sets_password);
    app.audit.done(&call, Some(user.id.to_string()), Some(detail)).await;
    if sets_password {
        app.review_first_password().await;
    }
    reply::ok(&Item { item: show(&changed.after) })
}

/// What the patch asks for, as far as it can be asked of this user by this caller.
fn wanted(caller: &Caller, user: &Account, body: UserPatch) -> ApiResult<(Change, Option<Secret>)> {
    let password = maybe::not_null(body.password, "/password")?;
    if password.is_some() {
        authority::person(caller)?;
        if user.id == caller.user_id {
            return Err(ApiError::new(&codes::FORBIDDEN)
                .detail("Change your own password at POST /v1/admin/auth/password, which asks for the current one."));
        }
    }
    let name = maybe::not_null(body.username, "/username")?;
    if user.kind != "user" {
        let theirs = [("/username", name.is_some()), ("/password", password.is_some())];
        if let Some((pointer, _)) = theirs.iter().find(|(_, is_requested)| *is_requested) {
            return Err(ApiError::invalid(*pointer, "This is managed by the identity provider."));
        }
    }
    let role = match body.role {
        Some(None) if user.kind == "user" => return Err(ApiError::invalid("/role", "A user has a role.")),
        Some(Some(name)) => {
            let role = role(&name)?;
            authority::over_role(caller, Some(role))?;
            Some(Some(role.to_owned()))
        }
        other => other.map(|_| None),
    };
    let change = Change {
        username: name.map(|name| username::check(&name, "/username")).transpose()?,
        role,
        disabled: maybe::not_null(body.disabled, "/disabled")?,
        password_hash: None,
    };
    Ok((change, password))
}

/// For the audit log: what has changed, and of a password only that it has.
pub fn difference(changed: &AccountChange, password: bool) -> Value {
    let AccountChange { before, after, ended_sessions } = changed;
    let mut detail = json!({"username": after.username, "ended_sessions": ended_sessions});
    if before.username != after.username {
        detail["username_before"] = json!(before.username);
    }
    if before.role != after.role {
        detail["role"] = json!({"before": before.role, "after": after.role});
    }
    if before.disabled_at.is_some() != after.disabled_at.is_some() {
        detail["disabled"] = json!(after.disabled_at.is_some());
    }
    if password {
        detail["password"] = json!("set");
    }
    detail
}

async fn delete(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let caller = call.caller()?;
    let id = call.params.id("id", "user")?;
    let removed = accounts::remove(&app.pools.core, id, |now| may_change(caller, now)).await??;
    let removed = removed.ok_or_else(|| ApiError::not_found("user"))?;
    app.auth.forget_user(id);
    let detail = json!({"username": removed.username, "kind": removed.kind, "role": removed.role});
    app.audit.done(&call, Some(id.to_string()), Some(detail)).await;
    app.review_first_password().await;
    Ok(reply::no_content())
}

fn may_change(caller: &Caller, user: &Account) -> ApiResult<()> {
    if user.kind == "plugin" {
        return Err(ApiError::new(&codes::FORBIDDEN).detail("Users of plugins are managed by the host."));
    }
    Ok(authority::over_role(caller, user.role.as_deref())?)
}

async fn find(app: &App, call: &CallHead) -> ApiResult<Account> {
    let id = call.params.id("id", "user")?;
    accounts::get(&app.pools.core, id).await?.ok_or_else(|| ApiError::not_found("user"))
}

async fn hash(app: &App, password: Secret) -> ApiResult<String> {
    password::check_new(&password, "/password")?;
    Ok(app.auth.hasher.hash(password).await?)
}

fn role(name: &str) -> ApiResult<&'static str> {
    let known = ROLES.into_iter().find(|role| *role == name);
    known.ok_or_else(|| ApiError::invalid("/role", format!("A role is one of {}.", ROLES.join(", "))))
}

/// An account as administrators see it.
#[derive(Serialize, JsonSchema)]
pub struct User<'a> {
    id: Uuid,
    username: &'a str,
    /// `user`, `oidc` or `plugin`.
    kind: &'a str,
    role: Option<&'a str>,
    disabled: bool,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<DateTime>")]
    disabled_at: Option<OffsetDateTime>,
    has_password: bool,
    /// Of a user of an identity provider.
    identity: Option<Identity<'a>>,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    updated_at: OffsetDateTime,
}

#[derive(Serialize, JsonSchema)]
pub struct Identity<'a> {
    issuer: &'a str,
    subject: &'a str,
}

pub fn show(user: &Account) -> User<'_> {
    User {
        id: user.id,
        username: &user.username,
        kind: &user.kind,
        role: user.role.as_deref(),
        disabled: user.disabled_at.is_some(),
        disabled_at: user.disabled_at,
        has_password: user.has_password,
        identity: user.identity.as_ref().map(|(issuer, subject)| Identity { issuer, subject }),
        created_at: user.created_at,
        updated_at: user.updated_at,
    }
}
