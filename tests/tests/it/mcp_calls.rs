//! What is left of a tool call, and what is heard of it while it lasts: a line in the audit log, a sample, a sign of life.

use cardinal_tests::{Client, Host, Package, PluginsFolder, User, eventually, unique};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

/// SHA-256 of `{"a":"x","b":1}`.
const ARGUMENTS: &str = "cdab067e9f3beb32d1252cfd63e492592fecbf591b0d08cadb24bb17f3864246";
const BOTH: &str = "application/json, text/event-stream";
/// A little less than two beats.
const LONG_MS: u64 = 20_000;

/// `echo` with a tool that takes as long as it is asked to.
fn slow_echo() -> PluginsFolder {
    let echo = Package::fixture("echo").manifest(|manifest| {
        let sleep = json!({"name": "plugin_echo_sleep", "description": "Takes its time.", "handler": "sleep"});
        manifest["mcp"]["tools"].as_array_mut().unwrap().push(sleep);
    });
    PluginsFolder::default().with("echo", &echo)
}

fn call(name: &str, arguments: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "7.1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments, "_meta": meta}})
}

fn request(client: &Client, message: &Value) -> cardinal_tests::Call {
    let call = client.call(Method::POST, "/api").json(message).header("accept", BOTH);
    let call = call.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/call");
    call.header("mcp-name", message["params"]["name"].as_str().unwrap())
}

/// The lines of calls of this key, newest first, once there are so many.
async fn lines(owner: &User, key: &Value, count: usize) -> Vec<Value> {
    let path = format!("/v1/admin/audit?action=tool.call&actor={}", key["item"]["id"].as_str().unwrap());
    eventually("the calls are in the audit log", async || {
        let lines = owner.get(&path).await.expect(200)["items"].as_array().unwrap().clone();
        (lines.len() >= count).then_some(lines)
    })
    .await
}

#[tokio::test]
async fn each_call_leaves_a_line_and_a_sample() {
    let host = Host::settings().plugins(slow_echo()).start().await;
    let owner = host.owner().await;
    let made = owner.make_key(json!({"name": unique("calls"), "scopes": ["mcp:use", "plugin:echo:write"]})).await;
    let key = host.client().bearer(made["key"].as_str().unwrap());
    let calls = [
        ("plugin_echo_repeat", json!({"b": 1, "a": "x"}), "ok", "ok"),
        ("plugin_echo_say", json!({"text": 7}), "failed", "invalid-arguments"),
        ("plugin_echo_enrich", json!({"card_id": uuid::Uuid::now_v7(), "note": "n"}), "refused", "unconfirmed"),
    ];
    for (number, (tool, arguments, outcome, result)) in calls.iter().enumerate() {
        request(&key, &call(tool, arguments)).send().await.expect(200);
        let line = lines(owner, &made, number + 1).await.remove(0);
        assert_eq!((&line["target"], &line["outcome"]), (&json!(tool), &json!(outcome)), "{line}");
        let detail = &line["detail"];
        assert_eq!(
            (&detail["result"], &detail["client"]),
            (&json!(result), &json!({"name": "tester", "version": "7.1"}))
        );
        assert!(detail["ms"].is_u64() && line["request_id"].is_string() && line["ip"] == "127.0.0.1", "{line}");
        assert_eq!(detail["arguments_sha256"] == ARGUMENTS, number == 0, "{line}");
    }
    let alone = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "plugin_echo_repeat"}});
    key.call(Method::POST, "/api").json(&alone).header("accept", BOTH).send().await.expect(200);
    let line = lines(owner, &made, calls.len() + 1).await.remove(0);
    assert_eq!(line["detail"]["client"], Value::Null, "nobody has said who it is: {line}");
    // What is not there for a caller is counted; a name that no tool has may be a secret.
    for name in ["cards_search", "mpk_not_a_tool"] {
        let refused = request(&key, &call(name, &json!({}))).send().await;
        assert_eq!(refused.json()["error"]["code"], -32602, "{refused}");
    }
    let refused = lines(owner, &made, calls.len() + 2).await.remove(0);
    assert_eq!((&refused["outcome"], &refused["target"]), (&json!("refused"), &json!("cards_search")), "{refused}");
    assert_eq!(refused["detail"]["code"], "insufficient-scope");
    let metrics = owner.get("/metrics").await.text();
    let sample =
        "cardinal_mcp_tool_call_duration_seconds_count{tool=\"plugin_echo_say\",outcome=\"invalid-arguments\"} 1";
    assert!(metrics.contains(sample), "{metrics}");
    assert!(!metrics.contains("mpk_not_a_tool"));
}

#[tokio::test]
async fn calls_of_one_moment_have_a_line_each_and_a_stop_loses_none() {
    let host = Host::settings().plugins(slow_echo()).start().await;
    let made = host
        .owner()
        .await
        .make_key(json!({"name": "many", "scopes": ["mcp:use", "plugin:echo:read"], "rate_limit": null}))
        .await;
    let key = host.client().bearer(made["key"].as_str().unwrap());
    let message = call("plugin_echo_repeat", &json!({}));
    let calls = (0..200).map(|_| request(&key, &message).send());
    for answer in futures_util::future::join_all(calls).await {
        answer.expect(200);
    }
    let host = host.restart(|settings| settings).await;
    let owner = host.owner().await;
    let path = format!("/v1/admin/audit?action=tool.call&limit=200&actor={}", made["item"]["id"].as_str().unwrap());
    assert_eq!(owner.get(&path).await.expect(200)["items"].as_array().unwrap().len(), 200);
}

/// What comes until there is `end`.
async fn read_up_to(body: &mut Incoming, end: &str) -> String {
    let mut read = String::new();
    while !read.contains(end) {
        let frame = tokio::time::timeout(std::time::Duration::from_secs(60), body.frame()).await;
        let frame = frame.unwrap_or_else(|_| panic!("only {read:?} came"));
        let frame = frame.unwrap_or_else(|| panic!("the stream ended with {read:?}")).unwrap();
        read.push_str(frame.data_ref().map_or("", |data| std::str::from_utf8(data).unwrap()));
    }
    read
}

#[tokio::test]
async fn a_call_that_takes_long_shows_that_it_lives() {
    let host = Host::settings().plugins(slow_echo()).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:echo:read"]).await;
    let long = call("plugin_echo_sleep", &json!({"ms": LONG_MS}));
    let mut asking = long.clone();
    asking["params"]["_meta"]["progressToken"] = json!("mine");
    let (plain, asking) = (request(&key, &long), request(&key, &asking));
    let json_only = key.call(Method::POST, "/api").json(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "plugin_echo_sleep", "arguments": {"ms": LONG_MS}, "_meta": {"progressToken": 1}}}));
    let json_only = json_only.header("accept", "application/json");
    let plain = async {
        let mut stream = plain.open(None).await.unwrap().into_body();
        read_up_to(&mut stream, "\"result\"").await
    };
    let asking = async {
        let mut stream = asking.open(None).await.unwrap().into_body();
        read_up_to(&mut stream, "\"slept_ms").await
    };
    let of_session = super::mcp_confirmation::session(&key, &json!({})).await;
    let session = async {
        let message = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call",
            "params": {"name": "plugin_echo_sleep", "arguments": {"ms": LONG_MS}}});
        let call = key.call(Method::POST, "/api").json(&message).header("accept", BOTH);
        let call = call.header("mcp-session-id", &of_session).header("mcp-protocol-version", "2025-06-18");
        let mut stream = call.open(None).await.unwrap().into_body();
        read_up_to(&mut stream, "\"slept_ms").await
    };
    let (plain, asking, session, json_only) = tokio::join!(plain, asking, session, json_only.send());
    let alive = session.lines().position(|line| line.starts_with(':')).unwrap_or_else(|| panic!("{session:?}"));
    assert!(alive < session.lines().position(|line| line.contains("slept_ms")).unwrap(), "{session:?}");
    assert!(plain.starts_with(": still running\n\n") && plain.contains("slept_ms"), "{plain:?}");
    let progress = asking.find("notifications/progress").unwrap_or_else(|| panic!("{asking:?}"));
    assert!(asking.contains("\"progressToken\":\"mine\"") && progress < asking.find("slept_ms").unwrap(), "{asking:?}");
    assert_eq!(json_only.json()["result"]["structuredContent"]["slept_ms"], LONG_MS, "{json_only}");
}

/// The notifications of progress in what came, by their parameters.
fn reports(read: &str) -> Vec<Value> {
    let events = read.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| data.starts_with('{'));
    let messages = events.map(|event| serde_json::from_str::<Value>(event).unwrap());
    messages
        .filter(|message| message["method"] == "notifications/progress")
        .map(|mut message| message["params"].take())
        .collect()
}

#[tokio::test]
async fn a_client_hears_what_a_plugin_says_of_its_progress() {
    let plugins = PluginsFolder::default().with("conformance", &Package::fixture("conformance"));
    let host = Host::settings().plugins(plugins).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:conformance:read"]).await;
    let tool = "plugin_conformance_test_tool_with_progress";
    let asking = |arguments: &Value, is_modern: bool| {
        let mut message = call(tool, arguments);
        if is_modern {
            message["params"]["_meta"]["progressToken"] = json!(7);
            return request(&key, &message);
        }
        message["params"]["_meta"] = json!({"progressToken": 7});
        key.call(Method::POST, "/api")
            .json(&message)
            .header("accept", BOTH)
            .header("mcp-protocol-version", "2025-06-18")
    };
    for is_modern in [false, true] {
        let read = asking(&json!({}), is_modern).send().await.text();
        let heard = reports(&read);
        let report =
            |done: f64, text: &str| json!({"progressToken": 7, "progress": done, "total": 100.0, "message": text});
        assert_eq!(heard, [report(0.0, "Begun"), report(50.0, "Half done"), report(100.0, "Done")], "{read}");
        assert!(read.contains("has reported its progress"), "{read}");
        // However much it says, the client gets little of it, the last too, and the number never falls.
        let began = std::time::Instant::now();
        let read = asking(&json!({"flood": 200_000}), is_modern).send().await.text();
        let most = began.elapsed().as_millis() / 100 + 2;
        let heard = reports(&read);
        assert!(!heard.is_empty() && heard.len() as u128 <= most, "{} in {most}", heard.len());
        assert_eq!(heard.last().map(|last| &last["message"]), Some(&json!("over")), "{heard:?}");
        assert!(heard.iter().all(|report| report["message"].as_str().unwrap().len() <= 1_024));
        let numbers: Vec<f64> = heard.iter().map(|report| report["progress"].as_f64().unwrap()).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    }
    // Nobody has asked, or can hear it.
    let unasked = request(&key, &call(tool, &json!({"flood": 10}))).send().await;
    assert_eq!(unasked.header("content-type"), Some("application/json"), "{unasked}");
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "_meta": {"progressToken": 7}}});
    let deaf = key.call(Method::POST, "/api").json(&message).header("accept", "application/json").send().await;
    assert!(deaf.json()["result"].is_object() && !deaf.text().contains("progressToken"), "{deaf}");
}

#[tokio::test]
async fn pictures_and_several_things_at_once_reach_a_client() {
    let echo = Package::fixture("conformance").manifest(|manifest| {
        let tools = manifest["mcp"]["tools"].as_array_mut().unwrap();
        let image = tools.iter_mut().find(|tool| tool["handler"] == "image").unwrap();
        image["output_schema"] = json!({"type": "object"});
    });
    let host = Host::settings().plugins(PluginsFolder::default().with("conformance", &echo)).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:conformance:read"]).await;
    let result = async |name: &str| {
        let answer = request(&key, &call(&format!("plugin_conformance_{name}"), &json!({}))).send().await;
        answer.json()["result"].take()
    };
    // A tool that promises an object keeps it.
    let promised = result("test_image_content").await;
    assert!(promised["isError"] == true && promised.to_string().contains("output schema"), "{promised}");
    let several = result("test_multiple_content_types").await;
    let kinds: Vec<&Value> = several["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["text", "image", "resource"], "{several}");
    assert_eq!(several.get("structuredContent"), None, "{several}");
}
