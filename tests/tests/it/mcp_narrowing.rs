//! A connection narrowed by its URL or its headers: what is outside is neither listed nor called, in both eras.

use cardinal_tests::{Answer, Client, Host, Package, PluginsFolder, eventually};
use http::Method;
use serde_json::{Value, json};

use super::mcp_sessions::{BOTH, MODERN, REVISION, echo, read_until};

/// As a client's configuration narrows it.
#[derive(Clone, Copy)]
struct Narrow<'a> {
    query: &'a str,
    headers: &'a [(&'a str, &'a str)],
}

const ALL: Narrow<'_> = Narrow { query: "", headers: &[] };

fn by_url(query: &str) -> Narrow<'_> {
    Narrow { query, headers: &[] }
}

fn by_header<'a>(headers: &'a [(&'a str, &'a str)]) -> Narrow<'a> {
    Narrow { query: "", headers }
}

fn request(client: &Client, narrow: Narrow<'_>, is_modern: bool, method: &str, params: &Value) -> cardinal_tests::Call {
    let mut params = params.clone();
    let mut call = client.call(Method::POST, &format!("/api{}", narrow.query)).header("accept", BOTH);
    for (name, value) in narrow.headers {
        call = call.header(name, value);
    }
    if is_modern {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "narrow", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        call = call.header("mcp-protocol-version", MODERN).header("mcp-method", method);
        if let Some(name) = params["name"].as_str() {
            call = call.header("mcp-name", name);
        }
    } else {
        call = call.header("mcp-protocol-version", REVISION);
    }
    call.json(&json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}))
}

async fn send(client: &Client, narrow: Narrow<'_>, is_modern: bool, method: &str, params: &Value) -> Answer {
    request(client, narrow, is_modern, method, params).send().await
}

async fn ask(client: &Client, narrow: Narrow<'_>, is_modern: bool, method: &str, params: &Value) -> Value {
    let answer = send(client, narrow, is_modern, method, params).await;
    let text = answer.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).find(|data| data.starts_with('{'));
    serde_json::from_str(data.unwrap_or(&text)).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

async fn names(client: &Client, narrow: Narrow<'_>, is_modern: bool) -> Vec<String> {
    let listed = ask(client, narrow, is_modern, "tools/list", &json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn say(text: &str) -> Value {
    json!({"name": "plugin_echo_say", "arguments": {"text": text}})
}

#[tokio::test]
async fn what_is_outside_is_neither_listed_nor_called() {
    let host = Host::settings().plugins(echo()).start().await;
    let key = host.owner().await.key(&["mcp:use", "cards:write", "plugin:echo:write"]).await;
    for is_modern in [false, true] {
        let all = names(&key, ALL, is_modern).await;
        assert!(all.len() == 10 && all.contains(&"cards_update".to_owned()), "{all:?}");
        let both = Narrow { query: "?tools=cards_*,plugin_echo_repeat", headers: &[("x-mcp-tools", "*_get,plugin_*")] };
        for (narrow, wanted) in [
            (
                by_url("?tools=cards_get,plugin_echo_*"),
                "cards_get plugin_echo_enrich plugin_echo_repeat plugin_echo_say",
            ),
            (by_header(&[("X-MCP-Tools", "plugin_echo_say , cards_search")]), "cards_search plugin_echo_say"),
            (both, "cards_get plugin_echo_repeat"),
            (
                by_url("?readonly=true"),
                "cards_export cards_get cards_history cards_search plugin_echo_repeat plugin_echo_say",
            ),
            (
                by_header(&[("X-MCP-Readonly", "true")]),
                "cards_export cards_get cards_history cards_search plugin_echo_repeat plugin_echo_say",
            ),
            (by_header(&[("X-MCP-Readonly", "false"), ("X-MCP-Tools", "no_such_*")]), ""),
            (by_url("?tools=cards_update&readonly=true"), ""),
        ] {
            let listed = names(&key, narrow, is_modern).await;
            assert_eq!(listed.join(" "), wanted, "{}", narrow.query);
            for name in &all {
                let arguments = json!({"name": name, "arguments": {"nothing": "of this"}});
                let called = ask(&key, narrow, is_modern, "tools/call", &arguments).await;
                let is_known = called.get("result").is_some();
                assert_eq!(is_known, listed.contains(name), "{name}: {called}");
                if !is_known {
                    let text = called["error"]["message"].as_str().unwrap();
                    assert!(called["error"]["code"] == -32602 && text.contains("narrowed"), "{called}");
                }
            }
        }
        let called = ask(&key, by_url("?tools=plugin_echo_say"), is_modern, "tools/call", &say("hello")).await;
        assert!(called["result"]["content"][0]["text"].as_str().unwrap().contains("hello"), "{called}");
    }
}

#[tokio::test]
async fn a_name_that_is_not_there_is_said_at_the_beginning() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let key = owner.key(&["mcp:use", "cards:read", "plugin:echo:read"]).await;
    let client = json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "n", "version": "1"}});
    // The second is there for others alone.
    for (name, guess) in [("cards_serach", "`cards_search`"), ("cards_update", ""), ("plugin_echo_enrich", "")] {
        let query = format!("?tools=cards_get,{name}");
        for (is_modern, method, params) in [
            (false, "initialize", &client),
            (false, "tools/list", &json!({})),
            (true, "server/discover", &json!({})),
            (true, "tools/list", &json!({})),
        ] {
            let refused = ask(&key, by_url(&query), is_modern, method, params).await;
            let text = refused["error"]["message"].as_str().unwrap_or_default();
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
            assert!(text.contains(&format!("`{name}`")) && text.contains(guess), "{refused}");
        }
        // What does work still does.
        let called =
            ask(&key, by_url(&query), true, "tools/call", &json!({"name": "cards_get", "arguments": {}})).await;
        assert_eq!(called["result"]["isError"], true, "{called}");
    }
    let wrong = ["?tools=", "?readonly=yes", "?search=1", "?tools=a%20b"].map(by_url);
    let headers = [[("x-mcp-tools", "")], [("x-mcp-readonly", "1")], [("x-mcp-search", "on")]];
    for narrow in wrong.into_iter().chain(headers.iter().map(|headers| by_header(headers))) {
        let answer = send(&key, narrow, false, "ping", &json!({})).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (400, &json!(-32600)), "{answer}");
    }
    send(&key, by_url("?tool=cards_get"), false, "ping", &json!({})).await.refused(400, "invalid-request");
    // A plugin that is out of service has its tools still; one that was never there has none.
    owner.post("/v1/admin/plugin-registry/echo/disable", &json!({})).await.expect(200);
    eventually("the plugin's tools are gone", async || {
        names(&key, by_url("?tools=cards_get,plugin_echo_say"), true).await.eq(&["cards_get"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_runs_on_a_read_only_connection_cannot_write() {
    // A tool that says it reads, and writes.
    let sly = Package::fixture("echo").manifest(|manifest| {
        for tool in manifest["mcp"]["tools"].as_array_mut().unwrap() {
            if tool["name"] == "plugin_echo_enrich" {
                tool.as_object_mut().unwrap().remove("requires_confirmation");
                tool["scope"] = json!("read");
            }
        }
    });
    let host = Host::settings().plugins(PluginsFolder::default().with("echo", &sly)).start().await;
    let owner = host.owner().await;
    let key = owner.key(&["*"]).await;
    let card = owner.card("Read").await["id"].clone();
    let call = json!({"name": "plugin_echo_enrich", "arguments": {"card_id": card, "note": "n"}});
    for is_modern in [false, true] {
        let refused = ask(&key, by_url("?readonly=true"), is_modern, "tools/call", &call).await;
        assert!(refused["result"]["isError"] == true && refused.to_string().contains("plugin:echo:write"), "{refused}");
    }
    assert_eq!(owner.read_card(card.as_str().unwrap()).await["version"], 1);
    let called = ask(&key, ALL, true, "tools/call", &call).await;
    assert_ne!(called["result"]["isError"], true, "{called}");
}

/// `echo` with so many more tools that do the same.
fn many() -> PluginsFolder {
    let echo = Package::fixture("echo").manifest(|manifest| {
        let tools = manifest["mcp"]["tools"].as_array_mut().unwrap();
        for number in 0..50 {
            tools.push(json!({"name": format!("plugin_echo_say_{number}"), "description": format!("Says number{number}."), "handler": "say",
                "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}));
        }
    });
    PluginsFolder::default().with("echo", &echo)
}

#[tokio::test]
async fn many_tools_are_found_by_searching() {
    let host = Host::settings().plugins(many()).start().await;
    let owner = host.owner().await;
    let key = owner.key(&["mcp:use", "cards:read", "plugin:echo:write"]).await;
    for is_modern in [false, true] {
        assert!(names(&key, ALL, is_modern).await.len() > 50, "nobody has asked for less");
        let search = by_header(&[("x-mcp-search", "true")]);
        assert_eq!(names(&key, search, is_modern).await, ["tools_call", "tools_search"]);
        let few = by_url("?search=true&tools=cards_*");
        assert_eq!(names(&key, few, is_modern).await, ["cards_export", "cards_get", "cards_history", "cards_search"]);
        let query = json!({"name": "tools_search", "arguments": {"query": "number17", "limit": 3}});
        let found = ask(&key, search, is_modern, "tools/call", &query).await["result"]["structuredContent"].take();
        assert_eq!((&found["tools"][0]["name"], &found["more"]), (&json!("plugin_echo_say_17"), &json!(0)), "{found}");
        assert_eq!(found["tools"][0]["inputSchema"]["required"], json!(["text"]), "{found}");
        let other = json!({"name": "tools_search", "arguments": {"query": "", "limit": 50}});
        let found = ask(&key, by_url("?search=true&tools=*_1*"), is_modern, "tools/call", &other).await;
        assert_eq!(found["result"]["structuredContent"]["tools"].as_array().map(Vec::len), Some(11), "{found}");
        let wrapped = |name: &str, arguments: Value| {
            let inner = json!({"name": name, "arguments": arguments});
            json!({"name": "tools_call", "arguments": inner})
        };
        let exact = wrapped("plugin_echo_repeat", json!({"n": 1}));
        let called = ask(&key, search, is_modern, "tools/call", &exact).await;
        assert_eq!(called["result"]["structuredContent"], json!({"n": 1}), "{called}");
        // It is the tool that is validated, confirmed, and outside or not.
        let invalid =
            ask(&key, search, is_modern, "tools/call", &wrapped("plugin_echo_say_1", json!({"text": 7}))).await;
        assert!(invalid["result"]["isError"] == true && invalid.to_string().contains("/text"), "{invalid}");
        let card = owner.card("Wrapped").await["id"].clone();
        let enrich = wrapped("plugin_echo_enrich", json!({"card_id": card, "note": "n"}));
        let asked = ask(&key, search, is_modern, "tools/call", &enrich).await;
        let waiting = &asked["result"]["_meta"]["cardinal/confirmation"];
        let approval = owner.get(&format!("/v1/admin/approvals/{}", waiting["approval_id"].as_str().unwrap())).await;
        assert_eq!(approval.expect(200)["item"]["tool"], "plugin_echo_enrich", "{asked}");
        for (narrow, name) in [(search, "cards_update"), (by_url("?search=true&readonly=true"), "plugin_echo_enrich")] {
            let refused = ask(&key, narrow, is_modern, "tools/call", &wrapped(name, json!({}))).await;
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
        }
        for wrong in [json!({}), json!({"name": 7}), json!({"name": "cards_get", "arguments": "{}"})] {
            let call = json!({"name": "tools_call", "arguments": wrong});
            let refused = ask(&key, search, is_modern, "tools/call", &call).await;
            assert_eq!(refused["result"]["isError"], true, "{refused}");
        }
        let unasked = ask(&key, ALL, is_modern, "tools/call", &exact).await;
        assert_eq!(unasked["error"]["code"], -32602, "{unasked}");
    }
}

#[tokio::test]
async fn wrapped_arguments_keep_every_digit() {
    let host = Host::settings().plugins(many()).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:echo:read"]).await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tools_call","arguments":{"name":"plugin_echo_repeat","arguments":{"n":18446744073709551616.25}}}}"#;
    let call = key.call(Method::POST, "/api?search=true").body("application/json", body).header("accept", "*/*");
    let answer = call.send().await;
    assert!(answer.text().contains(r#""structuredContent":{"n":18446744073709551616.25}"#), "{answer}");
}

#[tokio::test]
async fn a_narrow_stream_hears_of_its_own_tools_alone() {
    let host = Host::settings().plugins(echo()).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:echo:read"]).await;
    let listen = async |query: &str| {
        let filter = json!({"notifications": {"toolsListChanged": true}});
        let opened = request(&key, by_url(query), true, "subscriptions/listen", &filter).open(None).await.unwrap();
        let mut stream = opened.into_body();
        read_until(&mut stream, "subscriptions/acknowledged").await;
        stream
    };
    let (mut say, mut repeat) = (listen("?tools=plugin_echo_say").await, listen("?tools=plugin_echo_repeat").await);
    let change = |name: &'static str| {
        let changed = Package::fixture("echo").manifest(move |manifest| {
            for tool in manifest["mcp"]["tools"].as_array_mut().unwrap() {
                if tool["name"] == name {
                    tool["description"] = json!("Says it otherwise.");
                }
            }
        });
        host.plugins().put("echo", &changed);
    };
    change("plugin_echo_repeat");
    assert!(read_until(&mut repeat, "list_changed").await.contains("list_changed"));
    change("plugin_echo_say");
    let heard = read_until(&mut say, "list_changed").await;
    assert_eq!(heard.matches("list_changed").count(), 1, "{heard}");
}
