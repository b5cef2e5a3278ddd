//! The host's database on its private server, made as the server's administrator.

use anyhow::Context as _;
use tokio_postgres::Client;

use cardinal_database::sql;

/// Makes the host's database when it is not there, and closes the ones that every server has: plugins log in to this
/// server too.
///
/// # Errors
/// As the server reports them.
pub async fn make(client: &Client, name: &str) -> anyhow::Result<()> {
    let known = client
        .query_opt("SELECT 1 FROM pg_catalog.pg_database WHERE datname = $1", &[&name])
        .await
        .context("looking for the database")?;
    if known.is_some() {
        return Ok(());
    }
    client
        .batch_execute("REVOKE ALL ON DATABASE postgres FROM PUBLIC; REVOKE ALL ON DATABASE template1 FROM PUBLIC")
        .await
        .context("closing the other databases")?;
    client
        .batch_execute(&format!("CREATE DATABASE {} TEMPLATE template0", sql::identifier(name)))
        .await
        .context("creating the database")
}
