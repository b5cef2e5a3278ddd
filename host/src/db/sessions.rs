//! The table `admin_sessions`.

use std::net::IpAddr;

use time::OffsetDateTime;
use uuid::Uuid;

use super::pool::Pool;
use super::users::{self, User};
use crate::http::error::ApiResult;

/// A session and its user, as they are now.
pub struct Session {
    pub revoked: bool,
    pub expires_at: OffsetDateTime,
    pub user: User,
}

pub async fn open(
    pool: &Pool,
    id: Uuid,
    user_id: Uuid,
    expires_at: OffsetDateTime,
    ip: Option<IpAddr>,
    user_agent: Option<&str>,
) -> ApiResult<()> {
    let client = pool.get().await?;
    client
        .execute(
            "INSERT INTO public.admin_sessions (id, user_id, expires_at, ip, user_agent) VALUES ($1, $2, $3, $4, $5)",
            &[&id, &user_id, &expires_at, &ip, &user_agent],
        )
        .await?;
    Ok(())
}

pub async fn find(pool: &Pool, id: Uuid) -> ApiResult<Option<Session>> {
    let client = pool.get().await?;
    let sql = format!(
        "SELECT s.revoked_at IS NOT NULL, s.expires_at, {} FROM public.admin_sessions s \
         JOIN public.admin_users u ON u.id = s.user_id WHERE s.id = $1",
        users::columns()
    );
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&id]).await?;
    Ok(row.map(|row| Session { revoked: row.get(0), expires_at: row.get(1), user: users::from_row(&row, 2) }))
}

pub async fn revoke(pool: &Pool, id: Uuid, reason: &str) -> ApiResult<()> {
    let client = pool.get().await?;
    client
        .execute(
            "UPDATE public.admin_sessions SET revoked_at = now(), revoked_reason = $2 WHERE id = $1 AND revoked_at IS NULL",
            &[&id, &reason],
        )
        .await?;
    Ok(())
}
