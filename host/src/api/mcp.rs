//! `/api` and `/api/mcp`: the MCP endpoint, and the metadata that leads OAuth clients to it.

use std::sync::Arc;

use serde_json::json;

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
    app.mcp.answer(call).await
}

/// RFC 9728.
async fn metadata(app: &Arc<App>, _: Call) -> ApiResult<Reply> {
    let issuer = app.config.auth.oidc_issuer.as_ref().or(app.config.auth.auth_url.as_ref());
    reply::ok(&json!({
        "resource": format!("{}/api", app.base_url),
        "authorization_servers": issuer.into_iter().collect::<Vec<_>>(),
        "scopes_supported": [MCP_USE, "cards:read"],
        "bearer_methods_supported": ["header"],
    }))
}
