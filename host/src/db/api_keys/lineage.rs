//! Which keys were made with which: up to the makers of a key, down to all that was made with it.
//!
//! Makers form a tree, since a key is made with one that was there before, and a successor takes the place of the key
//! that it was rotated from. No query here relies on that: none runs for ever on a circle.

use deadpool_postgres::{GenericClient, Transaction};
use time::OffsetDateTime;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{COLUMNS, KeyRecord, from_row};
use crate::http::error::ApiResult;

/// Why a key was revoked that went with its maker.
pub const MAKER_REVOKED: &str = "its maker was revoked";

/// A key that another one was made with, as far as the other one's rate goes.
pub struct Maker {
    pub id: Uuid,
    /// The key on whose budget its calls count.
    pub budget: Uuid,
    pub rate_per_minute: Option<i32>,
    pub rate_burst: Option<i32>,
}

/// `maker`, the key that it was made with, and so on. Revoked ones are among them: by revoking itself a key would
/// free those that it made from the rate that they share.
pub async fn from_maker(client: &impl GenericClient, maker: Uuid) -> ApiResult<Vec<Maker>> {
    let sql = "WITH RECURSIVE makers AS (
                 SELECT id, budget_key_id, rate_per_minute, rate_burst, made_by_key_id
                 FROM public.admin_api_keys WHERE id = $1
                 UNION ALL
                 SELECT k.id, k.budget_key_id, k.rate_per_minute, k.rate_burst, k.made_by_key_id
                 FROM makers m JOIN public.admin_api_keys k ON k.id = m.made_by_key_id
               ) CYCLE id SET seen_before USING path
               SELECT id, coalesce(budget_key_id, id), rate_per_minute, rate_burst
               FROM makers WHERE NOT seen_before ORDER BY cardinality(path)";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&maker]).await?;
    let maker =
        |row: &Row| Maker { id: row.get(0), budget: row.get(1), rate_per_minute: row.get(2), rate_burst: row.get(3) };
    Ok(rows.iter().map(maker).collect())
}

/// Keeps a living key from being revoked until the transaction ends, and gives the end of its life; `None` when it is
/// revoked or has expired.
pub async fn hold_living(work: &Transaction<'_>, id: Uuid) -> ApiResult<Option<Option<OffsetDateTime>>> {
    let sql = "SELECT expires_at FROM public.admin_api_keys \
               WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) FOR SHARE";
    Ok(work.query_opt(sql, &[&id]).await?.map(|row| row.get(0)))
}

/// The same for a key that may have expired.
pub async fn hold_unrevoked(work: &Transaction<'_>, id: Uuid) -> ApiResult<Option<Option<OffsetDateTime>>> {
    let sql = "SELECT expires_at FROM public.admin_api_keys WHERE id = $1 AND revoked_at IS NULL FOR SHARE";
    Ok(work.query_opt(sql, &[&id]).await?.map(|row| row.get(0)))
}

/// The maker of the key that takes the place of `old`; `None` when `by` was made with `old`, and would put itself above
/// its maker.
///
/// A successor has the maker of the old key. Where a key rotates one that was not made with it, whoever holds that key
/// knows the new one, too, so that the new one goes with it.
pub async fn maker_of_successor(
    work: &Transaction<'_>,
    old: Uuid,
    maker_of_old: Option<Uuid>,
    by: Option<Uuid>,
) -> ApiResult<Option<Option<Uuid>>> {
    let Some(by) = by.filter(|by| *by != old) else { return Ok(Some(maker_of_old)) };
    if from_maker(work, by).await?.iter().any(|maker| maker.id == old) {
        return Ok(None);
    }
    let made_with_it = match maker_of_old {
        Some(maker) => from_maker(work, maker).await?.iter().any(|maker| maker.id == by),
        None => false,
    };
    Ok(Some(if made_with_it { maker_of_old } else { Some(by) }))
}

/// What was made with `old` counts from now on as made with its successor.
pub async fn hand_over(work: &Transaction<'_>, old: Uuid, successor: Uuid) -> ApiResult<()> {
    let sql = "UPDATE public.admin_api_keys SET made_by_key_id = $2 WHERE made_by_key_id = $1";
    work.execute(sql, &[&old, &successor]).await?;
    Ok(())
}

/// Everything that was made with `id`, directly or not, locked. The caller holds the lock of `id` itself.
///
/// A key that is being made holds the lock of its maker, one that is being rotated its own. So each round waits for
/// those that were under way, the next one finds what came of them, and a round that finds nothing new is the last:
/// whoever could still make one waits for this transaction, and then finds its maker as it left it.
async fn descendants(work: &Transaction<'_>, id: Uuid) -> ApiResult<Vec<Uuid>> {
    let sql = "SELECT id FROM public.admin_api_keys WHERE made_by_key_id = ANY($1) AND id <> ALL($1) \
               ORDER BY id FOR NO KEY UPDATE";
    let statement = work.prepare_cached(sql).await?;
    let mut known = vec![id];
    loop {
        let rows = work.query(&statement, &[&known]).await?;
        if rows.is_empty() {
            known.remove(0);
            return Ok(known);
        }
        known.extend(rows.iter().map(|row| row.get::<_, Uuid>(0)));
    }
}

/// Revokes everything that was made with `id`, and gives what was not revoked yet.
pub async fn revoke_descendants(work: &Transaction<'_>, id: Uuid) -> ApiResult<Vec<KeyRecord>> {
    let descendants = descendants(work, id).await?;
    let sql = format!(
        "UPDATE public.admin_api_keys k SET revoked_at = now(), revoked_reason = $2 \
         WHERE id = ANY($1) AND revoked_at IS NULL RETURNING {COLUMNS}"
    );
    let rows = work.query(&sql, &[&descendants, &MAKER_REVOKED]).await?;
    Ok(rows.iter().map(from_row).collect())
}

/// Nothing that was made with `id` lives longer than until `end`.
pub async fn end_by(work: &Transaction<'_>, id: Uuid, end: OffsetDateTime) -> ApiResult<()> {
    let descendants = descendants(work, id).await?;
    let sql = "UPDATE public.admin_api_keys SET expires_at = $2 \
               WHERE id = ANY($1) AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)";
    work.execute(sql, &[&descendants, &end]).await?;
    Ok(())
}
