//! Rows of cards that are there: how many they would change, and the change.

use std::{collections::HashMap, sync::LazyLock};

use deadpool_postgres::Transaction;
use serde_json::value::RawValue;
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;

use super::{Import, WriteError};
use cardinal_cards::{card::Status, row::Row};

/// Makes cards what the rows say; how many that changed.
pub(super) async fn change(
    point: &Transaction<'_>,
    rows: &[(&Row, Uuid)],
    import: &Import<'_>,
) -> Result<i64, WriteError> {
    if rows.is_empty() {
        return Ok(0);
    }
    let ColumnValues { ids, titles, statuses, attributes } = ColumnValues::read(point, rows).await?;
    let skus: Vec<&str> = rows.iter().map(|(row, _)| row.sku.as_str()).collect();
    let lines: Vec<Uuid> = rows.iter().map(|_| Uuid::now_v7()).collect();
    let values: [&(dyn ToSql + Sync); 8] =
        [&ids, &titles, &statuses, &attributes, &skus, &lines, import.actor, &import.job];
    let changed = point.query(&point.prepare_cached(&CHANGE).await?, &values).await?;
    Ok(i64::try_from(changed.len()).unwrap_or(i64::MAX))
}

/// How many cards rows would change. One that an earlier row makes has no id yet, and counts.
pub(super) async fn differing(point: &Transaction<'_>, rows: &[(&Row, Uuid)]) -> Result<i64, WriteError> {
    let (unmade, there): (Vec<_>, Vec<_>) = rows.iter().copied().partition(|(_, id)| id.is_nil());
    let unmade = i64::try_from(unmade.len()).unwrap_or(i64::MAX);
    if there.is_empty() {
        return Ok(unmade);
    }
    let ColumnValues { ids, titles, statuses, attributes } = ColumnValues::read(point, &there).await?;
    let values: [&(dyn ToSql + Sync); 4] = [&ids, &titles, &statuses, &attributes];
    let found = point.query_one(&point.prepare_cached(&DIFFERING).await?, &values).await?;
    Ok(unmade + found.try_get::<_, i64>(0)?)
}

/// What rows say of cards that are there, column by column.
struct ColumnValues<'r> {
    ids: Vec<Uuid>,
    titles: Vec<Option<&'r str>>,
    statuses: Vec<Option<&'static str>>,
    attributes: Vec<Option<Json<Box<RawValue>>>>,
}

impl<'r> ColumnValues<'r> {
    async fn read(point: &Transaction<'_>, rows: &[(&'r Row, Uuid)]) -> Result<Self, WriteError> {
        let present = present_attributes(point, rows).await?;
        let mut attributes = Vec::with_capacity(rows.len());
        for (row, id) in rows {
            attributes.push(row.changed_attributes(present.get(id).map(String::as_str))?.map(Json));
        }
        Ok(Self {
            ids: rows.iter().map(|(_, id)| *id).collect(),
            titles: rows.iter().map(|(row, _)| row.title.as_deref()).collect(),
            statuses: rows.iter().map(|(row, _)| row.status.map(Status::name)).collect(),
            attributes,
        })
    }
}

/// Whether card `c` is not yet what row `g` says of it.
const DIFFERS: &str = "c.id = g.id
     AND (c.deleted_at IS NOT NULL OR c.title <> g.title OR c.status <> g.status
          OR c.attributes <> jsonb_build_object('sources', c.attributes->'sources') || g.attributes)";

static DIFFERING: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT count(*) FROM unnest($1::uuid[], $2::text[], $3::text[], $4::jsonb[]) AS g (id, title, status, attributes)
           JOIN public.master_cards c ON {DIFFERS}"
    )
});

/// Sources stay what they are unless the row has some. What changes nothing makes no version.
static CHANGE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "
WITH given AS (
  SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::text[], $6::uuid[])
    AS g (id, title, status, attributes, sku, line)
), changed AS (
  UPDATE public.master_cards AS c
     SET sku = g.sku, title = coalesce(g.title, c.title), status = coalesce(g.status, c.status),
         attributes = CASE WHEN g.attributes IS NULL THEN c.attributes
                           ELSE jsonb_build_object('sources', c.attributes->'sources') || g.attributes END,
         version = c.version + 1, updated_at = now(), deleted_at = NULL
    FROM given g
   WHERE {DIFFERS}
  RETURNING c.id, c.version, c.title, c.sku, c.status, c.attributes - 'sources' AS attributes, g.line
)
INSERT INTO public.card_history (id, card_id, version, actor, action, change)
SELECT line, id, version, $7, 'import',
       jsonb_build_object('title', title, 'sku', sku, 'status', status, 'attributes', attributes, 'job', $8::uuid)
  FROM changed
RETURNING card_id"
    )
});

/// What cards have whose rows set single attributes.
async fn present_attributes(
    point: &Transaction<'_>,
    rows: &[(&Row, Uuid)],
) -> Result<HashMap<Uuid, String>, tokio_postgres::Error> {
    let ids: Vec<Uuid> = rows.iter().filter(|(row, _)| row.set.is_some()).map(|(_, id)| *id).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "SELECT id, (attributes - 'sources')::text AS attributes FROM public.master_cards WHERE id = ANY($1)";
    let found = point.query(&point.prepare_cached(sql).await?, &[&ids]).await?;
    found.iter().map(|row| Ok((row.try_get("id")?, row.try_get("attributes")?))).collect()
}
