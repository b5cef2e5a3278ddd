//! `/api` and `/api/mcp`: the MCP endpoint, and the metadata that leads OAuth clients to it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::http::error::ApiResult;
use crate::{
    app::{App, Route},
    call::{Call, Query, RawBody},
    http::reply::{self, Reply},
    openapi::Operation,
};
use cardinal_base::scope::MCP_USE;

const ABOUT: &str = "Streamable HTTP; revisions 2025-03-26, whose batches are taken, to 2026-07-28. Answers are \
    application/json or text/event-stream: accept both, above all in a session. A session's id works only for its \
    caller, as long as the credential is valid, and across restarts. A long call is answered on a stream with a \
    heartbeat every 15 seconds where text/event-stream is accepted.";

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::post("/api", handle).scope(MCP_USE).describe(|op| describe_send(op, "mcpSend")),
        Route::get("/api", handle).scope(MCP_USE).describe(|op| describe_listen(op, "mcpListen")),
        Route::delete("/api", handle).scope(MCP_USE).describe(|op| describe_end(op, "mcpEnd")),
        Route::post("/api/mcp", handle).scope(MCP_USE).describe(|op| describe_send(op, "mcpAliasSend")),
        Route::get("/api/mcp", handle).scope(MCP_USE).describe(|op| describe_listen(op, "mcpAliasListen")),
        Route::delete("/api/mcp", handle).scope(MCP_USE).describe(|op| describe_end(op, "mcpAliasEnd")),
        Route::get("/.well-known/oauth-protected-resource", metadata)
            .public()
            .describe(|op| describe_metadata(op, "getResourceMetadata")),
        Route::get("/.well-known/oauth-protected-resource/api", metadata)
            .public()
            .describe(|op| describe_metadata(op, "getResourceMetadataOfApi")),
        Route::get("/.well-known/oauth-protected-resource/api/mcp", metadata)
            .public()
            .describe(|op| describe_metadata(op, "getResourceMetadataOfMcp")),
    ]
}

/// What narrows a connection; headers of the same sense do, too.
#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "`mcp/narrowing.rs` reads it")]
struct NarrowingQuery {
    tools: Option<String>,
    readonly: Option<bool>,
    search: Option<bool>,
}

fn describe_narrowing(op: &mut Operation) {
    let tools = "Only these tools: comma-separated names, in which `*` stands for any text. The same as the header \
        X-MCP-Tools.";
    let readonly = "Only tools that read, and none that a person confirms. The same as the header X-MCP-Readonly.";
    let search = "More than 40 tools are found with `tools_search` instead of being listed. The same as the header \
         X-MCP-Search.";
    op.param("tools", tools, json!({"example": "cards_*"})).param("readonly", readonly, json!({})).param(
        "search",
        search,
        json!({}),
    );
}

fn describe_send(op: &mut Operation, id: &'static str) {
    let refusals = [
        (404, "No such session, as a JSON-RPC error. Start another with `initialize`."),
        (406, "No acceptable type of answer, as a JSON-RPC error."),
        (415, "The message is not application/json, as a JSON-RPC error."),
    ];
    op.named(id, "mcp", "A JSON-RPC message to the MCP endpoint")
        .notes(ABOUT)
        .body("application/json", json!({}))
        .replies_as(200, "The answer, or a stream of messages.", "application/json", json!({}))
        .replies_as(200, "", "text/event-stream", json!({}))
        .answers(202, "Accepted; there is nothing to answer.")
        .replies_as(
            400,
            "Not a JSON-RPC message, as a JSON-RPC error; otherwise a problem document.",
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

async fn handle(app: &Arc<App>, call: Call<Query<NarrowingQuery>, RawBody>) -> ApiResult<Reply> {
    app.wait_for_plugins(None).await;
    let (call, body) = call.into_stream();
    app.mcp.answer(call, body).await
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
