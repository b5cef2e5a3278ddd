//! The table `admin_sessions`.

use std::net::IpAddr;

use time::OffsetDateTime;
use tokio_postgres::Row;
use uuid::Uuid;

use super::users::{self, User};
use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// A session and its user, as they are now.
pub struct Session {
    pub revoked: bool,
    pub expires_at: OffsetDateTime,
    pub user: User,
}

/// A session as its user sees it.
pub struct SessionRow {
    pub id: Uuid,
    pub user_id: Uuid,
    pub username: String,
    /// Whose sessions only owners may end.
    pub role: Option<String>,
    pub created_at: OffsetDateTime,
    pub expires_at: OffsetDateTime,
    pub last_seen_at: Option<OffsetDateTime>,
    pub ip: Option<IpAddr>,
    pub user_agent: Option<String>,
}

const LINE: &str = "s.id, s.user_id, u.username, u.role, s.created_at, s.expires_at, s.last_seen_at, s.ip, \
     s.user_agent";
const LIVE: &str = "s.revoked_at IS NULL AND s.expires_at > now()";

fn line(row: &Row) -> SessionRow {
    SessionRow {
        id: row.get("id"),
        user_id: row.get("user_id"),
        username: row.get("username"),
        role: row.get("role"),
        created_at: row.get("created_at"),
        expires_at: row.get("expires_at"),
        last_seen_at: row.get("last_seen_at"),
        ip: row.get("ip"),
        user_agent: row.get("user_agent"),
    }
}

/// What is known of a session that begins.
pub struct NewSession<'a> {
    pub id: Uuid,
    pub user_id: Uuid,
    /// The user's epoch when the password was checked.
    pub epoch: i32,
    pub expires_at: OffsetDateTime,
    pub ip: Option<IpAddr>,
    pub user_agent: Option<&'a str>,
}

/// Opens a session, unless the user was disabled or given another password since that password was checked.
pub async fn open(pool: &Pool, new: &NewSession<'_>) -> Result<bool, StoreError> {
    let client = pool.get().await?;
    let opened = client
        .execute(
            "INSERT INTO public.admin_sessions (id, user_id, expires_at, ip, user_agent) \
             SELECT $1, u.id, $4, $5, $6 FROM public.admin_users u \
             WHERE u.id = $2 AND u.token_epoch = $3 AND u.disabled_at IS NULL",
            &[&new.id, &new.user_id, &new.epoch, &new.expires_at, &new.ip, &new.user_agent],
        )
        .await?;
    Ok(opened == 1)
}

pub async fn find(pool: &Pool, id: Uuid) -> Result<Option<Session>, StoreError> {
    let client = pool.get().await?;
    let sql = format!(
        "SELECT s.revoked_at IS NOT NULL AS is_revoked, s.expires_at, {} FROM public.admin_sessions s \
         JOIN public.admin_users u ON u.id = s.user_id WHERE s.id = $1",
        users::columns()
    );
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&id]).await?;
    Ok(row.map(|row| Session {
        revoked: row.get("is_revoked"),
        expires_at: row.get("expires_at"),
        user: users::from_row(&row),
    }))
}

/// Where names have logged in of late: those after the session `after`, oldest first, the newest `limit`. Gives the
/// last session as well.
pub async fn places(pool: &Pool, after: Uuid, limit: i64) -> Result<(Option<Uuid>, Vec<(String, IpAddr)>), StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT s.id, u.username, s.ip FROM public.admin_sessions s JOIN public.admin_users u ON u.id = s.user_id \
               WHERE s.id > $1 AND s.ip IS NOT NULL AND s.created_at > now() - interval '30 days' \
               ORDER BY s.id DESC LIMIT $2";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&after, &limit]).await?;
    let last = rows.first().map(|row| row.get("id"));
    Ok((last, rows.iter().rev().map(|row| (row.get("username"), row.get("ip"))).collect()))
}

/// A user's sessions that have not ended, newest first; `before` is the last id of the page before.
pub async fn list(pool: &Pool, user: Uuid, before: Option<Uuid>, limit: i64) -> Result<Vec<SessionRow>, StoreError> {
    let client = pool.get().await?;
    let sql = format!(
        "SELECT {LINE} FROM public.admin_sessions s JOIN public.admin_users u ON u.id = s.user_id \
         WHERE s.user_id = $1 AND {LIVE} AND ($2::uuid IS NULL OR s.id < $2) ORDER BY s.id DESC LIMIT $3"
    );
    let rows = client.query(&client.prepare_cached(&sql).await?, &[&user, &before, &limit]).await?;
    Ok(rows.iter().map(line).collect())
}

/// A session that has not ended.
pub async fn get(pool: &Pool, id: Uuid) -> Result<Option<SessionRow>, StoreError> {
    let client = pool.get().await?;
    let sql = format!(
        "SELECT {LINE} FROM public.admin_sessions s JOIN public.admin_users u ON u.id = s.user_id \
         WHERE s.id = $1 AND {LIVE}"
    );
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&id]).await?;
    Ok(row.as_ref().map(line))
}

pub async fn revoke(pool: &Pool, id: Uuid, reason: &str) -> Result<(), StoreError> {
    let client = pool.get().await?;
    client
        .execute(
            "UPDATE public.admin_sessions SET revoked_at = now(), revoked_reason = $2 \
             WHERE id = $1 AND revoked_at IS NULL",
            &[&id, &reason],
        )
        .await?;
    Ok(())
}

/// Ends every session of a user; gives how many there were.
pub async fn revoke_all(pool: &Pool, user: Uuid, reason: &str) -> Result<u64, StoreError> {
    let client = pool.get().await?;
    let ended = client
        .execute(
            "UPDATE public.admin_sessions SET revoked_at = now(), revoked_reason = $2 \
             WHERE user_id = $1 AND revoked_at IS NULL",
            &[&user, &reason],
        )
        .await?;
    Ok(ended)
}

/// Notes when sessions were last seen; called in batches.
pub async fn touch(pool: &Pool, seen: &[(Uuid, OffsetDateTime)]) -> Result<(), StoreError> {
    let client = pool.get().await?;
    let (ids, times): (Vec<Uuid>, Vec<OffsetDateTime>) = seen.iter().copied().unzip();
    client
        .execute(
            "UPDATE public.admin_sessions s SET last_seen_at = greatest(s.last_seen_at, seen.at) \
             FROM unnest($1::uuid[], $2::timestamptz[]) AS seen (id, at) WHERE s.id = seen.id",
            &[&ids, &times],
        )
        .await?;
    Ok(())
}

/// Removes sessions that have been over for a month; until then the audit log's reader finds what they were.
pub async fn forget_old(pool: &Pool) -> Result<u64, StoreError> {
    let client = pool.get().await?;
    Ok(client.execute("DELETE FROM public.admin_sessions WHERE expires_at < now() - interval '30 days'", &[]).await?)
}
