//! `/v1/admin/api-keys`: made, listed, changed, rotated, revoked. The key itself is shown once.
//!
//! Others' keys are seen with `users:read` and changed or revoked with `users:write`. Nobody rotates them: who sees a
//! key can act as its owner.

mod terms;
mod view;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

pub use self::view::{ApiKey, show};
use self::{
    terms::{Bounds, Rate},
    view::NewApiKey,
};
use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, CallHead, Json, MergePatch, NoQuery, Query},
    http::reply::{self, Item, Reply},
};
use cardinal_base::{codes, input::maybe, page::Page, schema::DateTime};
use cardinal_identity::auth::{
    api_key::PlainKey,
    authority,
    caller::{Caller, insufficient},
};
use cardinal_store::api_keys::{Change, CreateOutcome, KeyRecord, RotateOutcome, UpdateOutcome};

/// A rotated key may overlap with its successor for a week at most.
pub const MAX_OVERLAP: i64 = 7 * 24 * 3600;

/// What a rotation is refused with.
pub const CANNOT_ROTATE_ENDED: &str = "A key that is revoked or expired can't be rotated.";
pub const ROTATED_BEFORE: &str = "The key has been rotated already; revoke its successor first.";
pub const CHANGED_MEANWHILE: &str = "The key changed in the meantime; rotate it again.";

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/api-keys", list).scope("keys:read").describe(|op| {
            op.named("listApiKeys", "api-keys", "API keys, newest first")
                .notes("Your own; everyone's with `users:read`.")
                .paged()
                .ok::<Page<ApiKey<'_>>>();
        }),
        Route::post("/v1/admin/api-keys", create).scope("keys:write").audits(AuditAction::CreateKey).describe(|op| {
            op.named("createApiKey", "api-keys", "Create an API key")
                .notes("The key itself is shown in this answer only.")
                .created::<NewApiKey<'_>>();
        }),
        Route::get("/v1/admin/api-keys/{id}", get).scope("keys:read").describe(|op| {
            op.named("getApiKey", "api-keys", "One API key").ok::<Item<ApiKey<'_>>>();
        }),
        Route::patch("/v1/admin/api-keys/{id}", update).scope("keys:write").audits(AuditAction::UpdateKey).describe(
            |op| {
                op.named("updateApiKey", "api-keys", "Change an API key")
                    .ok::<Item<ApiKey<'_>>>()
                    .notes(
                        "Scopes that are removed are also removed from its rotations and from every key that was \
                        made with it.",
                    )
                    .refuses(&[&codes::CONFLICT]);
            },
        ),
        Route::delete("/v1/admin/api-keys/{id}", revoke).scope("keys:write").audits(AuditAction::RevokeKey).describe(
            |op| {
                op.named("revokeApiKey", "api-keys", "Revoke an API key, at once and on every host")
                    .notes(
                        "Its rotations, the keys that it replaced or that replaced it, and all keys that were made \
                         with any of them are revoked with it, unless `keep_children` is set.",
                    )
                    .no_content();
            },
        ),
        Route::post("/v1/admin/api-keys/{id}/rotate", rotate)
            .scope("keys:write")
            .audits(AuditAction::RotateKey)
            .describe(|op| {
                op.named("rotateApiKey", "api-keys", "Replace an API key with a new one")
                    .created::<NewApiKey<'_>>()
                    .refuses(&[&codes::CONFLICT]);
            }),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewKey {
    #[schemars(length(min = 1, max = 120))]
    name: String,
    /// Such as `cards:read`; none that the caller lacks.
    #[schemars(length(min = 1, max = 64))]
    scopes: Vec<String>,
    #[schemars(with = "Option<DateTime>")]
    expires_at: Option<String>,
    /// In the place of `expires_at`.
    #[schemars(range(min = 1, max = 3_650))]
    expires_in_days: Option<i64>,
    /// Null is no limit.
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Option<Rate>")]
    rate_limit: Option<Option<Rate>>,
    /// Good at `/api` and `/api/mcp` alone; 403 elsewhere.
    #[serde(default)]
    mcp_only: bool,
}

async fn create(app: &Arc<App>, call: Call<NoQuery, Json<NewKey>>) -> ApiResult<Reply> {
    let caller = call.caller()?;
    let body = call.body()?;
    let now = app.clock.now();
    let name = terms::name(&body.name)?;
    let scopes = terms::grantable(caller, &body.scopes)?;
    terms::may_make_keys(caller)?;
    let bounds = Bounds::from_caller(caller);
    let limit = bounds.rate(body.rate_limit, app.config.auth.key_rate_per_minute)?;
    let expires_at = bounds.expiry(terms::lifetime(body.expires_at, body.expires_in_days, now)?)?;
    let key = PlainKey::generate(&mut rand::rng());
    let mut record = KeyRecord {
        id: Uuid::now_v7(),
        name,
        key_hint: key.hint(),
        owner_id: caller.user_id,
        scopes,
        rate_per_minute: limit.per_minute,
        rate_burst: limit.burst,
        expires_at,
        created_at: now,
        last_used_at: None,
        last_used_ip: None,
        revoked_at: None,
        revoked_reason: None,
        replaces_id: None,
        made_by_key_id: caller.key.as_ref().map(|(id, _)| *id),
        budget_key_id: None,
        replaced_by_id: None,
        mcp_only: body.mcp_only,
    };
    match cardinal_store::api_keys::insert(&app.pools.core, &mut record, &key.hash()).await? {
        CreateOutcome::Done => {}
        CreateOutcome::MakerOver => return Err(app.auth.unauthorized(&codes::REVOKED_TOKEN, None).into()),
        CreateOutcome::MakerLacks(scope) => return Err(insufficient(&scope).into()),
    }
    audit(app, &call, &record).await;
    shown_once(&record, &key)
}

fn shown_once(record: &KeyRecord, key: &PlainKey) -> ApiResult<Reply> {
    let body = NewApiKey { item: show(record), key: key.expose() };
    reply::created(&format!("/v1/admin/api-keys/{}", record.id), &body)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    cursor: Option<String>,
    limit: Option<i64>,
}

async fn list(app: &Arc<App>, call: Call<Query<ListQuery>>) -> ApiResult<Reply> {
    let query = call.query()?;
    let owner = visible_owner(call.caller()?);
    let request = app.cursors.request(("api keys", owner), query.limit, query.cursor.as_deref())?;
    let keys = cardinal_store::api_keys::list(&app.pools.core, owner, request.before, request.rows()).await?;
    reply::ok(&request.page(keys, |key| key.id)?.show(show))
}

async fn get(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let record = find(app, &call).await?;
    reply::ok(&Item { item: show(&record) })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KeyPatch {
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "String", length(min = 1, max = 120))]
    name: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Vec<String>", length(min = 1, max = 64))]
    scopes: Option<Option<Vec<String>>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Option<DateTime>")]
    expires_at: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Option<Rate>")]
    rate_limit: Option<Option<Rate>>,
}

async fn update(app: &Arc<App>, call: Call<NoQuery, MergePatch<KeyPatch>>) -> ApiResult<Reply> {
    let caller = call.caller()?;
    let record = find(app, &call).await?;
    let owner_role = may_touch(app, caller, &record).await?;
    if record.owner_id != caller.user_id {
        authority::over_role(caller, owner_role.as_deref())?;
    }
    let change = wanted(app, caller, &record, call.body()?)?;
    if record.revoked_at.is_some() && !change.only_narrows(&record) {
        return Err(conflict(STAYS_REVOKED));
    }
    let more = |pointer, what| {
        let detail = format!("A key {what} than the key that it was made with.");
        Err(ApiError::invalid(pointer, detail))
    };
    let by = caller.key.as_ref().map(|(id, _)| *id);
    let (record, narrowed) = match cardinal_store::api_keys::update(&app.pools.core, &record, &change, by).await? {
        UpdateOutcome::Done(record, narrowed) => (record, narrowed),
        UpdateOutcome::Revoked => return Err(conflict(STAYS_REVOKED)),
        UpdateOutcome::OutlivesItsOverlap => return Err(conflict(STAYS_ROTATED)),
        UpdateOutcome::OutlivesItsMaker => return more("/expires_at", "lives no longer"),
        UpdateOutcome::ExceedsItsMaker => return more("/scopes", "holds no more scopes"),
        UpdateOutcome::CallerOver => return Err(app.auth.unauthorized(&codes::REVOKED_TOKEN, None).into()),
    };
    app.auth.forget_keys(narrowed.iter().map(|key| key.id).chain([record.id]));
    audit(app, &call, &record).await;
    for (act, keys) in [AuditAction::UpdateKey, AuditAction::RevokeKey].into_iter().zip(by_revocation(&narrowed)) {
        app.audit.done_to_each(&call, act, keys).await;
    }
    reply::ok(&Item { item: show(&record) })
}

const STAYS_REVOKED: &str =
    "A revoked key can't be changed. Only its scopes can be narrowed, which narrows the active keys of its lineage.";

const STAYS_ROTATED: &str = "The key was rotated, so its end can only be made earlier. Its successor can live longer.";

/// What a patch asks for, as far as this caller may ask for it.
fn wanted(app: &App, caller: &Caller, record: &KeyRecord, body: KeyPatch) -> ApiResult<Change> {
    let mut change = Change::default();
    if let Some(text) = maybe::not_null(body.name, "/name")? {
        change.name = Some(terms::name(&text)?);
    }
    if let Some(scopes) = maybe::not_null(body.scopes, "/scopes")? {
        change.scopes = Some(terms::grantable(caller, &scopes)?);
    } else if body.expires_at.is_some() || body.rate_limit.is_some() {
        // Whoever lengthens a key's life or widens its rate gives its rights anew.
        terms::grantable(caller, &record.scopes)?;
    }
    let bounds = Bounds::from_caller(caller);
    change.expires_at = match body.expires_at {
        Some(Some(at)) => Some(bounds.expiry(Some(terms::expiry(&at, app.clock.now())?))?),
        Some(None) => {
            bounds.endless()?;
            Some(None)
        }
        None => None,
    };
    let rate = match body.rate_limit {
        Some(Some(patch)) => patch.over(record.rate_per_minute).map(Some),
        whole => whole,
    };
    if rate.is_some() {
        let limit = bounds.rate(rate, app.config.auth.key_rate_per_minute)?;
        change.rate = Some((limit.per_minute, limit.burst));
    }
    Ok(change)
}

/// Lines of the audit log: keys that lost scopes with another one, and those that have none left and were revoked.
fn by_revocation(narrowed: &[KeyRecord]) -> [Vec<(String, Value)>; 2] {
    const NARROWED: &str = "its maker's scopes were narrowed";
    let (revoked, living): (Vec<_>, Vec<_>) = narrowed.iter().partition(|key| key.revoked_at.is_some());
    let line = |key: &&KeyRecord| {
        let reason = key.revoked_reason.as_deref().unwrap_or(NARROWED);
        (key.id.to_string(), because(audited(key), reason))
    };
    [living.iter().map(line).collect(), revoked.iter().map(line).collect()]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Revocation {
    /// This key goes alone: its rotations and the keys that were made with it go on working.
    keep_children: Option<bool>,
}

async fn revoke(app: &Arc<App>, call: Call<Query<Revocation>>) -> ApiResult<Reply> {
    let query = call.query()?;
    let caller = call.caller()?;
    let record = find(app, &call).await?;
    may_touch(app, caller, &record).await?;
    let reason = if record.owner_id == caller.user_id { "revoked" } else { "revoked by an administrator" };
    let alone = query.keep_children.unwrap_or(false);
    let taken = cardinal_store::api_keys::revoke(&app.pools.core, &record, reason, alone).await?;
    app.auth.forget_keys(taken.iter().map(|key| key.id).chain([record.id]));
    let mut lines = vec![(record.id.to_string(), because(audited(&record), reason))];
    lines.extend(taken.iter().map(|key| {
        let reason = key.revoked_reason.as_deref().unwrap_or(reason);
        (key.id.to_string(), because(audited(key), reason))
    }));
    app.audit.done_to_each(&call, AuditAction::RevokeKey, lines).await;
    Ok(reply::no_content())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rotate {
    /// How long the old key goes on working.
    #[schemars(range(min = 0, max = 604_800))]
    overlap_seconds: i64,
}

async fn rotate(app: &Arc<App>, call: Call<NoQuery, Json<Rotate>>) -> ApiResult<Reply> {
    let caller = call.caller()?;
    let old = find(app, &call).await?;
    if old.owner_id != caller.user_id {
        return Err(ApiError::new(&codes::FORBIDDEN)
            .detail("Only its owner can rotate a key, since the new one is shown. Revoke it instead."));
    }
    let body = call.body()?;
    if !(0..=MAX_OVERLAP).contains(&body.overlap_seconds) {
        return Err(ApiError::invalid("/overlap_seconds", format!("0 to {MAX_OVERLAP} seconds.")));
    }
    terms::grantable(caller, &old.scopes)?;
    let bounds = Bounds::from_caller(caller);
    let now = app.clock.now();
    let key = PlainKey::generate(&mut rand::rng());
    let mut new = KeyRecord { expires_at: bounds.expiry(old.expires_at)?, ..successor(&old, &key, now) };
    let overlap = (body.overlap_seconds > 0).then(|| now + Duration::seconds(body.overlap_seconds));
    let by = caller.key.as_ref().map(|(id, _)| *id);
    match cardinal_store::api_keys::rotate(&app.pools.core, &mut new, &key.hash(), &old, overlap, by).await? {
        RotateOutcome::Done => {}
        RotateOutcome::Over => return Err(conflict(CANNOT_ROTATE_ENDED)),
        RotateOutcome::Changed => return Err(conflict(CHANGED_MEANWHILE)),
        RotateOutcome::Before => return Err(conflict(ROTATED_BEFORE)),
        RotateOutcome::ByItsDescendant => {
            return Err(ApiError::new(&codes::FORBIDDEN).detail("A key can't rotate a key that it was made with."));
        }
        RotateOutcome::CallerOver => return Err(app.auth.unauthorized(&codes::REVOKED_TOKEN, None).into()),
    }
    app.auth.forget_keys([old.id]);
    audit(app, &call, &new).await;
    shown_once(&new, &key)
}

/// The record of `key` in the place of `old`.
pub fn successor(old: &KeyRecord, key: &PlainKey, now: OffsetDateTime) -> KeyRecord {
    KeyRecord {
        id: Uuid::now_v7(),
        key_hint: key.hint(),
        created_at: now,
        last_used_at: None,
        last_used_ip: None,
        replaces_id: Some(old.id),
        ..old.clone()
    }
}

fn conflict(detail: &str) -> ApiError {
    ApiError::new(&codes::CONFLICT).detail(detail)
}

/// 403 unless the key is the caller's own or the caller manages users; an owner's key only owners. Gives the role of
/// whose key it is.
async fn may_touch(app: &App, caller: &Caller, key: &KeyRecord) -> ApiResult<Option<String>> {
    if key.owner_id == caller.user_id {
        return Ok(caller.role.clone());
    }
    caller.require("users:write")?;
    let role = cardinal_store::users::by_id(&app.pools.core, key.owner_id).await?.and_then(|owner| owner.role);
    authority::over_owner(caller, role.as_deref())?;
    Ok(role)
}

/// Whose keys a caller sees: those who manage users see all, others their own.
fn visible_owner(caller: &Caller) -> Option<Uuid> {
    if caller.holds("users:read") { None } else { Some(caller.user_id) }
}

async fn find(app: &App, call: &CallHead) -> ApiResult<KeyRecord> {
    let id = call.params.id("id", "API key")?;
    let owner = visible_owner(call.caller()?);
    let record = cardinal_store::api_keys::get(&app.pools.core, id).await?;
    record.filter(|key| owner.is_none_or(|owner| owner == key.owner_id)).ok_or_else(|| ApiError::not_found("API key"))
}

async fn audit(app: &App, call: &CallHead, key: &KeyRecord) {
    app.audit.done(call, Some(key.id.to_string()), Some(audited(key))).await;
}

/// A key as the audit log shows it.
pub fn audited(key: &KeyRecord) -> Value {
    json!({
        "name": key.name, "scopes": key.scopes, "key_hint": key.key_hint, "owner_id": key.owner_id,
        "replaces_id": key.replaces_id, "made_by_key_id": key.made_by_key_id, "mcp_only": key.mcp_only,
    })
}

/// The same with why it was done.
pub fn because(mut detail: Value, reason: &str) -> Value {
    detail["reason"] = json!(reason);
    detail
}
