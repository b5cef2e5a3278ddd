//! Messages that no client should send: each is answered, and none gets what it would not have got otherwise.

use cardinal_tests::{Answer, Client, Host, eventually};
use http::Method;
use serde_json::{Value, json};

use super::mcp_sessions::{BOTH, MODERN, REVISION, calls_under_way, echo, echo_that_sleeps, list, send, session};

const REVISION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

fn initialize(revision: &Value) -> Value {
    let params = json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        "_meta": {REVISION_KEY: revision}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

async fn post(client: &Client, message: &Value) -> Answer {
    client.call(Method::POST, "/api").json(message).header("accept", BOTH).send().await
}

#[tokio::test]
async fn a_handshake_that_names_a_revision_without_one_begins_nothing() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let (key, stranger) =
        (owner.key(&["mcp:use", "plugin:echo:read"]).await, owner.key(&["mcp:use", "plugin:echo:read"]).await);
    for revision in [json!(MODERN), json!("2999-01-01"), json!(7)] {
        let answer = post(&key, &initialize(&revision)).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (404, &json!(-32601)), "{answer}");
        assert_eq!(answer.header("mcp-session-id"), None, "{answer}");
    }
    // One that names the revision of its own handshake begins a session as ever: its owner's alone, which it can end.
    let begun = post(&key, &initialize(&json!(REVISION))).await;
    let id = begun.header("mcp-session-id").unwrap_or_else(|| panic!("{begun}")).to_owned();
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "plugin_echo_say", "arguments": {"text": "hello"}, "_meta": {REVISION_KEY: REVISION}}});
    assert!(send(&key, &id, &call).await.text().contains("hello"));
    for client in [&stranger, owner] {
        assert_eq!(send(client, &id, &call).await.status, 404);
    }
    let ended = key.call(Method::DELETE, "/api").header("mcp-session-id", &id).send().await;
    assert_eq!(ended.status, 204, "{ended}");
    assert_eq!(send(&key, &id, &call).await.status, 404);
}

#[tokio::test]
async fn the_newest_revision_has_neither_streams_nor_sessions_to_end() {
    let host = Host::settings().plugins(echo()).start().await;
    let key = host.owner().await.key(&["mcp:use"]).await;
    for (method, path) in [(Method::GET, "/api"), (Method::GET, "/api/mcp"), (Method::DELETE, "/api")] {
        let call = key.call(method, path).header("mcp-protocol-version", MODERN).header("accept", BOTH);
        let answer = call.send().await;
        answer.refused(405, "method-not-allowed");
        assert_eq!(answer.header("allow"), Some("POST"), "{answer}");
    }
}

#[tokio::test]
async fn a_session_has_one_call_at_a_time_of_one_id() {
    let host = Host::settings().plugins(echo_that_sleeps()).start().await;
    let owner = host.owner().await;
    let key = owner.key(&["mcp:use", "plugin:echo:read"]).await;
    let (id, sibling) = (session(&key).await, session(&key).await);
    let call = |ms: u64, number: Value| {
        let params = json!({"name": "plugin_echo_sleep", "arguments": {"ms": ms}});
        json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    };
    let under_way = async |wanted| calls_under_way(owner, wanted).await;
    let refused = |answer: Answer| {
        let error = answer.json();
        assert_eq!((answer.status.as_u16(), &error["id"]), (400, &json!(7)), "{answer}");
        assert_eq!(error["error"]["code"], -32600, "{answer}");
    };
    let (long, quick) = (call(600_000, json!(7)), call(1, json!(7)));
    let first = key.call(Method::POST, "/api").json(&long).header("accept", BOTH);
    let first = first.header("mcp-session-id", &id).header("mcp-protocol-version", REVISION);
    let stream = tokio::join!(first.open(None), under_way(1)).0.unwrap();
    refused(send(&key, &id, &quick).await);
    // Neither another id, though it looks the same, nor another session has to wait.
    assert!(send(&key, &id, &call(1, json!("7"))).await.text().contains("slept_ms"));
    assert!(send(&key, &sibling, &quick).await.text().contains("slept_ms"));
    // A client that has left has not ended its call.
    drop(stream);
    refused(send(&key, &id, &quick).await);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    assert_eq!(send(&key, &id, &cancel).await.status, 202);
    under_way(0).await;
    eventually("the id is free again", async || {
        let answer = send(&key, &id, &quick).await;
        answer.text().contains("slept_ms").then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_some_clients_write_is_taken_and_what_cannot_be_read_names_its_request() {
    let host = Host::shared().await;
    let key = host.owner().await.key(&["mcp:use", "cards:read"]).await;
    let id = session(&key).await;
    for method in ["ping", "tools/list", "resources/list"] {
        let message = json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": null});
        for answer in [post(&key, &message).await, send(&key, &id, &message).await] {
            assert!(answer.status == 200 && answer.json()["result"].is_object(), "{method}: {answer}");
        }
    }
    for (body, code, named) in [
        (r#"{"jsonrpc":"2.0","id":3,"method":""}"#, -32600, json!(3)),
        (r#"{"jsonrpc":"2.0","id":3,"method":"ping","method":"ping"}"#, -32600, json!(3)),
        (r#"{"jsonrpc":"2.0","id":3,"method":"ping","result":{}}"#, -32600, json!(3)),
        (r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":{"_meta":7}}"#, -32602, json!(3)),
        (r#"{"jsonrpc":"2.0","id":"three","method":"ping","params":{"a":"\ud800"}}"#, -32602, json!("three")),
    ] {
        for id in [None, Some(id.as_str())] {
            let call = key.call(Method::POST, "/api").body("application/json", body.to_owned()).header("accept", BOTH);
            let call = match id {
                Some(id) => call.header("mcp-session-id", id),
                None => call,
            };
            let answer = call.send().await;
            let error = answer.json();
            assert_eq!((answer.status.as_u16(), &error["id"]), (400, &named), "{body}: {answer}");
            assert_eq!(error["error"]["code"], code, "{body}: {answer}");
        }
    }
    assert_eq!(list(&key, &id).await.status, 200, "the session goes on");
}
