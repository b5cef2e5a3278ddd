//! The table `admin_api_keys`.

pub mod lineage;

use std::net::IpAddr;

use time::OffsetDateTime;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use self::lineage::Maker;
use super::{
    fault,
    pool::Pool,
    users::{self, User},
};
use crate::{auth::api_key::KeyHash, http::error::ApiResult};

/// A key's row, never the key.
#[derive(Clone, Debug)]
pub struct KeyRecord {
    pub id: Uuid,
    pub name: String,
    pub key_hint: String,
    pub owner_id: Uuid,
    pub scopes: Vec<String>,
    pub rate_per_minute: Option<i32>,
    pub rate_burst: Option<i32>,
    pub expires_at: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
    pub last_used_at: Option<OffsetDateTime>,
    pub last_used_ip: Option<IpAddr>,
    pub revoked_at: Option<OffsetDateTime>,
    pub revoked_reason: Option<String>,
    pub replaces_id: Option<Uuid>,
    /// The key that it was made with; its maker's successor once that was rotated.
    pub made_by_key_id: Option<Uuid>,
    /// The first key of its rotations, where that is another one: its calls count on that key's budget.
    pub budget_key_id: Option<Uuid>,
}

const COLUMNS: &str = "k.id, k.name, k.key_hint, k.owner_id, k.scopes, k.rate_per_minute, k.rate_burst, k.expires_at, \
     k.created_at, k.last_used_at, k.last_used_ip, k.revoked_at, k.revoked_reason, k.replaces_id, \
     k.made_by_key_id, k.budget_key_id";
const COLUMN_COUNT: usize = 16;

fn from_row(row: &Row) -> KeyRecord {
    KeyRecord {
        id: row.get(0),
        name: row.get(1),
        key_hint: row.get(2),
        owner_id: row.get(3),
        scopes: row.get(4),
        rate_per_minute: row.get(5),
        rate_burst: row.get(6),
        expires_at: row.get(7),
        created_at: row.get(8),
        last_used_at: row.get(9),
        last_used_ip: row.get(10),
        revoked_at: row.get(11),
        revoked_reason: row.get(12),
        replaces_id: row.get(13),
        made_by_key_id: row.get(14),
        budget_key_id: row.get(15),
    }
}

/// A key as authentication needs it.
pub struct KnownKey {
    pub record: KeyRecord,
    pub owner: User,
    /// The keys that it was made with, its maker first.
    pub makers: Vec<Maker>,
}

/// The key with this hash.
pub async fn by_hash(pool: &Pool, hash: &KeyHash) -> ApiResult<Option<KnownKey>> {
    let client = pool.get().await?;
    let sql = format!(
        "SELECT {COLUMNS}, {} FROM public.admin_api_keys k JOIN public.admin_users u ON u.id = k.owner_id WHERE k.key_hash = $1",
        users::columns()
    );
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&hash.as_slice()]).await?;
    let Some(row) = row else { return Ok(None) };
    let record = from_row(&row);
    let makers = match record.made_by_key_id {
        Some(maker) => lineage::from_maker(&*client, maker).await?,
        None => Vec::new(),
    };
    Ok(Some(KnownKey { owner: users::from_row(&row, COLUMN_COUNT), record, makers }))
}

const INSERT: &str = "INSERT INTO public.admin_api_keys (id, name, key_hash, key_hint, owner_id, scopes, rate_per_minute, rate_burst, \
     expires_at, created_at, replaces_id, made_by_key_id, budget_key_id) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";

fn values<'v>(key: &'v KeyRecord, hash: &'v &[u8]) -> [&'v (dyn ToSql + Sync); 13] {
    [
        &key.id,
        &key.name,
        hash,
        &key.key_hint,
        &key.owner_id,
        &key.scopes,
        &key.rate_per_minute,
        &key.rate_burst,
        &key.expires_at,
        &key.created_at,
        &key.replaces_id,
        &key.made_by_key_id,
        &key.budget_key_id,
    ]
}

/// Adds a key, which ends no later than its maker does. `false` when the maker was revoked or has expired meanwhile.
pub async fn insert(pool: &Pool, key: &mut KeyRecord, hash: &KeyHash) -> ApiResult<bool> {
    let mut client = pool.get().await?;
    let work = client.transaction().await?;
    if let Some(maker) = key.made_by_key_id {
        let Some(end) = lineage::hold_living(&work, maker).await? else { return Ok(false) };
        key.expires_at = earlier(key.expires_at, end);
    }
    work.execute(INSERT, &values(key, &hash.as_slice())).await?;
    work.commit().await?;
    Ok(true)
}

/// The earlier of two ends, of which none is for ever.
fn earlier(one: Option<OffsetDateTime>, other: Option<OffsetDateTime>) -> Option<OffsetDateTime> {
    [one, other].into_iter().flatten().min()
}

/// Keys, newest first; of one owner, or of all. `before` is the last id of the page before.
pub async fn list(pool: &Pool, owner: Option<Uuid>, before: Option<Uuid>, limit: i64) -> ApiResult<Vec<KeyRecord>> {
    let client = pool.get().await?;
    let sql = format!(
        "SELECT {COLUMNS} FROM public.admin_api_keys k WHERE ($1::uuid IS NULL OR k.owner_id = $1) \
         AND ($2::uuid IS NULL OR k.id < $2) ORDER BY k.id DESC LIMIT $3"
    );
    let rows = client.query(&client.prepare_cached(&sql).await?, &[&owner, &before, &limit]).await?;
    Ok(rows.iter().map(from_row).collect())
}

pub async fn get(pool: &Pool, id: Uuid) -> ApiResult<Option<KeyRecord>> {
    let client = pool.get().await?;
    let sql = format!("SELECT {COLUMNS} FROM public.admin_api_keys k WHERE k.id = $1");
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&id]).await?;
    Ok(row.map(|row| from_row(&row)))
}

/// What became of a change.
pub enum Updated {
    Done,
    /// The key was revoked meanwhile.
    Revoked,
    /// Its maker lives and ends before the end that was asked for.
    OutlivesItsMaker,
}

/// Writes what an owner may change; the end of its life only when that is asked for, since a rotation may have brought
/// it nearer meanwhile. The keys that were made with it then end with it at the latest.
pub async fn update(pool: &Pool, key: &KeyRecord, sets_expiry: bool) -> ApiResult<Updated> {
    let mut client = pool.get().await?;
    let work = client.transaction().await?;
    if let (true, Some(maker)) = (sets_expiry, key.made_by_key_id)
        && let Some(end) = lineage::hold_unrevoked(&work, maker).await?
        && earlier(key.expires_at, end) != key.expires_at
    {
        return Ok(Updated::OutlivesItsMaker);
    }
    let changed = work
        .execute(
            "UPDATE public.admin_api_keys SET name = $2, scopes = $3, rate_per_minute = $4, rate_burst = $5, \
             expires_at = CASE WHEN $7 THEN $6 ELSE expires_at END WHERE id = $1 AND revoked_at IS NULL",
            &[&key.id, &key.name, &key.scopes, &key.rate_per_minute, &key.rate_burst, &key.expires_at, &sets_expiry],
        )
        .await?;
    if changed == 0 {
        return Ok(Updated::Revoked);
    }
    if let (true, Some(end)) = (sets_expiry, key.expires_at) {
        lineage::end_by(&work, key.id, end).await?;
    }
    work.commit().await?;
    Ok(Updated::Done)
}

/// Revokes a key and, unless they are kept, the keys that were made with it, directly or not; gives those, as they were
/// before. A key that was revoked before keeps its time and reason.
pub async fn revoke(pool: &Pool, id: Uuid, reason: &str, keeps_children: bool) -> ApiResult<Vec<KeyRecord>> {
    let mut client = pool.get().await?;
    let work = client.transaction().await?;
    work.execute(
        "UPDATE public.admin_api_keys SET revoked_at = now(), revoked_reason = $2 WHERE id = $1 AND revoked_at IS NULL",
        &[&id, &reason],
    )
    .await?;
    let taken = if keeps_children { Vec::new() } else { lineage::revoke_descendants(&work, id).await? };
    work.commit().await?;
    Ok(taken)
}

/// What became of a rotation.
pub enum Rotated {
    Done,
    /// The old key is revoked or expired.
    Over,
    /// The old key has a living successor.
    Before,
    /// The key that asked for it was made with the old one.
    ByItsDescendant,
    /// The key that asked for it was revoked or has expired meanwhile.
    CallerOver,
}

/// Puts `new` in the place of `old`, which dies now or at the end of the overlap, never later than it would have; the
/// keys that were made with the old one are then the new one's. In one transaction: a rotation that fails leaves the old
/// key as it was. `by` is the key that asks for it, when it is one.
pub async fn rotate(
    pool: &Pool,
    new: &mut KeyRecord,
    hash: &KeyHash,
    old: &KeyRecord,
    overlap: Option<OffsetDateTime>,
    by: Option<Uuid>,
) -> ApiResult<Rotated> {
    let mut client = pool.get().await?;
    let work = client.transaction().await?;
    if let Some(by) = by.filter(|by| *by != old.id)
        && lineage::hold_living(&work, by).await?.is_none()
    {
        return Ok(Rotated::CallerOver);
    }
    let living = "SELECT made_by_key_id FROM public.admin_api_keys \
         WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) FOR NO KEY UPDATE";
    let Some(row) = work.query_opt(living, &[&old.id]).await? else { return Ok(Rotated::Over) };
    new.made_by_key_id = match lineage::maker_of_successor(&work, old.id, row.get(0), by).await? {
        Some(maker) => maker,
        None => return Ok(Rotated::ByItsDescendant),
    };
    new.budget_key_id = Some(old.budget_key_id.unwrap_or(old.id));
    match work.execute(INSERT, &values(new, &hash.as_slice())).await {
        Err(error) if fault::violated(&error) == Some("admin_api_keys_successor") => return Ok(Rotated::Before),
        outcome => outcome?,
    };
    lineage::hand_over(&work, old.id, new.id).await?;
    let change = match overlap {
        None => {
            "UPDATE public.admin_api_keys SET revoked_at = now(), revoked_reason = 'rotated' WHERE id = $1 AND $2::timestamptz IS NULL"
        }
        Some(_) => "UPDATE public.admin_api_keys SET expires_at = least(expires_at, $2) WHERE id = $1",
    };
    work.execute(change, &[&old.id, &overlap]).await?;
    work.commit().await?;
    Ok(Rotated::Done)
}

/// Notes when and from where keys were last used; called in batches. It waits for no key that is being changed: two
/// statements that lock many keys in different orders could wait for each other.
pub async fn touch(pool: &Pool, uses: &[(Uuid, OffsetDateTime, IpAddr)]) -> ApiResult<()> {
    let client = pool.get().await?;
    let (mut ids, mut times, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
    for (id, at, ip) in uses {
        ids.push(*id);
        times.push(*at);
        addresses.push(*ip);
    }
    client
        .execute(
            "WITH free AS (
               SELECT id FROM public.admin_api_keys WHERE id = ANY($1::uuid[]) FOR NO KEY UPDATE SKIP LOCKED)
             UPDATE public.admin_api_keys k SET last_used_at = used.at, last_used_ip = used.ip \
             FROM unnest($1::uuid[], $2::timestamptz[], $3::inet[]) AS used (id, at, ip) JOIN free USING (id) \
             WHERE k.id = used.id AND (k.last_used_at IS NULL OR k.last_used_at < used.at)",
            &[&ids, &times, &addresses],
        )
        .await?;
    Ok(())
}
