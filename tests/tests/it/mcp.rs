//! Contract 6: MCP over Streamable HTTP, by hand and by the official client.

use std::process::{Command, Output};

use cardinal_tests::{Answer, Host, Package, Pages, PluginsFolder, User, printed_json, repository, run};
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
    let output = run(command).await;
    let answer = printed_json(&output);
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
async fn each_mistake_of_a_client_gets_the_json_rpc_error_that_is_its_own() {
    let host = Host::shared().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:supplier:read"]).await;
    let session = Session::begin(&key).await;
    let call = |params: Value| json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let mut wrong: Vec<(Value, Value, i64)> = Vec::new();
    for params in [json!([]), json!({}), json!({"name": 7}), json!({"name": PREVIEW, "arguments": "{\"url\": \"x\"}"})]
    {
        wrong.push((call(params), json!(7), -32602));
    }
    for id in [json!({}), json!(null), json!(1.5), json!([])] {
        wrong.push((json!({"jsonrpc": "2.0", "id": id, "method": "ping"}), json!(null), -32600));
    }
    wrong.push((json!({"jsonrpc": "2.0", "id": 7}), json!(7), -32600));
    wrong.push((request("tools/list", json!({"cursor": 7})), json!(7), -32602));
    wrong.push((request("tools/list", json!({"cursor": "made up"})), json!(7), -32602));
    wrong.push((request("tools/fly", json!({})), json!(7), -32601));
    wrong.push((request("initialize", json!({"protocolVersion": 7})), json!(7), -32602));
    let modern = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    for (message, id, code) in wrong {
        for answer in [session.send(&message).await, key.mcp(&message).await] {
            let text = answer.text();
            let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).find(|data| data.starts_with('{'));
            let error: Value =
                serde_json::from_str(data.unwrap_or(&text)).unwrap_or_else(|_| panic!("{message}: {answer}"));
            assert_eq!((&error["id"], &error["error"]["code"]), (&id, &json!(code)), "{message}: {answer}");
        }
    }
    let unknown = key.call(Method::POST, "/api").json(&request("ping", json!({}))).header("accept", "*/*");
    let unknown = unknown.header("mcp-protocol-version", "1999-01-01").send().await;
    assert_eq!((unknown.status.as_u16(), &unknown.json()["error"]["code"]), (400, &json!(-32600)), "{unknown}");
    let later = json!({"io.modelcontextprotocol/protocolVersion": "2999-01-01"});
    let later =
        key.call(Method::POST, "/api").json(&request("tools/list", json!({"_meta": later}))).header("accept", "*/*");
    let later = later.header("mcp-protocol-version", "2999-01-01").header("mcp-method", "tools/list").send().await;
    let error = later.json()["error"].clone();
    assert_eq!((later.status.as_u16(), &error["code"]), (400, &json!(-32022)), "{later}");
    assert!(error["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")), "{later}");
    let incomplete = request("tools/list", json!({"_meta": modern}));
    assert!(key.mcp(&incomplete).await.json()["error"]["code"].is_i64());
}

#[tokio::test]
async fn a_client_that_takes_anything_is_answered() {
    let host = Host::shared().await;
    let key = host.owner().await.key(&["mcp:use"]).await;
    let ping = request("ping", json!({}));
    for accept in ["*/*", "application/*, text/*", "application/json", "application/json, text/event-stream", ""] {
        let call = key.call(Method::POST, "/api").json(&ping);
        let call = if accept.is_empty() { call } else { call.header("accept", accept) };
        assert_eq!(message(&call.send().await)["result"], json!({}), "{accept}");
    }
    let html = key.call(Method::POST, "/api").json(&ping).header("accept", "text/html").send().await;
    assert_eq!((html.status.as_u16(), &html.json()["error"]["code"]), (406, &json!(-32600)), "{html}");
}

#[tokio::test]
async fn nothing_but_a_key_that_names_it_runs_unattended() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Attended").await;
    let call = |arguments: Value| request("tools/call", json!({"name": ENRICH, "arguments": arguments}));
    let wanted = call(json!({"card_id": card["id"], "url": "http://127.0.0.1:1/"}));
    let all = owner.key(&["*"]).await;
    let mcp = owner.key(&["mcp:*", "plugin:supplier:write"]).await;
    let clients: [&cardinal_tests::Client; 3] = [owner, &all, &mcp];
    // Each waits for a person for a while.
    let asked = clients.map(|client| client.call(Method::POST, "/api").json(&wanted).header("accept", "*/*").send());
    for answer in futures_util::future::join_all(asked).await {
        let refused = message(&answer)["result"].take();
        let text = refused["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert!(refused["isError"] == true && text.starts_with("confirmation_required"), "{refused}");
    }
    // What would not run is not put before a person.
    let refused = message(&all.mcp(&call(json!({"card_id": 7}))).await)["result"].take();
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("/card_id"), "{refused}");
    // A key that does not run unattended makes none that does; a person may, and `*` beside the name takes nothing away.
    let wanted_key = json!({"name": "unattended", "scopes": ["mcp:unattended"]});
    all.post("/v1/admin/api-keys", &wanted_key).await.refused(403, "insufficient-scope");
    let both = owner.key(&["*", "mcp:unattended"]).await;
    let ran = message(&both.mcp(&wanted).await)["result"].take();
    assert!(!ran["content"][0]["text"].as_str().unwrap().starts_with("confirmation_required"), "{ran}");
}

#[tokio::test]
async fn a_result_that_is_not_as_promised_does_not_reach_the_client_as_one() {
    let promise = json!({"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]});
    let echo = Package::fixture("echo").manifest(|manifest| {
        let tools = manifest["mcp"]["tools"].as_array_mut().unwrap();
        let repeat = tools.iter_mut().find(|tool| tool["name"] == "plugin_echo_repeat").unwrap();
        repeat["output_schema"] = promise.clone();
    });
    let host = Host::settings().plugins(PluginsFolder::default().with("echo", &echo)).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:echo:read"]).await;
    for (arguments, fits) in [(json!({"count": 3}), true), (json!({"count": "3"}), false), (json!({}), false)] {
        let call = json!({"name": "plugin_echo_repeat", "arguments": arguments});
        let result = message(&key.mcp(&request("tools/call", call.clone())).await)["result"].take();
        assert_eq!(result["isError"] != true, fits, "{result}");
        assert_eq!(result.get("structuredContent"), fits.then_some(&arguments), "{result}");
        if !fits {
            assert!(result["content"][0]["text"].as_str().unwrap().starts_with("plugin-error"), "{result}");
        }
        let (_, called) = official_client(&host, &key, &["call", "plugin_echo_repeat", &arguments.to_string()]).await;
        assert_eq!(called.get("error"), None, "the SDK fails at what breaks its schema");
    }
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
