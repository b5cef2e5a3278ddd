//! The users of kind `plugin` in `public.admin_users`: who a plugin is when nobody calls it.

use uuid::Uuid;

use crate::error::StoreError;
use cardinal_database::pool::Pool;

const FIND: &str = "SELECT id FROM public.admin_users WHERE kind = 'plugin' AND lower(username) = lower($1)";
const CREATE: &str =
    "INSERT INTO public.admin_users (id, username, kind) VALUES ($1, $2, 'plugin') ON CONFLICT DO NOTHING";

/// The id of a plugin's user. It has no role and no password: it can't log in.
pub async fn find_or_create(pool: &Pool, plugin: &str) -> Result<Uuid, StoreError> {
    let client = pool.get().await?;
    if let Some(row) = client.query_opt(&client.prepare_cached(FIND).await?, &[&plugin]).await? {
        return Ok(row.try_get(0)?);
    }
    // Another host may be doing the same; whoever is second finds the first one's.
    client.execute(&client.prepare_cached(CREATE).await?, &[&Uuid::now_v7(), &plugin]).await?;
    Ok(client.query_one(&client.prepare_cached(FIND).await?, &[&plugin]).await?.try_get(0)?)
}
