//! What can be asked of this plugin, over HTTP and by tools.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cardinal_plugin::serde_json::Value;
use cardinal_plugin::{PluginContext, Request, Response, Result, Router, Uuid, json};
use serde::Deserialize;

use crate::{service, thumbnail};

/// Browsers ask again after an hour; the tag spares the bytes.
const CACHE_CONTROL: &str = "private, max-age=3600";

/// The handlers' names are what `manifest.json` calls its tools' and routes' handlers.
pub(crate) fn routes(_ctx: &PluginContext) -> Router {
    Router::new()
        .get("/cards/{card_id}", list)
        .get("/cards/{card_id}/thumbnail", thumbnail)
        .put("/cards/{card_id}/main", choose)
        .delete("/cards/{card_id}/main", forget)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CardInput {
    card_id: Uuid,
}

async fn list(ctx: PluginContext, request: Request) -> Result<Response> {
    let CardInput { card_id } = request.input().await?;
    Ok(Response::json(&service::list(&ctx, card_id).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThumbnailInput {
    card_id: Uuid,
    url: String,
    size: Option<u32>,
    #[serde(rename = "as", default)]
    form: Form,
}

/// A page's `<img>` sends no credentials of its own: its script asks for the data and puts it in.
#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    #[default]
    Jpeg,
    Data,
}

async fn thumbnail(ctx: PluginContext, request: Request) -> Result<Response> {
    let ThumbnailInput { card_id, url, size, form } = request.input().await?;
    let thumbnail = service::thumbnail(&ctx, card_id, &url, size.unwrap_or(thumbnail::DEFAULT_SIZE)).await?;
    let reply = match form {
        Form::Jpeg => Response::bytes("image/jpeg", thumbnail.jpeg),
        Form::Data => Response::json(&json!({
            "data": format!("data:image/jpeg;base64,{}", BASE64_STANDARD.encode(&thumbnail.jpeg)),
            "width": thumbnail.width,
            "height": thumbnail.height,
        })),
    };
    Ok(reply.header("cache-control", CACHE_CONTROL).conditional(&request))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChooseInput {
    card_id: Uuid,
    url: String,
}

async fn choose(ctx: PluginContext, request: Request) -> Result<Value> {
    let ChooseInput { card_id, url } = request.input().await?;
    Ok(json!({ "version": service::choose(&ctx, card_id, &url).await? }))
}

async fn forget(ctx: PluginContext, request: Request) -> Result<Value> {
    let CardInput { card_id } = request.input().await?;
    Ok(json!({ "version": service::forget(&ctx, card_id).await? }))
}
