//! `admin_users` as administrators see and change it. Every change locks the owners first, so that two hosts cannot
//! take away the last two owners at the same time, each seeing the other one still there.

use deadpool_postgres::Transaction;
use serde::Serialize;
use time::OffsetDateTime;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use crate::error::StoreError;
use cardinal_base::db_error;
use cardinal_database::pool::Pool;

/// An account, without what only a login needs.
#[derive(Clone, Debug)]
pub struct Account {
    pub id: Uuid,
    pub username: String,
    pub kind: String,
    pub role: Option<String>,
    pub disabled_at: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
    /// Issuer and subject of a user of an identity provider.
    pub identity: Option<(String, String)>,
    pub has_password: bool,
}

const COLUMNS: &str = "u.id, u.username, u.kind, u.role, u.disabled_at, u.created_at, u.updated_at, u.oidc_iss, \
     u.oidc_sub, u.password_hash IS NOT NULL AS has_password";

/// Whoever can log in and may do everything.
const IS_OWNER: &str = "u.kind = 'user' AND u.role = 'owner' AND u.disabled_at IS NULL AND u.deleted_at IS NULL \
     AND u.password_hash IS NOT NULL";

fn from_row(row: &Row) -> Account {
    let (issuer, subject): (Option<String>, Option<String>) = (row.get("oidc_iss"), row.get("oidc_sub"));
    Account {
        id: row.get("id"),
        username: row.get("username"),
        kind: row.get("kind"),
        role: row.get("role"),
        disabled_at: row.get("disabled_at"),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
        identity: issuer.zip(subject),
        has_password: row.get("has_password"),
    }
}

/// Which accounts a list has.
#[derive(Debug, Default, Serialize)]
pub struct Filter {
    pub kind: Option<String>,
    pub role: Option<String>,
    pub disabled: Option<bool>,
    /// The beginning of the name, whatever its case.
    pub q: Option<String>,
}

/// Accounts, newest first; `before` is the last id of the page before.
pub async fn list(pool: &Pool, filter: &Filter, before: Option<Uuid>, limit: i64) -> Result<Vec<Account>, StoreError> {
    let mut sql = format!("SELECT {COLUMNS} FROM public.admin_users u WHERE u.deleted_at IS NULL");
    let prefix = filter
        .q
        .as_deref()
        .map(|q| q.to_lowercase().replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_") + "%");
    let mut values: Vec<&(dyn ToSql + Sync)> = Vec::new();
    if let Some(kind) = &filter.kind {
        values.push(kind);
        sql.push_str(&format!(" AND u.kind = ${}", values.len()));
    }
    if let Some(role) = &filter.role {
        values.push(role);
        sql.push_str(&format!(" AND u.role = ${}", values.len()));
    }
    if let Some(disabled) = filter.disabled {
        sql.push_str(if disabled { " AND u.disabled_at IS NOT NULL" } else { " AND u.disabled_at IS NULL" });
    }
    if let Some(prefix) = &prefix {
        values.push(prefix);
        sql.push_str(&format!(" AND lower(u.username) LIKE ${}", values.len()));
    }
    if let Some(before) = &before {
        values.push(before);
        sql.push_str(&format!(" AND u.id < ${}", values.len()));
    }
    values.push(&limit);
    sql.push_str(&format!(" ORDER BY u.id DESC LIMIT ${}", values.len()));
    let client = pool.get().await?;
    let rows = client.query(&client.prepare_cached(&sql).await?, &values).await?;
    Ok(rows.iter().map(from_row).collect())
}

pub async fn get(pool: &Pool, id: Uuid) -> Result<Option<Account>, StoreError> {
    let client = pool.get().await?;
    let sql = format!("SELECT {COLUMNS} FROM public.admin_users u WHERE u.id = $1 AND u.deleted_at IS NULL");
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&id]).await?;
    Ok(row.as_ref().map(from_row))
}

/// A new account of kind `user`; without a password nobody can log in to it yet.
pub async fn create(
    pool: &Pool,
    username: &str,
    role: &str,
    password_hash: Option<&str>,
) -> Result<Account, StoreError> {
    let client = pool.get().await?;
    let sql = format!(
        "INSERT INTO public.admin_users AS u (id, username, kind, role, password_hash) VALUES ($1, $2, 'user', $3, $4) \
         RETURNING {COLUMNS}"
    );
    let row = client.query_one(&sql, &[&Uuid::now_v7(), &username, &role, &password_hash]).await.map_err(taken)?;
    Ok(from_row(&row))
}

/// What an administrator changes of an account; `None` stays as it is.
#[derive(Debug, Default)]
pub struct Change {
    pub username: Option<String>,
    /// `Some(None)` takes the role away.
    pub role: Option<Option<String>>,
    pub disabled: Option<bool>,
    pub password_hash: Option<String>,
}

/// An account before and after a change.
pub struct AccountChange {
    pub before: Account,
    pub after: Account,
    /// Whether every session of the account has ended with it.
    pub ended_sessions: bool,
}

/// Changes an account that `check` lets the caller change; `None` when there is no such account. The account that is
/// judged is the one that is changed: it is locked before. The inner error is `check`'s.
pub async fn change<E>(
    pool: &Pool,
    id: Uuid,
    change: Change,
    check: impl Fn(&Account) -> Result<(), E>,
) -> Result<Result<Option<AccountChange>, E>, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let Some(LockedAccount { account: before, is_last_owner }) = lock(&tx, id).await? else { return Ok(Ok(None)) };
    if let Err(refusal) = check(&before) {
        return Ok(Err(refusal));
    }
    let role = change.role.unwrap_or_else(|| before.role.clone());
    let disabled = change.disabled.unwrap_or(before.disabled_at.is_some());
    if is_last_owner && (disabled || role.as_deref() != Some("owner")) {
        return Err(StoreError::LastOwner);
    }
    let newly_disabled = disabled && before.disabled_at.is_none();
    let ended_sessions = change.password_hash.is_some() || newly_disabled || role != before.role;
    let sql = format!(
        "UPDATE public.admin_users AS u SET username = coalesce($2, u.username), role = $3, \
         disabled_at = CASE WHEN $4 THEN coalesce(u.disabled_at, now()) END, \
         password_hash = coalesce($5, u.password_hash), token_epoch = u.token_epoch + $6::boolean::integer, \
         updated_at = now() WHERE u.id = $1 RETURNING {COLUMNS}"
    );
    let values: [&(dyn ToSql + Sync); 6] =
        [&id, &change.username, &role, &disabled, &change.password_hash, &ended_sessions];
    let after = from_row(&tx.query_one(&sql, &values).await.map_err(taken)?);
    if ended_sessions {
        let reason = match (newly_disabled, role == before.role) {
            (true, _) => "account disabled",
            (false, false) => "role changed",
            (false, true) => "password changed",
        };
        end_sessions(&tx, id, reason).await?;
    }
    tx.commit().await?;
    Ok(Ok(Some(AccountChange { before, after, ended_sessions })))
}

/// Removes an account that `check` lets the caller remove: its sessions and keys end with it. A user of an identity
/// provider stays as a disabled record, or the next token would make the account anew. The inner error is `check`'s.
pub async fn remove<E>(
    pool: &Pool,
    id: Uuid,
    check: impl Fn(&Account) -> Result<(), E>,
) -> Result<Result<Option<Account>, E>, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let Some(LockedAccount { account, is_last_owner }) = lock(&tx, id).await? else { return Ok(Ok(None)) };
    if let Err(refusal) = check(&account) {
        return Ok(Err(refusal));
    }
    if is_last_owner {
        return Err(StoreError::LastOwner);
    }
    tx.execute(
        "UPDATE public.admin_users SET disabled_at = coalesce(disabled_at, now()), role = NULL, password_hash = NULL, \
         deleted_at = CASE WHEN kind <> 'oidc' THEN now() END, token_epoch = token_epoch + 1, updated_at = now() \
         WHERE id = $1",
        &[&id],
    )
    .await?;
    end_sessions(&tx, id, "account deleted").await?;
    tx.execute(
        "UPDATE public.admin_api_keys SET revoked_at = now(), revoked_reason = 'owner deleted' \
         WHERE owner_id = $1 AND revoked_at IS NULL",
        &[&id],
    )
    .await?;
    tx.commit().await?;
    Ok(Ok(Some(account)))
}

struct LockedAccount {
    account: Account,
    is_last_owner: bool,
}

/// The owners first and in one order, so that changes of any accounts take turns instead of deadlocking.
async fn lock(tx: &Transaction<'_>, id: Uuid) -> Result<Option<LockedAccount>, StoreError> {
    let owners = format!("SELECT u.id FROM public.admin_users u WHERE {IS_OWNER} ORDER BY u.id FOR NO KEY UPDATE");
    let owners: Vec<Uuid> = tx.query(&owners, &[]).await?.iter().map(|row| row.get(0)).collect();
    let sql = format!(
        "SELECT {COLUMNS} FROM public.admin_users u WHERE u.id = $1 AND u.deleted_at IS NULL FOR NO KEY UPDATE"
    );
    let row = tx.query_opt(&sql, &[&id]).await?;
    Ok(row.map(|row| LockedAccount { account: from_row(&row), is_last_owner: owners == [id] }))
}

async fn end_sessions(tx: &Transaction<'_>, user: Uuid, reason: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE public.admin_sessions SET revoked_at = now(), revoked_reason = $2 \
         WHERE user_id = $1 AND revoked_at IS NULL",
        &[&user, &reason],
    )
    .await?;
    Ok(())
}

fn taken(error: tokio_postgres::Error) -> StoreError {
    match db_error::violated(&error) {
        Some("admin_users_username") => {
            StoreError::NameTaken("Another account has this username, perhaps in another case.")
        }
        _ => error.into(),
    }
}
