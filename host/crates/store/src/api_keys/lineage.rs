//! Which keys were made with which, and which took the place of which.
//!
//! Makers form a tree, since a key is made with one that was there before, and a successor takes the place of the key
//! that it was rotated from. No query here relies on that: none runs for ever on a circle.
//!
//! A lineage belongs to one owner. Whoever makes, changes, rotates or revokes a key locks the owner's row first, so
//! that these take turns: each finds the lineage as the one before it left it.

use deadpool_postgres::{GenericClient, Transaction};
use time::OffsetDateTime;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{COLUMNS, KeyRecord, from_row};
use crate::error::StoreError;
use cardinal_base::scope::{SCOPE_LIMIT, ScopeSet};

/// Why a key was revoked that went with its maker.
pub const MAKER_REVOKED: &str = "its maker was revoked";
/// Why a key was revoked that went with the key that it replaces or that replaced it.
pub(crate) const ROTATION_REVOKED: &str = "revoked with its rotation";
/// Why a key was revoked that its maker's remaining scopes leave nothing.
pub(crate) const NO_SCOPES_LEFT: &str = "its maker lost its scopes";

/// `$1`, the keys that it replaces and those that replaced it.
const ROTATIONS: &str = "rotations (id) AS (
       SELECT $1::uuid
       UNION
       SELECT k.id FROM rotations r CROSS JOIN LATERAL (
         SELECT id FROM public.admin_api_keys WHERE replaces_id = r.id
         UNION ALL SELECT replaces_id FROM public.admin_api_keys WHERE id = r.id AND replaces_id IS NOT NULL) k)";

/// These, what was made with them and what replaced that, directly or not. A key that one of those replaces is not
/// among them: whoever rotates another's key must not take the old one down with their own.
const FAMILY: &str = "family (id) AS (
       SELECT id FROM rotations
       UNION
       SELECT k.id FROM family f CROSS JOIN LATERAL (
         SELECT id FROM public.admin_api_keys WHERE made_by_key_id = f.id
         UNION ALL SELECT id FROM public.admin_api_keys WHERE replaces_id = f.id) k)";

/// A key that another one was made with, as far as the other one's rate and rights go.
pub struct Maker {
    pub id: Uuid,
    /// What the other one holds at most; `None` when this one is revoked and kept its children.
    pub scopes: Option<Vec<String>>,
    /// The key on whose budget its calls count.
    pub budget: Uuid,
    pub rate_per_minute: Option<i32>,
    pub rate_burst: Option<i32>,
}

/// `maker`, the key that it was made with, and so on. Revoked ones are among them: by revoking itself a key would
/// free those that it made from the rate that they share.
pub(crate) async fn from_maker(client: &impl GenericClient, maker: Uuid) -> Result<Vec<Maker>, StoreError> {
    let sql = "WITH RECURSIVE makers AS (
                 SELECT id, budget_key_id, rate_per_minute, rate_burst, made_by_key_id, scopes, revoked_at
                 FROM public.admin_api_keys WHERE id = $1
                 UNION ALL
                 SELECT k.id, k.budget_key_id, k.rate_per_minute, k.rate_burst, k.made_by_key_id, k.scopes, k.revoked_at
                 FROM makers m JOIN public.admin_api_keys k ON k.id = m.made_by_key_id
               ) CYCLE id SET seen_before USING path
               SELECT id, coalesce(budget_key_id, id) AS budget, rate_per_minute, rate_burst,
                      CASE WHEN revoked_at IS NULL THEN scopes END AS scopes
               FROM makers WHERE NOT seen_before ORDER BY cardinality(path)";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&maker]).await?;
    let maker = |row: &Row| Maker {
        id: row.get("id"),
        budget: row.get("budget"),
        rate_per_minute: row.get("rate_per_minute"),
        rate_burst: row.get("rate_burst"),
        scopes: row.get("scopes"),
    };
    Ok(rows.iter().map(maker).collect())
}

/// Makes this transaction the only one that works on the keys of `owner`.
pub async fn lock(tx: &Transaction<'_>, owner: Uuid) -> Result<(), StoreError> {
    // Before any key's row, as changes of accounts do, so that the two never wait for each other.
    tx.execute("SELECT FROM public.admin_users WHERE id = $1 FOR NO KEY UPDATE", &[&owner]).await?;
    Ok(())
}

/// What a maker allows to those that it makes.
pub(crate) struct MakerTerms {
    pub expires_at: Option<OffsetDateTime>,
    scopes: ScopeSet,
}

impl MakerTerms {
    /// The first of `scopes` that the maker lacks.
    pub(crate) fn lacked<'s>(&self, scopes: &'s [String]) -> Option<&'s str> {
        scopes.iter().map(String::as_str).find(|scope| !self.scopes.includes(&ScopeSet::lenient([scope])))
    }
}

/// The terms of a living key, which no change reaches until the transaction ends; `None` when it is revoked or has
/// expired.
pub(crate) async fn hold_living(tx: &Transaction<'_>, id: Uuid) -> Result<Option<MakerTerms>, StoreError> {
    hold(tx, id, "AND (expires_at IS NULL OR expires_at > now())").await
}

/// The same for a key that may have expired.
pub(crate) async fn hold_unrevoked(tx: &Transaction<'_>, id: Uuid) -> Result<Option<MakerTerms>, StoreError> {
    hold(tx, id, "").await
}

async fn hold(tx: &Transaction<'_>, id: Uuid, further: &str) -> Result<Option<MakerTerms>, StoreError> {
    let sql = format!(
        "SELECT expires_at, scopes FROM public.admin_api_keys WHERE id = $1 AND revoked_at IS NULL {further} FOR SHARE"
    );
    let row = tx.query_opt(&sql, &[&id]).await?;
    Ok(row.map(|row| MakerTerms {
        expires_at: row.get("expires_at"),
        scopes: ScopeSet::lenient(row.get::<_, Vec<String>>("scopes")),
    }))
}

/// The maker of the key that takes the place of `old`; `None` when `by` was made with `old`, and would put itself above
/// its maker.
///
/// A successor has the maker of the old key. Where a key rotates one that was not made with it, whoever holds that key
/// knows the new one, too, so that the new one goes with it.
pub(crate) async fn maker_of_successor(
    tx: &Transaction<'_>,
    old: Uuid,
    maker_of_old: Option<Uuid>,
    by: Option<Uuid>,
) -> Result<Option<Option<Uuid>>, StoreError> {
    let Some(by) = by.filter(|by| *by != old) else { return Ok(Some(maker_of_old)) };
    if from_maker(tx, by).await?.iter().any(|maker| maker.id == old) {
        return Ok(None);
    }
    let made_with_it = match maker_of_old {
        Some(maker) => from_maker(tx, maker).await?.iter().any(|maker| maker.id == by),
        None => false,
    };
    Ok(Some(if made_with_it { maker_of_old } else { Some(by) }))
}

/// What was made with `old` counts from now on as made with its successor.
pub async fn hand_over(tx: &Transaction<'_>, old: Uuid, successor: Uuid) -> Result<(), StoreError> {
    let sql = "UPDATE public.admin_api_keys SET made_by_key_id = $2 WHERE made_by_key_id = $1";
    tx.execute(sql, &[&old, &successor]).await?;
    Ok(())
}

/// Revokes the whole lineage of `id`, but for itself, and gives what was not revoked yet.
pub(crate) async fn revoke_family(tx: &Transaction<'_>, id: Uuid) -> Result<Vec<KeyRecord>, StoreError> {
    let sql = format!(
        "WITH RECURSIVE {ROTATIONS}, {FAMILY}
         UPDATE public.admin_api_keys k SET revoked_at = now(),
           revoked_reason = CASE WHEN k.id IN (SELECT id FROM rotations) THEN $2 ELSE $3 END
         FROM family WHERE k.id = family.id AND k.id <> $1 AND k.revoked_at IS NULL RETURNING {COLUMNS}"
    );
    let rows = tx.query(&sql, &[&id, &ROTATION_REVOKED, &MAKER_REVOKED]).await?;
    Ok(rows.iter().map(from_row).collect())
}

/// Leaves nothing in the lineage of `id` a scope beyond `scopes`, and gives what was changed. A key that is left
/// without any is revoked.
pub(crate) async fn narrow_family(
    tx: &Transaction<'_>,
    id: Uuid,
    scopes: &[String],
) -> Result<Vec<KeyRecord>, StoreError> {
    let sql = format!(
        "WITH RECURSIVE {ROTATIONS}, {FAMILY}
         SELECT k.id, k.scopes FROM public.admin_api_keys k JOIN family USING (id)
         WHERE k.id <> $1 AND k.revoked_at IS NULL ORDER BY k.id FOR NO KEY UPDATE OF k"
    );
    let maker = ScopeSet::lenient(scopes);
    let mut changed = Vec::new();
    for row in tx.query(&sql, &[&id]).await? {
        let (key, own): (Uuid, Vec<String>) = (row.get("id"), row.get("scopes"));
        let own = ScopeSet::lenient(own);
        if maker.includes(&own) {
            continue;
        }
        let left = own.intersect(&maker).reduced(SCOPE_LIMIT);
        let sql = format!(
            "UPDATE public.admin_api_keys k SET scopes = CASE WHEN cardinality($2::text[]) = 0 THEN scopes ELSE $2 END,
               revoked_at = CASE WHEN cardinality($2::text[]) = 0 THEN now() END,
               revoked_reason = CASE WHEN cardinality($2::text[]) = 0 THEN $3::text END
             WHERE id = $1 RETURNING {COLUMNS}"
        );
        changed.push(from_row(&tx.query_one(&sql, &[&key, &left, &NO_SCOPES_LEFT]).await?));
    }
    Ok(changed)
}

/// Nothing that was made with `id` lives longer than until `end`.
pub(crate) async fn end_by(tx: &Transaction<'_>, id: Uuid, end: OffsetDateTime) -> Result<(), StoreError> {
    let sql = "WITH RECURSIVE made (id) AS (
                 SELECT $1::uuid
                 UNION SELECT k.id FROM made JOIN public.admin_api_keys k ON k.made_by_key_id = made.id)
               UPDATE public.admin_api_keys k SET expires_at = $2 FROM made
               WHERE k.id = made.id AND k.id <> $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $2)";
    tx.execute(sql, &[&id, &end]).await?;
    Ok(())
}
