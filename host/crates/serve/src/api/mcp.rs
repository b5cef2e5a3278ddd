//! `/api` and `/api/mcp`: the MCP endpoint, and the metadata that leads OAuth clients to it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde_json::json;

use super::plugins;
use crate::http::error::ApiResult;
use crate::{
    app::App,
    http::reply::{self, Reply},
    openapi::Operation,
    request::Call,
    route,
    router::{Access, Reads, Route},
};
use cardinal_base::scope::MCP_USE;

const ABOUT: &str = "Streamable HTTP; revisions 2025-03-26 to 2026-07-28. Answers are application/json or \
    text/event-stream: accept both, in a session above all. A session's id is good for its caller alone, as long as its \
    credential is, and across restarts. A call that takes long is answered on a stream with a sign of life every 15 seconds \
    where text/event-stream is accepted.";

pub fn routes() -> Vec<Route> {
    const ACCESS: Access = Access::Scope(MCP_USE);
    vec![
        route!(POST "/api", ACCESS, Reads::Nothing, speak).describe(|op| describe_send(op, "mcpSend")),
        route!(GET "/api", ACCESS, Reads::Nothing, speak).describe(|op| describe_listen(op, "mcpListen")),
        route!(DELETE "/api", ACCESS, Reads::Nothing, speak).describe(|op| describe_end(op, "mcpEnd")),
        route!(POST "/api/mcp", ACCESS, Reads::Nothing, speak).describe(|op| describe_send(op, "mcpAliasSend")),
        route!(GET "/api/mcp", ACCESS, Reads::Nothing, speak).describe(|op| describe_listen(op, "mcpAliasListen")),
        route!(DELETE "/api/mcp", ACCESS, Reads::Nothing, speak).describe(|op| describe_end(op, "mcpAliasEnd")),
        route!(GET "/.well-known/oauth-protected-resource", Access::Public, Reads::Nothing, metadata)
            .describe(|op| describe_metadata(op, "getResourceMetadata")),
        route!(GET "/.well-known/oauth-protected-resource/api", Access::Public, Reads::Nothing, metadata)
            .describe(|op| describe_metadata(op, "getResourceMetadataOfApi")),
        route!(GET "/.well-known/oauth-protected-resource/api/mcp", Access::Public, Reads::Nothing, metadata)
            .describe(|op| describe_metadata(op, "getResourceMetadataOfMcp")),
    ]
}

/// Whether a path of the table is that of the MCP endpoint.
pub fn is_endpoint(template: &str) -> bool {
    ["/api", "/api/mcp"].contains(&template)
}

/// What narrows a connection; headers of the same sense do, too.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "`mcp/narrowing.rs` reads it")]
struct NarrowingQuery {
    tools: Option<String>,
    readonly: Option<bool>,
    search: Option<bool>,
}

fn describe_narrowing(op: &mut Operation) {
    let tools = "Only these tools: names by commas, `*` in them for any text. The header X-MCP-Tools says the same.";
    let readonly = "Only tools that read, and none that a person confirms. The header X-MCP-Readonly says the same.";
    let search =
        "More than 40 tools are found with `tools_search`, and not listed. The header X-MCP-Search says the same.";
    op.query::<NarrowingQuery>()
        .param("tools", tools, json!({"example": "cards_*"}))
        .param("readonly", readonly, json!({}))
        .param("search", search, json!({}));
}

fn describe_send(op: &mut Operation, id: &'static str) {
    let refusals = [
        (404, "No such session, as a JSON-RPC error. Begin another with `initialize`."),
        (406, "The answer would be of no type that is accepted; a JSON-RPC error."),
        (415, "The message is not application/json; a JSON-RPC error."),
    ];
    op.named(id, "mcp", "A JSON-RPC message to the MCP endpoint")
        .notes(ABOUT)
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
        .replies_as(400, "", "application/problem+json", json!({"$ref": "#/components/schemas/Problem"}));
    describe_narrowing(op);
    for (status, description) in refusals {
        op.replies_as(status, description, "application/json", json!({}));
    }
}

fn describe_listen(op: &mut Operation, id: &'static str) {
    op.named(id, "mcp", "The stream of messages of an MCP session")
        .replies_as(200, "Messages.", "text/event-stream", json!({}))
        .fails(&[400, 404, 405, 406, 409]);
    describe_narrowing(op);
}

fn describe_end(op: &mut Operation, id: &'static str) {
    op.named(id, "mcp", "End an MCP session")
        .answers(200, "Ended.")
        .answers(202, "Ended.")
        .answers(204, "Ended.")
        .fails(&[404, 405, 406]);
    describe_narrowing(op);
}

fn describe_metadata(op: &mut Operation, id: &'static str) {
    let schema = json!({"type": "object", "required": ["resource"]});
    op.named(id, "mcp", "Which identity provider leads to the MCP endpoint (RFC 9728)").replies_as(
        200,
        "The metadata.",
        "application/json",
        schema,
    );
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
