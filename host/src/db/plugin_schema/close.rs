//! Schema roles that were left open: by a host that was killed in the middle of a step, or by an older version.

use anyhow::Context as _;

use crate::db::connect::{self, ConnectParams};
use crate::db::roles::RoleNames;
use crate::db::sql;

const CLOSE_SQL: &str = include_str!("../../../../sql/close_plugins.sql");
/// Of plugins that have no step under way. After the commit of [`CLOSE_SQL`], when nobody can log in as them any more.
const END_SQL: &str = "SELECT cardinal.end_plugin_backends(replace(s.plugin, '-', '_'))
    FROM (SELECT plugin FROM public.plugin_schema_state FOR UPDATE SKIP LOCKED) s
    JOIN pg_catalog.pg_stat_activity a ON a.usename = $1 || 's_' || replace(s.plugin, '-', '_') AND a.datname = current_database()";

/// Closes every schema role that has no step under way, and ends what it still runs.
///
/// # Errors
/// As the server reports them.
pub async fn close_left_open(provisioner: &ConnectParams, names: &RoleNames) -> anyhow::Result<()> {
    let places = [
        ("role_prefix", sql::literal(names.prefix())),
        ("plugin_literal", sql::literal(&names.plugin())),
        ("plugin_ddl_literal", sql::literal(&names.plugin_ddl())),
    ];
    let statements = sql::fill(CLOSE_SQL, &places)?;
    let mut client = connect::connect(provisioner).await.context("logging in as the provisioner")?;
    let work = client.transaction().await.context("beginning to close the schema roles")?;
    work.batch_execute(&statements).await.context("closing the schema roles")?;
    work.commit().await.context("closing the schema roles")?;
    client.execute(END_SQL, &[&names.prefix()]).await.context("ending the schema roles' sessions")?;
    Ok(())
}
