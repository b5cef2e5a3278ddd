//! A look at every plugin's schema, whether its package is there or not: once at a start.

use anyhow::Context as _;
use tokio_postgres::Client;

use super::catalog::{self, Questions, UnlistedObject};
use cardinal_database::{
    connect::{self, ConnectParams},
    roles::{self, RoleNames},
};

/// Far more than a server has room for.
const MAX_PLUGINS: i64 = 10_000;
const PLUGINS: &str = "SELECT plugin FROM public.plugin_schema_state ORDER BY plugin LIMIT $1";
/// A plugin whose step is under way is left out: the step looks by itself.
const IDLE_ROW: &str = "SELECT FROM public.plugin_schema_state WHERE plugin = $1 FOR UPDATE SKIP LOCKED";

/// Looks at the schemas of all plugins, those included that are disabled, whose package is gone, or whose step was
/// killed between its commit and its record. One that has something unknown is named in the log and shut out.
///
/// # Errors
/// As the server reports them.
pub async fn review_schemas(provisioner: &ConnectParams, names: &RoleNames) -> anyhow::Result<()> {
    let mut client = connect::connect(provisioner).await.context("logging in as the provisioner")?;
    let closer = connect::connect(provisioner).await.context("logging in as the provisioner")?;
    let rows = client.query(PLUGINS, &[&MAX_PLUGINS]).await.context("listing the plugins with schemas")?;
    let questions = Questions::prepare(&catalog::looking(&mut client).await?).await?;
    for row in &rows {
        let plugin: String = row.try_get(0).context("reading a plugin's name")?;
        review(&mut client, &questions, &closer, names, &plugin).await?;
    }
    Ok(())
}

async fn review(
    client: &mut Client,
    questions: &Questions,
    closer: &Client,
    names: &RoleNames,
    plugin: &str,
) -> anyhow::Result<()> {
    let tx = catalog::looking(client).await?;
    if tx.query_opt(IDLE_ROW, &[&plugin]).await.context("looking for a step under way")?.is_none() {
        return Ok(());
    }
    let (schema, roles) =
        (roles::plugin_schema_name(plugin), [names.plugin_schema(plugin), names.plugin_runtime(plugin)]);
    if !catalog::is_there(&tx, &schema, &roles).await? {
        return Ok(());
    }
    let unknown = catalog::unknown(&tx, questions, &schema, &roles).await?;
    if unknown.is_empty() {
        return Ok(());
    }
    let found = unknown.iter().map(UnlistedObject::to_string).collect::<Vec<_>>().join("; ");
    tracing::error!(plugin, found, fix = catalog::fix(plugin), "a plugin's schema has something that it may not have");
    // While the row is locked: no step lets the plugin in meanwhile.
    catalog::revoke_access(closer, names, plugin).await
}
