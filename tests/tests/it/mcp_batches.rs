//! Several messages in one POST, as revision 2025-03-26 has them.

use cardinal_tests::{Answer, Call, Host, Package, PluginsFolder, User};
use http::Method;
use serde_json::{Value, json};

const BOTH: &str = "application/json, text/event-stream";
const WITH_BATCHES: &str = "2025-03-26";

fn echo() -> PluginsFolder {
    PluginsFolder::default().with("echo", &Package::fixture("echo"))
}

fn say(id: u32, text: &str) -> Value {
    let params = json!({"name": "plugin_echo_say", "arguments": {"text": text}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn ask(id: u32, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method})
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

fn post(key: &User, message: &Value) -> Call {
    key.call(Method::POST, "/api").json(message).header("accept", BOTH)
}

/// The id of a new session.
async fn session(key: &User, revision: &str) -> String {
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    post(key, &message).send().await.header("mcp-session-id").unwrap().to_owned()
}

/// The answers of a stream of events or of an array, ordered by their ids.
fn answers(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{answer}");
    let mut answers: Vec<Value> = match answer.header("content-type") {
        Some("application/json") => serde_json::from_str(&answer.text()).unwrap(),
        Some("text/event-stream") => {
            let text = answer.text();
            let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty());
            data.map(|data| serde_json::from_str(data).unwrap()).collect()
        }
        _ => panic!("{answer}"),
    };
    answers.sort_by_key(|answer| answer["id"].as_u64());
    answers
}

fn code(answer: &Value) -> Option<i64> {
    answer["error"]["code"].as_i64()
}

#[tokio::test]
async fn each_message_of_a_batch_is_answered_as_if_it_came_by_itself() {
    let host = Host::settings().plugins(echo()).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:echo:read"]).await;
    let id = session(&key, WITH_BATCHES).await;
    let send = async |batch: Value| post(&key, &batch).header("mcp-session-id", &id).send().await;
    assert_eq!(send(json!([initialized(), initialized()])).await.status, 202);

    let listed = send(json!([initialized(), ask(1, "tools/list"), ask(2, "ping"), ask(3, "no/such")])).await;
    assert_eq!(listed.header("content-type"), Some("application/json"), "{listed}");
    let listed = answers(&listed);
    assert!(listed.len() == 3 && listed[0]["result"]["tools"][0]["name"].is_string(), "{listed:?}");
    assert!(listed[1]["result"].is_object() && code(&listed[2]) == Some(-32601), "{listed:?}");

    // Calls of a session are answered on streams, which become one.
    let called = answers(&send(json!([say(4, "four"), ask(5, "ping"), say(6, "six")])).await);
    assert_eq!(called.len(), 3, "{called:?}");
    for (answer, text) in [(&called[0], "four"), (&called[2], "six")] {
        assert!(answer["result"].to_string().contains(text), "{called:?}");
    }

    let wrong =
        json!([{"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {}}, 5, [ask(8, "ping")], ask(9, "ping")]);
    let wrong = answers(&send(wrong).await);
    assert_eq!(wrong.iter().filter(|answer| code(answer) == Some(-32600)).count(), 2, "{wrong:?}");
    assert!(wrong.iter().any(|answer| answer["id"] == 7 && code(answer).is_some()), "{wrong:?}");
    assert!(wrong.iter().any(|answer| answer["id"] == 9 && answer["result"].is_object()), "{wrong:?}");
}

#[tokio::test]
async fn a_script_without_a_handshake_may_send_one() {
    let host = Host::settings().plugins(echo()).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:echo:read"]).await;
    let sent = post(&key, &json!([say(1, "one"), say(2, "two")])).send().await;
    assert_eq!(sent.header("content-type"), Some("application/json"), "{sent}");
    let sent = answers(&sent);
    assert!(sent[0]["result"].to_string().contains("one") && sent[1]["result"].to_string().contains("two"), "{sent:?}");
}

#[tokio::test]
async fn what_may_be_no_batch_is_refused_whole() {
    let host = Host::settings().plugins(echo()).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:echo:read"]).await;
    let pings = |count: u32| Value::from_iter((0..count).map(|id| ask(id, "ping")));
    let refused = |answer: &Answer, wanted: &str| {
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status.as_u16(), error["code"].as_i64()), (400, Some(-32600)), "{answer}");
        assert!(error["message"].as_str().unwrap().contains(wanted), "{answer}");
    };
    for revision in ["2025-06-18", "2025-11-25"] {
        let id = session(&key, revision).await;
        refused(&post(&key, &pings(2)).header("mcp-session-id", &id).send().await, "only revision 2025-03-26");
        refused(&post(&key, &pings(2)).header("mcp-protocol-version", revision).send().await, "only revision");
    }
    refused(&post(&key, &json!([])).send().await, "empty");
    refused(&post(&key, &pings(51)).send().await, "at most 50");
    assert_eq!(answers(&post(&key, &pings(50)).send().await).len(), 50);
    let stranger = post(&key, &pings(2)).header("mcp-session-id", "none").send().await;
    assert_eq!((stranger.status.as_u16(), code(&stranger.json())), (404, Some(-32001)), "{stranger}");
}

#[tokio::test]
async fn a_batch_costs_what_its_messages_cost() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let limit = json!({"per_minute": 1, "burst": 3});
    let made = owner.make_key(json!({"name": "limited", "scopes": ["mcp:use"], "rate_limit": limit})).await;
    let key = host.client().bearer(made["key"].as_str().unwrap());
    let batch = json!([ask(1, "ping"), ask(2, "ping"), ask(3, "ping"), ask(4, "ping"), initialized()]);
    let sent = answers(&key.call(Method::POST, "/api").json(&batch).header("accept", BOTH).send().await);
    assert_eq!(sent.iter().filter(|answer| answer["result"].is_object()).count(), 3, "{sent:?}");
    assert!(sent[3]["error"]["message"].as_str().unwrap().starts_with("rate-limited: "), "{sent:?}");
    assert_eq!(sent.len(), 4, "{sent:?}");
}
