//! Many cards of `public.master_cards` in one statement, each with its line of history.

use std::collections::HashSet;

use deadpool_postgres::Transaction;
use serde_json::{Map, Value, json};
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};
use uuid::Uuid;

use crate::error::StoreError;
use cardinal_base::card_size::CARD_LIMIT;

/// What is done to each card.
#[derive(Clone, Debug)]
pub enum BulkAction {
    SetStatus(&'static str),
    Delete,
    RemoveSource(String),
    /// The value takes the place of the one before, members and all.
    SetAttribute(String, Value),
    RemoveAttribute(String),
}

/// What became of the cards, or would become.
#[derive(Debug, Default)]
pub struct Outcome {
    pub changed: i64,
    /// There, and as they should be already.
    pub unchanged: i64,
    /// Those that are not there, or deleted.
    pub missing: Vec<Uuid>,
    /// Those that stay as they are because they would have so many bytes.
    pub too_large: Vec<(Uuid, i32)>,
}

/// An action in SQL: `$2` is the text that it is about, `$3` what the history says of it.
struct ActionSql<'a> {
    argument: &'a str,
    change: Value,
    set: &'static str,
    /// Which cards it changes.
    only: &'static str,
    history: &'static str,
}

/// The bytes of a card that an attribute makes too large. Without it the database's own check, which is the same, would
/// refuse all cards of the statement.
fn excess() -> String {
    format!(
        "(SELECT n.size FROM (SELECT octet_length(a.next::text) + t.size AS size, \
           octet_length(c.attributes::text) + t.size AS before \
           FROM (SELECT c.attributes || ($3->'attributes') AS next OFFSET 0) AS a, \
             (SELECT octet_length(c.title) + octet_length(c.sku) AS size) AS t \
           WHERE pg_column_size(a.next) > 262144) AS n \
         WHERE n.size > {CARD_LIMIT} AND n.size > n.before)"
    )
}

impl BulkAction {
    fn sql(&self) -> ActionSql<'_> {
        let attribute = |key: &str, value: Value| json!({"attributes": Map::from_iter([(key.to_owned(), value)])});
        match self {
            Self::SetStatus(status) => ActionSql {
                argument: status,
                change: json!({"status": status}),
                set: "status = $2",
                only: "c.status <> $2",
                history: "update",
            },
            Self::Delete => ActionSql {
                argument: "",
                change: json!({}),
                set: "deleted_at = now()",
                only: "true",
                history: "delete",
            },
            Self::RemoveSource(key) => ActionSql {
                argument: key,
                change: json!({"source_key": key}),
                set: "attributes = jsonb_set(c.attributes, '{sources}', (c.attributes->'sources') - $2)",
                only: "c.attributes->'sources' ? $2",
                history: "remove_source",
            },
            Self::SetAttribute(key, value) => ActionSql {
                argument: key,
                change: attribute(key, value.clone()),
                set: "attributes = c.attributes || ($3->'attributes')",
                // To the last digit, as for one card.
                only: "(c.attributes->$2)::text IS DISTINCT FROM ($3->'attributes'->$2)::text",
                history: "update",
            },
            Self::RemoveAttribute(key) => ActionSql {
                argument: key,
                change: attribute(key, Value::Null),
                set: "attributes = c.attributes - $2",
                only: "c.attributes ? $2",
                history: "update",
            },
        }
    }

    /// The cards `$1` that there are.
    fn found(&self, parts: &ActionSql<'_>) -> String {
        let excess = if matches!(self, Self::SetAttribute(..)) { excess() } else { "NULL::integer".to_owned() };
        format!(
            "SELECT c.id, {} AS is_due, {excess} AS excess FROM public.master_cards c \
             WHERE c.id = ANY($1) AND c.deleted_at IS NULL ORDER BY c.id",
            parts.only
        )
    }
}

/// Does it to the cards `ids`; history names `job`.
pub async fn apply(
    tx: &Transaction<'_>,
    action: &BulkAction,
    ids: &[Uuid],
    actor: &Value,
    job: Uuid,
) -> Result<Outcome, StoreError> {
    let parts = action.sql();
    let unlisted = match action {
        BulkAction::RemoveSource(_) => {
            "unlisted AS (DELETE FROM public.card_source_index s USING changed c WHERE s.card_id = c.id AND s.source_key = $2), "
        }
        _ => "",
    };
    // Rows are locked in the order of their ids, so that two jobs never wait for each other for good.
    let sql = format!(
        "WITH found AS MATERIALIZED ({} FOR NO KEY UPDATE), \
         changed AS (UPDATE public.master_cards AS c SET {}, version = c.version + 1, updated_at = now() \
           FROM found f WHERE c.id = f.id AND f.is_due AND f.excess IS NULL RETURNING c.id, c.version), {unlisted}\
         recorded AS (INSERT INTO public.card_history (id, card_id, version, actor, action, change) \
           SELECT n.id, c.id, c.version, $5, '{}', $3 FROM changed c \
           JOIN unnest($1, $4) AS n (card_id, id) ON n.card_id = c.id) \
         SELECT f.id, f.excess, c.id IS NOT NULL AS is_changed FROM found f LEFT JOIN changed c ON c.id = f.id",
        action.found(&parts),
        parts.set,
        parts.history
    );
    let mut change = parts.change;
    change["job"] = json!(job);
    let history: Vec<Uuid> = ids.iter().map(|_| Uuid::now_v7()).collect();
    let types = [Type::UUID_ARRAY, Type::TEXT, Type::JSONB, Type::UUID_ARRAY, Type::JSONB];
    let statement = tx.prepare_typed_cached(&sql, &types).await?;
    let values: [&(dyn ToSql + Sync); 5] = [&ids, &parts.argument, &change, &history, actor];
    outcome(ids, &tx.query(&statement, &values).await?)
}

/// What [`apply`] would do to these cards as they are now.
pub async fn preview(tx: &Transaction<'_>, action: &BulkAction, ids: &[Uuid]) -> Result<Outcome, StoreError> {
    let parts = action.sql();
    let sql = format!(
        "SELECT f.id, f.excess, f.is_due AND f.excess IS NULL AS is_changed FROM ({}) AS f",
        action.found(&parts)
    );
    let statement = tx.prepare_typed_cached(&sql, &[Type::UUID_ARRAY, Type::TEXT, Type::JSONB]).await?;
    let values: [&(dyn ToSql + Sync); 3] = [&ids, &parts.argument, &parts.change];
    outcome(ids, &tx.query(&statement, &values).await?)
}

fn outcome(ids: &[Uuid], rows: &[Row]) -> Result<Outcome, StoreError> {
    let mut outcome = Outcome::default();
    let mut found = HashSet::with_capacity(rows.len());
    for row in rows {
        let id: Uuid = row.try_get("id")?;
        found.insert(id);
        match row.try_get("excess")? {
            Some(bytes) => outcome.too_large.push((id, bytes)),
            None if row.try_get("is_changed")? => outcome.changed += 1,
            None => outcome.unchanged += 1,
        }
    }
    outcome.missing = ids.iter().copied().filter(|id| !found.contains(id)).collect();
    Ok(outcome)
}
