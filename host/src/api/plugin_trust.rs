//! What an operator does about plugins that may not run: out of quarantine.

use std::sync::Arc;

use serde_json::json;

use crate::{
    app::App,
    audit::Act,
    http::{
        codes,
        error::{ApiError, ApiResult},
        reply::{self, Reply},
    },
    request::Call,
    route,
    router::{Access, Reads, Route},
};

pub fn routes() -> Vec<Route> {
    vec![
        route!(POST "/v1/admin/plugin-registry/{name}/release", Access::Scope("plugins:manage"), Reads::Nothing, release).told(|op| {
op.named("releasePlugin", "plugins", "Let a plugin out of quarantine").param("name", "Of the plugin.", json!({})).replies_as(200, "It.", "application/json", json!({"type": "object", "required": ["item"]})).refuses(&[&codes::CONFLICT]);
}),
    ]
}

/// Out of quarantine, with a clean record. The plugin is loaded again at once.
async fn release(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    call.no_query()?;
    let name = call.params.get("name").unwrap_or_default().to_owned();
    if !app.plugins.reports().iter().any(|report| report.name == name) {
        return Err(ApiError::not_found("plugin"));
    }
    let was_quarantined = app.past.release(&name).await.map_err(|_| ApiError::new(&codes::DRAINING))?;
    if was_quarantined {
        app.audit.done(&call, Act::ReleasePlugin, Some(name.clone()), None).await;
        app.plugins.apply_decisions().await;
    }
    let report = app.plugins.reports().into_iter().find(|report| report.name == name);
    let report = report.ok_or_else(|| ApiError::not_found("plugin"))?;
    reply::ok(&json!({"item": report, "host_id": app.host_id}))
}
