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

/// A new database with the locale of another: texts sort as there, and so lie in the same partitions.
///
/// # Errors
/// As the server reports them.
pub async fn create_database(client: &Client, name: &str, like: &str) -> anyhow::Result<()> {
    let (name, locale) = (sql::identifier(name), locale(client, like).await?);
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.context("making room")?;
    client
        .batch_execute(&format!("CREATE DATABASE {name} ENCODING 'UTF8' {locale} TEMPLATE template0"))
        .await
        .context("making a new database")
}

/// What CREATE DATABASE is to be told. PostgreSQL 17 has renamed one of these columns.
const LOCALE: &str = "
    SELECT d.datcollate, d.datctype, d.datlocprovider::text AS provider,
           coalesce(pg_catalog.to_jsonb(d) ->> 'datlocale', pg_catalog.to_jsonb(d) ->> 'daticulocale') AS locale,
           pg_catalog.to_jsonb(d) ->> 'daticurules' AS rules
    FROM pg_catalog.pg_database d WHERE d.datname = $1";

async fn locale(client: &Client, database: &str) -> anyhow::Result<String> {
    let row = client.query_one(LOCALE, &[&database]).await.context("asking for the database's locale")?;
    let text = |column: &str| row.try_get::<_, Option<String>>(column);
    let mut options: Vec<String> = Vec::new();
    let mut add = |option: &str, value: Option<String>| {
        options.extend(value.map(|value| format!("{option} {}", sql::literal(&value))));
    };
    add("LC_COLLATE", text("datcollate")?);
    add("LC_CTYPE", text("datctype")?);
    match text("provider")?.as_deref() {
        Some("i") => {
            add("LOCALE_PROVIDER", Some("icu".to_owned()));
            add("ICU_LOCALE", text("locale")?);
            add("ICU_RULES", text("rules")?);
        }
        Some("b") => {
            add("LOCALE_PROVIDER", Some("builtin".to_owned()));
            add("BUILTIN_LOCALE", text("locale")?);
        }
        _ => add("LOCALE_PROVIDER", Some("libc".to_owned())),
    }
    Ok(options.join(" "))
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
    client.batch_execute("SET lock_timeout = '5s'").await.context("preparing to exchange databases")?;
    let exchanged = rename(client, current, new, old).await;
    client.batch_execute("RESET lock_timeout").await.context("ending the exchange of databases")?;
    exchanged
}

async fn rename(client: &Client, current: &str, new: &str, old: &str) -> anyhow::Result<()> {
    let name = |name: &str| sql::identifier(name);
    let allow = |database: &str, yes: bool| format!("ALTER DATABASE {} ALLOW_CONNECTIONS {yes}", name(database));
    client.batch_execute(&allow(current, false)).await.context("closing the database")?;
    let moved = async {
        end_sessions(client, current).await?;
        client.batch_execute(&format!("ALTER DATABASE {} RENAME TO {}", name(current), name(old))).await
    };
    if let Err(error) = moved.await {
        client.batch_execute(&allow(current, true)).await.context("opening the database again")?;
        return Err(anyhow::Error::new(error).context("taking the database out of use"));
    }
    let renamed = async {
        // A plugin's login gets in since its step.
        client.batch_execute(&allow(new, false)).await?;
        end_sessions(client, new).await?;
        client.batch_execute(&format!("ALTER DATABASE {} RENAME TO {}", name(new), name(current))).await
    };
    if let Err(error) = renamed.await {
        let back = format!("ALTER DATABASE {} RENAME TO {}; ", name(old), name(current));
        client.batch_execute(&back).await.context("putting the database back")?;
        client.batch_execute(&allow(current, true)).await.context("opening the database again")?;
        return Err(anyhow::Error::new(error).context("putting the new database in its place"));
    }
    client.batch_execute(&allow(current, true)).await.context("opening the new database")
}

/// Those that are logging in have no row among the others yet, and a lock on the database.
async fn end_sessions(client: &Client, database: &str) -> Result<(), tokio_postgres::Error> {
    let end = "SELECT pg_catalog.pg_terminate_backend(pid, 10000) FROM (
                 SELECT pid FROM pg_catalog.pg_stat_activity WHERE datname = $1
                 UNION SELECT l.pid FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.objid
                 WHERE l.locktype = 'object' AND l.classid = 'pg_catalog.pg_database'::pg_catalog.regclass AND d.datname = $1
               ) s WHERE pid <> pg_catalog.pg_backend_pid()";
    client.query(end, &[&database]).await.map(drop)
}
