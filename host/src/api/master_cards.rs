//! `/v1/admin/master-cards`.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    app::App,
    audit::Act,
    cards::{
        card::{Card, NewCard},
        filter::ListQuery,
        patch::CardPatch,
    },
    db::{
        self,
        card_sources::{self, Written},
        cards::Precondition,
    },
    http::{
        codes,
        error::{ApiError, ApiResult},
        input, page,
        reply::{self, Reply},
    },
    request::Call,
    route,
    router::{Access, CARD, Reads, Route},
};

pub fn routes() -> Vec<Route> {
    vec![
        route!(GET "/v1/admin/master-cards", Access::Scope("cards:read"), Reads::Nothing, list),
        route!(POST "/v1/admin/master-cards", Access::Scope("cards:write"), Reads::Json(CARD), create),
        route!(GET "/v1/admin/master-cards/{id}", Access::Scope("cards:read"), Reads::Nothing, get),
        route!(PATCH "/v1/admin/master-cards/{id}", Access::Scope("cards:write"), Reads::MergePatch(CARD), update),
        route!(DELETE "/v1/admin/master-cards/{id}", Access::Scope("cards:write"), Reads::Nothing, delete),
        route!(POST "/v1/admin/master-cards/{id}/restore", Access::Scope("cards:write"), Reads::Nothing, restore),
        route!(GET "/v1/admin/master-cards/{id}/history", Access::Scope("cards:read"), Reads::Nothing, history),
        route!(DELETE "/v1/admin/master-cards/{id}/sources/{source_key}", Access::Scope("cards:write"), Reads::Nothing, remove_source),
    ]
}

/// One card, alone in its reply.
#[derive(Serialize)]
struct Item<'a> {
    item: &'a Card,
}

async fn list(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let query: ListQuery = call.query()?;
    reply::ok(&app.catalogue.page(&query).await?)
}

async fn create(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    call.no_query()?;
    let fields = call.json::<NewCard>()?.check()?;
    let card = db::cards::insert(&app.pools.core, Uuid::now_v7(), fields, &call.caller()?.actor()).await?;
    let reply = reply::created(&format!("/v1/admin/master-cards/{}", card.id), &Item { item: &card })?;
    with_etag(reply, card.version)
}

async fn get(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    call.no_query()?;
    let id = call.params.id("id", "card")?;
    let card = app.catalogue.card(id).await?;
    if call.header(header::IF_NONE_MATCH).is_some_and(|tags| names_version(tags, card.version)) {
        return with_etag(reply::status(StatusCode::NOT_MODIFIED), card.version);
    }
    with_etag(reply::ok(&Item { item: &card })?, card.version)
}

async fn update(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    call.no_query()?;
    let id = call.params.id("id", "card")?;
    let precondition = if_match(&call)?;
    let change = call.json::<CardPatch>()?.check()?;
    let sent: Value = input::json(&call.body)?;
    let card = db::cards::update(&app.pools.core, id, &change, &sent, &precondition, &call.caller()?.actor()).await?;
    with_etag(reply::ok(&Item { item: &card })?, card.version)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeleteQuery {
    purge: Option<bool>,
}

async fn delete(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let id = call.params.id("id", "card")?;
    let query: DeleteQuery = call.query()?;
    let precondition = if_match(&call)?;
    let caller = call.caller()?;
    if query.purge == Some(true) {
        caller.require("cards:purge")?;
        match db::cards::delete(&app.pools.core, id, &precondition, &caller.actor()).await {
            // A card that is hidden already may still be purged.
            Err(error) if error.status() == StatusCode::NOT_FOUND => {}
            outcome => outcome?,
        }
        db::cards::purge(&app.pools.reaper, id).await?;
        app.audit.done(&call, Act::PurgeCard, Some(id.to_string()), None).await;
    } else {
        db::cards::delete(&app.pools.core, id, &precondition, &caller.actor()).await?;
    }
    Ok(reply::no_content())
}

async fn restore(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let id = call.params.id("id", "card")?;
    let card = db::cards::restore(&app.pools.core, id, &call.caller()?.actor()).await?;
    with_etag(reply::ok(&Item { item: &card })?, card.version)
}

async fn remove_source(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    call.no_query()?;
    let id = call.params.id("id", "card")?;
    let key = call.params.get("source_key").unwrap_or_default();
    match card_sources::remove(&app.pools.core, id, key, &call.caller()?.actor()).await? {
        Written::Version(_) => Ok(reply::no_content()),
        Written::NoCard => Err(ApiError::not_found("card")),
        Written::NoSource | Written::Full => Err(ApiError::not_found("source")),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    limit: Option<i64>,
    cursor: Option<String>,
}

async fn history(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let id = call.params.id("id", "card")?;
    let query: HistoryQuery = call.query()?;
    let (limit, list) = (page::limit(query.limit)?, ("card history", id));
    let before = query.cursor.map(|cursor| app.cursors.open(&list, &cursor)).transpose()?;
    app.catalogue.card(id).await?;
    let mut lines = db::card_history::page(&app.pools.core, id, before, limit + 1).await?;
    let next = app.cursors.cut(&list, &mut lines, limit, |line| line.id)?;
    reply::ok(&json!({"items": lines, "next_cursor": next}))
}

pub(super) fn with_etag(mut reply: Reply, version: i64) -> ApiResult<Reply> {
    let tag = HeaderValue::try_from(format!("\"{version}\"")).map_err(ApiError::internal)?;
    reply.headers_mut().insert(header::ETAG, tag);
    Ok(reply)
}

/// Whether a list of entity tags names this version; weak ones count for reading.
pub(super) fn names_version(tags: &str, version: i64) -> bool {
    tags.trim() == "*" || tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == format!("\"{version}\""))
}

/// `If-Match`, compared strongly: a weak tag never matches.
pub(super) fn if_match(call: &Call) -> ApiResult<Precondition> {
    let Some(value) = call.headers.get(header::IF_MATCH) else { return Ok(Precondition::None) };
    let malformed = || ApiError::new(&codes::INVALID_REQUEST).detail("If-Match is a list of entity tags or `*`.");
    let text = value.to_str().map_err(|_| malformed())?.trim();
    if text == "*" {
        return Ok(Precondition::Exists);
    }
    let mut versions = Vec::new();
    for tag in text.split(',').map(str::trim) {
        let strong = tag.strip_prefix("W/").unwrap_or(tag);
        let inner = strong.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or_else(malformed)?;
        // A tag that isn't one of ours is well-formed and matches nothing.
        if let (true, Ok(version)) = (strong.len() == tag.len(), inner.parse()) {
            versions.push(version);
        }
    }
    Ok(Precondition::Versions(versions))
}
