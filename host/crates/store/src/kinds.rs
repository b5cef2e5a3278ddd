//! Which kinds the sources of cards are of, and how many cards each covers: `card_source_index`.

use std::{collections::HashMap, sync::Arc};

use time::{Duration, OffsetDateTime};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// A kind of which there are sources.
pub struct StoredKind {
    pub kind: String,
    pub cards: i64,
    /// More than [`COUNTED`]: the planner's estimate.
    pub is_estimate: bool,
}

/// Up to this many cards are counted one by one.
pub const COUNTED: i64 = 10_000;
/// Kinds that are looked at; whoever has more gets the first ones in their order.
pub(crate) const MAX_KINDS: i64 = 1_000;

/// From one kind to the next along the index: what it takes grows with the kinds, not with the sources.
const KINDS: &str = "WITH RECURSIVE step AS (
      (SELECT kind FROM public.card_source_index ORDER BY kind LIMIT 1)
      UNION ALL
      SELECT (SELECT s.kind FROM public.card_source_index s WHERE s.kind > step.kind ORDER BY s.kind LIMIT 1)
        FROM step WHERE step.kind IS NOT NULL)
    SELECT kind FROM step WHERE kind IS NOT NULL LIMIT $1";

/// The kinds of which there are sources. Cards that are deleted and not purged yet count, too: looking at each would
/// take what this must not.
pub async fn stored(pool: &Pool) -> Result<Vec<StoredKind>, StoreError> {
    let client = pool.get().await?;
    let kinds = client.query(&client.prepare_cached(KINDS).await?, &[&MAX_KINDS]).await?;
    let covered = "SELECT DISTINCT card_id FROM public.card_source_index WHERE kind = $1";
    let count = client.prepare_cached(&format!("SELECT count(*) FROM ({covered} LIMIT {COUNTED}) AS counted")).await?;
    let mut stored = Vec::with_capacity(kinds.len());
    for row in kinds {
        let kind: String = row.try_get(0)?;
        let counted: i64 = client.query_one(&count, &[&kind]).await?.try_get(0)?;
        let is_estimate = counted >= COUNTED;
        let cards = if is_estimate {
            let plan: serde_json::Value =
                client.query_one(&format!("EXPLAIN (FORMAT JSON) {covered}"), &[&kind]).await?.try_get(0)?;
            plan.pointer("/0/Plan/Plan Rows").and_then(serde_json::Value::as_i64).unwrap_or(counted).max(counted)
        } else {
            counted
        };
        stored.push(StoredKind { kind, cards, is_estimate });
    }
    Ok(stored)
}

/// The kinds of these cards' sources, in their order; a card without sources is not in it.
pub(crate) async fn for_cards(pool: &Pool, cards: &[Uuid]) -> Result<HashMap<Uuid, Vec<String>>, StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT card_id, array_agg(DISTINCT kind ORDER BY kind) AS kinds FROM public.card_source_index \
               WHERE card_id = ANY($1) GROUP BY card_id";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&cards]).await?;
    Ok(rows.iter().map(|row| (row.get("card_id"), row.get("kinds"))).collect())
}

/// How long a look at all kinds is good for.
const TTL: Duration = Duration::seconds(10);

/// The kinds as they were counted last. One look at a time, whoever else asks meanwhile gets the same.
#[derive(Default)]
pub struct Kinds(Mutex<Option<(Arc<Vec<StoredKind>>, OffsetDateTime)>>);

impl Kinds {
    pub async fn stored(&self, pool: &Pool, now: OffsetDateTime) -> Result<Arc<Vec<StoredKind>>, StoreError> {
        let mut kept = self.0.lock().await;
        if let Some((stored, at)) = &*kept
            && now - *at < TTL
        {
            return Ok(Arc::clone(stored));
        }
        let looked = Arc::new(stored(pool).await?);
        *kept = Some((Arc::clone(&looked), now));
        Ok(looked)
    }
}
