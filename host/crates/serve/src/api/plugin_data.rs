//! `DELETE /v1/admin/plugin-registry/{name}/data`: everything that a plugin has in the database dropped for good.
//! Disabling a plugin leaves its data alone, and so does removing its package; this is the third verb.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, Json, NoQuery},
    http::reply::{self, Reply},
};
use cardinal_base::codes;
use cardinal_control::link::ProvisionFault;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::delete("/v1/admin/plugin-registry/{name}/data", purge)
            .scope("plugins:manage")
            .audits(AuditAction::PurgePlugin)
            .describe(|op| {
                op.named("purgePluginData", "plugins", "Drop everything that a plugin has in the database")
                    .notes(
                        "Its schema with all tables, its roles, its settings. What it wrote into cards stays. For \
                         plugins that are disabled, or whose package is gone; never while a host of the database has \
                         it in service.",
                    )
                    .param("name", "The plugin's name.", json!({}))
                    .no_content()
                    .refuses(&[&codes::CONFLICT]);
            }),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PurgePlugin")]
struct Purge {
    /// The plugin's name once more.
    confirm: String,
}

async fn purge(app: &Arc<App>, call: Call<NoQuery, Json<Purge>>) -> ApiResult<Reply> {
    let name = call.params.get("name").unwrap_or_default().to_owned();
    let Purge { confirm } = call.body()?;
    app.wait_for_plugins(None).await;
    let is_found = app.plugins.current().knows(&name);
    if !is_found && !cardinal_store::plugins::state::has_left_data(&app.pools.core, &name).await? {
        return Err(ApiError::not_found("plugin"));
    }
    if confirm != name {
        return Err(ApiError::invalid("/confirm", "Write the plugin's name: dropped data can't be recovered."));
    }
    let purged = app.supervisor.purge(&name).await.map_err(refused)?;
    cardinal_store::plugins::versions::forget_losses(&app.pools.core, &name).await?;
    let detail = json!({"tables": purged.tables, "schema_steps": purged.schema_steps, "settings": purged.settings});
    app.audit.done(&call, Some(name), Some(detail)).await;
    Ok(reply::no_content())
}

fn refused(fault: ProvisionFault) -> ApiError {
    match fault {
        ProvisionFault::Refused { code, found, fix, .. } => ApiError::new(&codes::CONFLICT)
            .detail(format!("The plugin's data stays: {found}; {fix}."))
            .with("reason", code),
        ProvisionFault::Unavailable(reason) => {
            ApiError::new(&codes::DATABASE_UNAVAILABLE).cause(anyhow::anyhow!("dropping a plugin's data: {reason}"))
        }
        ProvisionFault::Failed(reason) => ApiError::internal(anyhow::anyhow!("dropping a plugin's data: {reason}")),
    }
}
