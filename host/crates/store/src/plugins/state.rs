//! What an operator decided about plugins: `plugin_state`.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use tokio_postgres::{Row, types::Json};

use crate::cards::Precondition;
use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// An operator's word on one plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginState {
    pub disabled: bool,
    pub settings: Settings,
}

/// What an operator has set for a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// A JSON object without its secrets; empty when nothing was set.
    pub open: Value,
    /// The secrets by JSON pointer, encrypted.
    pub sealed: BTreeMap<String, String>,
    /// Counts every change; 0 before the first.
    pub version: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { open: Value::Object(serde_json::Map::new()), sealed: BTreeMap::new(), version: 0 }
    }
}

impl Settings {
    const COLUMNS: &str = "settings, sealed, settings_version";

    fn from_row(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let Json(sealed) = row.try_get("sealed")?;
        Ok(Self { open: row.try_get("settings")?, sealed, version: row.try_get("settings_version")? })
    }
}

/// All of them, by plugin.
pub async fn all(pool: &Pool) -> Result<HashMap<String, PluginState>, StoreError> {
    let columns = Settings::COLUMNS;
    let sql = format!("SELECT plugin, disabled_at IS NOT NULL AS disabled, {columns} FROM public.plugin_state");
    let client = pool.get().await?;
    let statement = client.prepare_cached(&sql).await?;
    let mut states = HashMap::new();
    for row in client.query(&statement, &[]).await? {
        let state = PluginState { disabled: row.try_get("disabled")?, settings: Settings::from_row(&row)? };
        states.insert(row.try_get("plugin")?, state);
    }
    Ok(states)
}

/// Disables (`by` = `{kind, id, name}`) or enables a plugin. Whether anything changed.
pub async fn set_disabled(pool: &Pool, plugin: &str, by: Option<&Value>) -> Result<bool, StoreError> {
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
pub async fn stamp(pool: &Pool) -> Result<i64, StoreError> {
    let sql = "SELECT hashtextextended(concat_ws('|',
                 (SELECT string_agg(s::text, ';' ORDER BY s.plugin) FROM public.plugin_state s),
                 (SELECT string_agg(o::text, ';' ORDER BY o.plugin) FROM public.plugin_owners o),
                 (SELECT string_agg(v::text, ';' ORDER BY v.plugin, v.sha256) FROM public.plugin_versions v
                  WHERE v.set_aside_at IS NOT NULL OR v.destructive_confirmed_at IS NOT NULL)), 0)";
    let client = pool.get().await?;
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query_one(&statement, &[]).await?.try_get(0)?)
}

/// What is set for a plugin.
pub async fn settings(pool: &Pool, plugin: &str) -> Result<Settings, StoreError> {
    let sql = format!("SELECT {} FROM public.plugin_state WHERE plugin = $1", Settings::COLUMNS);
    let client = pool.get().await?;
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&plugin]).await?;
    Ok(row.as_ref().map(Settings::from_row).transpose()?.unwrap_or_default())
}

/// Works out new settings from those that are stored, whose row is locked meanwhile, and stores them; what changes
/// nothing makes no version. Gives what was there before and what is there now; the inner error is `change`'s.
pub async fn change_settings<E>(
    pool: &Pool,
    plugin: &str,
    precondition: &Precondition,
    change: impl FnOnce(&Settings) -> Result<Option<Settings>, E>,
) -> Result<Result<(Settings, Settings), E>, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    tx.execute("INSERT INTO public.plugin_state (plugin) VALUES ($1) ON CONFLICT DO NOTHING", &[&plugin]).await?;
    let sql = format!("SELECT {} FROM public.plugin_state WHERE plugin = $1 FOR UPDATE", Settings::COLUMNS);
    let before = Settings::from_row(&tx.query_one(&sql, &[&plugin]).await?)?;
    precondition.check(before.version)?;
    let new = match change(&before) {
        Ok(Some(new)) => new,
        Ok(None) => return Ok(Ok((before.clone(), before))),
        Err(refusal) => return Ok(Err(refusal)),
    };
    let now = Settings { version: before.version + 1, ..new };
    tx.execute(
        "UPDATE public.plugin_state SET settings = $2, sealed = $3, settings_version = $4, updated_at = now()
         WHERE plugin = $1",
        &[&plugin, &now.open, &Json(&now.sealed), &now.version],
    )
    .await?;
    tx.commit().await?;
    Ok(Ok((before, now)))
}

/// Whether anything is kept of a plugin: a schema, or settings.
pub async fn has_left_data(pool: &Pool, plugin: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM public.plugin_schema_state WHERE plugin = $1 AND schema_sha256 IS NOT NULL)
                   OR EXISTS (SELECT FROM public.plugin_state
                              WHERE plugin = $1 AND (settings <> '{}' OR sealed <> '{}' OR disabled_at IS NOT NULL))
                   -- What a first step left that was killed. Only a name without `_` is one of a plugin.
                   OR ($1 !~ '_' AND EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'plugin_' || replace($1, '-', '_')))
                   OR ($1 !~ '_' AND EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname IN
                       (regexp_replace(current_user, 'core$', 'p_') || replace($1, '-', '_'),
                        regexp_replace(current_user, 'core$', 's_') || replace($1, '-', '_'))))";
    let client = pool.get().await?;
    Ok(client.query_one(&client.prepare_cached(sql).await?, &[&plugin]).await?.try_get(0)?)
}
