//! What can be asked of this plugin, over HTTP and by tools. Each handler reads its input, asks the
//! service, and shapes the answer; nothing else happens here.

use cardinal_plugin::serde_json::Value;
use cardinal_plugin::{Cursor, Error, Page, PluginContext, Request, Response, Result, Router, Uuid, json};
use serde::Deserialize;

use crate::bulk;
use crate::service::{self, PageRequest};

const ITEMS_DEFAULT: u32 = 50;
const ITEMS_MAX: u32 = 200;

/// The handlers' names are what `manifest.json` calls its tools' and routes' handlers.
pub(crate) fn routes(_ctx: &PluginContext) -> Router {
    Router::new()
        .get("/preview", preview)
        .post("/enrich/{card_id}", enrich)
        .post("/process", enrich)
        .get("/items", items)
        .post("/feeds", start_feed)
        .job(bulk::JOB, bulk::go_through)
        .handler("enrich_preview", enrich_preview)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreviewInput {
    url: String,
    #[serde(default)]
    refresh: bool,
}

async fn preview(ctx: PluginContext, request: Request) -> Result<Value> {
    let input: PreviewInput = request.input().await?;
    let wanted = PageRequest { address: input.url, refresh: input.refresh };
    let product = service::preview(&ctx, &wanted).await?;
    Ok(json!({ "product": product }))
}

/// `card_id` comes from the path, from the body, or from a tool's arguments; `input` takes either.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnrichInput {
    card_id: Uuid,
    url: String,
    #[serde(default)]
    refresh: bool,
}

async fn enrich(ctx: PluginContext, request: Request) -> Result<Value> {
    let input: EnrichInput = request.input().await?;
    let wanted = PageRequest { address: input.url, refresh: input.refresh };
    let enriched = service::enrich(&ctx, input.card_id, &wanted).await?;
    Ok(json!({
        "source_key": enriched.source_key,
        "version": enriched.version,
        "product": enriched.product,
    }))
}

/// What `enrich` would do, for the person who confirms it.
async fn enrich_preview(ctx: PluginContext, request: Request) -> Result<Value> {
    let input: EnrichInput = request.input().await?;
    let wanted = PageRequest { address: input.url, refresh: input.refresh };
    let service::EnrichPreview { version, source_key, before, product } =
        service::preview_enrich(&ctx, input.card_id, &wanted).await?;
    let pointer = format!("/attributes/sources/{}", source_key.replace('~', "~0").replace('/', "~1"));
    let mut change = json!({ "pointer": pointer, "after": product });
    if let Some(before) = before {
        change["before"] = before;
    }
    Ok(json!({ "card_id": input.card_id, "version": version, "changes": [change] }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemsInput {
    limit: Option<u32>,
    cursor: Option<String>,
}

fn page_size(asked: Option<u32>) -> Result<u32> {
    let limit = asked.unwrap_or(ITEMS_DEFAULT);
    match (1..=ITEMS_MAX).contains(&limit) {
        true => Ok(limit),
        false => Err(Error::bad_request(format!("`limit` must be between 1 and {ITEMS_MAX}."))),
    }
}

async fn items(ctx: PluginContext, request: Request) -> Result<Response> {
    let input: ItemsInput = request.input().await?;
    let limit = page_size(input.limit)?;
    let before = input.cursor.as_deref().map(Cursor::read).transpose()?;
    // One more than asked for shows whether there is a next page.
    let items = service::items(&ctx, limit + 1, before).await?;
    Ok(Response::json(&Page::new(items, limit as usize, |item| item.id)?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FeedInput {
    url: String,
}

/// The job's id: `GET /v1/admin/jobs/{id}` says how far it is.
async fn start_feed(ctx: PluginContext, request: Request) -> Result<Response> {
    let FeedInput { url } = request.input().await?;
    let job = bulk::start(&ctx, &url).await?;
    Ok(Response::json(&json!({ "job": job })).status(202))
}
