//! The table `admin_api_keys`.

use std::net::IpAddr;

use time::OffsetDateTime;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

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
}

const COLUMNS: &str = "k.id, k.name, k.key_hint, k.owner_id, k.scopes, k.rate_per_minute, k.rate_burst, k.expires_at, \
     k.created_at, k.last_used_at, k.last_used_ip, k.revoked_at, k.revoked_reason, k.replaces_id";
const COLUMN_COUNT: usize = 14;

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
    }
}

/// The key with this hash and its owner, for authentication.
pub async fn by_hash(pool: &Pool, hash: &KeyHash) -> ApiResult<Option<(KeyRecord, User)>> {
    let client = pool.get().await?;
    let sql = format!(
        "SELECT {COLUMNS}, {} FROM public.admin_api_keys k JOIN public.admin_users u ON u.id = k.owner_id WHERE k.key_hash = $1",
        users::columns()
    );
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&hash.as_slice()]).await?;
    Ok(row.map(|row| (from_row(&row), users::from_row(&row, COLUMN_COUNT))))
}

const INSERT: &str = "INSERT INTO public.admin_api_keys (id, name, key_hash, key_hint, owner_id, scopes, rate_per_minute, rate_burst, \
     expires_at, created_at, replaces_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

fn values<'v>(key: &'v KeyRecord, hash: &'v &[u8]) -> [&'v (dyn ToSql + Sync); 11] {
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
    ]
}

pub async fn insert(pool: &Pool, key: &KeyRecord, hash: &KeyHash) -> ApiResult<()> {
    let client = pool.get().await?;
    client.execute(INSERT, &values(key, &hash.as_slice())).await?;
    Ok(())
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

/// Writes what an owner may change; the end of its life only when that is asked for, since a rotation may have brought
/// it nearer meanwhile. `false` when the key was revoked meanwhile.
pub async fn update(pool: &Pool, key: &KeyRecord, sets_expiry: bool) -> ApiResult<bool> {
    let client = pool.get().await?;
    let changed = client
        .execute(
            "UPDATE public.admin_api_keys SET name = $2, scopes = $3, rate_per_minute = $4, rate_burst = $5, \
             expires_at = CASE WHEN $7 THEN $6 ELSE expires_at END WHERE id = $1 AND revoked_at IS NULL",
            &[&key.id, &key.name, &key.scopes, &key.rate_per_minute, &key.rate_burst, &key.expires_at, &sets_expiry],
        )
        .await?;
    Ok(changed == 1)
}

/// Revokes a key; one that was revoked before keeps its time and reason.
pub async fn revoke(pool: &Pool, id: Uuid, reason: &str) -> ApiResult<()> {
    let client = pool.get().await?;
    client
        .execute(
            "UPDATE public.admin_api_keys SET revoked_at = now(), revoked_reason = $2 WHERE id = $1 AND revoked_at IS NULL",
            &[&id, &reason],
        )
        .await?;
    Ok(())
}

/// What became of a rotation.
pub enum Rotated {
    Done,
    /// The old key is revoked or expired.
    Over,
    /// The old key has a living successor.
    Before,
}

/// Puts `new` in the place of `old`, which dies now or at the end of the overlap, never later than it would have. In
/// one transaction: a rotation that fails leaves the old key as it was.
pub async fn rotate(
    pool: &Pool,
    new: &KeyRecord,
    hash: &KeyHash,
    old: Uuid,
    overlap: Option<OffsetDateTime>,
) -> ApiResult<Rotated> {
    let mut client = pool.get().await?;
    let work = client.transaction().await?;
    let living = "SELECT 1 FROM public.admin_api_keys \
         WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) FOR NO KEY UPDATE";
    if work.query_opt(living, &[&old]).await?.is_none() {
        return Ok(Rotated::Over);
    }
    match work.execute(INSERT, &values(new, &hash.as_slice())).await {
        Err(error) if fault::violated(&error) == Some("admin_api_keys_successor") => return Ok(Rotated::Before),
        outcome => outcome?,
    };
    let change = match overlap {
        None => {
            "UPDATE public.admin_api_keys SET revoked_at = now(), revoked_reason = 'rotated' WHERE id = $1 AND $2::timestamptz IS NULL"
        }
        Some(_) => "UPDATE public.admin_api_keys SET expires_at = least(expires_at, $2) WHERE id = $1",
    };
    work.execute(change, &[&old, &overlap]).await?;
    work.commit().await?;
    Ok(Rotated::Done)
}

/// Notes when and from where keys were last used; called in batches.
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
            "UPDATE public.admin_api_keys k SET last_used_at = used.at, last_used_ip = used.ip \
             FROM unnest($1::uuid[], $2::timestamptz[], $3::inet[]) AS used (id, at, ip) \
             WHERE k.id = used.id AND (k.last_used_at IS NULL OR k.last_used_at < used.at)",
            &[&ids, &times, &addresses],
        )
        .await?;
    Ok(())
}
