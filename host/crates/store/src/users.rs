//! The table `admin_users`.

pub mod accounts;

use time::OffsetDateTime;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// A user as it is stored.
#[derive(Clone, Debug)]
pub struct User {
    pub id: Uuid,
    pub username: String,
    pub kind: String,
    pub role: Option<String>,
    pub password_hash: Option<String>,
    pub token_epoch: i32,
    pub disabled_at: Option<OffsetDateTime>,
}

const COLUMNS: &str = "u.id AS user_id, u.username, u.kind, u.role, u.password_hash, u.token_epoch, u.disabled_at";

pub(super) fn from_row(row: &Row) -> User {
    User {
        id: row.get("user_id"),
        username: row.get("username"),
        kind: row.get("kind"),
        role: row.get("role"),
        password_hash: row.get("password_hash"),
        token_epoch: row.get("token_epoch"),
        disabled_at: row.get("disabled_at"),
    }
}

pub(super) const fn columns() -> &'static str {
    COLUMNS
}

/// The user who may log in under `username`, whatever its case.
pub async fn by_login(pool: &Pool, username: &str) -> Result<Option<User>, StoreError> {
    // The database takes no such text; nobody has such a name.
    if username.contains('\0') {
        return Ok(None);
    }
    let client = pool.get().await?;
    let sql = format!(
        "SELECT {COLUMNS} FROM public.admin_users u WHERE u.kind = 'user' AND u.deleted_at IS NULL \
         AND lower(u.username) = lower($1)"
    );
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&username]).await?;
    Ok(row.map(|row| from_row(&row)))
}

pub async fn by_id(pool: &Pool, id: Uuid) -> Result<Option<User>, StoreError> {
    let client = pool.get().await?;
    let sql = format!("SELECT {COLUMNS} FROM public.admin_users u WHERE u.id = $1");
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&id]).await?;
    Ok(row.map(|row| from_row(&row)))
}

/// The owner who has been there longest and may log in.
pub async fn first_owner(pool: &Pool) -> Result<Option<Uuid>, StoreError> {
    let sql = "SELECT id FROM public.admin_users WHERE kind = 'user' AND role = 'owner' AND disabled_at IS NULL \
               AND deleted_at IS NULL ORDER BY created_at, id LIMIT 1";
    let client = pool.get().await?;
    let row = client.query_opt(&client.prepare_cached(sql).await?, &[]).await?;
    Ok(row.map(|row| row.get(0)))
}

/// Makes the first owner when there is no user yet. Two hosts that start at once make one: the
/// table is locked against other writers for this statement's transaction.
pub async fn bootstrap(pool: &Pool, id: Uuid, username: &str, password_hash: &str) -> Result<bool, StoreError> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    transaction.batch_execute("LOCK TABLE public.admin_users IN SHARE ROW EXCLUSIVE MODE").await?;
    let made = transaction
        .execute(
            "INSERT INTO public.admin_users (id, username, kind, password_hash, role) \
             SELECT $1, $2, 'user', $3, 'owner' \
             WHERE NOT EXISTS (SELECT 1 FROM public.admin_users WHERE kind = 'user')",
            &[&id, &username, &password_hash],
        )
        .await?;
    transaction.commit().await?;
    Ok(made == 1)
}

/// The user whom the first start made: nobody was there before, and a removed user stays as a row.
pub async fn first(pool: &Pool) -> Result<Option<User>, StoreError> {
    let client = pool.get().await?;
    let sql =
        format!("SELECT {COLUMNS} FROM public.admin_users u WHERE u.kind = 'user' ORDER BY u.created_at, u.id LIMIT 1");
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[]).await?;
    Ok(row.map(|row| from_row(&row)))
}

/// Whether anybody can log in at all.
pub async fn any(pool: &Pool) -> Result<bool, StoreError> {
    let client = pool.get().await?;
    let row = client.query_one("SELECT EXISTS (SELECT 1 FROM public.admin_users WHERE kind = 'user')", &[]).await?;
    Ok(row.get(0))
}

/// Sets a password in the place of `old` and ends every session of the user. `false` when another one was set, or the
/// user disabled, since `old` was read.
pub async fn set_password(pool: &Pool, id: Uuid, old: &str, password_hash: &str) -> Result<bool, StoreError> {
    let client = pool.get().await?;
    let changed = client
        .query_opt(
            "WITH changed AS (UPDATE public.admin_users SET password_hash = $3, token_epoch = token_epoch + 1, \
               must_change_password = false, updated_at = now() \
               WHERE id = $1 AND password_hash = $2 AND disabled_at IS NULL RETURNING id), \
             ended AS (UPDATE public.admin_sessions s SET revoked_at = now(), revoked_reason = 'password changed' \
               FROM changed WHERE s.user_id = changed.id AND s.revoked_at IS NULL) \
             SELECT id FROM changed",
            &[&id, &old, &password_hash],
        )
        .await?;
    Ok(changed.is_some())
}
