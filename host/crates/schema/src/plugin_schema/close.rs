//! Schema roles that were left open: by a process that was killed in the middle of a step, or by an older version.

use anyhow::Context as _;

use super::TURN_TIMEOUT;
use cardinal_database::{
    connect::{self, ConnectParams},
    roles::RoleNames,
    sql,
};

const CLOSE_SQL: &str = include_str!("../../../../../sql/close_plugins.sql");
/// Of plugins that have no step under way.
const IDLE_ROWS: &str = "FOR UPDATE SKIP LOCKED";

/// Closes every schema role that has no step under way, and ends what it still runs.
///
/// # Errors
/// As the server reports them.
pub async fn close_left_open(provisioner: &ConnectParams, names: &RoleNames) -> anyhow::Result<()> {
    close(provisioner, names, IDLE_ROWS).await
}

/// Closes the schema role of one plugin, and ends what it still runs. Waits for a step of this plugin that is under way: that
/// of another host closes the role by itself, and the sessions of a process that died end with it.
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
    let limit = format!("SET lock_timeout = '{TURN_TIMEOUT}'");
    client.batch_execute(&limit).await.context("preparing to close the schema roles")?;
    let work = client.transaction().await.context("beginning to close the schema roles")?;
    work.batch_execute(&statements).await.context("closing the schema roles")?;
    work.commit().await.context("closing the schema roles")?;
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
