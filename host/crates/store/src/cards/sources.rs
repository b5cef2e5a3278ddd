//! `attributes.sources` of `public.master_cards`, `card_source_index` and their lines of
//! `card_history`: one statement a write, so that writers of one card never lose each other.

use serde::Serialize;
use serde_json::{Value, value::RawValue};
use tokio_postgres::{
    Row,
    error::SqlState,
    types::{Json, ToSql},
};
use uuid::Uuid;

use crate::error::StoreError;
use cardinal_cards::source::SOURCES_PER_CARD;
use cardinal_database::pool::{Connection, Pool};

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
pub enum WriteOutcome {
    /// The card's new version.
    Version(i64),
    /// No such card, or it is deleted.
    NoCard,
    /// The card has its full number of sources.
    Full,
    /// The card has no such source.
    NoSource,
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
), recorded AS (
  INSERT INTO public.card_history (id, card_id, version, actor, action, change)
  SELECT $8::uuid, $1, version, $9::jsonb, 'enrich', jsonb_build_object('source_key', $2::text, 'kind', $6::text)
    FROM card
)
SELECT version FROM card";

/// As many such writes as wait for one card, in their order. What they find is the row as it is once it is locked; each
/// is judged by itself, makes a version of its own and a line of history. The row is written once.
const ENRICH_TOGETHER: &str = "
WITH card AS MATERIALIZED (
  SELECT id, version, attributes->'sources' AS sources FROM public.master_cards
   WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE
), given AS MATERIALIZED (
  SELECT g.*, c.version, c.sources ? g.source_key AS known
    FROM card c, unnest($2::text[], $3::jsonb[], $4::text[], $5::text[], $6::integer[], $7::uuid[], $8::jsonb[])
         WITH ORDINALITY AS g (source_key, entry, plugin, kind, bytes, line, actor, turn)
), adding AS (
  SELECT source_key, row_number() OVER (ORDER BY min(turn)) AS place FROM given WHERE NOT known GROUP BY source_key
), taken AS MATERIALIZED (
  SELECT g.*, g.version + row_number() OVER (ORDER BY g.turn) AS made
    FROM given g LEFT JOIN adding a USING (source_key)
   WHERE g.known OR a.place + (SELECT count(*) FROM card c, jsonb_object_keys(c.sources)) <= $9::bigint
), written AS (
  UPDATE public.master_cards m
     SET attributes = jsonb_set(m.attributes, '{sources}', c.sources || t.entries), version = t.made, updated_at = now()
    FROM card c, (SELECT jsonb_object_agg(source_key, entry ORDER BY turn) AS entries, max(made) AS made FROM taken) t
   WHERE m.id = c.id AND t.made IS NOT NULL
), listed AS (
  INSERT INTO public.card_source_index (card_id, source_key, plugin, kind, bytes)
  SELECT DISTINCT ON (source_key) $1, source_key, plugin, kind, bytes FROM taken ORDER BY source_key, turn DESC
  ON CONFLICT (card_id, source_key)
  DO UPDATE SET plugin = excluded.plugin, kind = excluded.kind, bytes = excluded.bytes, updated_at = now()
), recorded AS (
  INSERT INTO public.card_history (id, card_id, version, actor, action, change)
  SELECT line, $1, made, actor, 'enrich', jsonb_build_object('source_key', source_key, 'kind', kind)
    FROM taken ORDER BY made
)
SELECT t.made FROM given g LEFT JOIN taken t USING (turn) ORDER BY g.turn";

pub(crate) const REMOVE: &str = "
WITH card AS (
  UPDATE public.master_cards
     SET attributes = jsonb_set(attributes, '{sources}', (attributes->'sources') - $2::text),
         version = version + 1, updated_at = now()
   WHERE id = $1 AND deleted_at IS NULL AND attributes->'sources' ? $2::text
  RETURNING version
), unlisted AS (
  DELETE FROM public.card_source_index WHERE card_id = $1 AND source_key = $2 AND EXISTS (SELECT FROM card)
), recorded AS (
  INSERT INTO public.card_history (id, card_id, version, actor, action, change)
  SELECT $3::uuid, $1, version, $4::jsonb, 'remove_source', jsonb_build_object('source_key', $2::text) FROM card
)
SELECT version FROM card";

const EXISTS: &str = "SELECT FROM public.master_cards WHERE id = $1 AND deleted_at IS NULL";

/// Writes source `key` of a card, its line in the index and its line of history.
pub async fn enrich(pool: &Pool, card: Uuid, key: &str, entry: &Entry<'_>) -> Result<WriteOutcome, StoreError> {
    let bytes = size(entry.data);
    pool.note_message(entry.data.get().len());
    let (history_id, actor) = (Uuid::now_v7(), Json(entry.updated_by));
    let (stored, max_sources) = (Json(entry), SOURCES_PER_CARD);
    let params: [&(dyn ToSql + Sync); 9] =
        [&card, &key, &stored, &max_sources, &entry.plugin, &entry.kind, &bytes, &history_id, &actor];
    write(pool, card, ENRICH, &params, WriteOutcome::Full).await
}

/// A write that can wait for others.
pub struct QueuedEnrichment {
    key: String,
    entry: Box<RawValue>,
    plugin: String,
    kind: String,
    bytes: i32,
    line: Uuid,
    actor: Value,
}

impl QueuedEnrichment {
    pub fn from_entry(key: &str, entry: &Entry<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            key: key.to_owned(),
            entry: serde_json::value::to_raw_value(entry)?,
            plugin: entry.plugin.to_owned(),
            kind: entry.kind.to_owned(),
            bytes: size(entry.data),
            line: Uuid::now_v7(),
            actor: entry.updated_by.clone(),
        })
    }

    /// The bytes that waiting takes, about.
    pub fn size(&self) -> usize {
        self.entry.get().len()
    }
}

fn size(data: &RawValue) -> i32 {
    i32::try_from(data.get().len()).unwrap_or(i32::MAX)
}

/// Writes several sources of a card in their order, by one statement; the outcome of each.
pub(crate) async fn enrich_together(
    pool: &Pool,
    card: Uuid,
    queued: &[QueuedEnrichment],
) -> Result<Vec<WriteOutcome>, StoreError> {
    let keys: Vec<&str> = queued.iter().map(|one| one.key.as_str()).collect();
    let entries: Vec<Json<&RawValue>> = queued.iter().map(|one| Json(&*one.entry)).collect();
    let plugins: Vec<&str> = queued.iter().map(|one| one.plugin.as_str()).collect();
    let kinds: Vec<&str> = queued.iter().map(|one| one.kind.as_str()).collect();
    let bytes: Vec<i32> = queued.iter().map(|one| one.bytes).collect();
    let lines: Vec<Uuid> = queued.iter().map(|one| one.line).collect();
    let actors: Vec<&Value> = queued.iter().map(|one| &one.actor).collect();
    let params: [&(dyn ToSql + Sync); 9] =
        [&card, &keys, &entries, &plugins, &kinds, &bytes, &lines, &actors, &SOURCES_PER_CARD];
    pool.note_message(queued.iter().map(QueuedEnrichment::size).sum());
    let client = pool.get().await?;
    let rows = persist(&client, ENRICH_TOGETHER, &params).await?;
    if rows.is_empty() {
        return Ok(queued.iter().map(|_| WriteOutcome::NoCard).collect());
    }
    let outcome = |row: &Row| Ok(row.try_get::<_, Option<i64>>(0)?.map_or(WriteOutcome::Full, WriteOutcome::Version));
    rows.iter().map(outcome).collect()
}

/// Removes source `key` of a card.
pub async fn remove(pool: &Pool, card: Uuid, key: &str, actor: &Value) -> Result<WriteOutcome, StoreError> {
    let (history_id, actor) = (Uuid::now_v7(), Json(actor));
    write(pool, card, REMOVE, &[&card, &key, &history_id, &actor], WriteOutcome::NoSource).await
}

async fn write(
    pool: &Pool,
    card: Uuid,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
    untouched: WriteOutcome,
) -> Result<WriteOutcome, StoreError> {
    let client = pool.get().await?;
    if let Some(version) = attempt(&client, sql, params).await? {
        return Ok(WriteOutcome::Version(version));
    }
    let exists = client.prepare_cached(EXISTS).await?;
    Ok(if client.query_opt(&exists, &[&card]).await?.is_some() { untouched } else { WriteOutcome::NoCard })
}

async fn attempt(
    client: &Connection,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Option<i64>, tokio_postgres::Error> {
    let rows = persist(client, sql, params).await?;
    rows.first().map(|row| row.try_get(0)).transpose()
}

async fn persist(
    client: &Connection,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let statement = client.prepare_cached(sql).await?;
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match client.query(&statement, params).await {
            Err(error) if left > 0 && is_conflict(&error) => {}
            outcome => return outcome,
        }
    }
}

fn is_conflict(error: &tokio_postgres::Error) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code))
}
