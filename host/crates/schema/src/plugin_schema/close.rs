//! Schema roles that were left open: by a process that was killed in the middle of a step, or by an older version.

use std::time::Duration;

use anyhow::Context as _;

use super::STEP_LOCK_TIMEOUT;
use crate::sql_failure;
use cardinal_database::{
    connect::{self, ConnectParams},
    roles::RoleNames,
    sql,
};

const CLOSE_SQL: &str = include_str!("../../../../../sql/close_plugins.sql");
/// Run-time logins of plugins that no host has in service; their next step gives the login back.
const CLOSE_UNUSED: &str = "
    SELECT cardinal.close_runtime_login(u.plugin, 0)
    FROM (
      SELECT pg_catalog.substr(r.rolname, pg_catalog.length($1) + 3) FROM pg_catalog.pg_roles r
      WHERE pg_catalog.starts_with(r.rolname::text, $1 || 'p_') AND r.rolcanlogin
    ) u (plugin)
    WHERE NOT EXISTS (
      SELECT FROM public.plugin_service s JOIN public.hosts h ON h.id = s.host
      WHERE pg_catalog.replace(s.plugin, '-', '_') = u.plugin AND h.seen_at > pg_catalog.now() - interval '15 seconds')";
/// Of plugins that have no step under way.
const IDLE_ROWS: &str = "FOR UPDATE SKIP LOCKED";
/// The server may take a moment to end the sessions of a process that was killed; until then they look like a step.
const ENDING_TRIES: u32 = 8;
const ENDING_PAUSE: Duration = Duration::from_millis(250);
const OPEN_SCHEMA_ROLES: &str =
    "SELECT FROM pg_catalog.pg_roles WHERE pg_catalog.starts_with(rolname::text, $1 || 's_') AND rolcanlogin LIMIT 1";

/// Closes every schema role that has no step under way, and ends what it still runs; and unless hosts serve another
/// database `beside` this one, the logins of plugins that no host has in service.
///
/// # Errors
/// As the server reports them.
pub async fn close_left_open(provisioner: &ConnectParams, names: &RoleNames, beside: bool) -> anyhow::Result<()> {
    close(provisioner, names, IDLE_ROWS).await?;
    let client = connect::connect(provisioner).await.context("logging in as the provisioner")?;
    for _ in 0..ENDING_TRIES {
        let open = client.query_opt(OPEN_SCHEMA_ROLES, &[&names.prefix()]).await.context("looking for open roles")?;
        if open.is_none() {
            break;
        }
        tokio::time::sleep(ENDING_PAUSE).await;
        close(provisioner, names, IDLE_ROWS).await?;
    }
    if beside {
        return Ok(());
    }
    close_unused(&client, names).await
}

async fn close_unused(client: &tokio_postgres::Client, names: &RoleNames) -> anyhow::Result<()> {
    match client.execute(CLOSE_UNUSED, &[&names.prefix()]).await {
        Ok(_) => Ok(()),
        // Or a race with a step that opens the login.
        Err(error) if sql_failure::lacks_function(&error) || sql_failure::is_race(&error) => {
            tracing::warn!(%error, "logins of plugins that are not in service stay open");
            Ok(())
        }
        Err(error) => Err(anyhow::Error::new(error).context("closing the logins of plugins that are not in service")),
    }
}

/// Closes the schema role of one plugin, and ends what it still runs. Waits for a step of this plugin that is under
/// way: that of another host closes the role by itself, and the sessions of a process that died end with it.
///
/// # Errors
/// As the server reports them.
pub async fn close_plugin(provisioner: &ConnectParams, names: &RoleNames, plugin: &str) -> anyhow::Result<()> {
    close(provisioner, names, &format!("WHERE s.plugin = {} FOR UPDATE", sql::literal(plugin))).await
}

async fn close(provisioner: &ConnectParams, names: &RoleNames, locked_rows: &str) -> anyhow::Result<()> {
    let places = [
        ("role_prefix", sql::literal(names.prefix())),
        ("plugin_literal", sql::literal(&names.plugin())),
        ("plugin_ddl_literal", sql::literal(&names.plugin_ddl())),
        ("locked_rows", locked_rows.to_owned()),
    ];
    let statements = sql::fill(CLOSE_SQL, &places)?;
    let mut client = connect::connect(provisioner).await.context("logging in as the provisioner")?;
    let limit = format!("SET lock_timeout = '{STEP_LOCK_TIMEOUT}'");
    client.batch_execute(&limit).await.context("preparing to close the schema roles")?;
    let tx = client.transaction().await.context("beginning to close the schema roles")?;
    tx.batch_execute(&statements).await.context("closing the schema roles")?;
    tx.commit().await.context("closing the schema roles")?;
    // After the commit, when nobody can log in as them any more. The rows come first: the server's list of sessions is
    // read once a statement, and must not be older than the lock.
    let end = format!(
        "SELECT cardinal.end_plugin_backends(replace(s.plugin, '-', '_'))
         FROM (SELECT s.plugin FROM public.plugin_schema_state s {locked_rows}) s
         WHERE EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = $1 || 's_' || replace(s.plugin, '-', '_'))"
    );
    client.execute(&end, &[&names.prefix()]).await.context("ending the schema roles' sessions")?;
    Ok(())
}
