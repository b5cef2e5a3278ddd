//! Many cards of `public.master_cards` in one statement, each with its line of history.

use deadpool_postgres::Transaction;
use serde_json::{Value, json};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::error::StoreError;

/// What is done to each card.
#[derive(Clone, Debug)]
pub enum BulkAction {
    SetStatus(&'static str),
    Delete,
    RemoveSource(String),
}

/// What became of the cards.
#[derive(Debug, Default)]
pub struct Outcome {
    pub changed: i64,
    /// There, and as they should be already.
    pub unchanged: i64,
    /// Those that are not there, or deleted.
    pub missing: Vec<Uuid>,
}

/// Rows are locked in the order of their ids, so that two jobs never wait for each other for good.
const FOUND: &str = "found AS MATERIALIZED (SELECT c.id FROM public.master_cards c WHERE c.id = ANY($1) \
     AND c.deleted_at IS NULL ORDER BY c.id FOR NO KEY UPDATE)";

/// Does it to the cards `ids`; history names `job`.
pub async fn apply(
    work: &Transaction<'_>,
    deed: &BulkAction,
    ids: &[Uuid],
    actor: &Value,
    job: Uuid,
) -> Result<Outcome, StoreError> {
    let (set, only, action, change) = match deed {
        BulkAction::SetStatus(status) => {
            ("status = $5", "c.status <> $5", "update", json!({"status": status, "job": job}))
        }
        BulkAction::Delete => ("deleted_at = now()", "$5::text IS NOT NULL", "delete", json!({"job": job})),
        BulkAction::RemoveSource(key) => (
            "attributes = jsonb_set(c.attributes, '{sources}', (c.attributes->'sources') - $5::text)",
            "c.attributes->'sources' ? $5::text",
            "remove_source",
            json!({"source_key": key, "job": job}),
        ),
    };
    let argument = match deed {
        BulkAction::SetStatus(status) => status,
        BulkAction::Delete => "",
        BulkAction::RemoveSource(key) => key.as_str(),
    };
    let unlisted = match deed {
        BulkAction::RemoveSource(_) => {
            "unlisted AS (DELETE FROM public.card_source_index s USING changed c WHERE s.card_id = c.id AND s.source_key = $5::text), "
        }
        _ => "",
    };
    let sql = format!(
        "WITH {FOUND}, changed AS (UPDATE public.master_cards AS c SET {set}, version = c.version + 1, updated_at = now() \
           FROM found f WHERE c.id = f.id AND {only} RETURNING c.id, c.version), {unlisted}\
         told AS (INSERT INTO public.card_history (id, card_id, version, actor, action, change) \
           SELECT n.id, c.id, c.version, $3, '{action}', $4 FROM changed c \
           JOIN unnest($1::uuid[], $2::uuid[]) AS n (card_id, id) ON n.card_id = c.id) \
         SELECT f.id, c.id IS NOT NULL AS is_changed FROM found f LEFT JOIN changed c ON c.id = f.id"
    );
    let history: Vec<Uuid> = ids.iter().map(|_| Uuid::now_v7()).collect();
    let statement = work.prepare_cached(&sql).await?;
    let values: [&(dyn ToSql + Sync); 5] = [&ids, &history, actor, &change, &argument];
    let rows = work.query(&statement, &values).await?;
    let mut outcome = Outcome::default();
    let mut found = std::collections::HashSet::with_capacity(rows.len());
    for row in &rows {
        found.insert(row.try_get::<_, Uuid>("id")?);
        if row.try_get("is_changed")? { outcome.changed += 1 } else { outcome.unchanged += 1 }
    }
    outcome.missing = ids.iter().copied().filter(|id| !found.contains(id)).collect();
    Ok(outcome)
}
