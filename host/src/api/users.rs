//! `/v1/admin/users`: accounts and their roles.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use uuid::Uuid;

use crate::{
    app::App,
    audit::Act,
    auth::{
        authority::{self, ROLES},
        caller::Caller,
        password, username,
    },
    config::Secret,
    db::users::accounts::{self, Account, Change, Changed, Filter},
    http::{
        codes,
        error::{ApiError, ApiResult},
        input::maybe,
        page,
        reply::{self, Reply},
    },
    request::Call,
    route,
    router::{Access, Reads, Route, SMALL},
};

/// What a new user is when nothing else is said.
const USUAL_ROLE: &str = "viewer";
const KINDS: [&str; 3] = ["user", "oidc", "plugin"];

pub fn routes() -> Vec<Route> {
    vec![
        route!(GET "/v1/admin/users", Access::Scope("users:read"), Reads::Nothing, list),
        route!(POST "/v1/admin/users", Access::Scope("users:write"), Reads::Json(SMALL), create),
        route!(GET "/v1/admin/users/{id}", Access::Scope("users:read"), Reads::Nothing, get),
        route!(PATCH "/v1/admin/users/{id}", Access::Scope("users:write"), Reads::MergePatch(SMALL), update),
        route!(DELETE "/v1/admin/users/{id}", Access::Scope("users:write"), Reads::Nothing, delete),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    cursor: Option<String>,
    limit: Option<i64>,
    kind: Option<String>,
    role: Option<String>,
    disabled: Option<bool>,
    q: Option<String>,
}

async fn list(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let query: ListQuery = call.query()?;
    one_of("kind", query.kind.as_deref(), &KINDS)?;
    one_of("role", query.role.as_deref(), &ROLES)?;
    let limit = page::limit(query.limit)?;
    let filter = Filter { kind: query.kind, role: query.role, disabled: query.disabled, q: query.q };
    let list = ("users", &filter);
    let before: Option<Uuid> = query.cursor.map(|cursor| app.cursors.open(&list, &cursor)).transpose()?;
    let mut users = accounts::list(&app.pools.core, &filter, before, limit + 1).await?;
    let next = app.cursors.cut(&list, &mut users, limit, |user| user.id)?;
    let items = users.iter().map(show).collect::<ApiResult<Vec<_>>>()?;
    reply::ok(&json!({"items": items, "next_cursor": next}))
}

fn one_of(name: &str, value: Option<&str>, known: &[&str]) -> ApiResult<()> {
    match value {
        Some(value) if !known.contains(&value) => {
            Err(ApiError::new(&codes::INVALID_REQUEST).detail(format!("`{name}` is one of {}.", known.join(", "))))
        }
        _ => Ok(()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewUser {
    username: String,
    password: Option<Secret>,
    role: Option<String>,
}

/// Without a password nobody can log in to the new account until one is set: so may a key make users.
async fn create(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    call.no_query()?;
    let caller = call.caller()?;
    let body: NewUser = call.json()?;
    let name = username::check(&body.username, "/username")?;
    let role = role(body.role.as_deref().unwrap_or(USUAL_ROLE))?;
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
    app.audit.done(&call, Act::CreateUser, Some(made.id.to_string()), Some(detail)).await;
    reply::created(&format!("/v1/admin/users/{}", made.id), &json!({"item": show(&made)?}))
}

async fn get(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    call.no_query()?;
    reply::ok(&json!({"item": show(&find(app, &call).await?)?}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserPatch {
    #[serde(default, deserialize_with = "maybe::present")]
    username: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    role: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    disabled: Option<Option<bool>>,
    #[serde(default, deserialize_with = "maybe::present")]
    password: Option<Option<Secret>>,
}

async fn update(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    call.no_query()?;
    let caller = call.caller()?;
    let body: UserPatch = call.json()?;
    let user = find(app, &call).await?;
    may_change(caller, &user)?;
    let (mut change, password) = wanted(caller, &user, body)?;
    if let Some(password) = password {
        change.password_hash = Some(hash(app, password).await?);
    }
    let sets_password = change.password_hash.is_some();
    let changed = accounts::change(&app.pools.core, user.id, change, |now| may_change(caller, now)).await?;
    let changed = changed.ok_or_else(|| ApiError::not_found("user"))?;
    app.auth.forget_user(user.id);
    let detail = difference(&changed, sets_password);
    app.audit.done(&call, Act::UpdateUser, Some(user.id.to_string()), Some(detail)).await;
    reply::ok(&json!({"item": show(&changed.after)?}))
}

/// What the patch asks for, as far as it can be asked of this user by this caller.
fn wanted(caller: &Caller, user: &Account, body: UserPatch) -> ApiResult<(Change, Option<Secret>)> {
    let password = maybe::not_null(body.password, "/password")?;
    if password.is_some() {
        authority::person(caller)?;
        if user.id == caller.user_id {
            return Err(ApiError::new(&codes::FORBIDDEN).detail(
                "One's own password is changed at POST /v1/admin/auth/password, which asks for the current one.",
            ));
        }
    }
    let name = maybe::not_null(body.username, "/username")?;
    if user.kind != "user" {
        let theirs = [("/username", name.is_some()), ("/password", password.is_some())];
        if let Some((pointer, _)) = theirs.iter().find(|(_, asked)| *asked) {
            return Err(ApiError::invalid(*pointer, "The identity provider keeps this of its users."));
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
fn difference(changed: &Changed, password: bool) -> Value {
    let Changed { before, after, ended_sessions } = changed;
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
    call.no_query()?;
    let caller = call.caller()?;
    let id = call.params.id("id", "user")?;
    let removed = accounts::remove(&app.pools.core, id, |now| may_change(caller, now)).await?;
    let removed = removed.ok_or_else(|| ApiError::not_found("user"))?;
    app.auth.forget_user(id);
    let detail = json!({"username": removed.username, "kind": removed.kind, "role": removed.role});
    app.audit.done(&call, Act::DeleteUser, Some(id.to_string()), Some(detail)).await;
    Ok(reply::no_content())
}

fn may_change(caller: &Caller, user: &Account) -> ApiResult<()> {
    if user.kind == "plugin" {
        return Err(ApiError::new(&codes::FORBIDDEN).detail("The host keeps the users of plugins itself."));
    }
    authority::over_role(caller, user.role.as_deref())
}

async fn find(app: &App, call: &Call) -> ApiResult<Account> {
    let id = call.params.id("id", "user")?;
    accounts::get(&app.pools.core, id).await?.ok_or_else(|| ApiError::not_found("user"))
}

async fn hash(app: &App, password: Secret) -> ApiResult<String> {
    password::check_new(&password, "/password")?;
    app.auth.hasher.hash(password).await
}

fn role(name: &str) -> ApiResult<&'static str> {
    let known = ROLES.into_iter().find(|role| *role == name);
    known.ok_or_else(|| ApiError::invalid("/role", format!("A role is one of {}.", ROLES.join(", "))))
}

fn show(user: &Account) -> ApiResult<Value> {
    let time = |at: OffsetDateTime| at.format(&Rfc3339).map_err(ApiError::internal);
    let identity = user.identity.as_ref().map(|(issuer, subject)| json!({"issuer": issuer, "subject": subject}));
    Ok(json!({
        "id": user.id,
        "username": user.username,
        "kind": user.kind,
        "role": user.role,
        "disabled": user.disabled_at.is_some(),
        "disabled_at": user.disabled_at.map(time).transpose()?,
        "has_password": user.has_password,
        "identity": identity,
        "created_at": time(user.created_at)?,
        "updated_at": time(user.updated_at)?,
    }))
}
