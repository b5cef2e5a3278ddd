//! `/api` and `/api/mcp`: the MCP endpoint, and the metadata that leads OAuth clients to it.

use std::sync::Arc;

use serde_json::json;

use super::plugins;
use crate::{
    app::App,
    auth::scope::MCP_USE,
    http::{
        error::ApiResult,
        reply::{self, Reply},
    },
    request::Call,
    route,
    router::{Access, Reads, Route},
};

pub fn routes() -> Vec<Route> {
    const ACCESS: Access = Access::Scope(MCP_USE);
    vec![
        route!(POST "/api", ACCESS, Reads::Nothing, speak),
        route!(GET "/api", ACCESS, Reads::Nothing, speak),
        route!(DELETE "/api", ACCESS, Reads::Nothing, speak),
        route!(POST "/api/mcp", ACCESS, Reads::Nothing, speak),
        route!(GET "/api/mcp", ACCESS, Reads::Nothing, speak),
        route!(DELETE "/api/mcp", ACCESS, Reads::Nothing, speak),
        route!(GET "/.well-known/oauth-protected-resource", Access::Public, Reads::Nothing, metadata),
        route!(GET "/.well-known/oauth-protected-resource/api", Access::Public, Reads::Nothing, metadata),
        route!(GET "/.well-known/oauth-protected-resource/api/mcp", Access::Public, Reads::Nothing, metadata),
    ]
}

async fn speak(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    plugins::wait_for_plugins(app).await;
    app.mcp.answer(call).await
}

/// RFC 9728. Without an identity provider there is nobody to send a client to, and the member is left out.
async fn metadata(app: &Arc<App>, _: Call) -> ApiResult<Reply> {
    let mut metadata = json!({
        "resource": format!("{}/api", app.base_url),
        "scopes_supported": [MCP_USE],
        "bearer_methods_supported": ["header"],
        "resource_name": "Cardinal",
    });
    if let Some(oidc) = &app.auth.oidc {
        metadata["authorization_servers"] = oidc.issuer().into_iter().collect();
        metadata["scopes_supported"] = oidc.scopes_to_ask_for().into();
    }
    reply::ok(&metadata)
}
