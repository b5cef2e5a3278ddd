//! The packages that were in service, and what was decided about them: `plugin_versions`.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use crate::error::StoreError;
use cardinal_base::schema::{Actor, DateTime};
use cardinal_database::pool::Pool;

/// Packages of one plugin that are remembered; those that something was decided about are never forgotten.
const MAX_VERSIONS: i64 = 100;

/// A package of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginVersion {
    pub sha256: String,
    pub version: String,
    /// When it was first in service on any host.
    pub activated_at: Option<OffsetDateTime>,
    pub set_aside: Option<SetAside>,
}

/// Why a package is not put into service again by itself.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SetAside {
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    pub at: OffsetDateTime,
    /// `{kind, id, name}`.
    #[schemars(with = "Actor")]
    pub by: Value,
    pub reason: String,
}

/// All of them, by plugin, the latest first.
pub async fn all(pool: &Pool) -> Result<HashMap<String, Vec<PluginVersion>>, StoreError> {
    let sql = "SELECT plugin, sha256, version, activated_at, set_aside_at, set_aside_by, set_aside_reason
               FROM public.plugin_versions ORDER BY plugin, activated_at DESC NULLS LAST, sha256";
    let client = pool.get().await?;
    let statement = client.prepare_cached(sql).await?;
    let mut versions: HashMap<String, Vec<PluginVersion>> = HashMap::new();
    for row in client.query(&statement, &[]).await? {
        let set_aside = match row.try_get("set_aside_at")? {
            Some(at) => Some(SetAside {
                at,
                by: row.try_get::<_, Option<Value>>("set_aside_by")?.unwrap_or_default(),
                reason: row.try_get::<_, Option<String>>("set_aside_reason")?.unwrap_or_default(),
            }),
            None => None,
        };
        let version = PluginVersion {
            sha256: row.try_get("sha256")?,
            version: row.try_get("version")?,
            activated_at: row.try_get("activated_at")?,
            set_aside,
        };
        versions.entry(row.try_get("plugin")?).or_default().push(version);
    }
    Ok(versions)
}

/// A step of a plugin's schema that lost data, with an operator's word: no version from before it can serve any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub version: String,
    pub at: OffsetDateTime,
}

/// All of them, by plugin.
pub async fn losses(pool: &Pool) -> Result<HashMap<String, Vec<Loss>>, StoreError> {
    let sql = "SELECT plugin, plugin_version, applied_at FROM public.plugin_schema_steps WHERE losses <> '{}'";
    let client = pool.get().await?;
    let statement = client.prepare_cached(sql).await?;
    let mut losses: HashMap<String, Vec<Loss>> = HashMap::new();
    for row in client.query(&statement, &[]).await? {
        let loss = Loss { version: row.try_get("plugin_version")?, at: row.try_get("applied_at")? };
        losses.entry(row.try_get("plugin")?).or_default().push(loss);
    }
    Ok(losses)
}

/// Records that a package is in service, and forgets the oldest of many.
pub async fn activated(pool: &Pool, plugin: &str, sha256: &str, version: &str) -> Result<(), StoreError> {
    let client = pool.get().await?;
    let statement = client
        .prepare_cached(
            "INSERT INTO public.plugin_versions AS v (plugin, sha256, version, activated_at) VALUES ($1, $2, $3, now())
             ON CONFLICT (plugin, sha256) DO UPDATE SET activated_at = now() WHERE v.activated_at IS NULL",
        )
        .await?;
    client.execute(&statement, &[&plugin, &sha256, &version]).await?;
    let statement = client
        .prepare_cached(
            "DELETE FROM public.plugin_versions
             WHERE plugin = $1 AND set_aside_at IS NULL
               AND activated_at < (SELECT activated_at FROM public.plugin_versions WHERE plugin = $1
                                   ORDER BY activated_at DESC NULLS LAST OFFSET $2 LIMIT 1)",
        )
        .await?;
    client.execute(&statement, &[&plugin, &MAX_VERSIONS]).await?;
    Ok(())
}

/// Goes back to the package `to`: those of `aside` (hash and version) are not put into service again by themselves.
pub async fn roll_back(
    pool: &Pool,
    plugin: &str,
    aside: &[(String, String)],
    to: &str,
    by: &Value,
    reason: &str,
) -> Result<(), StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    for (sha256, version) in aside {
        tx.execute(
            "INSERT INTO public.plugin_versions (plugin, sha256, version, set_aside_at, set_aside_by, set_aside_reason)
             VALUES ($1, $2, $3, now(), $4, $5)
             ON CONFLICT (plugin, sha256) DO UPDATE SET set_aside_at = excluded.set_aside_at,
               set_aside_by = excluded.set_aside_by, set_aside_reason = excluded.set_aside_reason",
            &[&plugin, sha256, version, by, &reason],
        )
        .await?;
    }
    tx.execute(TAKE_BACK, &[&plugin, &vec![to]]).await?;
    tx.commit().await?;
    Ok(())
}

const TAKE_BACK: &str = "UPDATE public.plugin_versions
                         SET set_aside_at = NULL, set_aside_by = NULL, set_aside_reason = NULL
                         WHERE plugin = $1 AND sha256 = ANY($2) AND set_aside_at IS NOT NULL";

/// Lets packages be put into service again. Whether any of them was set aside.
pub async fn take_back(pool: &Pool, plugin: &str, packages: &[String]) -> Result<bool, StoreError> {
    let client = pool.get().await?;
    let statement = client.prepare_cached(TAKE_BACK).await?;
    Ok(client.execute(&statement, &[&plugin, &packages]).await? > 0)
}

/// Records an operator's word that the package's schema.sql may lose data. Nothing older can be gone back to from
/// then on.
pub async fn confirm_destructive(
    pool: &Pool,
    plugin: &str,
    sha256: &str,
    version: &str,
    by: &Value,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO public.plugin_versions
                 (plugin, sha256, version, destructive_confirmed_at, destructive_confirmed_by)
               VALUES ($1, $2, $3, now(), $4)
               ON CONFLICT (plugin, sha256) DO UPDATE SET destructive_confirmed_at = now(),
                 destructive_confirmed_by = excluded.destructive_confirmed_by";
    let client = pool.get().await?;
    let statement = client.prepare_cached(sql).await?;
    client.execute(&statement, &[&plugin, &sha256, &version, by]).await?;
    Ok(())
}

/// Forgets that data was lost on the way: there is none left of the plugin.
pub async fn forget_losses(pool: &Pool, plugin: &str) -> Result<(), StoreError> {
    let sql = "UPDATE public.plugin_versions SET destructive_confirmed_at = NULL, destructive_confirmed_by = NULL
               WHERE plugin = $1 AND destructive_confirmed_at IS NOT NULL";
    let client = pool.get().await?;
    client.execute(&client.prepare_cached(sql).await?, &[&plugin]).await?;
    Ok(())
}
