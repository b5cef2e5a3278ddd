//! `attributes.sources` of `public.master_cards`, `card_source_index` and their lines of
//! `card_history`: one statement a write, so that writers of one card never lose each other.

use deadpool_postgres::PoolError;
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use tokio_postgres::{
    error::SqlState,
    types::{Json, ToSql},
};
use uuid::Uuid;

use super::pool::{Connection, Pool};
use crate::cards::source::SOURCES_PER_CARD;

/// A write that met another one is tried again this often.
const ATTEMPTS: u32 = 3;

/// A source as it is stored. A plugin gives `kind` and `data`; the rest is the host's word.
#[derive(Debug, Serialize)]
pub struct Entry<'a> {
    pub kind: &'a str,
    pub data: &'a RawValue,
    pub plugin: &'a str,
    pub plugin_version: &'a str,
    /// RFC 3339, UTC.
    pub updated_at: String,
    /// `{kind, id, name}`.
    pub updated_by: &'a Value,
}

/// How a write ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Written {
    /// The card's new version.
    Version(i64),
    /// No such card, or it is deleted.
    NoCard,
    /// The card has its full number of sources.
    Full,
    /// The card has no such source.
    NoSource,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("no connection to the database")]
    Pool(#[from] PoolError),
    #[error("the database refused")]
    Database(#[from] tokio_postgres::Error),
}

/// `||` and not `jsonb_set(..., '{sources,key}')`: that is a silent no-op where `sources` is missing.
/// The count is looked at again on the row as it is after another writer's commit.
const ENRICH: &str = "
WITH card AS (
  UPDATE public.master_cards
     SET attributes = jsonb_set(attributes, '{sources}',
                                coalesce(attributes->'sources', '{}') || jsonb_build_object($2::text, $3::jsonb)),
         version = version + 1, updated_at = now()
   WHERE id = $1 AND deleted_at IS NULL
     AND (attributes->'sources' ? $2::text
          OR (SELECT count(*) FROM jsonb_object_keys(attributes->'sources')) < $4::bigint)
  RETURNING version
), listed AS (
  INSERT INTO public.card_source_index (card_id, source_key, plugin, kind, bytes)
  SELECT $1, $2, $5::text, $6::text, $7::integer FROM card
  ON CONFLICT (card_id, source_key)
  DO UPDATE SET plugin = excluded.plugin, kind = excluded.kind, bytes = excluded.bytes, updated_at = now()
), told AS (
  INSERT INTO public.card_history (id, card_id, version, actor, action, change)
  SELECT $8::uuid, $1, version, $9::jsonb, 'enrich', jsonb_build_object('source_key', $2::text, 'kind', $6::text)
    FROM card
)
SELECT version FROM card";

const REMOVE: &str = "
WITH card AS (
  UPDATE public.master_cards
     SET attributes = jsonb_set(attributes, '{sources}', (attributes->'sources') - $2::text),
         version = version + 1, updated_at = now()
   WHERE id = $1 AND deleted_at IS NULL AND attributes->'sources' ? $2::text
  RETURNING version
), unlisted AS (
  DELETE FROM public.card_source_index WHERE card_id = $1 AND source_key = $2 AND EXISTS (SELECT FROM card)
), told AS (
  INSERT INTO public.card_history (id, card_id, version, actor, action, change)
  SELECT $3::uuid, $1, version, $4::jsonb, 'remove_source', jsonb_build_object('source_key', $2::text) FROM card
)
SELECT version FROM card";

const EXISTS: &str = "SELECT FROM public.master_cards WHERE id = $1 AND deleted_at IS NULL";

/// Writes source `key` of a card, its line in the index and its line of history.
pub async fn enrich(pool: &Pool, card: Uuid, key: &str, entry: &Entry<'_>) -> Result<Written, StoreError> {
    let bytes = i32::try_from(entry.data.get().len()).unwrap_or(i32::MAX);
    let (told, actor) = (Uuid::now_v7(), Json(entry.updated_by));
    let (stored, most) = (Json(entry), SOURCES_PER_CARD);
    let params: [&(dyn ToSql + Sync); 9] =
        [&card, &key, &stored, &most, &entry.plugin, &entry.kind, &bytes, &told, &actor];
    write(pool, card, ENRICH, &params, Written::Full).await
}

/// Removes source `key` of a card.
pub async fn remove(pool: &Pool, card: Uuid, key: &str, actor: &Value) -> Result<Written, StoreError> {
    let (told, actor) = (Uuid::now_v7(), Json(actor));
    write(pool, card, REMOVE, &[&card, &key, &told, &actor], Written::NoSource).await
}

async fn write(
    pool: &Pool,
    card: Uuid,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
    untouched: Written,
) -> Result<Written, StoreError> {
    let client = pool.get().await?;
    if let Some(version) = attempt(&client, sql, params).await? {
        return Ok(Written::Version(version));
    }
    let exists = client.prepare_cached(EXISTS).await?;
    Ok(if client.query_opt(&exists, &[&card]).await?.is_some() { untouched } else { Written::NoCard })
}

async fn attempt(
    client: &Connection,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Option<i64>, tokio_postgres::Error> {
    let statement = client.prepare_cached(sql).await?;
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match client.query_opt(&statement, params).await {
            Err(error) if left > 0 && met_another(&error) => {}
            outcome => return outcome?.map(|row| row.try_get(0)).transpose(),
        }
    }
}

fn met_another(error: &tokio_postgres::Error) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code))
}
