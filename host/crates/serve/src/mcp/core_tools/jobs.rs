//! `jobs_get`: how far a job is, as the admin API shows it.

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Cards, parsed};
use crate::http::error::{ApiError, ApiResult};

#[derive(Deserialize)]
struct Arguments {
    id: String,
}

pub(super) async fn get(cards: &Cards, arguments: JsonObject) -> ApiResult<Answer> {
    let wanted: Arguments = parsed(arguments)?;
    let not_found = || ApiError::not_found("job");
    let id = wanted.id.parse().map_err(|_| not_found())?;
    let job = cardinal_store::jobs::get(&cards.pool, id).await?.ok_or_else(not_found)?;
    Answer::new(&json!({"item": cards.jobs.show(&job).await?}), Vec::new())
}
