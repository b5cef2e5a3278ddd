//! The table `admin_audit_log`. The core's role may add rows and read them, nothing else.

use std::net::IpAddr;

use serde_json::Value;

use super::pool::Pool;
use crate::http::error::ApiResult;

/// One administrative act.
pub struct Act<'a> {
    pub actor: Value,
    /// e.g. `api_key.create`
    pub action: &'a str,
    pub target: Option<String>,
    /// `ok`, `refused` or `failed`
    pub outcome: &'a str,
    pub ip: Option<IpAddr>,
    pub request_id: &'a str,
    /// Never a secret.
    pub detail: Option<Value>,
}

/// Writes the line. One that can't be written doesn't undo what was done; the log has it instead.
pub async fn record(pool: &Pool, act: &Act<'_>) {
    if let Err(error) = write(pool, act).await {
        let Act { action, outcome, request_id, target, .. } = act;
        tracing::error!(request_id, action, outcome, ?target, ?error, "the audit line could not be written");
    }
}

async fn write(pool: &Pool, act: &Act<'_>) -> ApiResult<()> {
    let client = pool.get().await?;
    let sql = "INSERT INTO public.admin_audit_log (actor, action, target, outcome, ip, request_id, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let statement = client.prepare_cached(sql).await?;
    client
        .execute(
            &statement,
            &[&act.actor, &act.action, &act.target, &act.outcome, &act.ip, &act.request_id, &act.detail],
        )
        .await?;
    Ok(())
}
