//! The table `proxy_routes`: one row with all routes that were set at run time.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Json;

use super::cards::Precondition;
use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// A route as it was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyRouteRow {
    pub prefix: String,
    pub upstream: String,
}

/// All of them and how often they were changed; version 0 while nobody has set any.
#[derive(Clone, Debug, Default)]
pub struct ProxyRoutesRecord {
    pub version: i64,
    pub lines: Vec<ProxyRouteRow>,
}

pub async fn get(pool: &Pool) -> Result<ProxyRoutesRecord, StoreError> {
    let client = pool.get().await?;
    let statement = client.prepare_cached("SELECT version, routes FROM public.proxy_routes").await?;
    let row = client.query_opt(&statement, &[]).await?;
    Ok(row.map_or_else(ProxyRoutesRecord::default, |row| ProxyRoutesRecord {
        version: row.get("version"),
        lines: row.get::<_, Json<_>>("routes").0,
    }))
}

/// The version alone; every host asks for it every few seconds.
pub async fn version(pool: &Pool) -> Result<i64, StoreError> {
    let client = pool.get().await?;
    let statement = client.prepare_cached("SELECT version FROM public.proxy_routes").await?;
    Ok(client.query_opt(&statement, &[]).await?.map_or(0, |row| row.get(0)))
}

/// Puts `lines` in the place of what is there; gives what was there before and the new version.
pub async fn replace(
    pool: &Pool,
    lines: &[ProxyRouteRow],
    precondition: &Precondition,
    by: &Value,
) -> Result<(ProxyRoutesRecord, i64), StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    // There may be no row to lock yet.
    tx.batch_execute("LOCK TABLE public.proxy_routes IN SHARE ROW EXCLUSIVE MODE").await?;
    let row = tx.query_opt("SELECT version, routes FROM public.proxy_routes", &[]).await?;
    let before = row.map_or_else(ProxyRoutesRecord::default, |row| ProxyRoutesRecord {
        version: row.get("version"),
        lines: row.get::<_, Json<_>>("routes").0,
    });
    precondition.check(before.version)?;
    let version = before.version + 1;
    tx.execute(
        "INSERT INTO public.proxy_routes (routes, version, updated_by) VALUES ($1, $2, $3) \
         ON CONFLICT (one_row) DO UPDATE SET routes = excluded.routes, version = excluded.version, \
         updated_by = excluded.updated_by, updated_at = now()",
        &[&Json(lines), &version, by],
    )
    .await?;
    tx.commit().await?;
    Ok((before, version))
}
