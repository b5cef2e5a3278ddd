//! What an idle MCP session costs the worker's memory.

use std::{path::Path, time::Duration};

use cardinal_tests::{Answer, Client, Host, Package, PluginsFolder, User};
use http::Method;
use serde_json::{Value, json};

/// By this name it is asked for; it takes minutes, and no baseline.
pub(crate) const NAME: &str = "memory";
const KEYS: usize = 40;
/// Fewer than one caller may have in memory: none displaces another.
const SESSIONS_PER_KEY: usize = 25;
const SESSIONS: usize = KEYS * SESSIONS_PER_KEY;
/// After so long the host holds no more of a call than it has to.
const IDLE: Duration = Duration::from_secs(90);
const REVISION: &str = "2025-06-18";
const BOTH: &str = "application/json, text/event-stream";

/// Bytes of the worker that are resident.
#[derive(Clone, Copy)]
struct Resident {
    before: u64,
    listed: u64,
    called: u64,
    idle: u64,
}

impl Resident {
    fn a_session(self, now: u64) -> f64 {
        (now as f64 - self.before as f64) / SESSIONS as f64
    }
}

/// Measures a thousand sessions, and prints it; as JSON into `file`, too.
pub(crate) async fn measure(file: Option<&Path>) {
    let plugins = PluginsFolder::default().with("quick", &Package::fixture("quick"));
    let host = Host::settings().plugins(plugins).set("API_KEY_RATE_PER_MINUTE", "100000000").start().await;
    let owner = host.owner().await;
    let mut keys = Vec::with_capacity(KEYS);
    for _ in 0..KEYS {
        keys.push(owner.key(&["mcp:use", "cards:read", "plugin:quick:write"]).await);
    }
    warm_up(owner).await;
    let resident = measured(&host, &keys).await;
    print(resident);
    if let Some(file) = file {
        let a_session = |now| resident.a_session(now);
        let json = json!({
            "sessions": SESSIONS,
            "bytes_a_session": {
                "listed": a_session(resident.listed),
                "called": a_session(resident.called),
                "idle": a_session(resident.idle),
            },
        });
        std::fs::write(file, json.to_string()).expect("the file for --json can be written");
    }
}

async fn measured(host: &Host, keys: &[User]) -> Resident {
    let resident = || host.worker_memory("VmRSS");
    tokio::time::sleep(IDLE).await; // the warm-up leaves memory, too
    let before = resident();
    let mut sessions: Vec<(&User, String)> = Vec::with_capacity(SESSIONS);
    for key in keys {
        for _ in 0..SESSIONS_PER_KEY {
            let id = begin(key).await;
            list(key, &id).await;
            sessions.push((key, id));
        }
    }
    let listed = resident();
    for (key, id) in &sessions {
        call(key, id).await;
    }
    let called = resident();
    tokio::time::sleep(IDLE).await;
    Resident { before, listed, called, idle: resident() }
}

fn print(resident: Resident) {
    println!("| {SESSIONS} MCP sessions of {KEYS} keys | bytes a session | the worker's resident memory |");
    println!("|---|--:|--:|");
    let Resident { before, listed, called, idle } = resident;
    for (when, now) in [
        ("before", before),
        ("initialized and listed", listed),
        ("after a tool call in each", called),
        ("90 s later", idle),
    ] {
        println!("| {when} | {:.0} | {:.1} MiB |", resident.a_session(now), now as f64 / f64::from(1 << 20));
    }
}

/// What the first sessions and calls make for all that follow.
async fn warm_up(owner: &User) {
    let key = owner.unlimited().await;
    for _ in 0..200 {
        let id = begin(&key).await;
        list(&key, &id).await;
        call(&key, &id).await;
        key.call(Method::DELETE, "/api").header("mcp-session-id", &id).send().await.expect(204);
    }
}

async fn begin(client: &Client) -> String {
    let about = json!({"name": "bench", "version": "1.0.0"});
    let params = json!({"protocolVersion": REVISION, "capabilities": {"elicitation": {}}, "clientInfo": about});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let answer = client.call(Method::POST, "/api").json(&message).header("accept", BOTH).send().await;
    assert_eq!(answer.status, 200, "{answer}");
    let id = answer.header("mcp-session-id").unwrap().to_owned();
    let taken = send(client, &id, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    assert_eq!(taken.status, 202, "{taken}");
    id
}

async fn list(client: &Client, id: &str) {
    let answer = send(client, id, &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await;
    assert!(answer.text().contains("plugin_quick_hello"), "{answer}");
}

async fn call(client: &Client, id: &str) {
    let params = json!({"name": "plugin_quick_hello", "arguments": {}});
    let answer = send(client, id, &json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params})).await;
    assert!(answer.status == 200 && answer.text().contains("\"result\""), "{answer}");
}

async fn send(client: &Client, id: &str, message: &Value) -> Answer {
    let call = client.call(Method::POST, "/api").json(message).header("accept", BOTH);
    call.header("mcp-session-id", id).header("mcp-protocol-version", REVISION).send().await
}
