//! Twelve idle minutes by the clock: longer than a session stays in memory, and than most proxies and clients wait.

use std::time::Duration;

use cardinal_tests::{Client, Host};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::mcp_sessions::{echo, has_tools, list, listen, read_up_to, send, session, subscribe};

const IDLE: Duration = Duration::from_secs(12 * 60);
const CHANGED: &str = "notifications/tools/list_changed";

async fn say(client: &Client, session: &str, text: &str) {
    let params = json!({"name": "plugin_echo_say", "arguments": {"text": text}});
    let message = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params});
    let said = send(client, session, &message).await;
    assert!(said.status == 200 && said.text().contains(text), "{said}");
}

/// What comes on a stream until then, which it has to outlast.
async fn heard(stream: &mut Incoming, until: Instant) -> String {
    let mut heard = String::new();
    while let Ok(frame) = timeout_at(until, stream.frame()).await {
        let frame = frame.unwrap_or_else(|| panic!("the stream ended after {heard:?}")).unwrap();
        if let Some(data) = frame.data_ref() {
            heard.push_str(std::str::from_utf8(data).unwrap());
        }
    }
    heard
}

#[tokio::test]
#[ignore = "long: scripts/test --long"]
async fn sessions_and_streams_are_there_after_twelve_idle_minutes() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let key = owner.key(&["mcp:use", "plugin:echo:read"]).await;
    let (silent, open) = (session(&key).await, session(&key).await);
    for id in [&silent, &open] {
        say(&key, id, "before").await;
    }
    let mut stream = listen(&key, &open).await;
    let (mut listener, _) = subscribe(&key, json!({"toolsListChanged": true})).await;
    let until = Instant::now() + IDLE;
    let (on_stream, by_listener) = tokio::join!(heard(&mut stream, until), heard(&mut listener, until));
    for heard in [on_stream, by_listener] {
        assert!(heard.matches(':').count() >= 40, "it lives: {heard:?}");
        assert!(!heard.contains("data: {"), "nothing has happened: {heard:?}");
    }
    assert!(has_tools(&list(&key, &silent).await));
    for id in [&silent, &open] {
        say(&key, id, "after").await;
    }
    owner.post("/v1/admin/plugin-registry/echo/disable", &Value::Null).await.expect(200);
    for stream in [&mut stream, &mut listener] {
        read_up_to(stream, CHANGED).await;
    }
    assert_eq!(list(&key, &silent).await.status, 200);
}
