//! What an operator decided about plugins: `plugin_state`.

use std::collections::HashMap;

use serde_json::Value;

use super::pool::Pool;
use crate::http::error::ApiResult;

/// An operator's word on one plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginState {
    pub disabled: bool,
    /// A JSON object; empty when nothing was set.
    pub settings: Value,
}

/// All of them, by plugin.
pub async fn all(pool: &Pool) -> ApiResult<HashMap<String, PluginState>> {
    let sql = "SELECT plugin, disabled_at IS NOT NULL AS disabled, settings FROM public.plugin_state";
    let client = pool.get().await?;
    let statement = client.prepare_cached(sql).await?;
    let mut states = HashMap::new();
    for row in client.query(&statement, &[]).await? {
        let state = PluginState { disabled: row.try_get("disabled")?, settings: row.try_get("settings")? };
        states.insert(row.try_get("plugin")?, state);
    }
    Ok(states)
}

/// Disables (`by` = `{kind, id, name}`) or enables a plugin. Whether anything changed.
pub async fn set_disabled(pool: &Pool, plugin: &str, by: Option<&Value>) -> ApiResult<bool> {
    let sql = "INSERT INTO public.plugin_state AS s (plugin, disabled_at, disabled_by)
               VALUES ($1, CASE WHEN $2::jsonb IS NULL THEN NULL ELSE now() END, $2)
               ON CONFLICT (plugin) DO UPDATE
               SET disabled_at = excluded.disabled_at, disabled_by = excluded.disabled_by, updated_at = now()
               WHERE (s.disabled_at IS NULL) <> (excluded.disabled_at IS NULL)";
    let client = pool.get().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.execute(&statement, &[&plugin, &by]).await? > 0)
}

/// Changes whenever something was decided about any plugin, on whichever host. Read a few times a second at most, from
/// tables of a few rows; a counter would have to be kept by every writer, and times of transactions do not ascend.
pub async fn stamp(pool: &Pool) -> ApiResult<i64> {
    let sql = "SELECT hashtextextended(concat_ws('|',
                 (SELECT string_agg(s::text, ';' ORDER BY s.plugin) FROM public.plugin_state s),
                 (SELECT string_agg(o::text, ';' ORDER BY o.plugin) FROM public.plugin_owners o),
                 (SELECT string_agg(v::text, ';' ORDER BY v.plugin, v.sha256) FROM public.plugin_versions v
                  WHERE v.set_aside_at IS NOT NULL OR v.destructive_confirmed_at IS NOT NULL)), 0)";
    let client = pool.get().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query_one(&statement, &[]).await?.try_get(0)?)
}
