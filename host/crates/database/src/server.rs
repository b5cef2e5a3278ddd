//! The database server itself.

use anyhow::Context as _;

use crate::pool::Pool;

/// The server's version, as it says it.
///
/// # Errors
/// It can't be asked.
pub async fn version(pool: &Pool) -> anyhow::Result<String> {
    let client = pool.get().await.context("getting a database connection")?;
    let row =
        client.query_one("SELECT current_setting('server_version')", &[]).await.context("asking for its version")?;
    row.try_get(0).context("reading its version")
}
