//! Which host has which plugin in service: `plugin_service`. What stands there of a host that is not heard of any more
//! (`hosts`) means nothing.

use uuid::Uuid;

use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// A plugin is about to be in service: from now on nobody drops its data.
pub async fn add(pool: &Pool, host: Uuid, plugin: &str) -> Result<(), StoreError> {
    let client = pool.get().await?;
    let sql = "INSERT INTO public.plugin_service (host, plugin) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    client.execute(&client.prepare_cached(sql).await?, &[&host, &plugin]).await?;
    Ok(())
}

/// What the host has in service now, and nothing else.
pub async fn set(pool: &Pool, host: Uuid, plugins: &[String]) -> Result<(), StoreError> {
    let client = pool.get().await?;
    let sql = "WITH gone AS (DELETE FROM public.plugin_service WHERE host = $1 AND plugin <> ALL ($2))
               INSERT INTO public.plugin_service (host, plugin) SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING";
    client.execute(&client.prepare_cached(sql).await?, &[&host, &plugins]).await?;
    Ok(())
}
