//! `/v1/admin/plugin-registry/{name}/settings`: what an operator sets for a plugin. Stored in the database, in force on
//! every host within seconds, in a new generation of the plugin. Secrets are taken and never given.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::http::error::ApiResult;
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, Json, NoQuery, if_match, with_etag},
    http::reply::{self, Reply},
};
use cardinal_base::codes;
use cardinal_plugin_host::registry::Configuration;

/// Bytes of a plugin's settings.
const BODY: usize = 256 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/plugin-registry/{name}/settings", show).scope("plugins:read").describe(|op| {
            op.named("getPluginSettings", "plugins", "A plugin's settings, without their secrets")
                .param("name", "The plugin's name.", json!({}))
                .ok::<SettingsView>()
                .etag()
                .refuses(&[&codes::CONFLICT]);
        }),
        Route::put("/v1/admin/plugin-registry/{name}/settings", replace)
            .scope("plugins:manage")
            .body_limit(BODY)
            .audits(AuditAction::SetPluginSettings)
            .describe(|op| {
                op.named("setPluginSettings", "plugins", "Set a plugin's settings, on every host of the database")
                    .notes(
                        "The body is the object of all settings to be stored, as `settings_schema` of the plugin's \
                         manifest describes it; it takes precedence over the plugin's environment variable and the \
                         schema's defaults. A secret that is sent back as `{\"set\": true}` stays as it is.",
                    )
                    .param("name", "The plugin's name.", json!({}))
                    .if_match()
                    .ok::<SettingsView>()
                    .etag()
                    .refuses(&[&codes::CONFLICT]);
            }),
    ]
}

/// What the plugin's own schema describes.
#[derive(Deserialize)]
struct NewSettings(Map<String, Value>);

impl JsonSchema for NewSettings {
    fn schema_name() -> Cow<'static, str> {
        "NewSettings".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}

/// A plugin's settings. Secrets that are set are `{"set": true}`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PluginSettings")]
struct SettingsView {
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
    app.wait_for_plugins(None).await;
    let name = call.params.get("name").unwrap_or_default();
    let configuration = app.plugins.configuration(name).await?;
    answer(name, configuration)
}

/// Recorded for every host first, then acted on here.
async fn replace(app: &Arc<App>, call: Call<NoQuery, Json<NewSettings>>) -> ApiResult<Reply> {
    app.wait_for_plugins(None).await;
    let name = call.params.get("name").unwrap_or_default().to_owned();
    let precondition = if_match(&call)?;
    let NewSettings(sent) = call.body()?;
    let (configuration, changed) = app.plugins.configure(&name, sent, &precondition).await?;
    if !changed.is_empty() {
        let detail = json!({"version": configuration.version, "changed": changed});
        app.audit.done(&call, Some(name.clone()), Some(detail)).await;
        app.plugins.apply_to(&name).await;
    }
    answer(&name, configuration)
}

fn answer(name: &str, configuration: Configuration) -> ApiResult<Reply> {
    let Configuration { version, settings, stored, environment, defaults, schema, unreadable } = configuration;
    let name = name.to_owned();
    with_etag(
        reply::ok(&SettingsView { name, settings, stored, environment, defaults, schema, unreadable, version })?,
        version,
    )
}
