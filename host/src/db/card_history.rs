//! The table `card_history`: who changed what, newest first.

use deadpool_postgres::Transaction;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use super::pool::Pool;
use crate::{
    cards::fields,
    http::error::{ApiError, ApiResult},
};

/// Changes that an earlier version is put together from, at most.
const REPLAYED: i64 = 5_000;

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

/// What the lines up to `version` say of a card's fields, oldest first, from the last on that says all of them.
pub async fn of_fields(transaction: &Transaction<'_>, card: Uuid, version: i64) -> ApiResult<Vec<fields::Line>> {
    let sql = "SELECT action, change FROM public.card_history \
               WHERE card_id = $1 AND version <= $2 AND action NOT IN ('enrich', 'remove_source') \
                 AND version >= coalesce((SELECT max(version) FROM public.card_history \
                                          WHERE card_id = $1 AND version <= $2 AND (action = 'import' \
                                            OR action = 'restore' AND change ? 'version')), 0) \
               ORDER BY version LIMIT $3";
    let rows = transaction.query(&transaction.prepare_cached(sql).await?, &[&card, &version, &(REPLAYED + 1)]).await?;
    if rows.len() as i64 > REPLAYED {
        let detail = format!("More than {REPLAYED} changes lie between that version and the last one known whole.");
        return Err(ApiError::invalid("/version", detail));
    }
    Ok(rows.iter().map(|row| fields::Line { action: row.get(0), change: row.get(1) }).collect())
}
