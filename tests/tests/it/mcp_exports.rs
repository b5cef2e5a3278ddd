//! Exports over MCP: a link to the cards that a filter picks, which is a resource of its caller alone.

use cardinal_tests::{Answer, Client, Host, unique};
use http::Method;
use serde_json::{Value, json};

use super::mcp_confirmation::text;
use super::mcp_sessions::{BOTH, REVISION};

const TOOL: &str = "cards_export";
/// Bytes of an export that is read as a resource.
const READ_LIMIT: usize = 4 << 20;

async fn send(client: &Client, method: &str, params: &Value) -> Answer {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let call = client.call(Method::POST, "/api").json(&message).header("accept", BOTH);
    call.header("mcp-protocol-version", REVISION).send().await
}

async fn ask(client: &Client, method: &str, params: Value) -> Value {
    let answer = send(client, method, &params).await;
    assert_eq!(answer.status, 200, "{answer}");
    answer.json()
}

async fn export(user: &Client, arguments: Value) -> Value {
    let result = ask(user, "tools/call", json!({"name": TOOL, "arguments": arguments})).await["result"].take();
    assert_ne!(result["isError"], true, "{result}");
    result
}

async fn read(user: &Client, uri: &Value) -> Value {
    ask(user, "resources/read", json!({"uri": uri})).await
}

#[track_caller]
fn contents(answer: &Value) -> &str {
    answer["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

async fn card(owner: &Client, title: &str, sku: &str) {
    let card = json!({"title": title, "sku": sku, "attributes": {"note": "=1+1; ü"}});
    owner.post("/v1/admin/master-cards", &card).await.expect(201);
}

/// The same from the admin API.
async fn by_rest(owner: &Client, about: &Value) -> String {
    let url: http::Uri = about["rest_url"].as_str().unwrap().parse().unwrap();
    let answer = owner.get(url.path_and_query().unwrap().as_str()).await;
    assert_eq!(answer.status, 200, "{answer}");
    answer.text()
}

#[tokio::test]
async fn a_filtered_list_is_a_file_that_its_caller_reads() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (agent, word) = (owner.key(&["mcp:use", "cards:read"]).await, unique("export"));
    for number in 1..=3 {
        card(owner, &format!("-{word} & more"), &format!("{word}-{number}")).await;
    }
    let result = export(&agent, json!({"q": format!("{word} & more"), "status": "draft"})).await;
    let about = &result["structuredContent"];
    let link = &result["content"][1];
    assert_eq!((&link["type"], &link["uri"]), (&json!("resource_link"), &about["uri"]), "{result}");
    assert_eq!((&link["mimeType"], &about["count"]), (&json!("application/x-ndjson"), &json!(3)), "{result}");
    let answer = read(&agent, &about["uri"]).await;
    let file = &answer["result"]["contents"][0];
    assert_eq!((&file["uri"], &file["mimeType"]), (&about["uri"], &json!("application/x-ndjson")), "{answer}");
    let text = contents(&answer);
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).unwrap()["attributes"]["note"] == "=1+1; ü"));
    assert_eq!(by_rest(owner, about).await, text);
    // It is made when it is read.
    card(owner, &format!("{word} & more"), &unique("later")).await;
    assert_eq!(contents(&read(&agent, &about["uri"]).await).lines().count(), 4);
    for format in ["csv", "csv_for_spreadsheets"] {
        let result = export(&agent, json!({"q": word, "format": format, "fields": "sku,title"})).await;
        let about = &result["structuredContent"];
        let answer = read(&agent, &about["uri"]).await;
        assert_eq!(answer["result"]["contents"][0]["mimeType"], "text/csv", "{answer}");
        let text = contents(&answer);
        assert_eq!((text.lines().count(), text.contains("'-export")), (5, format == "csv_for_spreadsheets"), "{text}");
        assert_eq!(by_rest(owner, about).await, text);
    }
    // It is in no list, since nobody else's business.
    let listed = ask(&agent, "resources/list", json!({})).await;
    assert!(!listed.to_string().contains("export://"), "{listed}");
}

#[tokio::test]
async fn a_link_is_nobody_elses_and_no_better_than_its_caller() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let word = unique("export");
    card(owner, &word, &word).await;
    let made = owner.make_key(json!({"name": unique("agent"), "scopes": ["mcp:use", "cards:read"]})).await;
    let agent = host.client().bearer(made["key"].as_str().unwrap());
    let uri = export(&agent, json!({"q": word})).await["structuredContent"]["uri"].take();
    let text = uri.as_str().unwrap().to_owned();
    assert!(!text.contains(&word), "{text}");
    // The same user by another key, or by login.
    let other = owner.key(&["mcp:use", "cards:read"]).await;
    for stranger in [&other, owner] {
        assert_eq!(read(stranger, &uri).await["error"]["code"], -32002);
    }
    let sealed = text.rsplit('/').next().unwrap();
    let forged = [
        format!("{text}A"),
        text[..text.len() - 1].to_owned(),
        text.replace("export://cards/", "export://"),
        text.replace("export://cards/", "card://"),
        format!("export://cards/{}", "A".repeat(100_000)),
        "export://cards/".to_owned(),
        format!("export://cards/{}", sealed.replace("v1", "v2")),
    ];
    for forged in forged {
        let answer = read(&agent, &json!(forged)).await;
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
    }
    assert_eq!(contents(&read(&agent, &uri).await).lines().count(), 1);
    let path = format!("/v1/admin/api-keys/{}", made["item"]["id"].as_str().unwrap());
    owner.patch(&path, &json!({"scopes": ["mcp:use"]})).await.expect(200);
    assert_eq!(read(&agent, &uri).await["error"]["code"], -32002, "the scope counts when it is read");
    owner.delete(&path).await.expect(204);
    let revoked = send(&agent, "resources/read", &json!({"uri": uri})).await;
    revoked.refused(401, "revoked-token");
}

#[tokio::test]
async fn what_is_too_large_says_how_to_get_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (agent, word) = (owner.key(&["mcp:use", "cards:read"]).await, unique("export"));
    let sql = "INSERT INTO public.master_cards (id, title, sku, attributes) \
               SELECT gen_random_uuid(), $1, $1 || '-' || n, jsonb_build_object('sources', '{}'::jsonb, 'note', repeat('x', 1000000)) \
               FROM generate_series(1, 5) AS n";
    host.database().await.execute(sql, &[&word]).await.unwrap();
    let result = export(&agent, json!({"q": word})).await;
    let about = &result["structuredContent"];
    let error = read(&agent, &about["uri"]).await["error"].take();
    let message = error["message"].as_str().unwrap();
    assert!(error["code"] == -32602 && message.starts_with("export-too-large"), "{error}");
    assert!(message.contains(about["rest_url"].as_str().unwrap()) && message.len() < 1_000, "{error}");
    assert!(by_rest(owner, about).await.len() > READ_LIMIT);
    let lean = export(&agent, json!({"q": word, "fields": "sku"})).await["structuredContent"]["uri"].take();
    assert_eq!(contents(&read(&agent, &lean).await).lines().count(), 5);
}

#[tokio::test]
async fn a_filter_that_makes_no_sense_gives_no_link() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let agent = owner.key(&["mcp:use", "cards:read"]).await;
    let wrong = [
        json!({"status": "lost"}),
        json!({"format": "xlsx"}),
        json!({"fields": "nothing"}),
        json!({"fields": "kinds"}),
        json!({"updated_since": "yesterday"}),
        json!({"q": "x".repeat(201)}),
        json!({"limit": 5}),
        json!({"deleted": "true"}),
    ];
    for arguments in wrong {
        let result = ask(&agent, "tools/call", json!({"name": TOOL, "arguments": arguments})).await["result"].take();
        assert!(result["isError"] == true && !text(&result).contains("export://"), "{arguments}: {result}");
    }
    let blind = owner.key(&["mcp:use"]).await;
    let hidden = ask(&blind, "tools/call", json!({"name": TOOL, "arguments": {}})).await;
    assert_eq!(hidden["error"]["code"], -32602, "{hidden}");
}
