//! Whose a plugin's name is: `plugin_owners`.

use std::collections::HashMap;

use serde_json::Value;

use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// The signer that each name belongs to, as a public key; none when what came first was not signed.
pub async fn all(pool: &Pool) -> Result<HashMap<String, Option<String>>, StoreError> {
    let client = pool.get().await?;
    let statement = client.prepare_cached("SELECT plugin, signer FROM public.plugin_owners").await?;
    let mut owners = HashMap::new();
    for row in client.query(&statement, &[]).await? {
        owners.insert(row.try_get("plugin")?, row.try_get("signer")?);
    }
    Ok(owners)
}

/// Records who came first; a name that was nobody's in particular goes to its first signer.
pub async fn claim(pool: &Pool, plugin: &str, signer: Option<&str>) -> Result<(), StoreError> {
    let sql = "INSERT INTO public.plugin_owners AS o (plugin, signer) VALUES ($1, $2)
               ON CONFLICT (plugin) DO UPDATE SET signer = excluded.signer, since = now()
               WHERE o.signer IS NULL AND excluded.signer IS NOT NULL";
    let client = pool.get().await?;
    let statement = client.prepare_cached(sql).await?;
    client.execute(&statement, &[&plugin, &signer]).await?;
    Ok(())
}

/// Gives the name to another signer, or to the unsigned, on an operator's word.
pub async fn hand_over(pool: &Pool, plugin: &str, signer: Option<&str>, by: &Value) -> Result<(), StoreError> {
    let sql = "INSERT INTO public.plugin_owners (plugin, signer, by) VALUES ($1, $2, $3)
               ON CONFLICT (plugin) DO UPDATE SET signer = excluded.signer, since = now(), by = excluded.by";
    let client = pool.get().await?;
    let statement = client.prepare_cached(sql).await?;
    client.execute(&statement, &[&plugin, &signer, by]).await?;
    Ok(())
}
