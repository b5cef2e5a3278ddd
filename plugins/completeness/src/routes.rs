//! What can be asked of this plugin, over HTTP and by tools.

use cardinal_plugin::serde_json::Value;
use cardinal_plugin::{Cursor, Error, Page, PluginContext, Request, Response, Result, Router, Uuid, json};
use serde::Deserialize;

use crate::scores::{self, WorstQuery};
use crate::settings::Settings;
use crate::{service, walk};

const WORST_DEFAULT: u32 = 50;
const WORST_MAX: u32 = 200;
/// What is complete is in no list of what needs work, unless asked for.
const INCOMPLETE: i16 = 99;
const MAX_SCORE: i16 = 100;
/// As many cards as the Admin UI asks for at once.
const MAX_CARD_IDS: usize = 50;

/// The handlers' names are what `manifest.json` calls its tools' and routes' handlers.
pub(crate) fn routes(ctx: &PluginContext) -> Router {
    walk::start(ctx);
    table()
}

pub(crate) fn table() -> Router {
    Router::new()
        .get("/cards/{card_id}", card)
        .get("/worst", worst)
        .get("/scores", scores)
        .get("/summary", summary)
        .post("/recompute", recompute)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CardInput {
    card_id: Uuid,
}

async fn card(ctx: PluginContext, request: Request) -> Result<Response> {
    let CardInput { card_id } = request.input().await?;
    Ok(Response::json(&service::card(&ctx, card_id).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorstInput {
    limit: Option<u32>,
    cursor: Option<String>,
    max_score: Option<i16>,
    missing: Option<String>,
}

async fn worst(ctx: PluginContext, request: Request) -> Result<Response> {
    let input: WorstInput = request.input().await?;
    let limit = input.limit.unwrap_or(WORST_DEFAULT);
    if !(1..=WORST_MAX).contains(&limit) {
        return Err(Error::bad_request(format!("`limit` must be between 1 and {WORST_MAX}.")));
    }
    let max_score = input.max_score.unwrap_or(INCOMPLETE);
    if !(0..=MAX_SCORE).contains(&max_score) {
        return Err(Error::bad_request(format!("`max_score` must be between 0 and {MAX_SCORE}.")));
    }
    let settings: Settings = ctx.settings()?;
    let query = WorstQuery {
        statuses: &settings.statuses,
        max_score,
        missing: input.missing.as_deref(),
        after: input.cursor.as_deref().map(Cursor::read).transpose()?,
        limit: i64::from(limit) + 1, // one more shows whether there is a next page
    };
    let cards = service::worst(&ctx, &query).await?;
    Ok(Response::json(&Page::new(cards, limit as usize, |card| (card.score, card.card_id))?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScoresInput {
    /// Separated by commas.
    card_ids: String,
}

/// What the list's column shows; `contributes.listColumns` names this route.
async fn scores(ctx: PluginContext, request: Request) -> Result<Value> {
    let ScoresInput { card_ids } = request.input().await?;
    let ids: Option<Vec<Uuid>> = card_ids.split(',').map(|id| id.parse().ok()).collect();
    let ids = ids.filter(|ids| ids.len() <= MAX_CARD_IDS);
    let expected = || Error::bad_request(format!("`card_ids` must be up to {MAX_CARD_IDS} ids separated by commas."));
    Ok(json!({ "values": scores::for_cards(&ctx, &ids.ok_or_else(expected)?).await? }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoInput {}

async fn summary(ctx: PluginContext, request: Request) -> Result<Response> {
    let NoInput {} = request.input().await?;
    Ok(Response::json(&service::summary(&ctx).await?))
}

async fn recompute(ctx: PluginContext, request: Request) -> Result<Response> {
    let NoInput {} = request.input().await?;
    walk::restart(&ctx).await?;
    Ok(Response::from(json!({ "walk": "/v1/admin/plugins/completeness/summary" }) as Value).status(202))
}
