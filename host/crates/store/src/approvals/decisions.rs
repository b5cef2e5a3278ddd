//! What becomes of a question: decided, used, void, expired, forgotten. Each is one statement that changes a row in the
//! state that it must be in, so that of several hosts or calls one alone succeeds.

use serde_json::Value;
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{Approval, Binding, IS_LIVE, event, get};
use crate::error::StoreError;
use crate::event_log;
use cardinal_database::pool::Pool;

/// Decided and expired ones that are kept for who looks back, and for how long.
const MAX_KEPT: i64 = 1_000;
const MAX_KEPT_DAYS: i32 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    Approve,
    /// With the reason, where one was given.
    Deny(Option<&'a str>),
}

impl<'a> Decision<'a> {
    /// The state that it leads to.
    pub const fn state(self) -> &'static str {
        match self {
            Self::Approve => "approved",
            Self::Deny(_) => "denied",
        }
    }

    const fn reason(self) -> Option<&'a str> {
        match self {
            Self::Approve => None,
            Self::Deny(reason) => reason,
        }
    }
}

/// Who answers in the place of a person in the Admin UI: the client that was asked.
pub struct AskedClient {
    pub caller_id: Uuid,
    /// The session that was asked; none of a revision without sessions.
    pub session: Option<Uuid>,
}

/// Decides a call that waits; gives it as it is now. `None`: it does not wait any more, or this client was not asked.
pub async fn decide(
    pool: &Pool,
    id: Uuid,
    decision: Decision<'_>,
    by: &Value,
    client: Option<&AskedClient>,
) -> Result<Option<Approval>, StoreError> {
    let sql = format!(
        "UPDATE public.mcp_approvals a SET state = $2, decided_at = clock_timestamp(), decided_by = $3, reason = $7 \
         WHERE a.id = $1 AND a.state = 'pending' AND {IS_LIVE} \
         AND (NOT $4 OR (a.asked = 'client' AND a.caller_id = $5 AND a.session IS NOT DISTINCT FROM $6)) \
         RETURNING a.id, a.tool"
    );
    let (is_client, caller) = (client.is_some(), client.map(|client| client.caller_id));
    let session = client.and_then(|client| client.session);
    let (state, reason) = (decision.state(), decision.reason());
    let values: [&(dyn ToSql + Sync); 7] = [&id, &state, &by, &is_client, &caller, &session, &reason];
    match change(pool, &sql, &values, state).await? {
        Some(_) => get(pool, id).await,
        None => Ok(None),
    }
}

/// Takes an approval of this very call, about what is pinned now, which then is good for no other; gives its id.
pub async fn take_approved(pool: &Pool, binding: &Binding, pin: Option<&str>) -> Result<Option<Uuid>, StoreError> {
    let sql = format!(
        "UPDATE public.mcp_approvals u SET state = 'used', used_at = clock_timestamp() WHERE u.id = ( \
           SELECT a.id FROM public.mcp_approvals a WHERE a.binding = $1 AND a.state = 'approved' AND {IS_LIVE} \
           AND a.pin IS NOT DISTINCT FROM $2 ORDER BY a.id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING u.id, u.tool"
    );
    change(pool, &sql, &[&binding.as_slice(), &pin], "used").await
}

/// Takes the refusals of this very call that its caller has not heard of; gives the latest. The next call is asked
/// about anew.
pub async fn take_denied(pool: &Pool, binding: &Binding) -> Result<Option<Uuid>, StoreError> {
    let client = pool.get().await?;
    let sql = format!(
        "UPDATE public.mcp_approvals a SET reported_at = clock_timestamp() \
         WHERE a.binding = $1 AND a.state = 'denied' AND a.reported_at IS NULL AND {IS_LIVE} RETURNING a.id"
    );
    let rows = client.query(&client.prepare_cached(&sql).await?, &[&binding.as_slice()]).await?;
    Ok(rows.iter().map(|row: &Row| row.get(0)).max())
}

/// The same as [`take_approved`] for a client that answers with the call that it repeats: decided by `by` unless a
/// person was first.
pub async fn take_elicited(
    pool: &Pool,
    id: Uuid,
    binding: &Binding,
    pin: Option<&str>,
    by: &Value,
) -> Result<Option<Uuid>, StoreError> {
    let sql = format!(
        "UPDATE public.mcp_approvals a SET state = 'used', used_at = clock_timestamp(), \
         decided_at = coalesce(a.decided_at, clock_timestamp()), decided_by = coalesce(a.decided_by, $3) \
         WHERE a.id = $1 AND a.binding = $2 AND a.pin IS NOT DISTINCT FROM $4 AND a.asked = 'client' \
         AND a.state IN ('pending', 'approved') AND {IS_LIVE} RETURNING a.id, a.tool"
    );
    change(pool, &sql, &[&id, &binding.as_slice(), &by, &pin], "used").await
}

/// Ends a question or an approval whose plugin was replaced, or whose cards have changed.
pub async fn void(pool: &Pool, id: Uuid) -> Result<(), StoreError> {
    let sql = "UPDATE public.mcp_approvals a SET state = 'void' WHERE a.id = $1 AND a.state IN ('pending', 'approved') \
               RETURNING a.id, a.tool";
    change(pool, sql, &[&id], "void").await?;
    Ok(())
}

/// The same for one that was used by a call which then found them changed, and did nothing.
pub async fn void_used(pool: &Pool, id: Uuid) -> Result<(), StoreError> {
    let sql = "UPDATE public.mcp_approvals a SET state = 'void', used_at = NULL WHERE a.id = $1 AND a.state = 'used' \
               RETURNING a.id, a.tool";
    change(pool, sql, &[&id], "void").await?;
    Ok(())
}

/// Ends the questions and approvals of this call that are about something else than what is pinned now; gives their
/// ids.
pub async fn void_outdated(pool: &Pool, binding: &Binding, pin: Option<&str>) -> Result<Vec<Uuid>, StoreError> {
    void_all(pool, "a.binding = $1 AND a.pin IS DISTINCT FROM $2", &[&binding.as_slice(), &pin]).await
}

/// The same for those that are about another package of the plugin than this one.
pub async fn void_replaced(pool: &Pool, plugin: &str, sha256: &str) -> Result<Vec<Uuid>, StoreError> {
    void_all(pool, "a.plugin ->> 'name' = $1 AND a.plugin ->> 'sha256' <> $2", &[&plugin, &sha256]).await
}

async fn void_all(pool: &Pool, condition: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Uuid>, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let sql = format!(
        "UPDATE public.mcp_approvals a SET state = 'void' WHERE {condition} \
         AND a.state IN ('pending', 'approved') AND {IS_LIVE} RETURNING a.id, a.tool"
    );
    let rows = tx.query(&tx.prepare_cached(&sql).await?, parameters).await?;
    let mut ids = Vec::with_capacity(rows.len());
    for row in &rows {
        let (id, tool): (Uuid, String) = (row.get("id"), row.get("tool"));
        event_log::raise(&tx, &event("void", id, &tool)).await?;
        ids.push(id);
    }
    tx.commit().await?;
    Ok(ids)
}

/// Changes one row, with its event; gives its id.
async fn change(
    pool: &Pool,
    sql: &str,
    values: &[&(dyn ToSql + Sync)],
    what: &'static str,
) -> Result<Option<Uuid>, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let row = tx.query_opt(&tx.prepare_cached(sql).await?, values).await?;
    let Some(row) = row else { return Ok(None) };
    let (id, tool): (Uuid, String) = (row.get("id"), row.get("tool"));
    event_log::raise(&tx, &event(what, id, &tool)).await?;
    tx.commit().await?;
    Ok(Some(id))
}

/// Which of these do not wait any more, displaced and expired ones among them.
pub async fn ended(pool: &Pool, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
    let client = pool.get().await?;
    let sql = format!(
        "SELECT t.id FROM unnest($1::uuid[]) AS t (id) WHERE NOT EXISTS ( \
         SELECT FROM public.mcp_approvals a WHERE a.id = t.id AND a.state = 'pending' AND {IS_LIVE})"
    );
    let rows = client.query(&client.prepare_cached(&sql).await?, &[&ids]).await?;
    Ok(rows.iter().map(|row: &Row| row.get(0)).collect())
}

/// Records what has expired, and forgets what is long over.
pub async fn sweep(pool: &Pool) -> Result<(), StoreError> {
    let client = pool.get().await?;
    let expire = "UPDATE public.mcp_approvals SET state = 'expired' \
                  WHERE state IN ('pending', 'approved') AND expires_at <= clock_timestamp()";
    client.execute(expire, &[]).await?;
    let forget = "DELETE FROM public.mcp_approvals d WHERE d.state NOT IN ('pending', 'approved') \
                  AND (d.expires_at < clock_timestamp() - make_interval(days => $1) OR d.id <= ( \
                    SELECT a.id FROM public.mcp_approvals a WHERE a.state NOT IN ('pending', 'approved') \
                    ORDER BY a.id DESC OFFSET $2 LIMIT 1))";
    client.execute(forget, &[&MAX_KEPT_DAYS, &MAX_KEPT]).await?;
    Ok(())
}
