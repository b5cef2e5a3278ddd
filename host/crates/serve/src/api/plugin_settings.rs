//! `/v1/admin/plugin-registry/{name}/settings`: what an operator sets for a plugin. Stored in the database, in force on
//! every host within seconds, in a new generation of the plugin. Secrets are taken and never given.

use std::{collections::BTreeSet, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    master_cards::{if_match, with_etag},
    plugins::wait_for_plugins,
};
use crate::http::error::ApiResult;
use crate::{
    app::App,
    audit::AuditAction,
    http::reply::{self, Reply},
    request::Call,
    route,
    router::{Access, Reads, Route},
};
use cardinal_base::codes;
use cardinal_plugin_host::registry::Configuration;

/// Bytes of a plugin's settings.
const BODY: usize = 256 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(GET "/v1/admin/plugin-registry/{name}/settings", Access::Scope("plugins:read"), Reads::Nothing, show).describe(|op| {
            op.named("getPluginSettings", "plugins", "A plugin's settings, without their secrets")
                .param("name", "Of the plugin.", json!({}))
                .ok::<Shown>()
                .etag()
                .refuses(&[&codes::CONFLICT]);
        }),
        route!(PUT "/v1/admin/plugin-registry/{name}/settings", Access::Scope("plugins:manage"), Reads::Json(BODY), replace).describe(|op| {
            op.named("setPluginSettings", "plugins", "Set a plugin's settings, on every host of the database")
                .notes(
                    "The body is the object of all settings that are to be stored, as `settings_schema` of the plugin's \
                     manifest describes it; below it lie the plugin's environment variable and the schema's defaults. \
                     A secret that is sent back as `{\"set\": true}` stays what it is.",
                )
                .param("name", "Of the plugin.", json!({}))
                .body("application/json", json!({"type": "object"}))
                .if_match()
                .ok::<Shown>()
                .etag()
                .refuses(&[&codes::CONFLICT]);
        }),
    ]
}

/// A plugin's settings. Secrets that are set are `{"set": true}`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PluginSettings")]
struct Shown {
    name: String,
    /// What the plugin gets.
    settings: Value,
    /// What is stored: the uppermost layer, which PUT replaces.
    stored: Value,
    /// What the plugin's environment variable says on this host.
    environment: Value,
    /// What the schema says for what nobody sets.
    defaults: Value,
    /// The plugin's `settings_schema`; null when it has no settings.
    schema: Option<Value>,
    /// JSON pointers to secrets that were stored with another key: they have to be given again.
    unreadable: BTreeSet<String>,
    /// Of what is stored; also in `ETag`.
    version: i64,
}

async fn show(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    wait_for_plugins(app).await;
    let name = call.params.get("name").unwrap_or_default();
    let configuration = app.plugins.configuration(name).await?;
    answer(name, configuration)
}

/// Written down for every host first, then acted on here.
async fn replace(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    wait_for_plugins(app).await;
    let name = call.params.get("name").unwrap_or_default().to_owned();
    let precondition = if_match(&call)?;
    let sent: Map<String, Value> = call.json()?;
    let (configuration, changed) = app.plugins.configure(&name, sent, &precondition).await?;
    if !changed.is_empty() {
        let detail = json!({"version": configuration.version, "changed": changed});
        app.audit.done(&call, AuditAction::SetPluginSettings, Some(name.clone()), Some(detail)).await;
        app.plugins.apply_to(&name).await;
    }
    answer(&name, configuration)
}

fn answer(name: &str, configuration: Configuration) -> ApiResult<Reply> {
    let Configuration { version, settings, stored, environment, defaults, schema, unreadable } = configuration;
    let name = name.to_owned();
    with_etag(
        reply::ok(&Shown { name, settings, stored, environment, defaults, schema, unreadable, version })?,
        version,
    )
}
