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

const ABOUT: &str = "Streamable HTTP; revisions 2025-03-26 to 2026-07-28. Answers are application/json or \
    text/event-stream: accept both, in a session above all. A session's id is good for its caller alone, as long as its \
    credential is, and across restarts.";

pub fn routes() -> Vec<Route> {
    const ACCESS: Access = Access::Scope(MCP_USE);
    vec![
        route!(POST "/api", ACCESS, Reads::Nothing, speak).told(|op| {
            op.named("mcpSend", "mcp", "A JSON-RPC message to the MCP endpoint")
                .says(ABOUT)
                .body("application/json", json!({}))
                .replies_as(200, "The answer, or a stream of messages.", "application/json", json!({}))
                .replies_as(200, "", "text/event-stream", json!({}))
                .answers(202, "Taken; nothing to answer.")
                .replies_as(
                    400,
                    "No JSON-RPC message, told as a JSON-RPC error; else a problem.",
                    "application/json",
                    json!({}),
                )
                .replies_as(400, "", "application/problem+json", json!({"$ref": "#/components/schemas/Problem"}))
                .replies_as(
                    404,
                    "No such session, as a JSON-RPC error. Begin another with `initialize`.",
                    "application/json",
                    json!({}),
                )
                .replies_as(
                    406,
                    "The answer would be of no type that is accepted; a JSON-RPC error.",
                    "application/json",
                    json!({}),
                )
                .replies_as(
                    415,
                    "The message is not application/json; a JSON-RPC error.",
                    "application/json",
                    json!({}),
                );
        }),
        route!(GET "/api", ACCESS, Reads::Nothing, speak).told(|op| {
            op.named("mcpListen", "mcp", "The stream of messages of an MCP session")
                .replies_as(200, "Messages.", "text/event-stream", json!({}))
                .fails(&[404, 405, 406, 409]);
        }),
        route!(DELETE "/api", ACCESS, Reads::Nothing, speak).told(|op| {
            op.named("mcpEnd", "mcp", "End an MCP session")
                .answers(200, "Ended.")
                .answers(202, "Ended.")
                .answers(204, "Ended.")
                .fails(&[404, 405, 406]);
        }),
        route!(POST "/api/mcp", ACCESS, Reads::Nothing, speak).told(|op| {
            op.named("mcpAliasSend", "mcp", "A JSON-RPC message to the MCP endpoint")
                .says(ABOUT)
                .body("application/json", json!({}))
                .replies_as(200, "The answer, or a stream of messages.", "application/json", json!({}))
                .replies_as(200, "", "text/event-stream", json!({}))
                .answers(202, "Taken; nothing to answer.")
                .replies_as(
                    400,
                    "No JSON-RPC message, told as a JSON-RPC error; else a problem.",
                    "application/json",
                    json!({}),
                )
                .replies_as(400, "", "application/problem+json", json!({"$ref": "#/components/schemas/Problem"}))
                .replies_as(
                    404,
                    "No such session, as a JSON-RPC error. Begin another with `initialize`.",
                    "application/json",
                    json!({}),
                )
                .replies_as(
                    406,
                    "The answer would be of no type that is accepted; a JSON-RPC error.",
                    "application/json",
                    json!({}),
                )
                .replies_as(
                    415,
                    "The message is not application/json; a JSON-RPC error.",
                    "application/json",
                    json!({}),
                );
        }),
        route!(GET "/api/mcp", ACCESS, Reads::Nothing, speak).told(|op| {
            op.named("mcpAliasListen", "mcp", "The stream of messages of an MCP session")
                .replies_as(200, "Messages.", "text/event-stream", json!({}))
                .fails(&[404, 405, 406, 409]);
        }),
        route!(DELETE "/api/mcp", ACCESS, Reads::Nothing, speak).told(|op| {
            op.named("mcpAliasEnd", "mcp", "End an MCP session")
                .answers(200, "Ended.")
                .answers(202, "Ended.")
                .answers(204, "Ended.")
                .fails(&[404, 405, 406]);
        }),
        route!(GET "/.well-known/oauth-protected-resource", Access::Public, Reads::Nothing, metadata).told(|op| {
            op.named("getResourceMetadata", "mcp", "Which identity provider leads to the MCP endpoint (RFC 9728)")
                .replies_as(
                    200,
                    "The metadata.",
                    "application/json",
                    json!({"type": "object", "required": ["resource"]}),
                );
        }),
        route!(GET "/.well-known/oauth-protected-resource/api", Access::Public, Reads::Nothing, metadata).told(|op| {
            op.named("getResourceMetadataOfApi", "mcp", "Which identity provider leads to the MCP endpoint (RFC 9728)")
                .replies_as(
                    200,
                    "The metadata.",
                    "application/json",
                    json!({"type": "object", "required": ["resource"]}),
                );
        }),
        route!(GET "/.well-known/oauth-protected-resource/api/mcp", Access::Public, Reads::Nothing, metadata).told(
            |op| {
                op.named(
                    "getResourceMetadataOfMcp",
                    "mcp",
                    "Which identity provider leads to the MCP endpoint (RFC 9728)",
                )
                .replies_as(
                    200,
                    "The metadata.",
                    "application/json",
                    json!({"type": "object", "required": ["resource"]}),
                );
            },
        ),
    ]
}

async fn speak(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    plugins::wait_for_plugins(app).await;
    app.mcp.answer(app, call).await
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
