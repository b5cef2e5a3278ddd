//! What an operator does about plugins that may not run: out of quarantine, a loss of data agreed to, another signer
//! accepted.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::plugin_registry::{RegistryItem, answer, named};
use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, CallHead, Json, NoQuery},
    http::reply::Reply,
};
use cardinal_base::codes;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/admin/plugin-registry/{name}/release", release)
            .scope("plugins:manage")
            .audits(AuditAction::ReleasePlugin)
            .describe(|op| {
                op.named("releasePlugin", "plugins", "Release a plugin from quarantine")
                    .param("name", "The plugin's name.", json!({}))
                    .replies_as(200, "It.", "application/json", json!({"type": "object", "required": ["item"]}))
                    .refuses(&[&codes::CONFLICT]);
            }),
        Route::post("/v1/admin/plugin-registry/{name}/confirm-migration", confirm_migration)
            .scope("plugins:manage")
            .audits(AuditAction::ConfirmMigration)
            .describe(|op| {
                op.named(
                    "confirmPluginMigration",
                    "plugins",
                    "Confirm that a package loses the data that its refusal names",
                )
                .notes(
                    "For a plugin that is refused as `destructive-migration`: its `refusal.losses` names the tables \
                     and columns. Valid once, for this package and these losses, on every host of the database. Make \
                     a backup first.",
                )
                .param("name", "The plugin's name.", json!({}))
                .ok::<RegistryItem>()
                .refuses(&[&codes::CONFLICT]);
            }),
        Route::post("/v1/admin/plugin-registry/{name}/accept-signer", accept_signer)
            .scope("plugins:manage")
            .audits(AuditAction::AcceptSigner)
            .describe(|op| {
                op.named("acceptPluginSigner", "plugins", "Accept the new signer of a plugin")
                    .notes(
                        "For a plugin that is refused as `signer-changed`. Its schema, data and settings go with the \
                     name.",
                    )
                    .param("name", "The plugin's name.", json!({}))
                    .ok::<RegistryItem>()
                    .refuses(&[&codes::CONFLICT]);
            }),
    ]
}

/// Which package an operator's word is meant for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MeantPackage")]
struct PackageChoice {
    /// As the registry shows it: of the package that lies there (`pending`, when another one serves).
    sha256: String,
}

async fn confirm_migration(app: &Arc<App>, call: Call<NoQuery, Json<PackageChoice>>) -> ApiResult<Reply> {
    let (name, meant) = meant(&call)?;
    let detail = app.plugins.confirm_migration(&name, &meant.sha256, &call.caller()?.actor()).await?;
    acted(app, &call, name, detail).await
}

async fn accept_signer(app: &Arc<App>, call: Call<NoQuery, Json<PackageChoice>>) -> ApiResult<Reply> {
    let (name, meant) = meant(&call)?;
    let detail = app.plugins.accept_signer(&name, &meant.sha256, &call.caller()?.actor()).await?;
    acted(app, &call, name, detail).await
}

fn meant(call: &Call<NoQuery, Json<PackageChoice>>) -> ApiResult<(String, PackageChoice)> {
    Ok((call.params.get("name").unwrap_or_default().to_owned(), call.body()?))
}

/// Recorded for every host; the plugin is tried again here at once, on the others within seconds.
async fn acted(app: &Arc<App>, call: &CallHead, name: String, detail: Value) -> ApiResult<Reply> {
    app.audit.done(call, Some(name.clone()), Some(detail)).await;
    app.plugins.scan_for(&name).await;
    answer(app, &name).await
}

/// Out of quarantine, with a clean record. The plugin is loaded again at once.
async fn release(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let name = named(app, &call)?;
    let was_quarantined = app.quarantine.release(&name).await.map_err(|_| ApiError::new(&codes::DRAINING))?;
    if was_quarantined {
        app.audit.done(&call, Some(name.clone()), None).await;
        app.plugins.apply_to(&name).await;
    }
    answer(app, &name).await
}
