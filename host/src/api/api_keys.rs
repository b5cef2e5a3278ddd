//! `/v1/admin/api-keys`: made, listed, changed, rotated, revoked. The key itself is shown once.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};
use uuid::Uuid;

use crate::{
    app::App,
    auth::{
        api_key::PlainKey,
        caller::{Caller, insufficient},
        scope::{self, ScopeSet},
    },
    db::{self, api_keys::KeyRecord, audit::Act},
    http::{
        codes,
        error::{ApiError, ApiResult},
        input::maybe,
        reply::{self, Reply},
    },
    request::Call,
    route,
    router::{Access, Reads, Route, SMALL},
};

const NAME_LIMIT: usize = 120;
const LARGEST_RATE: i64 = 100_000_000;
const LONGEST_DAYS: i64 = 3_650;
/// A rotated key may overlap with its successor for a week at most.
const LONGEST_OVERLAP: i64 = 7 * 24 * 3600;
const PAGE: i64 = 100;

pub fn routes() -> Vec<Route> {
    vec![
        route!(GET "/v1/admin/api-keys", Access::Scope("keys:read"), Reads::Nothing, list),
        route!(POST "/v1/admin/api-keys", Access::Scope("keys:write"), Reads::Json(SMALL), create),
        route!(GET "/v1/admin/api-keys/{id}", Access::Scope("keys:read"), Reads::Nothing, get),
        route!(PATCH "/v1/admin/api-keys/{id}", Access::Scope("keys:write"), Reads::MergePatch(SMALL), update),
        route!(DELETE "/v1/admin/api-keys/{id}", Access::Scope("keys:write"), Reads::Nothing, revoke),
        route!(POST "/v1/admin/api-keys/{id}/rotate", Access::Scope("keys:write"), Reads::Json(SMALL), rotate),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewKey {
    name: String,
    scopes: Vec<String>,
    expires_at: Option<String>,
    expires_in_days: Option<i64>,
    #[serde(default, deserialize_with = "maybe::present")]
    rate_limit: Option<Option<Rate>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    #[serde(default, deserialize_with = "maybe::present")]
    per_minute: Option<Option<i64>>,
    burst: Option<i64>,
}

async fn create(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let caller = call.caller()?;
    let body: NewKey = call.json()?;
    let now = app.clock.now();
    let (rate_per_minute, rate_burst) = rate(body.rate_limit, app.config.auth.key_rate_per_minute)?;
    let expires_at = match (body.expires_at, body.expires_in_days) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("/expires_in_days", "Give either expires_at or expires_in_days."));
        }
        (Some(at), None) => Some(expiry(&at, now)?),
        (None, Some(days @ 1..=LONGEST_DAYS)) => Some(now + Duration::days(days)),
        (None, Some(_)) => return Err(ApiError::invalid("/expires_in_days", format!("1 to {LONGEST_DAYS} days."))),
        (None, None) => None,
    };
    let key = PlainKey::generate(&mut rand::rng());
    let record = KeyRecord {
        id: Uuid::now_v7(),
        name: name(&body.name)?,
        key_hint: key.hint(),
        owner_id: caller.user_id,
        scopes: grantable(caller, &body.scopes)?,
        rate_per_minute,
        rate_burst,
        expires_at,
        created_at: now,
        last_used_at: None,
        last_used_ip: None,
        revoked_at: None,
        revoked_reason: None,
        replaces_id: None,
    };
    db::api_keys::insert(&app.pools.core, &record, &key.hash()).await?;
    audit(app, &call, caller, "api_key.create", &record).await;
    shown_once(&record, &key)
}

/// The one answer that shows a key.
fn shown_once(record: &KeyRecord, key: &PlainKey) -> ApiResult<Reply> {
    let body = json!({"item": show(record)?, "key": key.expose()});
    reply::created(&format!("/v1/admin/api-keys/{}", record.id), &body)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    cursor: Option<Uuid>,
    limit: Option<i64>,
}

async fn list(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let query: ListQuery = call.query()?;
    let limit = match query.limit.unwrap_or(PAGE) {
        limit @ 1..=200 => limit,
        _ => return Err(ApiError::new(&codes::INVALID_REQUEST).detail("`limit` is 1 to 200.")),
    };
    let owner = visible_owner(call.caller()?);
    let mut keys = db::api_keys::list(&app.pools.core, owner, query.cursor, limit + 1).await?;
    let more = keys.len() as i64 > limit;
    keys.truncate(usize::try_from(limit).unwrap_or_default());
    let next = if more { keys.last().map(|key| key.id) } else { None };
    let items = keys.iter().map(show).collect::<ApiResult<Vec<_>>>()?;
    reply::ok(&json!({"items": items, "next_cursor": next}))
}

async fn get(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let record = find(app, &call).await?;
    reply::ok(&json!({"item": show(&record)?}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyPatch {
    name: Option<String>,
    scopes: Option<Vec<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    expires_at: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    rate_limit: Option<Option<Rate>>,
}

async fn update(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let caller = call.caller()?;
    let mut record = find(app, &call).await?;
    let body: KeyPatch = call.json()?;
    if let Some(text) = &body.name {
        record.name = name(text)?;
    }
    if let Some(scopes) = &body.scopes {
        record.scopes = grantable(caller, scopes)?;
    } else if body.expires_at.is_some() || body.rate_limit.is_some() {
        // Whoever lengthens a key's life or widens its rate gives its rights anew.
        grantable(caller, &record.scopes)?;
    }
    match body.expires_at {
        Some(Some(at)) => record.expires_at = Some(expiry(&at, app.clock.now())?),
        Some(None) => record.expires_at = None,
        None => {}
    }
    if body.rate_limit.is_some() {
        (record.rate_per_minute, record.rate_burst) = rate(body.rate_limit, app.config.auth.key_rate_per_minute)?;
    }
    db::api_keys::update(&app.pools.core, &record).await?;
    app.auth.forget_key(record.id);
    audit(app, &call, caller, "api_key.update", &record).await;
    reply::ok(&json!({"item": show(&record)?}))
}

async fn revoke(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let record = find(app, &call).await?;
    db::api_keys::revoke(&app.pools.core, record.id, "revoked").await?;
    app.auth.forget_key(record.id);
    audit(app, &call, call.caller()?, "api_key.revoke", &record).await;
    Ok(reply::no_content())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rotate {
    overlap_seconds: i64,
}

async fn rotate(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let caller = call.caller()?;
    let old = find(app, &call).await?;
    let body: Rotate = call.json()?;
    if !(0..=LONGEST_OVERLAP).contains(&body.overlap_seconds) {
        return Err(ApiError::invalid("/overlap_seconds", format!("0 to {LONGEST_OVERLAP} seconds.")));
    }
    let now = app.clock.now();
    if old.revoked_at.is_some() || old.expires_at.is_some_and(|end| end <= now) {
        return Err(ApiError::new(&codes::CONFLICT).detail("A key that is revoked or expired can't be rotated."));
    }
    grantable(caller, &old.scopes)?;
    let key = PlainKey::generate(&mut rand::rng());
    let new = KeyRecord {
        id: Uuid::now_v7(),
        key_hint: key.hint(),
        created_at: now,
        last_used_at: None,
        last_used_ip: None,
        replaces_id: Some(old.id),
        ..old.clone()
    };
    db::api_keys::insert(&app.pools.core, &new, &key.hash()).await?;
    if body.overlap_seconds == 0 {
        db::api_keys::revoke(&app.pools.core, old.id, "rotated").await?;
    } else {
        db::api_keys::expire(&app.pools.core, old.id, now + Duration::seconds(body.overlap_seconds)).await?;
    }
    app.auth.forget_key(old.id);
    audit(app, &call, caller, "api_key.rotate", &new).await;
    shown_once(&new, &key)
}

/// Whose keys a caller sees: those who manage users see all, others their own.
fn visible_owner(caller: &Caller) -> Option<Uuid> {
    if caller.holds("users:read") { None } else { Some(caller.user_id) }
}

async fn find(app: &App, call: &Call) -> ApiResult<KeyRecord> {
    let id = call.params.id("id", "API key")?;
    let owner = visible_owner(call.caller()?);
    let record = db::api_keys::get(&app.pools.core, id).await?;
    record.filter(|key| owner.is_none_or(|owner| owner == key.owner_id)).ok_or_else(|| ApiError::not_found("API key"))
}

/// The scopes as they are stored; nobody can grant what they lack.
fn grantable(caller: &Caller, scopes: &[String]) -> ApiResult<Vec<String>> {
    if scopes.is_empty() || scopes.len() > scope::SCOPE_LIMIT {
        return Err(ApiError::invalid("/scopes", format!("1 to {} scopes are needed.", scope::SCOPE_LIMIT)));
    }
    let wanted = ScopeSet::strict(scopes)
        .map_err(|at| ApiError::invalid(format!("/scopes/{at}"), format!("`{}` is not a scope.", scopes[at])))?;
    if let Some(at) = scopes.iter().position(|name| name == scope::APPROVE) {
        return Err(ApiError::invalid(format!("/scopes/{at}"), "Only a login can answer confirmations, never a key."));
    }
    match scopes.iter().find(|name| !caller.scopes.includes(&ScopeSet::lenient([name]))) {
        Some(missing) => Err(insufficient(missing)),
        None => Ok(wanted.to_strings()),
    }
}

fn name(text: &str) -> ApiResult<String> {
    let text = text.trim();
    match text.chars().count() {
        1..=NAME_LIMIT if !text.chars().any(char::is_control) => Ok(text.to_owned()),
        _ => Err(ApiError::invalid("/name", format!("1 to {NAME_LIMIT} characters are needed."))),
    }
}

fn expiry(text: &str, now: OffsetDateTime) -> ApiResult<OffsetDateTime> {
    let at = OffsetDateTime::parse(text, &Rfc3339)
        .map_err(|_| ApiError::invalid("/expires_at", "A time of RFC 3339 is needed."))?;
    if at <= now {
        return Err(ApiError::invalid("/expires_at", "The time has passed."));
    }
    Ok(at)
}

/// Requests a minute and burst: absent is the setting, null is no limit.
fn rate(asked: Option<Option<Rate>>, default: u32) -> ApiResult<(Option<i32>, Option<i32>)> {
    let default = i64::from(default);
    let (per_minute, burst) = match asked {
        None => (default, None),
        Some(None) => return Ok((None, None)),
        Some(Some(Rate { per_minute: Some(None), burst: None })) => return Ok((None, None)),
        Some(Some(Rate { per_minute: Some(None), burst: Some(_) })) => {
            return Err(ApiError::invalid("/rate_limit/burst", "Without a limit there is no burst."));
        }
        Some(Some(Rate { per_minute, burst })) => (per_minute.flatten().unwrap_or(default), burst),
    };
    let bounded = |value: i64, pointer: &str| match i32::try_from(value) {
        Ok(value @ 1..) if i64::from(value) <= LARGEST_RATE => Ok(value),
        _ => Err(ApiError::invalid(pointer, format!("1 to {LARGEST_RATE}."))),
    };
    let per_minute = bounded(per_minute, "/rate_limit/per_minute")?;
    let burst = bounded(burst.unwrap_or(i64::from(per_minute).div_euclid(10).max(1)), "/rate_limit/burst")?;
    Ok((Some(per_minute), Some(burst)))
}

fn show(key: &KeyRecord) -> ApiResult<Value> {
    let time = |at: Option<OffsetDateTime>| at.map(|at| at.format(&Rfc3339)).transpose().map_err(ApiError::internal);
    let rate = key.rate_per_minute.map(|per_minute| json!({"per_minute": per_minute, "burst": key.rate_burst}));
    Ok(json!({
        "id": key.id,
        "name": key.name,
        "key_hint": key.key_hint,
        "owner_id": key.owner_id,
        "scopes": key.scopes,
        "rate_limit": rate,
        "expires_at": time(key.expires_at)?,
        "created_at": time(Some(key.created_at))?,
        "last_used_at": time(key.last_used_at)?,
        "last_used_ip": key.last_used_ip,
        "revoked_at": time(key.revoked_at)?,
        "revoked_reason": key.revoked_reason,
        "replaces_id": key.replaces_id,
    }))
}

async fn audit(app: &App, call: &Call, caller: &Caller, action: &str, key: &KeyRecord) {
    let act = Act {
        actor: caller.actor(),
        action,
        target: Some(key.id.to_string()),
        outcome: "ok",
        ip: Some(call.peer),
        request_id: &call.request_id.to_string(),
        detail: Some(json!({"name": key.name, "scopes": key.scopes, "key_hint": key.key_hint})),
    };
    db::audit::record(&app.pools.core, &act).await;
}
