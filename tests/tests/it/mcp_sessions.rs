//! Sessions of the MCP endpoint: nobody notices where they are kept, and nobody else uses them. News reach whoever's view
//! has changed.

use cardinal_tests::{Answer, Client, Host, Package, PluginsFolder, User, eventually};
use http::{Method, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

pub(super) const BOTH: &str = "application/json, text/event-stream";
pub(super) const REVISION: &str = "2025-06-18";
pub(super) const MODERN: &str = "2026-07-28";

pub(super) fn echo() -> PluginsFolder {
    PluginsFolder::default().with("echo", &Package::fixture("echo"))
}

/// With a tool that takes as long as its caller says.
pub(super) fn echo_that_sleeps() -> PluginsFolder {
    let slow = Package::fixture("echo").manifest(|manifest| {
        let tool = json!({"name": "plugin_echo_sleep", "description": "Sleeps.", "handler": "sleep"});
        manifest["mcp"]["tools"].as_array_mut().unwrap().push(tool);
    });
    PluginsFolder::default().with("echo", &slow)
}

/// Waits until the plugin has so many.
pub(super) async fn calls_under_way(owner: &Client, wanted: u64) {
    eventually("the plugin's calls under way", async || {
        let item = owner.get("/v1/admin/plugin-registry/echo").await.expect(200);
        (item["item"]["counters"]["in_flight"] == wanted).then_some(())
    })
    .await;
}

pub(super) fn kill_worker(host: &Host) {
    kill_process(Pid::from_raw(host.worker_pid()).unwrap(), Signal::KILL).unwrap();
}

async fn initialize(client: &Client) -> Answer {
    let params = json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    client.call(Method::POST, "/api").json(&message).header("accept", BOTH).send().await
}

/// A session of this client, begun in full.
pub(super) async fn session(client: &Client) -> String {
    let answer = initialize(client).await;
    assert_eq!(answer.status, 200, "{answer}");
    let id = answer.header("mcp-session-id").unwrap().to_owned();
    let taken = send(client, &id, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    assert_eq!(taken.status, 202, "{taken}");
    id
}

pub(super) async fn send(client: &Client, session: &str, message: &Value) -> Answer {
    let call = client.call(Method::POST, "/api").json(message).header("accept", BOTH);
    call.header("mcp-session-id", session).header("mcp-protocol-version", REVISION).send().await
}

pub(super) async fn list(client: &Client, session: &str) -> Answer {
    send(client, session, &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await
}

pub(super) fn has_tools(answer: &Answer) -> bool {
    answer.status == 200 && answer.text().contains("plugin_echo_say")
}

/// The stream of messages of a session.
pub(super) async fn listen(client: &Client, session: &str) -> Incoming {
    let call = client.call(Method::GET, "/api").header("accept", "text/event-stream");
    let answer = call.header("mcp-session-id", session).header("mcp-protocol-version", REVISION).open(None).await;
    let answer: Response<Incoming> = answer.unwrap();
    assert_eq!(answer.status(), 200);
    answer.into_body()
}

/// What comes until there is `end`, or until the stream ends.
pub(super) async fn read_until(body: &mut Incoming, end: &str) -> String {
    let mut read = String::new();
    let all = async {
        while !read.contains(end) {
            let Some(Ok(frame)) = body.frame().await else { break };
            if let Some(data) = frame.data_ref() {
                read.push_str(std::str::from_utf8(data).unwrap());
            }
        }
    };
    let in_time = tokio::time::timeout(std::time::Duration::from_secs(60), all).await.is_ok();
    assert!(in_time, "nothing with {end:?} came, only {read:?}");
    read
}

/// The same for what has to come: a stream that ends before it fails.
pub(super) async fn read_up_to(body: &mut Incoming, end: &str) -> String {
    let read = read_until(body, end).await;
    assert!(read.contains(end), "the stream ended with {read:?}");
    read
}

const CHANGED: &str = "notifications/tools/list_changed";

#[tokio::test]
async fn a_client_that_never_ends_its_sessions_always_gets_another() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let (key, other) = (owner.unlimited().await, owner.key(&["mcp:use", "plugin:echo:read"]).await);
    let (first, others) = (session(&key).await, session(&other).await);
    for _ in 0..100 {
        session(&key).await;
    }
    let answers = [list(&key, &first).await, list(&other, &others).await];
    assert!(answers.iter().all(has_tools), "{answers:?}");
}

#[tokio::test]
async fn a_session_outlives_the_worker() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let (key, stranger) = (owner.key(&["mcp:use", "plugin:echo:read"]).await, owner.key(&["mcp:use"]).await);
    let id = session(&key).await;
    let mut stream = listen(&key, &id).await;
    kill_worker(&host);
    read_until(&mut stream, "there is no such event").await;
    host.ready_again().await;
    // Each with an id of its own: the protocol library answers one alone of several with the same.
    let list_as = async |number: i64| {
        let message = json!({"jsonrpc": "2.0", "id": number, "method": "tools/list"});
        send(&key, &id, &message).await
    };
    let answers = tokio::join!(list_as(2), list_as(3), list_as(4));
    assert!([&answers.0, &answers.1, &answers.2].into_iter().all(has_tools), "{answers:?}");
    let said = json!({"name": "plugin_echo_say", "arguments": {"text": "still here"}});
    let said = send(&key, &id, &json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": said})).await;
    assert!(said.text().contains("still here"), "{said}");
    assert_eq!(list(&stranger, &id).await.status, 404);
    // Its client, too, may be slow to begin.
    let late = initialize(&key).await.header("mcp-session-id").unwrap().to_owned();
    kill_worker(&host);
    host.ready_again().await;
    let begun = send(&key, &late, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    assert_eq!(begun.status, 202, "{begun}");
    assert!(has_tools(&list(&key, &late).await));
    // The newest revision has no session that could be lost.
    let message = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/list", "params": {"_meta": meta()}});
    assert!(has_tools(&modern(&key, "tools/list", &message).send().await));
}

#[tokio::test]
async fn a_session_is_good_at_every_host_of_the_database() {
    let one = Host::settings().plugins(echo()).start().await;
    let key = one.owner().await.key(&["mcp:use", "plugin:echo:read"]).await;
    let id = session(&key).await;
    let other = one.beside().plugins(echo()).start().await;
    assert!(has_tools(&list(&other.client().bearer(&key.token), &id).await));
    assert!(has_tools(&list(&key, &id).await));
}

#[tokio::test]
async fn a_session_is_its_owners_alone_and_over_when_its_client_ends_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (key, stranger) = (owner.key(&["mcp:use"]).await, owner.key(&["mcp:use"]).await);
    let id = session(&key).await;
    for (client, id) in [(&stranger, id.as_str()), (&key, "made-up"), (&stranger, "v1.00000000.AAAA")] {
        let refused = list(client, id).await;
        let error = refused.json();
        assert_eq!((refused.status.as_u16(), &error["id"]), (404, &json!(2)), "{refused}");
        assert_eq!(error["error"]["code"], -32001, "{refused}");
        for method in [Method::GET, Method::DELETE] {
            let call = client.call(method, "/api").header("accept", "text/event-stream");
            call.header("mcp-session-id", id).send().await.refused(404, "not-found");
        }
    }
    // Who logs in anew is the same owner.
    let login = owner.make_user("editor").await;
    let own = session(&login).await;
    let again = User::log_in(&host.client(), &login.username, cardinal_tests::PASSWORD).await;
    assert_eq!(list(&again, &own).await.status, 200);
    assert_eq!(list(&key, &id).await.status, 200);
    let ended = key.call(Method::DELETE, "/api").header("mcp-session-id", &id).send().await;
    assert_eq!(ended.status, 204, "{ended}");
    assert_eq!(list(&key, &id).await.status, 404);
    // A client that has lost its session may still name it when it begins another.
    let begun = json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let begun = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begun});
    let begun = send(&key, &id, &begun).await;
    assert!(begun.status == 200 && begun.header("mcp-session-id").unwrap() != id, "{begun}");
}

pub(super) async fn rescan(owner: &User) {
    owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
}

#[tokio::test]
async fn a_client_hears_of_tools_when_its_own_view_changes_and_once() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let made = owner.make_key(json!({"name": "a", "scopes": ["mcp:use", "plugin:echo:read"]})).await;
    let key = host.client().bearer(made["key"].as_str().unwrap());
    let blinded = owner.make_key(json!({"name": "b", "scopes": ["mcp:use"]})).await;
    let blind = host.client().bearer(blinded["key"].as_str().unwrap());
    let (id, blinds) = (session(&key).await, session(&blind).await);
    let (mut stream, mut blind_stream) = (listen(&key, &id).await, listen(&blind, &blinds).await);
    // The same tools again, loaded anew.
    owner.post("/v1/admin/plugin-registry/echo/disable", &Value::Null).await.expect(200);
    read_up_to(&mut stream, CHANGED).await;
    owner.post("/v1/admin/plugin-registry/echo/enable", &Value::Null).await.expect(200);
    read_up_to(&mut stream, CHANGED).await;
    assert!(has_tools(&list(&key, &id).await), "they are back");
    // Another key's scopes are its own business; these are this one's.
    let path = format!("/v1/admin/api-keys/{}", made["item"]["id"].as_str().unwrap());
    owner.patch(&path, &json!({"scopes": ["mcp:use", "plugin:echo:write"]})).await.expect(200);
    read_up_to(&mut stream, CHANGED).await;
    owner.delete(&path).await;
    let last = read_until(&mut stream, "there is no such event").await;
    assert!(!last.contains(CHANGED), "{last:?}");
    // Whoever sees no plugin has heard nothing of all this; its stream ends with its key, too.
    owner.delete(&format!("/v1/admin/api-keys/{}", blinded["item"]["id"].as_str().unwrap())).await;
    let heard = read_until(&mut blind_stream, "there is no such event").await;
    assert!(!heard.contains(CHANGED), "{heard:?}");
}

#[tokio::test]
async fn the_same_tools_loaded_anew_are_no_news() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let key = owner.key(&["mcp:use", "plugin:echo:read"]).await;
    let id = session(&key).await;
    let mut stream = listen(&key, &id).await;
    host.plugins().put("echo", &Package::fixture("echo").version("1.0.9"));
    rescan(owner).await;
    eventually("the other version serves", async || {
        let item = owner.get("/v1/admin/plugin-registry/echo").await.expect(200);
        (item["item"]["version"] == "1.0.9").then_some(())
    })
    .await;
    assert!(has_tools(&list(&key, &id).await));
    host.plugins().put("quick", &Package::fixture("quick"));
    rescan(owner).await;
    owner.get("/v1/admin/plugin-registry/quick").await.expect(200);
    owner.post("/v1/admin/plugin-registry/echo/disable", &Value::Null).await.expect(200);
    let heard = read_up_to(&mut stream, CHANGED).await;
    assert_eq!(heard.matches(CHANGED).count(), 1, "{heard:?}");
}

#[tokio::test]
async fn streams_that_are_one_too_many_stay_away_for_longer_each_time() {
    let host = Host::settings().plugins(echo()).start().await;
    let key = host.owner().await.unlimited().await;
    let first = session(&key).await;
    let mut displaced = listen(&key, &first).await;
    let mut others = Vec::new();
    for _ in 0..32 {
        let id = session(&key).await;
        others.push(listen(&key, &id).await);
    }
    let last = read_until(&mut displaced, "there is no such event").await;
    assert!(last.ends_with("retry: 10000\n\n"), "{last:?}");
    assert!(has_tools(&list(&key, &first).await), "its calls are answered all the same");
    let again = key.call(Method::GET, "/api").header("accept", "text/event-stream");
    let again = again.header("mcp-session-id", &first).header("mcp-protocol-version", REVISION).send().await;
    again.refused(429, "rate-limited");
    assert!((1..=10).contains(&again.header("retry-after").unwrap().parse::<u32>().unwrap()), "{again}");
}

#[tokio::test]
async fn a_session_of_each_older_revision_lists_and_calls() {
    let host = Host::settings().plugins(echo()).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:echo:read"]).await;
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2023-01-01", "2025-11-25"),
    ] {
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let begun = key.call(Method::POST, "/api").json(&message).header("accept", BOTH).send().await;
        assert!(begun.text().contains(&format!("\"protocolVersion\":\"{agreed}\"")), "{asked}: {begun}");
        let id = begun.header("mcp-session-id").unwrap().to_owned();
        let send = async |message: Value| {
            let call = key.call(Method::POST, "/api").json(&message).header("accept", BOTH);
            call.header("mcp-session-id", &id).header("mcp-protocol-version", agreed).send().await
        };
        assert_eq!(send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.status, 202);
        assert!(has_tools(&send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await), "{asked}");
        let params = json!({"name": "plugin_echo_say", "arguments": {"text": "hello"}});
        let said = send(json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params})).await;
        assert!(said.status == 200 && said.text().contains("hello"), "{asked}: {said}");
        // Older clients read the data of each event as a message.
        let text = said.text();
        let mut data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        assert_eq!(data.any(|data| data.trim().is_empty()), agreed == "2025-11-25", "{asked}: {said}");
    }
}

#[tokio::test]
async fn a_client_that_cancels_a_call_of_its_session_ends_it() {
    let host = Host::settings().plugins(echo_that_sleeps()).start().await;
    let owner = host.owner().await;
    let key = owner.key(&["mcp:use", "plugin:echo:read"]).await;
    let id = session(&key).await;
    let in_flight = async |wanted| calls_under_way(owner, wanted).await;
    let params = json!({"name": "plugin_echo_sleep", "arguments": {"ms": 600_000}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let cancel = async {
        in_flight(1).await;
        let params = json!({"requestId": 7, "reason": "enough"});
        send(&key, &id, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await
    };
    let call = key.call(Method::POST, "/api").json(&call).header("accept", BOTH);
    let call = call.header("mcp-session-id", &id).header("mcp-protocol-version", REVISION);
    let _stream = tokio::join!(call.open(None), cancel).0.unwrap();
    in_flight(0).await;
    eventually("the plugin's line", async || host.log().contains("dropped before its end").then_some(())).await;
    let page = owner.get("/v1/admin/audit?action=tool.call&target=plugin_echo_sleep").await.expect(200);
    assert_eq!(page["items"][0]["detail"]["result"], "cancelled", "{page}");
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn modern(client: &Client, method: &str, message: &Value) -> cardinal_tests::Call {
    let call = client.call(Method::POST, "/api").json(message).header("accept", BOTH);
    call.header("mcp-protocol-version", MODERN).header("mcp-method", method)
}

/// A listener of the newest revision for these notifications; its stream, and what was acknowledged.
pub(super) async fn subscribe(client: &Client, wanted: Value) -> (Incoming, String) {
    let params = json!({"notifications": wanted, "_meta": meta()});
    let message = json!({"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": params});
    let answer = modern(client, "subscriptions/listen", &message).open(None).await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut stream = answer.into_body();
    let acknowledged = read_up_to(&mut stream, "acknowledged").await;
    (stream, acknowledged)
}

#[tokio::test]
async fn a_listener_of_the_newest_revision_hears_news_and_gets_its_result_at_the_end() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let key = owner.key(&["mcp:use", "plugin:echo:read"]).await;
    let (mut stream, _) = subscribe(&key, json!({"toolsListChanged": true})).await;
    owner.post("/v1/admin/plugin-registry/echo/disable", &Value::Null).await.expect(200);
    read_up_to(&mut stream, CHANGED).await;
    let (_host, last) = tokio::join!(host.restart(|settings| settings), read_up_to(&mut stream, "\"result\""));
    assert!(last.contains("\"id\":9"), "{last:?}");
}

#[tokio::test]
async fn a_listener_hears_what_becomes_of_its_key_and_no_more() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let made = owner.make_key(json!({"name": "l", "scopes": ["mcp:use", "plugin:echo:write"]})).await;
    let key = host.client().bearer(made["key"].as_str().unwrap());
    let path = format!("/v1/admin/api-keys/{}", made["item"]["id"].as_str().unwrap());
    let (mut stream, _) = subscribe(&key, json!({"toolsListChanged": true})).await;
    owner.patch(&path, &json!({"scopes": ["mcp:use", "plugin:echo:read"]})).await.expect(200);
    read_up_to(&mut stream, CHANGED).await;
    // Another name changes nothing that it sees; losing MCP ends it.
    owner.patch(&path, &json!({"name": "other"})).await.expect(200);
    owner.patch(&path, &json!({"scopes": ["plugin:echo:read"]})).await.expect(200);
    let last = read_up_to(&mut stream, "\"result\"").await;
    assert!(!last.contains(CHANGED), "{last:?}");
}
