//! What the host says of plugins. Their own routes, below `/v1/admin/plugins/{prefix}`, are found in
//! `request/target.rs`.

use std::sync::Arc;

use http::{HeaderValue, header};
use serde_json::{Value, json};

use crate::http::error::ApiResult;
use crate::{
    app::{App, Route},
    call::Call,
    http::{
        body::Body,
        reply::{self, Reply},
    },
};
use cardinal_package::manifest::SCHEMA;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/plugins", list_for_ui).authenticated().describe(|op| {
            op.named("listPlugins", "plugins", "Active plugins that the caller may read, as the Admin UI draws them")
                .replies_as(
                    200,
                    "Them.",
                    "application/json",
                    listed(&[
                        "name",
                        "version",
                        "title",
                        "tabs",
                        "pages",
                        "list_columns",
                        "card_actions",
                        "frontend",
                        "provides_kinds",
                        "reads_kinds",
                    ]),
                );
        }),
        // Public: editors fetch what `$schema` names without a credential.
        Route::get("/v1/admin/plugin-manifest.schema.json", manifest_schema).public().describe(|op| {
            op.named("getPluginManifestSchema", "plugins", "JSON Schema of a plugin's manifest.json")
                .notes("For `$schema` in a manifest. What the host itself checks decides.")
                .replies_as(200, "The schema.", "application/schema+json", json!({"type": "object"}));
        }),
    ]
}

pub(super) fn listed(members: &[&str]) -> Value {
    json!({"type": "object", "required": ["items"],
        "properties": {"items": {"type": "array", "items": {"type": "object", "required": members}}}})
}

/// The active plugins that the caller may read, with what the Admin UI draws of them.
async fn list_for_ui(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let caller = call.caller()?;
    app.wait_for_plugins(None).await;
    let snapshot = app.plugins.snapshot();
    let items: Vec<Value> = snapshot
        .active()
        .filter(|plugin| caller.holds(&format!("plugin:{}:read", plugin.manifest.name)))
        .map(|plugin| {
            let manifest = &plugin.manifest;
            json!({
                "name": manifest.name,
                "version": manifest.version.to_string(),
                "title": manifest.title.as_ref().unwrap_or(&manifest.name),
                "description": manifest.description,
                "api_prefix": manifest.api_prefix(),
                "tabs": manifest.contributes.card_tabs,
                "pages": manifest.contributes.pages,
                "list_columns": manifest.contributes.list_columns,
                "card_actions": manifest.contributes.card_actions,
                "frontend": snapshot.frontend(&manifest.name),
                "provides_kinds": manifest.provides_kinds,
                "reads_kinds": manifest.reads_kinds,
            })
        })
        .collect();
    reply::ok(&json!({"items": items}))
}

async fn manifest_schema(_: &Arc<App>, _: Call) -> ApiResult<Reply> {
    let mut reply = http::Response::new(Body::full(SCHEMA));
    let kind = HeaderValue::from_static("application/schema+json");
    reply.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(reply)
}
