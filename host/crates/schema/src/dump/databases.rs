//! Whole databases: a restore fills a new one beside the one in use and puts it in its place.

use anyhow::Context as _;
use tokio_postgres::Client;

use crate::prepare;
use cardinal_database::sql;

/// Whether this login may put a new database in the place of its own.
///
/// # Errors
/// As the server reports them.
pub async fn may_replace(client: &Client) -> anyhow::Result<bool> {
    prepare::owns_database_and(client, "rolcreatedb").await
}

/// # Errors
/// As the server reports them.
pub async fn create_database(client: &Client, name: &str) -> anyhow::Result<()> {
    let name = sql::identifier(name);
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.context("making room")?;
    client
        .batch_execute(&format!("CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0"))
        .await
        .context("making a new database")
}

/// # Errors
/// As the server reports them.
pub async fn drop_database(client: &Client, name: &str) -> anyhow::Result<()> {
    client
        .batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", sql::identifier(name)))
        .await
        .context("removing a database")
}

/// Puts `new` in the place of `current`, which becomes `old`. Whoever uses it is cut off and finds the new one when it
/// connects again. Said to another database than these.
///
/// # Errors
/// As the server reports them; then `current` is in its place.
pub async fn exchange(client: &Client, current: &str, new: &str, old: &str) -> anyhow::Result<()> {
    let name = |name: &str| sql::identifier(name);
    let allow = |database: &str, yes: bool| format!("ALTER DATABASE {} ALLOW_CONNECTIONS {yes}", name(database));
    client.batch_execute(&allow(current, false)).await.context("closing the database")?;
    let moved = async {
        client
            .query(
                "SELECT pg_catalog.pg_terminate_backend(pid, 10000) FROM pg_catalog.pg_stat_activity \
                 WHERE datname = $1",
                &[&current],
            )
            .await?;
        client.batch_execute(&format!("ALTER DATABASE {} RENAME TO {}", name(current), name(old))).await
    };
    if let Err(error) = moved.await {
        client.batch_execute(&allow(current, true)).await.context("opening the database again")?;
        return Err(anyhow::Error::new(error).context("taking the database out of use"));
    }
    let renamed = client.batch_execute(&format!("ALTER DATABASE {} RENAME TO {}", name(new), name(current))).await;
    if let Err(error) = renamed {
        let back = format!("ALTER DATABASE {} RENAME TO {}; ", name(old), name(current));
        client.batch_execute(&back).await.context("putting the database back")?;
        client.batch_execute(&allow(current, true)).await.context("opening the database again")?;
        return Err(anyhow::Error::new(error).context("putting the new database in its place"));
    }
    Ok(())
}
