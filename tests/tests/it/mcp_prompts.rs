//! Prompts of plugins, in sessions and without.

use cardinal_tests::{Client, Host, Package, PluginsFolder, User};
use http::Method;
use serde_json::{Value, json};

use super::mcp_sessions::{BOTH, MODERN, REVISION, listen, read_until, read_up_to, rescan, send, subscribe};

const ASK: &str = "plugin_echo_ask";

/// The fixture `echo` with these prompts.
fn echo(prompts: &Value) -> Package {
    Package::fixture("echo").manifest(|manifest| manifest["mcp"]["prompts"] = prompts.clone())
}

fn ask() -> Value {
    json!({
        "name": ASK, "title": "Ask", "description": "Asks about a card.",
        "arguments": [{"name": "sku", "description": "Which card", "required": true}, {"name": "tone"}],
        "messages": [
            {"role": "user", "text": "What is {{sku}}? {{ tone }}"},
            {"role": "assistant", "text": "I look it up."},
        ],
    })
}

async fn call(client: &Client, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    client.call(Method::POST, "/api").json(&message).header("accept", BOTH).send().await.json()
}

async fn modern(client: &Client, method: &str, name: Option<&str>, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let call = client.call(Method::POST, "/api").json(&message).header("accept", BOTH);
    let call = call.header("mcp-protocol-version", MODERN).header("mcp-method", method);
    let call = match name {
        Some(name) => call.header("mcp-name", name),
        None => call,
    };
    call.send().await.json()
}

/// A session with what its `initialize` was answered.
async fn session(client: &Client) -> (String, Value) {
    let params = json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let answer = client.call(Method::POST, "/api").json(&message).header("accept", BOTH).send().await;
    let id = answer.header("mcp-session-id").unwrap().to_owned();
    let text = answer.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).find(|data| data.contains("result"));
    let result = serde_json::from_str::<Value>(data.unwrap_or(&text)).unwrap()["result"].take();
    send(client, &id, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    (id, result)
}

async fn reader(owner: &User) -> User {
    owner.key(&["mcp:use", "plugin:echo:read"]).await
}

#[tokio::test]
async fn whoever_may_read_a_plugin_has_its_prompts() {
    let host = Host::settings().plugins(PluginsFolder::default().with("echo", &echo(&json!([ask()])))).start().await;
    let owner = host.owner().await;
    let (key, stranger) = (reader(owner).await, owner.key(&["mcp:use", "cards:read"]).await);
    let declared = json!([{
        "name": ASK, "title": "Ask", "description": "Asks about a card.",
        "arguments": [{"name": "sku", "description": "Which card", "required": true}, {"name": "tone", "required": false}],
    }]);
    let listed = call(&key, "prompts/list", json!({})).await;
    assert_eq!(listed["result"]["prompts"], declared, "{listed}");
    let listed = modern(&key, "prompts/list", None, json!({})).await;
    assert!(listed["result"]["prompts"] == declared && listed["result"]["cacheScope"] == "private", "{listed}");
    let get = |arguments: Value| json!({"name": ASK, "arguments": arguments});
    let got = call(&key, "prompts/get", get(json!({"sku": "{{tone}}", "tone": "Be short."}))).await;
    let texts = |got: &Value| {
        let messages = got["result"]["messages"].as_array().unwrap_or_else(|| panic!("{got}")).clone();
        messages
            .into_iter()
            .map(|message| (message["role"].clone(), message["content"]["text"].clone()))
            .collect::<Vec<_>>()
    };
    let wanted = [(json!("user"), json!("What is {{tone}}? Be short.")), (json!("assistant"), json!("I look it up."))];
    assert_eq!(texts(&got), wanted, "{got}");
    let got = modern(&key, "prompts/get", Some(ASK), get(json!({"sku": "A-1"}))).await;
    assert_eq!(texts(&got)[0].1, "What is A-1? ", "{got}");
    for (params, part) in [
        (get(json!({})), "`sku` is missing"),
        (get(json!({"sku": "a", "other": "b"})), "no argument `other`"),
        (json!({"name": "plugin_echo_other"}), "Unknown prompt: plugin_echo_other"),
        (get(json!({"sku": "x".repeat(300_000)})), "over 262144 bytes"),
    ] {
        let refused = call(&key, "prompts/get", params).await;
        let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
        assert!(refused["error"]["code"] == -32602 && message.contains(part), "{refused}");
    }
    assert_eq!(call(&key, "prompts/list", json!({"cursor": "made up"})).await["error"]["code"], -32602);
    // To who has none there is no such thing.
    for method in ["prompts/list", "prompts/get"] {
        let refused = call(&stranger, method, get(json!({"sku": "a"}))).await;
        assert_eq!(refused["error"]["code"], -32601, "{refused}");
    }
    assert_eq!(session(&key).await.1["capabilities"]["prompts"], json!({"listChanged": true}));
    assert_eq!(session(&stranger).await.1["capabilities"].get("prompts"), None);
    let discovered = modern(&stranger, "server/discover", None, json!({})).await;
    assert!(discovered["result"]["capabilities"]["tools"].is_object(), "{discovered}");
    assert_eq!(discovered["result"]["capabilities"].get("prompts"), None, "{discovered}");
}

#[tokio::test]
async fn a_client_hears_of_a_swap_that_changes_its_prompts() {
    let host = Host::settings().plugins(PluginsFolder::default().with("echo", &echo(&json!([ask()])))).start().await;
    let owner = host.owner().await;
    let key = reader(owner).await;
    let (id, _) = session(&key).await;
    let mut stream = listen(&key, &id).await;
    let mut other = ask();
    other["description"] = json!("Asks about a product.");
    host.plugins().put("echo", &echo(&json!([other])).version("1.0.9"));
    rescan(owner).await;
    let heard = read_up_to(&mut stream, "list_changed").await;
    assert!(heard.contains("notifications/prompts/list_changed") && !heard.contains("tools/list_changed"), "{heard}");
    let listed = send(&key, &id, &json!({"jsonrpc": "2.0", "id": 2, "method": "prompts/list"})).await;
    assert!(listed.text().contains("Asks about a product."), "{listed}");
}

/// A key that ends, and with it all its streams: what they have heard until then is all that they hear.
async fn mortal(host: &Host, owner: &User, scopes: &[&str]) -> (Client, String) {
    let made = owner.make_key(json!({"name": "mortal", "scopes": scopes})).await;
    let path = format!("/v1/admin/api-keys/{}", made["item"]["id"].as_str().unwrap());
    (host.client().bearer(made["key"].as_str().unwrap()), path)
}

#[tokio::test]
async fn news_of_prompts_reach_whose_view_has_changed_and_nobody_else() {
    const PROMPTS: &str = "notifications/prompts/list_changed";
    const TOOLS: &str = "notifications/tools/list_changed";
    let host = Host::settings().plugins(PluginsFolder::default().with("echo", &echo(&json!([ask()])))).start().await;
    let owner = host.owner().await;
    let (reader, reader_path) = mortal(&host, owner, &["mcp:use", "plugin:echo:read"]).await;
    let (stranger, stranger_path) = mortal(&host, owner, &["mcp:use", "cards:read", "plugin:other:read"]).await;
    let (mut here, mut there) =
        (listen(&reader, &session(&reader).await.0).await, listen(&stranger, &session(&stranger).await.0).await);
    let (mut for_prompts, _) = subscribe(&reader, json!({"promptsListChanged": true})).await;
    let (mut for_tools, _) = subscribe(&reader, json!({"toolsListChanged": true})).await;
    let (mut of_stranger, _) = subscribe(&stranger, json!({"promptsListChanged": true})).await;
    // A plugin's package.
    let mut other = ask();
    other["description"] = json!("Asks about a product.");
    host.plugins().put("echo", &echo(&json!([other])).version("1.0.9"));
    rescan(owner).await;
    for stream in [&mut here, &mut for_prompts] {
        let heard = read_up_to(stream, PROMPTS).await;
        assert!(!heard.contains(TOOLS), "the tools are the same: {heard}");
    }
    // Another name changes no view; other scopes of the key do.
    owner.patch(&reader_path, &json!({"name": "other"})).await.expect(200);
    owner.patch(&reader_path, &json!({"scopes": ["mcp:use"]})).await.expect(200);
    let heard = read_up_to(&mut here, PROMPTS).await;
    assert!(heard.matches(PROMPTS).count() == 1 && heard.contains(TOOLS), "{heard}");
    let heard = read_up_to(&mut for_prompts, PROMPTS).await;
    assert!(heard.matches(PROMPTS).count() == 1 && !heard.contains(TOOLS), "{heard}");
    assert!(!read_up_to(&mut for_tools, TOOLS).await.contains(PROMPTS), "it has asked for tools alone");
    for path in [&reader_path, &stranger_path] {
        owner.delete(path).await.expect(204);
    }
    for stream in [&mut here, &mut there, &mut for_prompts, &mut for_tools, &mut of_stranger] {
        let heard = read_until(stream, "there is no such event").await;
        assert!(!heard.contains("list_changed"), "{heard}");
    }
}

#[tokio::test]
async fn nobody_is_promised_news_of_resources() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (key, path) = mortal(&host, owner, &["mcp:use", "cards:read"]).await;
    let (id, begun) = session(&key).await;
    assert_eq!(begun["capabilities"]["resources"], json!({}), "cards come and go all the time: {begun}");
    let mut stream = listen(&key, &id).await;
    let (mut listener, acknowledged) =
        subscribe(&key, json!({"toolsListChanged": true, "resourcesListChanged": true})).await;
    assert!(acknowledged.contains("toolsListChanged") && !acknowledged.contains("resources"), "{acknowledged}");
    owner.card("New").await;
    // Losing the cards, and all their tools, is news of the tools.
    owner.patch(&path, &json!({"scopes": ["mcp:use"]})).await.expect(200);
    for stream in [&mut stream, &mut listener] {
        let heard = read_up_to(stream, "notifications/tools/list_changed").await;
        assert!(!heard.contains("resources"), "{heard}");
    }
    owner.delete(&path).await.expect(204);
    for stream in [&mut stream, &mut listener] {
        let heard = read_until(stream, "there is no such event").await;
        assert!(!heard.contains("resources"), "{heard}");
    }
}

#[tokio::test]
async fn a_plugin_with_a_wrong_prompt_is_refused_with_its_place() {
    let mut wrong = ask();
    wrong["messages"][0]["text"] = json!("What is {{what}}?");
    let host = Host::settings().plugins(PluginsFolder::default().with("echo", &echo(&json!([wrong])))).start().await;
    let item = host.owner().await.get("/v1/admin/plugin-registry/echo").await.expect(200)["item"].take();
    assert_eq!((&item["state"], &item["refusal"]["code"]), (&json!("refused"), &json!("bad-manifest")), "{item}");
    let found = item["refusal"].to_string();
    assert!(found.contains("/mcp/prompts/0/messages/0/text") && found.contains("what"), "{item}");
}
