//! The table `card_history`: who changed what, newest first.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use super::pool::Pool;
use crate::http::error::ApiResult;

/// One change of a card.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HistoryLine")]
pub struct Line {
    pub id: Uuid,
    pub version: i64,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "crate::http::schema::DateTime")]
    pub at: OffsetDateTime,
    #[schemars(with = "crate::http::schema::Actor")]
    pub actor: Value,
    pub action: String,
    pub change: Value,
}

/// The lines of a card before the line `before`.
pub async fn page(pool: &Pool, card: Uuid, before: Option<Uuid>, limit: i64) -> ApiResult<Vec<Line>> {
    let client = pool.get().await?;
    let sql = "SELECT id, version, at, actor, action, change FROM public.card_history \
               WHERE card_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT $3";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&card, &before, &limit]).await?;
    let line = |row: &tokio_postgres::Row| Line {
        id: row.get(0),
        version: row.get(1),
        at: row.get(2),
        actor: row.get(3),
        action: row.get(4),
        change: row.get(5),
    };
    Ok(rows.iter().map(line).collect())
}
