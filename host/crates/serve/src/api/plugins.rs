//! What the host says of plugins. Their own routes, below `/v1/admin/plugins/{prefix}`, are found in
//! `request/target.rs`.

use std::sync::Arc;

use http::{HeaderValue, header};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::http::error::ApiResult;
use crate::{
    app::{App, Route},
    call::Call,
    http::{
        body::Body,
        reply::{self, Reply},
    },
};
use cardinal_package::manifest::{CardAction, CardTab, ListColumn, Manifest, PluginPage, SCHEMA};
use cardinal_plugin_host::frontend::MainModule;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/plugins", list_for_ui).authenticated().describe(|op| {
            op.named("listPlugins", "plugins", "Active plugins that the caller may read, as the Admin UI draws them")
                .ok::<ActivePlugins>();
        }),
        Route::get("/v1/admin/plugin-manifest.schema.json", manifest_schema).authenticated().describe(|op| {
            op.named("getPluginManifestSchema", "plugins", "JSON Schema of a plugin's manifest.json")
                .notes("For `$schema` in a manifest. What the host itself checks decides.")
                .replies_as(200, "The schema.", "application/schema+json", json!({"type": "object"}));
        }),
    ]
}

/// The active plugins that the caller may read.
#[derive(Serialize, JsonSchema)]
struct ActivePlugins<'a> {
    items: Vec<ActivePlugin<'a>>,
}

/// An active plugin, as the Admin UI draws it.
#[derive(Serialize, JsonSchema)]
struct ActivePlugin<'a> {
    name: &'a str,
    version: String,
    title: &'a str,
    description: Option<&'a str>,
    api_prefix: Option<&'a str>,
    tabs: &'a [CardTab],
    pages: &'a [PluginPage],
    list_columns: &'a [ListColumn],
    card_actions: &'a [CardAction],
    /// None where it brings no files of its own.
    frontend: Option<&'a MainModule>,
    provides_kinds: &'a [String],
    reads_kinds: &'a [String],
}

/// The active plugins that the caller may read, with what the Admin UI draws of them.
async fn list_for_ui(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let caller = call.caller()?;
    app.wait_for_plugins(None).await;
    let snapshot = app.plugins.snapshot();
    let items = snapshot
        .active()
        .filter(|plugin| caller.holds(&format!("plugin:{}:read", plugin.manifest.name)))
        .map(|plugin| active_plugin(&plugin.manifest, snapshot.frontend(&plugin.manifest.name)))
        .collect();
    reply::ok(&ActivePlugins { items })
}

fn active_plugin<'a>(manifest: &'a Manifest, frontend: Option<&'a MainModule>) -> ActivePlugin<'a> {
    let contributes = &manifest.contributes;
    ActivePlugin {
        name: &manifest.name,
        version: manifest.version.to_string(),
        title: manifest.display_title(),
        description: manifest.description.as_deref(),
        api_prefix: manifest.api_prefix(),
        tabs: &contributes.card_tabs,
        pages: &contributes.pages,
        list_columns: &contributes.list_columns,
        card_actions: &contributes.card_actions,
        frontend,
        provides_kinds: &manifest.provides_kinds,
        reads_kinds: &manifest.reads_kinds,
    }
}

async fn manifest_schema(_: &Arc<App>, _: Call) -> ApiResult<Reply> {
    let mut reply = http::Response::new(Body::full(SCHEMA));
    let kind = HeaderValue::from_static("application/schema+json");
    reply.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(reply)
}
