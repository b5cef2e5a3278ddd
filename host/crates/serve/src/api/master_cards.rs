//! `/v1/admin/master-cards`.

use std::sync::Arc;

use http::{StatusCode, header};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, Exact, ExactPatch, MaybeJson, NoQuery, Patch, Query, if_match, names_version, with_etag},
    http::reply::{self, Item, Reply},
    router::CARD_BODY_LIMIT,
};
use cardinal_base::{codes, input, page::Page};
use cardinal_cards::{
    card::{Card, NewCard},
    filter::ListQuery,
    patch::CardPatch,
};
use cardinal_store::{
    cards::{Precondition, sources::WriteOutcome},
    catalogue::CardPage,
    error::StoreError,
};

/// Orders of the list.
const ORDERS: [&str; 8] = ["title", "-title", "sku", "-sku", "created_at", "-created_at", "updated_at", "-updated_at"];

pub(super) fn routes() -> Vec<Route> {
    [all_cards(), one_card()].into_iter().flatten().collect()
}

fn all_cards() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/master-cards", list).scope("cards:read").describe(|op| {
            op.named("listCards", "cards", "Cards, page by page, filtered and searched")
                .notes(
                    "No page costs more than the first. A cursor belongs to its filter and order. A page ends early \
                     at 16 MiB of cards; its cursor continues after them.",
                )
                .param("limit", "Cards per page.", json!({"minimum": 1, "maximum": 200, "default": 50}))
                .param("cursor", "`next_cursor` or `prev_cursor` of another page.", json!({}))
                .param("sort", "The order; `-` reverses it.", json!({"enum": ORDERS, "default": "-created_at"}))
                .card_filter()
                .param(
                    "fields",
                    "Members of the items, comma-separated; `id` is always included. `updated_by`, who changed a card \
                     last, comes only when it is named.",
                    json!({"examples": ["title,sku", "updated_at,updated_by"]}),
                )
                .param("count", "Count exactly, which can be slow.", json!({"enum": ["exact"]}))
                .ok::<CardPage>();
        }),
        Route::post("/v1/admin/master-cards", create).scope("cards:write").body_limit(CARD_BODY_LIMIT).describe(|op| {
            op.named("createCard", "cards", "Create a card")
                .notes("Numbers in attributes are kept with every digit. A card is at most 8 MiB as JSON.")
                .created::<Item<Card>>()
                .etag()
                .refuses(&[&codes::SKU_TAKEN, &codes::VALIDATION_FAILED, &codes::CARD_TOO_LARGE]);
        }),
    ]
}

fn one_card() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/master-cards/{id}", get).scope("cards:read").describe(|op| {
            op.named("getCard", "cards", "One card with all its attributes").ok::<Item<Card>>().unless_known();
        }),
        Route::patch("/v1/admin/master-cards/{id}", update).scope("cards:write").body_limit(CARD_BODY_LIMIT).describe(
            |op| {
                op.named("updateCard", "cards", "Change a card (JSON Merge Patch)")
                    .if_match()
                    .ok::<Item<Card>>()
                    .etag()
                    .refuses(&[&codes::SKU_TAKEN, &codes::VALIDATION_FAILED, &codes::CARD_TOO_LARGE]);
            },
        ),
        Route::delete("/v1/admin/master-cards/{id}", delete).scope("cards:write").describe(|op| {
            op.named("deleteCard", "cards", "Delete a card, or purge it")
                .notes("`purge` needs the scope `cards:purge`.")
                .param("purge", "Remove it permanently.", json!({}))
                .if_match()
                .no_content()
                .refuses(&[&codes::CARD_IN_USE]);
        }),
        Route::post("/v1/admin/master-cards/{id}/restore", restore).scope("cards:write").describe(|op| {
            op.named("restoreCard", "cards", "Restore a deleted card, or an earlier version of a card")
                .notes(
                    "With a version, its title, SKU, status and attributes without sources are restored, as a new \
                     version.",
                )
                .if_match()
                .ok::<Item<Card>>()
                .etag()
                .refuses(&[&codes::SKU_TAKEN]);
        }),
        Route::get("/v1/admin/master-cards/{id}/history", history).scope("cards:read").describe(|op| {
            op.named("getCardHistory", "cards", "Who changed a card, newest first")
                .notes("Deleted cards are included until they are purged.")
                .paged()
                .ok::<Page<cardinal_store::cards::history::HistoryEntry>>();
        }),
        Route::delete("/v1/admin/master-cards/{id}/sources/{source_key}", remove_source).scope("cards:write").describe(
            |op| {
                op.named("removeSource", "cards", "Remove a source of a card")
                    .param(
                        "source_key",
                        "`<plugin>:<suffix>`",
                        json!({"minLength": 1, "examples": ["supplier:shop.example"]}),
                    )
                    .if_match()
                    .no_content();
            },
        ),
    ]
}

async fn list(app: &Arc<App>, call: Call<Query<ListQuery>>) -> ApiResult<Reply> {
    let query = call.query()?;
    reply::ok(&app.catalogue.page(&query).await?)
}

async fn create(app: &Arc<App>, call: Call<NoQuery, Exact<NewCard>>) -> ApiResult<Reply> {
    let fields = call.body()?.check()?;
    let card = cardinal_store::cards::insert(&app.pools.core, Uuid::now_v7(), fields, &call.caller()?.actor()).await?;
    let reply = reply::created(&format!("/v1/admin/master-cards/{}", card.id), &Item { item: &card })?;
    with_etag(reply, card.version)
}

async fn get(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let id = call.params.id("id", "card")?;
    let card = app.catalogue.card(id).await?;
    if call.header(header::IF_NONE_MATCH).is_some_and(|tags| names_version(tags, card.version)) {
        return with_etag(reply::status(StatusCode::NOT_MODIFIED), card.version);
    }
    with_etag(reply::ok(&Item { item: &card })?, card.version)
}

async fn update(app: &Arc<App>, call: Call<NoQuery, ExactPatch<CardPatch>>) -> ApiResult<Reply> {
    let id = call.params.id("id", "card")?;
    let precondition = if_match(&call)?;
    let Patch { change, sent } = call.body()?;
    let change = change.check()?;
    let card =
        cardinal_store::cards::update(&app.pools.core, id, &change, &sent, &precondition, &call.caller()?.actor())
            .await?;
    with_etag(reply::ok(&Item { item: &card })?, card.version)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteQuery {
    purge: Option<bool>,
}

async fn delete(app: &Arc<App>, call: Call<Query<DeleteQuery>>) -> ApiResult<Reply> {
    let id = call.params.id("id", "card")?;
    let query = call.query()?;
    let precondition = if_match(&call)?;
    let caller = call.caller()?;
    if query.purge == Some(true) {
        caller.require("cards:purge")?;
        purge(app, id, &precondition, &caller.actor()).await?;
        app.audit.done_as(&call, AuditAction::PurgeCard, Some(id.to_string()), None).await;
    } else {
        cardinal_store::cards::delete(&app.pools.core, id, &precondition, &caller.actor()).await?;
    }
    Ok(reply::no_content())
}

/// The reaper removes hidden cards alone. One that was hidden for it alone, and cannot go, is shown again.
async fn purge(app: &App, id: Uuid, precondition: &Precondition, actor: &Value) -> ApiResult<()> {
    let pool = &app.pools.core;
    let was_shown = match cardinal_store::cards::delete(pool, id, precondition, actor).await {
        Err(StoreError::NotFound(_)) => {
            cardinal_store::cards::check_hidden(pool, id, precondition).await?;
            false
        }
        outcome => {
            outcome?;
            true
        }
    };
    let outcome = cardinal_store::cards::purge(&app.pools.reaper, id).await;
    if outcome.is_err()
        && was_shown
        && let Err(error) = cardinal_store::cards::restore(pool, id, &Precondition::None, actor).await
    {
        tracing::warn!(card = %id, %error, "a card that could not be purged stays hidden");
    }
    Ok(outcome?)
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Restore {
    #[serde(default, deserialize_with = "input::maybe::present")]
    #[schemars(with = "i64", range(min = 1))]
    version: Option<Option<i64>>,
}

/// Brings a deleted card back or, with a version, makes a card what it was then.
async fn restore(app: &Arc<App>, call: Call<NoQuery, MaybeJson<Restore>>) -> ApiResult<Reply> {
    let id = call.params.id("id", "card")?;
    let precondition = if_match(&call)?;
    let wanted = call.body()?;
    let (pool, actor) = (&app.pools.core, call.caller()?.actor());
    let card = match input::maybe::not_null(wanted.version, "/version")? {
        Some(version) => cardinal_store::cards::restore_version(pool, id, version, &precondition, &actor).await?,
        None => cardinal_store::cards::restore(pool, id, &precondition, &actor).await?,
    };
    with_etag(reply::ok(&Item { item: &card })?, card.version)
}

async fn remove_source(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let id = call.params.id("id", "card")?;
    let key = call.params.get("source_key").unwrap_or_default();
    let precondition = if_match(&call)?;
    match cardinal_store::cards::remove_source(&app.pools.core, id, key, &precondition, &call.caller()?.actor()).await?
    {
        WriteOutcome::Version(_) => Ok(reply::no_content()),
        WriteOutcome::NoCard => Err(ApiError::not_found("card")),
        WriteOutcome::NoSource | WriteOutcome::Full => Err(ApiError::not_found("source")),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    limit: Option<i64>,
    cursor: Option<String>,
}

async fn history(app: &Arc<App>, call: Call<Query<HistoryQuery>>) -> ApiResult<Reply> {
    let id = call.params.id("id", "card")?;
    let query = call.query()?;
    let history = app.catalogue.history(id, query.limit, query.cursor.as_deref()).await?;
    let next = app.catalogue.history_cursor(&history, history.lines.len())?;
    reply::ok(&Page { items: history.lines, next_cursor: next })
}
