//! Calls by the short way get the same bytes, and leave the same record, as the same calls by the protocol library.

use cardinal_tests::{Answer, Client, Host, Package, PluginsFolder, User, eventually, unique};
use http::Method;
use serde_json::{Value, json};

use super::mcp_sessions::{BOTH, MODERN, echo_that_sleeps};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"tester","version":"7.1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"},"#;
/// What the protocol library does not mind, and the short way does not take.
const ASIDE: &str = r#""aside":1,"#;

/// Calls, by their ids, tools and arguments.
const CALLS: &[(&str, &str, Option<&str>)] = &[
    ("1", "plugin_echo_say", Some(r#"{"text":"hello"}"#)),
    ("-7", "plugin_echo_say", Some(r#"{"text":"a\u0000\u00fc\ud83d\ude00</b>\n"}"#)),
    (r#""\"\u00fc\"""#, "plugin_echo_say", Some(r#"{"text":7}"#)),
    ("9223372036854775807", "plugin_echo_say", None),
    (r#""""#, "plugin_echo_repeat", None),
    ("2", "plugin_echo_repeat", Some("null")),
    ("2", "plugin_echo_repeat", Some("{}")),
    ("2", "plugin_echo_repeat", Some(r#"{ "b": [1, 2.5, -0, {"c": null}], "a" : "x", "b2": true }"#)),
    ("2", "plugin_echo_repeat", Some(r#"{"twice":1,"twice":2}"#)),
    ("2", "plugin_echo_repeat", Some(r#"{"n":18446744073709551616.25}"#)),
    ("2", "plugin_echo_repeat", Some(r#"{"n":1e400}"#)),
    ("2", "plugin_echo_repeat", Some("7")),
    ("1.0", "plugin_echo_repeat", Some("{}")),
    ("2", "plugin_echo_enrich", Some(r#"{"card_id":"none"}"#)),
    ("2", "plugin_echo_nothing", Some("{}")),
    ("2", "tools_call", Some("{}")),
    ("2", "cards_search", Some(r#"{"q":"no such card"}"#)),
    ("2", "cards_search", Some(r#"{"limit":-1}"#)),
    ("2", "plugin_conformance_test_simple_text", None),
    ("2", "plugin_conformance_test_image_content", None),
    ("2", "plugin_conformance_test_audio_content", None),
    ("2", "plugin_conformance_test_embedded_resource", None),
    ("2", "plugin_conformance_test_multiple_content_types", None),
    ("2", "plugin_conformance_test_error_handling", None),
    ("2", "plugin_conformance_test_custom_header", Some(r#"{"region":"x"}"#)),
];

fn message(id: &str, name: &str, arguments: Option<&str>, more: &str) -> String {
    let arguments = arguments.map(|text| format!(r#","arguments":{text}"#)).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{more}"name":"{name}"{arguments}}}}}"#)
}

fn request(client: &Client, name: &str, revision: Option<&str>, accept: &str, body: String) -> cardinal_tests::Call {
    let call = client.call(Method::POST, "/api").body("application/json", body).header("accept", accept);
    match revision {
        Some(MODERN) => {
            call.header("mcp-protocol-version", MODERN).header("mcp-method", "tools/call").header("mcp-name", name)
        }
        Some(revision) => call.header("mcp-protocol-version", revision),
        None => call,
    }
}

fn seen(answer: &Answer) -> (u16, Option<&str>, String) {
    (answer.status.as_u16(), answer.header("content-type"), answer.text())
}

fn plugins() -> PluginsFolder {
    let conformance = Package::fixture("conformance");
    PluginsFolder::default().with("echo", &Package::fixture("echo")).with("conformance", &conformance)
}

/// A key that may call all of these, and what the audit log knows it by.
async fn caller(host: &Host) -> (Client, String) {
    let scopes = json!(["mcp:use", "cards:read", "plugin:echo:write", "plugin:conformance:write"]);
    let made =
        host.owner().await.make_key(json!({"name": unique("plain"), "scopes": scopes, "rate_limit": null})).await;
    (host.client().bearer(made["key"].as_str().unwrap()), made["item"]["id"].as_str().unwrap().to_owned())
}

/// The records of this key's calls, oldest first, without what differs from call to call.
async fn records(owner: &User, key: &str, count: usize) -> Vec<Value> {
    let path = format!("/v1/admin/audit?action=tool.call&limit=200&actor={key}");
    let mut lines = eventually("the calls are in the audit log", async || {
        let mut lines = owner.get(&path).await.expect(200)["items"].as_array().unwrap().clone();
        lines.retain(|line| line["outcome"] != "refused");
        (lines.len() >= count).then_some(lines)
    })
    .await;
    lines.sort_by_key(|line| line["request_id"].to_string());
    let kept = |line: &Value| {
        json!([
            line["target"],
            line["outcome"],
            line["detail"]["arguments_sha256"],
            line["detail"]["client"],
            line["detail"]["result"],
            line["ip"]
        ])
    };
    lines.iter().map(kept).collect()
}

#[tokio::test]
async fn both_ways_give_the_same_bytes_and_the_same_record() {
    let host = Host::settings().plugins(plugins()).start().await;
    let owner = host.owner().await;
    for (revision, meta) in [(Some(MODERN), META), (None, ""), (Some("2025-03-26"), ""), (Some("2025-11-25"), "")] {
        let ((short, short_id), (long, long_id)) = (caller(&host).await, caller(&host).await);
        let mut count = 0;
        for (number, (id, name, arguments)) in CALLS.iter().enumerate() {
            for accept in [BOTH, "*/*", "application/json"] {
                let named = format!("{number:03}-{}", accept.len());
                let body = message(id, name, *arguments, meta);
                let plain = request(&short, name, revision, accept, body.clone()).header("x-request-id", &named);
                let aside = message(id, name, *arguments, &format!("{ASIDE}{meta}"));
                let other = request(&long, name, revision, accept, aside).header("x-request-id", &named);
                let (plain, other) = (plain.send().await, other.send().await);
                assert_eq!(seen(&plain), seen(&other), "{revision:?} {accept} {body}");
                count += usize::from(plain.json()["result"].is_object());
                let length = plain.text().len().to_string();
                assert_eq!(plain.header("content-length"), Some(&*length), "{plain}");
            }
        }
        let (by_short, by_long) = (records(owner, &short_id, count).await, records(owner, &long_id, count).await);
        assert_eq!(by_short.len(), count, "{by_short:?}");
        assert_eq!(by_short, by_long, "{revision:?}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_a_record() {
    let host = Host::settings().plugins(echo_that_sleeps()).start().await;
    let made =
        host.owner().await.make_key(json!({"name": unique("left"), "scopes": ["mcp:use", "plugin:echo:read"]})).await;
    let key = host.client().bearer(made["key"].as_str().unwrap());
    let body = message("1", "plugin_echo_sleep", Some(r#"{"ms":60000}"#), META);
    let waiting = tokio::spawn(request(&key, "plugin_echo_sleep", Some(MODERN), BOTH, body).send());
    let owner = host.owner().await;
    eventually("the call runs", async || {
        let metrics = owner.get("/metrics").await.text();
        let calls = metrics.lines().find(|line| line.starts_with("cardinal_plugin_calls_in_flight{plugin=\"echo\""))?;
        calls.ends_with(" 1").then_some(())
    })
    .await;
    waiting.abort();
    let path = format!("/v1/admin/audit?action=tool.call&actor={}", made["item"]["id"].as_str().unwrap());
    let line = eventually("the call is recorded", async || {
        owner.get(&path).await.expect(200)["items"].as_array().unwrap().first().cloned()
    })
    .await;
    assert_eq!((&line["outcome"], &line["detail"]["result"]), (&json!("failed"), &json!("cancelled")), "{line}");
}
