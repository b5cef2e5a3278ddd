//! The table `admin_api_keys`.

pub mod lineage;

use std::net::IpAddr;

use time::OffsetDateTime;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use self::lineage::{Maker, MakerTerms};
use super::users::{self, User};
use crate::error::StoreError;
use cardinal_base::{db_error, scope::ScopeSet};
use cardinal_database::pool::Pool;

/// What the database holds of a key.
pub type KeyHash = [u8; 32];

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
    /// The key that took its place and is not revoked.
    pub replaced_by_id: Option<Uuid>,
    /// Good at the MCP endpoint alone.
    pub mcp_only: bool,
}

const COLUMNS: &str = "k.id, k.name, k.key_hint, k.owner_id, k.scopes, k.rate_per_minute, k.rate_burst, k.expires_at, \
     k.created_at, k.last_used_at, k.last_used_ip, k.revoked_at, k.revoked_reason, k.replaces_id, \
     k.made_by_key_id, k.budget_key_id, \
     (SELECT s.id FROM public.admin_api_keys s WHERE s.replaces_id = k.id AND s.revoked_at IS NULL) AS replaced_by_id, \
     k.mcp_only";

fn from_row(row: &Row) -> KeyRecord {
    KeyRecord {
        id: row.get("id"),
        name: row.get("name"),
        key_hint: row.get("key_hint"),
        owner_id: row.get("owner_id"),
        scopes: row.get("scopes"),
        rate_per_minute: row.get("rate_per_minute"),
        rate_burst: row.get("rate_burst"),
        expires_at: row.get("expires_at"),
        created_at: row.get("created_at"),
        last_used_at: row.get("last_used_at"),
        last_used_ip: row.get("last_used_ip"),
        revoked_at: row.get("revoked_at"),
        revoked_reason: row.get("revoked_reason"),
        replaces_id: row.get("replaces_id"),
        made_by_key_id: row.get("made_by_key_id"),
        budget_key_id: row.get("budget_key_id"),
        replaced_by_id: row.get("replaced_by_id"),
        mcp_only: row.get("mcp_only"),
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
pub async fn by_hash(pool: &Pool, hash: &KeyHash) -> Result<Option<KnownKey>, StoreError> {
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
    Ok(Some(KnownKey { owner: users::from_row(&row), record, makers }))
}

const INSERT: &str = "INSERT INTO public.admin_api_keys (id, name, key_hash, key_hint, owner_id, scopes, rate_per_minute, rate_burst, \
     expires_at, created_at, replaces_id, made_by_key_id, budget_key_id, mcp_only) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

fn values<'v>(key: &'v KeyRecord, hash: &'v &[u8]) -> [&'v (dyn ToSql + Sync); 14] {
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
        &key.mcp_only,
    ]
}

/// What became of a key that was to be made.
pub enum CreateOutcome {
    Done,
    /// Its maker was revoked or has expired meanwhile.
    MakerOver,
    /// Its maker has lost this scope meanwhile.
    MakerLacks(String),
}

/// Adds a key, which ends no later than its maker does.
pub async fn insert(pool: &Pool, key: &mut KeyRecord, hash: &KeyHash) -> Result<CreateOutcome, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    if let Some(maker) = key.made_by_key_id {
        lineage::lock(&tx, key.owner_id).await?;
        let Some(terms) = lineage::hold_living(&tx, maker).await? else { return Ok(CreateOutcome::MakerOver) };
        if let Some(scope) = terms.lacked(&key.scopes) {
            return Ok(CreateOutcome::MakerLacks(scope.to_owned()));
        }
        key.expires_at = earlier(key.expires_at, terms.expires_at);
    }
    tx.execute(INSERT, &values(key, &hash.as_slice())).await?;
    tx.commit().await?;
    Ok(CreateOutcome::Done)
}

/// The earlier of two ends, of which none is for ever.
fn earlier(one: Option<OffsetDateTime>, other: Option<OffsetDateTime>) -> Option<OffsetDateTime> {
    [one, other].into_iter().flatten().min()
}

/// Keys, newest first; of one owner, or of all. `before` is the last id of the page before.
pub async fn list(
    pool: &Pool,
    owner: Option<Uuid>,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<KeyRecord>, StoreError> {
    let client = pool.get().await?;
    let sql = format!(
        "SELECT {COLUMNS} FROM public.admin_api_keys k WHERE ($1::uuid IS NULL OR k.owner_id = $1) \
         AND ($2::uuid IS NULL OR k.id < $2) ORDER BY k.id DESC LIMIT $3"
    );
    let rows = client.query(&client.prepare_cached(&sql).await?, &[&owner, &before, &limit]).await?;
    Ok(rows.iter().map(from_row).collect())
}

pub async fn get(pool: &Pool, id: Uuid) -> Result<Option<KeyRecord>, StoreError> {
    let client = pool.get().await?;
    let sql = format!("SELECT {COLUMNS} FROM public.admin_api_keys k WHERE k.id = $1");
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&id]).await?;
    Ok(row.map(|row| from_row(&row)))
}

/// What is changed of a key; `None` stays as it is, whatever it has become meanwhile.
#[derive(Debug, Default)]
pub struct Change {
    pub name: Option<String>,
    pub scopes: Option<Vec<String>>,
    /// Requests a minute and burst.
    pub rate: Option<(Option<i32>, Option<i32>)>,
    pub expires_at: Option<Option<OffsetDateTime>>,
}

impl Change {
    /// Whether it takes scopes away and changes nothing else. That much reaches the lineage of a revoked key, too.
    pub fn only_narrows(&self, key: &KeyRecord) -> bool {
        let nothing_else = self.name.is_none() && self.rate.is_none() && self.expires_at.is_none();
        let held = ScopeSet::lenient(&key.scopes);
        nothing_else && self.scopes.as_ref().is_some_and(|scopes| held.includes(&ScopeSet::lenient(scopes)))
    }
}

/// What became of a change.
pub enum UpdateOutcome {
    /// The key as it is now, and the keys of its lineage that lost scopes with it.
    Done(Box<KeyRecord>, Vec<KeyRecord>),
    /// The key is revoked, and the change does more than narrow.
    Revoked,
    /// It was rotated, and the end that was asked for is later than the one that it got by that.
    OutlivesItsOverlap,
    /// Its maker lives and ends before the end that was asked for.
    OutlivesItsMaker,
    /// Its maker lives and lacks a scope that was asked for.
    ExceedsItsMaker,
    /// The key that asked for it was revoked, has expired or lost a scope meanwhile.
    CallerOver,
}

/// What bounds a key's life.
const ENDS: &str = "SELECT made_by_key_id, expires_at, \
     EXISTS (SELECT FROM public.admin_api_keys s WHERE s.replaces_id = k.id) AS is_replaced \
     FROM public.admin_api_keys k WHERE id = $1";

/// Changes a key. Those that were made with it then end with it at the latest, and its lineage keeps no scope that it
/// has not; narrowing does that for a revoked key, too. `by` is the key that asks for it, when it is one.
pub async fn update(
    pool: &Pool,
    key: &KeyRecord,
    change: &Change,
    by: Option<Uuid>,
) -> Result<UpdateOutcome, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    lineage::lock(&tx, key.owner_id).await?;
    // What the caller might do was judged before the lock: it may have been narrowed or revoked since.
    if let Some(by) = by {
        let terms = lineage::hold_living(&tx, by).await?;
        let may = |terms: &MakerTerms| change.scopes.as_ref().is_none_or(|scopes| terms.lacked(scopes).is_none());
        if !terms.as_ref().is_some_and(may) {
            return Ok(UpdateOutcome::CallerOver);
        }
    }
    let Some(row) = tx.query_opt(ENDS, &[&key.id]).await? else { return Ok(UpdateOutcome::Revoked) };
    let (maker, present): (Option<Uuid>, Option<OffsetDateTime>) = (row.get("made_by_key_id"), row.get("expires_at"));
    if row.get("is_replaced") && change.expires_at.is_some_and(|end| earlier(end, present) != end) {
        return Ok(UpdateOutcome::OutlivesItsOverlap);
    }
    if let Some(maker) = maker
        && let Some(terms) = lineage::hold_unrevoked(&tx, maker).await?
    {
        if change.expires_at.is_some_and(|end| earlier(end, terms.expires_at) != end) {
            return Ok(UpdateOutcome::OutlivesItsMaker);
        }
        if change.scopes.as_ref().is_some_and(|scopes| terms.lacked(scopes).is_some()) {
            return Ok(UpdateOutcome::ExceedsItsMaker);
        }
    }
    let (sets_rate, (per_minute, burst)) = (change.rate.is_some(), change.rate.unwrap_or_default());
    let (sets_expiry, end) = (change.expires_at.is_some(), change.expires_at.flatten());
    let sql = format!(
        "UPDATE public.admin_api_keys k SET name = coalesce($2, name), scopes = coalesce($3, scopes), \
         rate_per_minute = CASE WHEN $4 THEN $5 ELSE rate_per_minute END, \
         rate_burst = CASE WHEN $4 THEN $6 ELSE rate_burst END, \
         expires_at = CASE WHEN $7 THEN $8 ELSE expires_at END WHERE id = $1 AND (revoked_at IS NULL OR $9) RETURNING {COLUMNS}"
    );
    let narrows = change.only_narrows(key);
    let values: [&(dyn ToSql + Sync); 9] =
        [&key.id, &change.name, &change.scopes, &sets_rate, &per_minute, &burst, &sets_expiry, &end, &narrows];
    let Some(row) = tx.query_opt(&sql, &values).await? else { return Ok(UpdateOutcome::Revoked) };
    if let Some(end) = end {
        lineage::end_by(&tx, key.id, end).await?;
    }
    let narrowed = match &change.scopes {
        Some(scopes) => lineage::narrow_family(&tx, key.id, scopes).await?,
        None => Vec::new(),
    };
    tx.commit().await?;
    Ok(UpdateOutcome::Done(Box::new(from_row(&row)), narrowed))
}

/// Revokes a key and, unless it is to go alone, the keys that it replaces, those that replaced it, and all that was
/// made with any of them; gives those, as they are now. A key that was revoked before keeps its time and reason.
pub async fn revoke(pool: &Pool, key: &KeyRecord, reason: &str, alone: bool) -> Result<Vec<KeyRecord>, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    lineage::lock(&tx, key.owner_id).await?;
    tx.execute(
        "UPDATE public.admin_api_keys SET revoked_at = now(), revoked_reason = $2 WHERE id = $1 AND revoked_at IS NULL",
        &[&key.id, &reason],
    )
    .await?;
    let taken = if alone { Vec::new() } else { lineage::revoke_family(&tx, key.id).await? };
    tx.commit().await?;
    Ok(taken)
}

/// What became of a rotation.
pub enum RotateOutcome {
    Done,
    /// The old key is revoked or expired.
    Over,
    /// The old key has a living successor.
    Before,
    /// The old key was given other terms meanwhile.
    Changed,
    /// The key that asked for it was made with the old one.
    ByItsDescendant,
    /// The key that asked for it was revoked, has expired or lost a scope meanwhile.
    CallerOver,
}

/// Puts `new` in the place of `old`, which dies now or at the end of the overlap, never later than it would have; the
/// keys that were made with the old one are then the new one's. In one transaction: a rotation that fails leaves the
/// old key as it was. `by` is the key that asks for it, when it is one.
pub async fn rotate(
    pool: &Pool,
    new: &mut KeyRecord,
    hash: &KeyHash,
    old: &KeyRecord,
    overlap: Option<OffsetDateTime>,
    by: Option<Uuid>,
) -> Result<RotateOutcome, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    lineage::lock(&tx, old.owner_id).await?;
    if let Some(by) = by.filter(|by| *by != old.id) {
        match lineage::hold_living(&tx, by).await? {
            Some(terms) if terms.lacked(&new.scopes).is_none() => {}
            _ => return Ok(RotateOutcome::CallerOver),
        }
    }
    let living = format!(
        "SELECT {COLUMNS} FROM public.admin_api_keys k WHERE k.id = $1 AND k.revoked_at IS NULL \
         AND (k.expires_at IS NULL OR k.expires_at > now()) FOR NO KEY UPDATE OF k"
    );
    let Some(row) = tx.query_opt(&living, &[&old.id]).await? else { return Ok(RotateOutcome::Over) };
    let current = from_row(&row);
    if !current.has_same_terms(old) {
        return Ok(RotateOutcome::Changed);
    }
    new.made_by_key_id = match lineage::maker_of_successor(&tx, old.id, current.made_by_key_id, by).await? {
        Some(maker) => maker,
        None => return Ok(RotateOutcome::ByItsDescendant),
    };
    new.budget_key_id = Some(old.budget_key_id.unwrap_or(old.id));
    match tx.execute(INSERT, &values(new, &hash.as_slice())).await {
        Err(error) if db_error::violated(&error) == Some("admin_api_keys_successor") => {
            return Ok(RotateOutcome::Before);
        }
        outcome => outcome?,
    };
    lineage::hand_over(&tx, old.id, new.id).await?;
    let change = match overlap {
        None => {
            "UPDATE public.admin_api_keys SET revoked_at = now(), revoked_reason = 'rotated' WHERE id = $1 AND $2::timestamptz IS NULL"
        }
        Some(_) => "UPDATE public.admin_api_keys SET expires_at = least(expires_at, $2) WHERE id = $1",
    };
    tx.execute(change, &[&old.id, &overlap]).await?;
    tx.commit().await?;
    Ok(RotateOutcome::Done)
}

impl KeyRecord {
    /// Whether it has the rights, the rate and the end that `other` has.
    fn has_same_terms(&self, other: &Self) -> bool {
        let rate = |key: &Self| (key.rate_per_minute, key.rate_burst);
        self.scopes == other.scopes && rate(self) == rate(other) && self.expires_at == other.expires_at
    }
}

/// Notes when and from where keys were last used; called in batches. It waits for no key that is being changed: two
/// statements that lock many keys in different orders could wait for each other.
pub async fn touch(pool: &Pool, uses: &[(Uuid, OffsetDateTime, IpAddr)]) -> Result<(), StoreError> {
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
