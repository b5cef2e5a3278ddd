//! Contract 4: numbers are kept exactly as they were sent, on every way through the host, or refused.

use cardinal_tests::{Host, Package, PluginsFolder, User, unique};
use http::Method;
use serde_json::{Value, json};

use super::import::{CSV, NDJSON, ended, import};

const CARDS: &str = "/v1/admin/master-cards";
/// As PostgreSQL writes them, so that a text can be compared with what was sent.
const NUMBERS: &str = r#"{"id": 98765432109876543210987654321, "rate": 0.1234567890123456789012345, "zero": 1.10, "least": -9223372036854775809, "list": [18446744073709551616, {"deep": 1.000}]}"#;

fn body(sku: &str, numbers: &str) -> String {
    format!(r#"{{"title":"Numbers","sku":"{sku}","attributes":{{"numbers":{numbers}}}}}"#)
}

/// Makes a card with these numbers; its path and its id.
async fn made(owner: &User, numbers: &str) -> (String, String) {
    let call = owner.call(Method::POST, CARDS).body("application/json", body(&unique("SKU"), numbers));
    let answer = call.send().await;
    assert_eq!(answer.status, 201, "{answer}");
    assert_holds(&answer.text(), numbers);
    let id = answer.json()["item"]["id"].as_str().unwrap().to_owned();
    (format!("{CARDS}/{id}"), id)
}

/// Compared without white space: who writes JSON anew leaves it out.
#[track_caller]
fn assert_holds(text: &str, numbers: &str) {
    let [text, numbers] = [text, numbers].map(|text| text.replace([' ', '\\'], ""));
    assert!(text.contains(&members(&numbers)), "{numbers}\nis not in\n{text}");
}

/// The members in the order of jsonb: by length, then by bytes.
fn members(object: &str) -> String {
    let order = ["id", "list", "rate", "zero", "least"];
    let end = |at: usize| {
        let mut depth = 0;
        object[at..].char_indices().find_map(|(index, c)| {
            depth += i32::from(c == '[' || c == '{') - i32::from(c == ']' || c == '}');
            (depth < 0 || depth == 0 && c == ',').then_some(at + index)
        })
    };
    let member = |name: &&str| {
        let at = object.find(&format!("\"{name}\":"))?;
        Some(object[at..end(at)?].to_owned())
    };
    order.iter().filter_map(member).collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn a_card_keeps_its_numbers_on_every_way_out() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (path, id) = made(owner, NUMBERS).await;
    let sku = owner.read_card(&id).await["sku"].as_str().unwrap().to_owned();
    for way in [
        path.clone(),
        format!("{CARDS}?q={sku}"),
        format!("{CARDS}?q={sku}&fields=attributes"),
        format!("{CARDS}/export?format=ndjson&q={sku}"),
        format!("{CARDS}/export?format=ndjson&fields=attributes&q={sku}"),
        format!("{path}/history"),
    ] {
        assert_holds(&owner.get(&way).await.text(), NUMBERS);
    }
    let csv = owner.get(&format!("{CARDS}/export?format=csv&q={sku}")).await.text().replace("\"\"", "\"");
    assert_holds(&csv, NUMBERS);
    let line = owner.get(&format!("{CARDS}/export?format=ndjson&q={sku}")).await.text();
    let same = import(owner, "mode=upsert", NDJSON, line).await;
    assert_eq!((ended(&same).as_str(), &same["counts"]["unchanged"]), ("done 1 0", &json!(1)), "{same}");
    // A column beside them leaves them alone.
    let more = import(owner, "mode=upsert", CSV, format!("sku,attributes.colour.name\n{sku},red\n")).await;
    assert_eq!(ended(&more), "done 1 0", "{more}");
    assert_holds(&owner.get(&path).await.text(), NUMBERS);
}

#[tokio::test]
async fn a_change_keeps_the_numbers_that_it_names_and_those_that_it_does_not() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (path, _) = made(owner, NUMBERS).await;
    let patch =
        async |body: &str| owner.call(Method::PATCH, &path).body("application/json", body.to_owned()).send().await;
    assert_holds(&patch(r#"{"attributes":{"colour":"red","numbers":{"more":null}}}"#).await.text(), NUMBERS);
    let other = NUMBERS.replace("98765432109876543210987654321", "98765432109876543210987654322");
    let changed = patch(r#"{"attributes":{"numbers":{"id":98765432109876543210987654322}}}"#).await;
    assert_holds(&changed.text(), &other);
    assert_eq!(changed.json()["item"]["version"], 3);
    // A last digit is a change, the same number is none.
    assert_eq!(patch(r#"{"attributes":{"numbers":{"zero":1.1}}}"#).await.json()["item"]["version"], 4);
    assert_eq!(patch(r#"{"attributes":{"numbers":{"zero":1.1}}}"#).await.json()["item"]["version"], 4);
    assert_holds(&owner.get(&format!("{path}/history")).await.text(), NUMBERS);
    let back = owner.post(&format!("{path}/restore"), &json!({"version": 1})).await;
    assert_holds(&back.text(), NUMBERS);
    assert_eq!(back.json()["item"]["version"], 5);
    assert_eq!(owner.post(&format!("{path}/restore"), &json!({"version": 1})).await.json()["item"]["version"], 5);
}

#[tokio::test]
async fn what_postgresql_writes_in_another_way_is_the_same_number() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for (sent, kept) in [("-0", "0"), ("1e3", "1000"), ("1.5E-2", "0.015"), ("12e2", "1200"), ("1.50e1", "15.0")] {
        let call = owner.call(Method::POST, CARDS).body("application/json", body(&unique("SKU"), sent));
        let answer = call.send().await;
        assert_eq!(answer.status, 201, "{answer}");
        assert!(answer.text().contains(&format!("\"numbers\": {kept},")), "{sent}: {answer}");
    }
    for beyond in ["1e400", "-1e309", "1e-309", "[1E+99999999999]"] {
        let call = owner.call(Method::POST, CARDS).body("application/json", body(&unique("SKU"), beyond));
        let problem = call.send().await.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], "/attributes", "{beyond}: {problem}");
    }
}

#[tokio::test]
async fn where_a_number_would_be_rounded_it_is_refused() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    let send = async |method: Method, path: &str, body: String| {
        owner.call(method, path).body("application/json", body).send().await.refused(422, "validation-failed")
    };
    for number in ["18446744073709551616", "1e400", "0.12345678901234567890"] {
        let settings = format!(r#"{{"limits":[{{"a":{number}}}]}}"#);
        let problem = send(Method::PUT, "/v1/admin/plugin-registry/echo/settings", settings).await;
        assert_eq!(problem["errors"][0]["pointer"], "/limits/0/a", "{problem}");
        let job = format!(
            r#"{{"action":"plugin_tool","ids":["{}"],"args":{{"tool":"plugin_echo_repeat","arguments":{{"n":{number}}}}}}}"#,
            uuid::Uuid::now_v7()
        );
        let problem = send(Method::POST, "/v1/admin/jobs", job).await;
        assert_eq!(problem["errors"][0]["pointer"], "/args/arguments/n", "{problem}");
    }
}

#[tokio::test]
async fn plugins_and_mcp_clients_get_every_digit() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    let (path, id) = made(owner, NUMBERS).await;
    let echo = |way: &str| format!("/v1/admin/plugins/echo/{way}/{id}");
    assert_holds(&owner.get(&echo("card-json")).await.text(), NUMBERS);
    let other = NUMBERS.replace("98765432109876543210987654321", "11111111111111111111111111111");
    let write = owner.call(Method::POST, &echo("enrich-json")).body("application/json", other.clone());
    write.send().await.expect(200);
    assert_holds(&owner.get(&path).await.text(), &other);
    let call = async |name: &str, arguments: &str| {
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}"#
        );
        let call = owner.call(Method::POST, "/api").body("application/json", message);
        call.header("accept", "application/json, text/event-stream").send().await
    };
    let text = |answer: &Value| answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    let got = call("cards_get", &json!({"id": id}).to_string()).await;
    let (got_bytes, got) = (got.text(), got.expect(200));
    assert_holds(&text(&got), NUMBERS);
    for digits in ["98765432109876543210987654321", "0.1234567890123456789012345", "-9223372036854775809"] {
        assert!(structured(&got_bytes).contains(digits), "{digits}");
    }
    assert_holds(&text(&call("cards_search", r#"{"q":"Numbers","fields":"attributes"}"#).await.expect(200)), NUMBERS);
    let said = call("plugin_echo_repeat", NUMBERS).await;
    for digits in ["98765432109876543210987654321", "0.1234567890123456789012345", "-9223372036854775809"] {
        assert!(structured(&said.text()).contains(digits), "{digits}");
    }
    let said = said.expect(200);
    assert_eq!(text(&said).len(), NUMBERS.replace(' ', "").len(), "{said}");
    assert!(text(&said).contains("98765432109876543210987654321"), "{said}");
    // What is validated is what the plugin gets: the last of two.
    let twice = call("plugin_echo_repeat", r#"{"n":1,"n":18446744073709551616}"#).await.expect(200);
    assert_eq!(text(&twice), r#"{"n":18446744073709551616}"#);
    let plain = call("plugin_echo_repeat", r#"{"n":1.5}"#).await.expect(200);
    assert_eq!(plain["result"]["structuredContent"], json!({"n": 1.5}));
    let beyond = call("plugin_echo_repeat", r#"{"n":1e400}"#).await;
    assert_eq!((beyond.status.as_u16(), &beyond.json()["error"]["code"]), (400, &json!(-32602)), "{beyond}");
}

/// What follows the name of the structured content in an answer: no parser that rounds has seen it.
#[track_caller]
fn structured(answer: &str) -> String {
    let name = "\"structuredContent\":";
    let at = answer.find(name).unwrap_or_else(|| panic!("no structured content in {answer}"));
    let content = &answer[at + name.len()..];
    assert!(content.starts_with('{'), "{answer}");
    content.to_owned()
}

#[tokio::test]
async fn mcp_rounds_nothing_in_a_session_either() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    let numbers = r#"{"n":[9223372036854775808,0.1000000000000000055,9007199254740993,-9223372036854775808]}"#;
    let (_, id) = made(owner, r#"{"id": [9223372036854775808, 0.1000000000000000055, 9007199254740993]}"#).await;
    let send = async |session: Option<&str>, message: Value, arguments: Option<&str>| {
        let mut message = message.to_string();
        if let Some(arguments) = arguments {
            message = message.replace("\"ARGUMENTS\"", arguments);
        }
        let call = owner.call(Method::POST, "/api").header("accept", "application/json, text/event-stream");
        let call = match session {
            Some(session) => call.header("mcp-session-id", session),
            None => call,
        };
        call.body("application/json", message).send().await
    };
    let client =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client});
    let begun = send(None, begin, None).await;
    let session = begun.headers["mcp-session-id"].to_str().unwrap().to_owned();
    send(Some(&session), json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), None).await;
    for way in [None, Some(session.as_str())] {
        let call = |tool: &str| {
            let params = json!({"name": tool, "arguments": "ARGUMENTS"});
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
        };
        let said = send(way, call("plugin_echo_repeat"), Some(numbers)).await.text();
        assert!(structured(&said).starts_with(numbers), "{said}");
        let got = send(way, call("cards_get"), Some(&json!({"id": id}).to_string())).await.text();
        let held = r#""numbers":{"id":[9223372036854775808,0.1000000000000000055,9007199254740993]}"#;
        assert!(structured(&got).contains(held), "{got}");
        // Zero has no sign; what a double cannot hold is refused.
        let zero = send(way, call("plugin_echo_repeat"), Some(r#"{"n":-0}"#)).await.text();
        assert!(["{\"n\":-0}", "{\"n\":-0.0}", "{\"n\":0}"].iter().any(|n| structured(&zero).starts_with(n)), "{zero}");
        let beyond = send(way, call("plugin_echo_repeat"), Some(r#"{"n":1e400}"#)).await;
        assert_eq!(beyond.json()["error"]["code"], -32602, "{beyond}");
    }
}
