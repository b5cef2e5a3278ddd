//! Limits of single tools, and what a client hears of when to call again.

use cardinal_tests::{Host, Package, PluginsFolder, User, eventually, unique};
use http::Method;
use serde_json::{Value, json};

use super::mcp_confirmation::{APPROVALS, approval_path, decide, modern, result, session, text};

const REVISION: &str = "2025-06-18";

/// The fixture `echo` whose tool `say` may be called `per_minute` times by one caller.
fn limited(per_minute: u32) -> PluginsFolder {
    let echo = Package::fixture("echo").manifest(|manifest| {
        let tools = manifest["mcp"]["tools"].as_array_mut().unwrap();
        tools[0]["rate_limit"] = json!({"per_minute": per_minute, "burst": per_minute});
        tools[2]["rate_limit"] = json!({"per_minute": 1, "burst": 1});
    });
    PluginsFolder::default().with("echo", &echo)
}

fn say(arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "plugin_echo_say", "arguments": arguments}})
}

async fn send(caller: &User, path: &str, session: Option<&str>, message: &Value) -> Value {
    let call = caller.call(Method::POST, path).json(message).header("accept", "application/json, text/event-stream");
    let call = match session {
        Some(session) => call.header("mcp-session-id", session).header("mcp-protocol-version", REVISION),
        None => call,
    };
    result(&call.send().await)
}

#[track_caller]
fn ran(result: &Value) {
    assert_ne!(result["isError"], true, "{result}");
}

/// Seconds after which the client may call again.
#[track_caller]
fn limited_for(result: &Value) -> u64 {
    assert!(result["isError"] == true && text(result).starts_with("rate-limited: "), "{result}");
    let retry = &result["_meta"]["cardinal/retry"];
    assert_eq!((&retry["code"], &result["structuredContent"]), (&json!("rate-limited"), retry), "{result}");
    let seconds = retry["retry_after_seconds"].as_u64().unwrap_or_else(|| panic!("{result}"));
    assert!(text(result).contains(&format!("Try again in {seconds} s.")), "{result}");
    seconds
}

#[tokio::test]
async fn a_caller_has_so_many_calls_of_a_tool_whatever_way_it_calls() {
    let host = Host::settings().plugins(limited(3)).start().await;
    let owner = host.owner().await;
    let key = owner.key(&["mcp:use", "plugin:echo:read"]).await;
    let of_session = session(&key, &json!({})).await;
    let hello = say(json!({"text": "hello"}));
    // Arguments that are wrong never reach the plugin.
    for _ in 0..4 {
        assert!(text(&send(&key, "/api", None, &say(json!({}))).await).starts_with("The arguments are not valid"));
    }
    ran(&send(&key, "/api", None, &hello).await);
    ran(&send(&key, "/api", Some(&of_session), &hello).await);
    let found = json!({"name": "plugin_echo_say", "arguments": {"text": "hello"}});
    let found = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "tools_call", "arguments": found}});
    ran(&send(&key, "/api?search=true", None, &found).await);
    for (path, session, message) in
        [("/api", None, &hello), ("/api", Some(&*of_session), &hello), ("/api?search=true", None, &found)]
    {
        let seconds = limited_for(&send(&key, path, session, message).await);
        assert!((1..=20).contains(&seconds), "a call each 20 s: {seconds}");
    }
    let repeat = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "plugin_echo_repeat"}});
    ran(&send(&key, "/api", None, &repeat).await);
    let other = owner.key(&["mcp:use", "plugin:echo:read"]).await;
    ran(&send(&other, "/api", None, &hello).await);
    let page = owner.get("/v1/admin/audit?action=tool.call&limit=50").await.expect(200);
    let limited: Vec<&Value> =
        page["items"].as_array().unwrap().iter().filter(|line| line["detail"]["result"] == "rate-limited").collect();
    assert!(limited.len() == 3 && limited.iter().all(|line| line["outcome"] == "refused"), "{page}");
}

#[tokio::test]
async fn a_call_that_is_only_asked_about_costs_nothing() {
    let host = Host::settings().plugins(limited(1)).start().await;
    let owner = host.owner().await;
    let key = owner.key(&["mcp:use", "plugin:echo:write"]).await;
    let card = owner.card(&unique("limited")).await["id"].take();
    let can_ask = json!({"elicitation": {}});
    let enrich = async |note: &str| modern(&key, &can_ask, &json!({"card_id": card, "note": note}), &json!({})).await;
    for _ in 0..2 {
        let asked = enrich("one").await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    }
    let waiting = owner.get(&format!("{APPROVALS}?limit=1")).await.expect(200)["items"][0].take();
    decide(owner, &approval_path(&waiting), "approve").await.expect(200);
    ran(&enrich("one").await["result"]);
    // What has run counts; nobody is asked about what would be refused then.
    limited_for(&enrich("two").await["result"]);
}

#[tokio::test]
async fn a_full_plugin_says_when_to_call_again() {
    let echo = Package::fixture("echo").manifest(|manifest| manifest["limits"] = json!({"max_concurrency": 1}));
    let host = Host::settings().plugins(PluginsFolder::default().with("echo", &echo)).start().await;
    let owner = host.owner().await;
    let key = owner.key(&["mcp:use", "plugin:echo:read"]).await;
    let refused = eventually("the plugin is full", async || {
        let answered = send(&key, "/api", None, &say(json!({"text": "hello"}))).await;
        (answered["isError"] == true).then_some(answered)
    });
    // One of the calls above may have its place at the moment in which this one comes.
    let hold = async {
        loop {
            owner.get("/v1/admin/plugins/echo/sleep?ms=60000").await.refused(503, "plugin-unavailable");
        }
    };
    let refused = tokio::select! {
        refused = refused => refused,
        () = hold => unreachable!("it ends with the test"),
    };
    assert!(text(&refused).starts_with("plugin-unavailable"), "{refused}");
    let retry = &refused["_meta"]["cardinal/retry"];
    assert!(retry["code"] == "plugin-unavailable" && retry["retry_after_seconds"].as_u64() > Some(0), "{refused}");
}
