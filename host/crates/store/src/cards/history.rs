//! The table `card_history`: who changed what, newest first.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use futures_util::TryStreamExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use time::OffsetDateTime;
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;

use crate::error::StoreError;
use cardinal_cards::fields::{self, Fields, Replay, Sent};
use cardinal_database::{bounded_rows::Rows, pool::Pool};

/// Changes that an earlier version is put together from, at most.
const REPLAYED: i64 = 5_000;

/// One change of a card.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HistoryLine")]
pub struct HistoryEntry {
    pub id: Uuid,
    pub version: i64,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "cardinal_base::schema::DateTime")]
    pub at: OffsetDateTime,
    #[schemars(with = "cardinal_base::schema::Actor")]
    pub actor: Value,
    pub action: String,
    /// What was sent, as it was sent.
    #[schemars(with = "Value")]
    pub change: Box<RawValue>,
}

/// The lines of a card before the line `before`, and whether there are more which are too large for one page.
pub async fn page(
    pool: &Pool,
    card: Uuid,
    before: Option<Uuid>,
    limit: i64,
) -> Result<(Vec<HistoryEntry>, bool), StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT id, version, at, actor, action, change FROM public.card_history \
               WHERE card_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT $3";
    let params: [&(dyn ToSql + Sync); 3] = [&card, &before, &limit];
    let found = Rows::read(client.query_raw(&client.prepare_cached(sql).await?, params).await?).await?;
    pool.note_message(found.max_row_bytes);
    if found.is_cut {
        drop(client.detach());
    }
    let line = |row: &tokio_postgres::Row| HistoryEntry {
        id: row.get("id"),
        version: row.get("version"),
        at: row.get("at"),
        actor: row.get("actor"),
        action: row.get("action"),
        change: row.get::<_, Json<Box<RawValue>>>("change").0,
    };
    Ok((found.rows.iter().map(line).collect(), found.is_cut))
}

/// Who changed each of these cards last: one step down an index for each.
pub async fn last_actors(pool: &Pool, cards: &[Uuid]) -> Result<HashMap<Uuid, Value>, StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT asked.id, last.actor FROM unnest($1::uuid[]) AS asked(id) \
               CROSS JOIN LATERAL (SELECT h.actor FROM public.card_history h \
                                   WHERE h.card_id = asked.id ORDER BY h.id DESC LIMIT 1) AS last";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&cards]).await?;
    rows.iter().map(|row| Ok((row.try_get("id")?, row.try_get("actor")?))).collect()
}

/// A card's fields at `version`; none when its history does not tell them.
pub async fn fields_at(transaction: &Transaction<'_>, card: Uuid, version: i64) -> Result<Option<Fields>, StoreError> {
    let sql = "SELECT action, change FROM public.card_history \
               WHERE card_id = $1 AND version <= $2 AND action NOT IN ('enrich', 'remove_source') \
                 AND version >= coalesce((SELECT max(version) FROM public.card_history \
                                          WHERE card_id = $1 AND version <= $2 AND (action = 'import' \
                                            OR action = 'restore' AND change ? 'version')), 0) \
               ORDER BY version LIMIT $3";
    let statement = transaction.prepare_cached(sql).await?;
    let params: [&(dyn ToSql + Sync); 3] = [&card, &version, &(REPLAYED + 1)];
    let mut rows = std::pin::pin!(transaction.query_raw(&statement, params).await?);
    let (mut replay, mut lines) = (Replay::default(), 0);
    while let Some(row) = rows.try_next().await? {
        lines += 1;
        if lines > REPLAYED {
            let detail = format!("More than {REPLAYED} changes lie between that version and the last one known whole.");
            return Err(StoreError::Version(detail));
        }
        replay.take(fields::HistoryStep {
            action: row.try_get("action")?,
            change: row.try_get::<_, Json<Sent>>("change")?.0,
        })?;
    }
    Ok(replay.fields())
}
