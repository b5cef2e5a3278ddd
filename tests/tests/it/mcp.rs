//! Contract 6: MCP over Streamable HTTP, by hand and by the official client.

use std::process::{Command, Output};

use cardinal_tests::{Answer, Host, Pages, User, repository};
use http::Method;
use serde_json::{Value, json};

const PREVIEW: &str = "plugin_supplier_preview";
const ENRICH: &str = "plugin_supplier_enrich";

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

/// The JSON-RPC message of an answer, which may come as JSON or as an event stream.
fn message(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer}");
    let text = answer.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).find(|data| data.starts_with('{'));
    serde_json::from_str(data.unwrap_or(&text)).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// A session of the given key: `initialize`, then the calls.
struct Session<'a> {
    user: &'a User,
    id: Option<String>,
}

impl Session<'_> {
    async fn begin(user: &User) -> Session<'_> {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let answer = user.mcp(&request("initialize", params)).await;
        let result = message(&answer);
        assert_eq!(result["result"]["protocolVersion"], "2025-06-18", "{result}");
        let session = Session { user, id: answer.header("mcp-session-id").map(str::to_owned) };
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        session
    }

    async fn send(&self, body: &Value) -> Answer {
        let call =
            self.user.call(Method::POST, "/api").json(body).header("accept", "application/json, text/event-stream");
        let call = call.header("mcp-protocol-version", "2025-06-18");
        match &self.id {
            Some(id) => call.header("mcp-session-id", id).send().await,
            None => call.send().await,
        }
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        message(&self.send(&request(method, params)).await)
    }

    async fn tools(&self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// The official TypeScript client, as the README's first walk uses it.
async fn official_client(host: &Host, user: &User, arguments: &[&str]) -> (Output, Value) {
    let mut command = Command::new("node");
    command.arg(repository().join("tests/clients/mcp.mjs")).arg(format!("{}/api", host.url())).args(arguments);
    command.env("CARDINAL_API_KEY", &user.token);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}{errors}"));
    (output, answer)
}

fn chair() -> (&'static str, String) {
    ("/chair", super::supplier::PAGE.to_owned())
}

#[tokio::test]
async fn nobody_speaks_mcp_without_a_credential_and_its_scope() {
    let host = Host::shared().await;
    let ping = request("ping", json!({}));
    for path in ["/api", "/api/mcp"] {
        let answer = host.client().post(path, &ping).await;
        assert_eq!(answer.status, 401, "{answer}");
        assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"), "{answer}");
    }
    let key = host.owner().await.key(&["cards:read"]).await;
    assert_eq!(key.mcp(&ping).await.status, 403);
}

#[tokio::test]
async fn a_caller_sees_the_tools_that_its_scopes_allow_in_stable_order() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let all = owner.key(&["mcp:use", "plugin:supplier:write"]).await;
    let tools = Session::begin(&all).await.tools().await;
    assert!(tools.iter().any(|name| name == PREVIEW) && tools.iter().any(|name| name == ENRICH), "{tools:?}");
    assert_eq!(Session::begin(&all).await.tools().await, tools);
    let reader = owner.key(&["mcp:use", "plugin:supplier:read"]).await;
    let seen = Session::begin(&reader).await.tools().await;
    assert!(seen.iter().any(|name| name == PREVIEW) && !seen.iter().any(|name| name == ENRICH), "{seen:?}");
    let none = owner.key(&["mcp:use"]).await;
    let seen = Session::begin(&none).await.tools().await;
    assert!(!seen.iter().any(|name| name.starts_with("plugin_")), "{seen:?}");
}

#[tokio::test]
async fn a_tool_is_called_with_checked_arguments() {
    let host = Host::shared().await;
    let pages = Pages::serve([chair()]).await;
    let key = host.owner().await.key(&["mcp:use", "plugin:supplier:read"]).await;
    let session = Session::begin(&key).await;
    let called = session.ask("tools/call", json!({"name": PREVIEW, "arguments": {"url": pages.url("/chair")}})).await;
    assert_ne!(called["result"]["isError"], true, "{called}");
    assert!(called["result"]["content"][0]["text"].as_str().unwrap().contains("Oak chair"), "{called}");
    for wrong in [json!({}), json!({"url": 7}), json!({"url": pages.url("/chair"), "colour": "red"})] {
        let refused = session.ask("tools/call", json!({"name": PREVIEW, "arguments": wrong})).await;
        let error = refused["error"]["code"].is_i64() || refused["result"]["isError"] == true;
        assert!(error, "{wrong}: {refused}");
    }
    assert_eq!(pages.served(), 1, "wrong arguments reached the plugin");
}

#[tokio::test]
async fn a_tool_beyond_the_callers_scopes_or_unknown_is_not_called() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Untouched").await;
    let key = owner.key(&["mcp:use", "plugin:supplier:read"]).await;
    let session = Session::begin(&key).await;
    let arguments = json!({"card_id": card["id"], "url": "http://127.0.0.1:1/"});
    let answer = session.send(&request("tools/call", json!({"name": ENRICH, "arguments": arguments}))).await;
    assert!(answer.status == 403 || message(&answer)["error"].is_object(), "{answer}");
    let unknown = session.ask("tools/call", json!({"name": "plugin_supplier_nothing", "arguments": {}})).await;
    assert!(unknown["error"]["code"].is_i64(), "{unknown}");
    assert_eq!(owner.read_card(card["id"].as_str().unwrap()).await, card);
}

#[tokio::test]
async fn a_tool_that_needs_confirmation_runs_unattended_only_by_its_scope() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let pages = Pages::serve([chair()]).await;
    let card = owner.card("Confirmed").await;
    let arguments = json!({"card_id": card["id"], "url": pages.url("/chair"), "confirm": true, "confirmed": true});
    let plain = owner.key(&["mcp:use", "plugin:supplier:write"]).await;
    let call = |arguments: &Value| json!({"name": ENRICH, "arguments": arguments});
    let answer = Session::begin(&plain).await.send(&request("tools/call", call(&arguments))).await;
    let allowed = answer.status == 200 && message(&answer)["result"]["isError"] == false;
    assert!(!allowed, "an argument of the model confirmed: {answer}");
    assert_eq!(owner.read_card(card["id"].as_str().unwrap()).await["attributes"]["sources"], json!({}));
    let unattended = owner.key(&["mcp:use", "plugin:supplier:write", "mcp:unattended"]).await;
    let arguments = json!({"card_id": card["id"], "url": pages.url("/chair")});
    let called = Session::begin(&unattended).await.ask("tools/call", call(&arguments)).await;
    assert_ne!(called["result"]["isError"], true, "{called}");
    let sources = owner.read_card(card["id"].as_str().unwrap()).await["attributes"]["sources"].clone();
    assert_eq!(sources["supplier:127.0.0.1"]["kind"], "supplier", "{sources}");
}

#[tokio::test]
async fn what_is_no_json_rpc_is_answered_as_such() {
    let host = Host::shared().await;
    let key = host.owner().await.key(&["mcp:use"]).await;
    let send = async |body: &str| {
        let call = key.call(Method::POST, "/api").body("application/json", body.to_owned());
        call.header("accept", "application/json, text/event-stream").send().await
    };
    let broken = send("{\"jsonrpc\": ").await;
    assert_eq!((broken.status.as_u16(), &broken.json()["error"]["code"]), (400, &json!(-32700)), "{broken}");
    let batch = send("[]").await;
    assert_eq!((batch.status.as_u16(), &batch.json()["error"]["code"]), (400, &json!(-32600)), "{batch}");
}

#[tokio::test]
async fn the_official_client_lists_and_calls() {
    let host = Host::shared().await;
    let pages = Pages::serve([chair()]).await;
    let key = host.owner().await.key(&["mcp:use", "plugin:*:read"]).await;
    let (output, listed) = official_client(&host, &key, &["list"]).await;
    assert!(output.status.success(), "{listed}");
    let tools = listed["tools"].as_array().unwrap();
    let preview = tools.iter().find(|tool| tool["name"] == PREVIEW).unwrap_or_else(|| panic!("{listed}"));
    assert_eq!(preview["inputSchema"]["type"], "object", "{preview}");
    let arguments = json!({"url": pages.url("/chair")}).to_string();
    let (output, called) = official_client(&host, &key, &["call", PREVIEW, &arguments]).await;
    assert!(output.status.success(), "{called}");
    assert!(called["content"][0]["text"].as_str().unwrap().contains("Oak chair"), "{called}");
}
