//! What can be asked of the plugin: each handler reads its input, asks the service, shapes the answer.

{{#job}}
use cardinal_plugin::{Job, PluginContext, Request, Response, Result, Router, Uuid, json};
{{/job}}
{{^job}}
use cardinal_plugin::{PluginContext, Request, Response, Result, Router, Uuid, json};
{{/job}}
use serde::Deserialize;

use crate::service;

pub fn routes(_ctx: &PluginContext) -> Router {
{{#routes}}
    Router::new()
        .get("/cards/{card_id}", list)
        .post("/cards/{card_id}", add)
{{#action}}
        .post("/check", check)
{{/action}}
{{#page}}
        .get("/latest", latest)
{{/page}}
{{#job}}
        .job("trim", trim)
{{/job}}
{{/routes}}
{{^routes}}
{{#job}}
    Router::new()
        .handler("list", list)
        .handler("add", add)
        .job("trim", trim)
{{/job}}
{{^job}}
    Router::new().handler("list", list).handler("add", add)
{{/job}}
{{/routes}}
}

#[derive(Deserialize)]
struct List {
    card_id: Uuid,
}

/// `input` takes a route's path, query and body, or a tool's arguments.
async fn list(ctx: PluginContext, req: Request) -> Result<Response> {
    let List { card_id } = req.input().await?;
    let items = service::list(&ctx, card_id).await?;
    Ok(Response::json(&json!({ "items": items })))
}

#[derive(Deserialize)]
struct Add {
    card_id: Uuid,
    text: String,
}

async fn add(ctx: PluginContext, req: Request) -> Result<Response> {
    let Add { card_id, text } = req.input().await?;
    let version = service::add(&ctx, card_id, &text).await?;
    Ok(Response::json(&json!({ "version": version })).status(201))
}
{{#page}}

async fn latest(ctx: PluginContext, _req: Request) -> Result<Response> {
    let items = service::latest(&ctx).await?;
    Ok(Response::json(&json!({ "items": items })))
}
{{/page}}
{{#action}}

/// The cards that the Admin UI's action was asked for, up to 1,000.
#[derive(Deserialize)]
struct CheckInput {
    card_ids: Vec<Uuid>,
}

async fn check(ctx: PluginContext, req: Request) -> Result<Response> {
    let CheckInput { card_ids } = req.input().await?;
    for card_id in &card_ids {
        service::add(&ctx, *card_id, "To be checked").await?;
    }
    let message = format!("Cards with a note: {}", card_ids.len());
    Ok(Response::json(&json!({ "message": message })))
}
{{/action}}
{{#job}}

/// Runs each night, and when `POST /v1/admin/jobs` or `ctx.start_job("trim", ...)` asks for it.
async fn trim(ctx: PluginContext, job: Job) -> Result<()> {
    service::trim(&ctx, &job).await
}
{{/job}}
