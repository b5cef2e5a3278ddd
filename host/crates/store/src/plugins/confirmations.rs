//! What an operator agreed to lose: `plugin_confirmations`. Used up by the schema step (`plugin_schema/confirmed.rs`).

use serde_json::Value;

use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// Records an operator's word that the package's schema.sql may lose exactly this, once.
pub async fn confirm(pool: &Pool, plugin: &str, sha256: &str, losses: &[String], by: &Value) -> Result<(), StoreError> {
    let sql = "INSERT INTO public.plugin_confirmations (plugin, sha256, losses, by) VALUES ($1, $2, $3, $4)
               ON CONFLICT (plugin, sha256) DO UPDATE
               SET losses = excluded.losses, by = excluded.by, at = now(), used_at = NULL";
    let client = pool.get().await?;
    client.execute(&client.prepare_cached(sql).await?, &[&plugin, &sha256, &losses, by]).await?;
    Ok(())
}
