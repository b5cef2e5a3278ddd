//! Contract 6: the core's tools on cards, and cards as resources. What they answer fits a model; what writes goes by the
//! rules of the admin API and asks for a confirmation.

use std::process::Command;

use super::mcp_confirmation::{approval_path, asked};
use cardinal_tests::{Host, Package, PluginsFolder, User, printed_json, repository, run, unique};
use http::Method;
use serde_json::{Value, json};

/// Bytes of a page of cards or changes.
const PAGE_LIMIT: usize = 64 << 10;
/// Scopes of a key that writes cards without a person.
const UNATTENDED: [&str; 3] = ["mcp:use", "cards:write", "mcp:unattended"];

async fn ask(user: &User, method: &str, params: Value) -> Value {
    let answer = user.mcp(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await;
    assert_eq!(answer.status, 200, "{answer}");
    answer.json()
}

async fn call(user: &User, tool: &str, arguments: Value) -> Value {
    ask(user, "tools/call", json!({"name": tool, "arguments": arguments})).await["result"].take()
}

/// What the tool answers, which is the same as text and as an object.
#[track_caller]
fn answered(result: &Value) -> Value {
    assert_ne!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
    result["structuredContent"].clone()
}

/// Why it does not.
#[track_caller]
fn refused(result: &Value) -> String {
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result.get("structuredContent"), None, "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// The official TypeScript client.
async fn official_client(host: &Host, user: &User, arguments: &[&str]) -> Value {
    let mut command = Command::new("node");
    command.arg(repository().join("tests/clients/mcp.mjs")).arg(format!("{}/api", host.url())).args(arguments);
    command.env("CARDINAL_API_KEY", &user.token);
    printed_json(&run(command).await)
}

async fn with_echo() -> Host {
    Host::settings().plugins(PluginsFolder::default().with("echo", &Package::fixture("echo"))).start().await
}

async fn make(owner: &User, card: Value) -> String {
    let made = owner.call(Method::POST, "/v1/admin/master-cards").json(&card).send().await.expect(201);
    made["item"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_search_shows_little_of_each_card_and_says_how_to_get_more() {
    let host = with_echo().await;
    let owner = host.owner().await;
    let mut ids = Vec::new();
    for number in 0..30 {
        let card = json!({"title": "Lean", "sku": format!("LEAN-{number:02}"), "attributes": {"note": "secret"}});
        ids.push(make(owner, card).await);
    }
    let note = json!({"key": "a", "note": "n"});
    owner.post(&format!("/v1/admin/plugins/echo/enrich/{}", ids[0]), &note).await.expect(200);
    let result = call(owner, "cards_search", json!({"q": "Lean", "sort": "sku"})).await;
    let page = answered(&result);
    let items = page["items"].as_array().unwrap();
    let first = json!({"id": ids[0], "sku": "LEAN-00", "title": "Lean", "status": "draft", "kinds": ["echo"]});
    assert_eq!((items.len(), &items[0]), (25, &first));
    assert_eq!(items[1]["kinds"], json!([]));
    assert_eq!(
        (&page["total_estimate"], page["note"].as_str().unwrap().starts_with("5 more: narrow by")),
        (&json!(30), true)
    );
    let links = &result["content"].as_array().unwrap()[1..];
    assert_eq!((links.len(), &links[0]["type"]), (25, &json!("resource_link")));
    assert_eq!((&links[0]["uri"], &links[0]["name"]), (&json!(format!("card://{}", ids[0])), &json!("LEAN-00")));
    let next = json!({"q": "Lean", "sort": "sku", "cursor": page["next_cursor"], "fields": "sku,attributes"});
    let rest = answered(&call(owner, "cards_search", next).await);
    assert_eq!(
        (rest["items"].as_array().unwrap().len(), &rest["next_cursor"], rest.get("note")),
        (5, &Value::Null, None)
    );
    assert_eq!(
        rest["items"][0],
        json!({"id": ids[25], "sku": "LEAN-25", "attributes": {"note": "secret", "sources": {}}})
    );
    assert!(refused(&call(owner, "cards_search", json!({"fields": "nothing"})).await).contains("/fields"));
    // A revision that knows no links gets none.
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "cards_search", "arguments": {"q": "LEAN-00"}}});
    let old = owner.call(Method::POST, "/api").json(&message).header("accept", "*/*").send().await.json();
    assert_eq!(old["result"]["content"].as_array().unwrap().len(), 1, "{old}");
}

#[tokio::test]
async fn a_page_ends_at_its_bytes_and_its_cursor_goes_on() {
    let host = with_echo().await;
    let owner = host.owner().await;
    for number in 0..6 {
        let large = if number == 3 { 700_000 } else { 25_000 };
        let card =
            json!({"title": "Large", "sku": format!("LARGE-{number}"), "attributes": {"note": "x".repeat(large)}});
        make(owner, card).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let mut wanted = json!({"q": "Large", "sort": "sku", "fields": "sku,attributes"});
        if cursor != Value::Null {
            wanted["cursor"] = cursor;
        }
        let page = answered(&call(owner, "cards_search", wanted).await);
        assert!(page.to_string().len() < PAGE_LIMIT + 1_000);
        let items = page["items"].as_array().unwrap();
        assert!(!items.is_empty() && items.len() <= 3, "{}", items.len());
        seen.extend(items.iter().map(|item| (item["sku"].clone(), item.get("attributes").is_some())));
        cursor = page["next_cursor"].clone();
        if cursor == Value::Null {
            break;
        }
        assert!(page["note"].as_str().unwrap().starts_with("The page ends early"), "{}", page["note"]);
    }
    let all: Vec<_> = (0..6).map(|number| (json!(format!("LARGE-{number}")), number != 3)).collect();
    assert_eq!(seen, all, "one that is too large comes without its attributes");
}

#[tokio::test]
async fn a_large_card_is_read_in_parts() {
    let host = with_echo().await;
    let owner = host.owner().await;
    let id = make(owner, json!({"title": "Large", "sku": "LARGE", "attributes": {"note": "x".repeat(700_000)}})).await;
    for key in 0..3 {
        let body = json!({"key": key.to_string(), "note": "y".repeat(200_000)});
        owner.call(Method::POST, &format!("/v1/admin/plugins/echo/enrich/{id}")).json(&body).send().await.expect(200);
    }
    let lean = answered(&call(owner, "cards_get", json!({"id": id})).await);
    assert_eq!((&lean["item"]["title"], lean["item"].get("attributes")), (&json!("Large"), None));
    assert!(lean["item"]["omitted"]["attributes"].as_u64().unwrap() > 1_300_000, "{lean}");
    assert!(lean["note"].as_str().unwrap().contains("`echo:2` (200"), "{lean}");
    let text = refused(&call(owner, "cards_get", json!({"id": id, "fields": "attributes"})).await);
    assert!(text.starts_with("answer-too-large: ") && text.contains("`echo:2` (200"), "{text}");
    let card = answered(&call(owner, "cards_get", json!({"id": id, "source": "echo:2"})).await);
    let attributes = card["item"]["attributes"].as_object().unwrap();
    assert!(attributes.len() == 1 && attributes["sources"].as_object().unwrap().len() == 1);
    assert_eq!(attributes["sources"]["echo:2"]["data"]["note"].as_str().unwrap().len(), 200_000);
    let sku = answered(&call(owner, "cards_get", json!({"id": id, "fields": "sku"})).await);
    assert_eq!(sku, json!({"item": {"id": id, "sku": "LARGE"}}));
    refused(&call(owner, "cards_get", json!({"id": id, "source": "echo:9"})).await);
    refused(&call(owner, "cards_get", json!({"id": id, "fields": "nothing"})).await);
    let small = answered(
        &call(
            owner,
            "cards_get",
            json!({"id": make(owner, json!({"title": "S", "sku": "S", "attributes": {"a": 1}})).await}),
        )
        .await,
    );
    assert_eq!((&small["item"]["attributes"]["a"], small.get("note")), (&json!(1), None), "a small one comes whole");
    // Of its history neither.
    let history = answered(&call(owner, "cards_history", json!({"id": id})).await);
    let lines = history["items"].as_array().unwrap();
    let made = lines.last().unwrap();
    assert_eq!((&made["action"], &made["change"]), (&json!("create"), &json!({})), "{history}");
    assert!(made["omitted"]["change"].as_u64().unwrap() > 700_000 && lines.len() == 4);
}

#[tokio::test]
async fn cards_are_made_changed_and_restored_as_by_the_admin_api() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let agent = owner.key(&UNATTENDED).await;
    let sku = unique("SKU");
    let new = json!({"title": "Made", "sku": sku, "attributes": {"weight": 1, "sources_of": "x"}});
    let made = answered(&call(&agent, "cards_create", new.clone()).await);
    let id = made["item"]["id"].as_str().unwrap().to_owned();
    assert_eq!((&made["item"]["version"], &made["item"]["status"]), (&json!(1), &json!("draft")));
    assert!(refused(&call(&agent, "cards_create", new).await).starts_with("sku-taken"));
    let sources = json!({"title": "t", "sku": unique("SKU"), "attributes": {"sources": {}}});
    assert!(refused(&call(&agent, "cards_create", sources).await).contains("/attributes/sources"));

    let change = json!({"id": id, "version": 1, "status": "active", "attributes": {"weight": null, "size": [1, 2]}});
    let changed = answered(&call(&agent, "cards_update", change.clone()).await);
    assert_eq!((&changed["item"]["version"], &changed["item"]["status"]), (&json!(2), &json!("active")));
    let card = owner.read_card(&id).await;
    assert_eq!(card["attributes"], json!({"size": [1, 2], "sources_of": "x", "sources": {}}));
    let stale = refused(&call(&agent, "cards_update", change).await);
    assert!(stale.starts_with("version-mismatch: It is at version 2"), "{stale}");
    for wrong in [
        json!({"id": id, "title": "x"}),
        json!({"id": id, "version": 2, "title": null}),
        json!({"id": id, "version": "2"}),
    ] {
        assert!(refused(&call(&agent, "cards_update", wrong).await).starts_with("The arguments are not valid."));
    }
    assert!(refused(&call(&agent, "cards_update", json!({"id": "x", "version": 2})).await).starts_with("not-found"));

    let history = answered(&call(&agent, "cards_history", json!({"id": id, "limit": 1})).await);
    assert_eq!(history["items"].as_array().unwrap().len(), 1);
    let line = &history["items"][0];
    assert_eq!(
        (&line["action"], &line["version"], &line["actor"]["kind"]),
        (&json!("update"), &json!(2), &json!("api_key"))
    );
    assert_eq!(line["change"], json!({"status": "active", "attributes": {"weight": null, "size": [1, 2]}}));
    let rest = answered(&call(&agent, "cards_history", json!({"id": id, "cursor": history["next_cursor"]})).await);
    assert_eq!((&rest["items"][0]["action"], &rest["next_cursor"]), (&json!("create"), &Value::Null));

    // To JSON Schema it is an integer, and some clients write it so.
    let same = answered(&call(&agent, "cards_history", json!({"id": id, "limit": 1.0})).await);
    assert_eq!(same, history);

    let stale = json!({"id": id, "version": 1, "current_version": 1.0});
    assert!(refused(&call(&agent, "cards_restore", stale).await).starts_with("version-mismatch"));
    let restored = answered(&call(&agent, "cards_restore", json!({"id": id, "version": 1})).await);
    assert_eq!((&restored["item"]["version"], &restored["item"]["status"]), (&json!(3), &json!("draft")));
    owner.delete(&format!("/v1/admin/master-cards/{id}")).await.expect(204);
    assert!(refused(&call(&agent, "cards_get", json!({"id": id})).await).starts_with("not-found"));
    let back = answered(&call(&agent, "cards_restore", json!({"id": id})).await);
    assert_eq!((&back["item"]["version"], &back["item"]["title"]), (&json!(5), &json!("Made")));
}

#[tokio::test]
async fn numbers_that_a_model_writes_keep_every_digit() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let agent = owner.key(&UNATTENDED).await;
    let send = async |arguments: String, tool: &str| {
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        );
        let call = agent.call(Method::POST, "/api").body("application/json", message).header("accept", "*/*");
        answered(&call.send().await.json()["result"])
    };
    let new = format!(r#"{{"title":"Digits","sku":"{}","attributes":{{"n":18446744073709551617}}}}"#, unique("SKU"));
    let id = send(new, "cards_create").await["item"]["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/admin/master-cards/{id}");
    assert!(owner.get(&path).await.text().contains("18446744073709551617"));
    send(format!(r#"{{"id":"{id}","version":1,"attributes":{{"m":0.1000000000000000055}}}}"#), "cards_update").await;
    send(format!(r#"{{"id":"{id}","version":2.0,"attributes":{{"k":3.0}}}}"#), "cards_update").await;
    let text = owner.get(&path).await.text();
    for kept in ["18446744073709551617", "0.1000000000000000055", "\"k\": 3.0"] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
}

#[tokio::test]
async fn what_writes_cards_wants_its_scope_and_a_person() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let reader = owner.key(&["mcp:use", "cards:read"]).await;
    let writer = owner.key(&["mcp:use", "cards:write"]).await;
    let listed = async |user: &User| {
        let tools = ask(user, "tools/list", json!({})).await["result"]["tools"].take();
        let of_core =
            tools.as_array().unwrap().iter().filter(|tool| tool["name"].as_str().unwrap().starts_with("cards_"));
        of_core.cloned().collect::<Vec<_>>()
    };
    let names =
        |tools: &[Value]| tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&listed(&reader).await), ["cards_export", "cards_get", "cards_history", "cards_search"]);
    let all = listed(&writer).await;
    assert_eq!(
        names(&all),
        ["cards_create", "cards_export", "cards_get", "cards_history", "cards_restore", "cards_search", "cards_update"]
    );
    for tool in &all {
        let writes =
            !["cards_export", "cards_get", "cards_history", "cards_search"].contains(&tool["name"].as_str().unwrap());
        assert_eq!(
            (&tool["annotations"]["readOnlyHint"], tool["annotations"]["destructiveHint"] == true),
            (&json!(!writes), writes)
        );
        assert_eq!(tool["outputSchema"]["type"], "object");
    }
    let card = owner.card("Unconfirmed").await;
    let (id, sku) = (&card["id"], unique("SKU"));
    let calls = [
        ("cards_create", json!({"title": "t", "sku": sku})),
        ("cards_update", json!({"id": id, "version": 1, "title": "t"})),
        ("cards_restore", json!({"id": id, "version": 1})),
    ];
    for (tool, arguments) in calls {
        let result = call(&writer, tool, arguments.clone()).await;
        assert!(result["isError"] == true && !result.to_string().contains("\"version\":2"), "{tool}: {result}");
        let hidden = ask(&reader, "tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert_eq!(
            (&hidden["error"]["code"], &hidden["error"]["message"]),
            (&json!(-32602), &json!(format!("Unknown tool: {tool}")))
        );
    }
    assert_eq!(owner.read_card(id.as_str().unwrap()).await, card);
    let found = answered(&call(&reader, "cards_search", json!({"q": sku})).await);
    assert_eq!(found["items"], json!([]));
}

#[tokio::test]
async fn a_long_number_hides_no_change_from_who_confirms() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let agent = owner.key(&["mcp:use", "cards:write"]).await;
    let id = make(owner, json!({"title": "Old", "sku": unique("SKU"), "attributes": {"n": 1}})).await;
    let arguments =
        format!(r#"{{"id":"{id}","version":1.0,"title":"New","attributes":{{"n":0.12345678901234567890123}}}}"#);
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"cards_update","arguments":{arguments}}}}}"#
    );
    let send = async || {
        let call = agent.call(Method::POST, "/api").body("application/json", message.clone()).header("accept", "*/*");
        call.send().await.json()["result"].take()
    };
    let item = asked(owner, &serde_json::from_str(&arguments).unwrap(), send()).await;
    let changes = json!([
        {"pointer": "/attributes/n", "before": 1, "after": "0.12345678901234567890123 (number)"},
        {"pointer": "/title", "before": "Old", "after": "New"},
    ]);
    assert_eq!(item["difference"], json!({"card_id": id, "version": 1, "changes": changes}), "{item}");
    owner.call(Method::POST, &format!("{}/approve", approval_path(&item))).send().await.expect(200);
    answered(&send().await);
    let text = owner.get(&format!("/v1/admin/master-cards/{id}")).await.text();
    assert!(text.contains("0.12345678901234567890123") && text.contains("\"New\""), "{text}");
}

#[tokio::test]
async fn restoring_shows_first_what_a_card_would_become() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let agent = owner.key(&["mcp:use", "cards:write"]).await;
    let sku = unique("OLD");
    let id = make(owner, json!({"title": "First", "sku": sku, "attributes": {"size": {"w": 1}, "gone": true}})).await;
    let path = format!("/v1/admin/master-cards/{id}");
    let change = json!({"title": "Second", "attributes": {"size": {"h": 2}, "gone": null}});
    owner.patch(&path, &change).await.expect(200);
    let shown = async |arguments: Value| {
        let item = asked(owner, &arguments, call(&agent, "cards_restore", arguments.clone())).await;
        let approval = approval_path(&item);
        (item, approval)
    };
    let (first, approval) = shown(json!({"id": id, "version": 1})).await;
    let changes = json!([
        {"pointer": "/attributes/gone", "after": true},
        {"pointer": "/attributes/size/h", "before": 2},
        {"pointer": "/title", "before": "Second", "after": "First"},
    ]);
    assert_eq!(first["difference"], json!({"card_id": id, "version": 2, "changes": changes}), "{first}");
    owner.call(Method::POST, &format!("{approval}/approve")).send().await.expect(200);
    answered(&call(&agent, "cards_restore", json!({"id": id, "version": 1})).await);
    let card = owner.read_card(&id).await;
    assert_eq!((&card["title"], &card["attributes"]["size"]), (&json!("First"), &json!({"w": 1})), "as it was shown");
    // What was approved holds for the card as it was shown.
    let undo = json!({"id": id, "version": 2});
    let (_, approval) = shown(undo.clone()).await;
    owner.call(Method::POST, &format!("{approval}/approve")).send().await.expect(200);
    owner.patch(&path, &json!({"title": "Fourth"})).await.expect(200);
    let void = refused(&call(&agent, "cards_restore", undo).await);
    assert!(void.starts_with("confirmation_void: the cards have changed"), "{void}");
    assert_eq!(owner.get(&approval).await.expect(200)["item"]["state"], "void");
    assert_eq!(owner.read_card(&id).await["title"], "Fourth");
    owner.patch(&path, &json!({"title": "First"})).await.expect(200);
    // Nobody is asked about a card that is not there; a version that never was says itself why it fails.
    for missing in [json!({"id": id}), json!({"id": uuid::Uuid::now_v7(), "version": 1})] {
        assert!(refused(&call(&agent, "cards_restore", missing).await).starts_with("not-found"));
    }
    let (never, _) = shown(json!({"id": id, "version": 99})).await;
    assert_eq!(never.get("difference"), None, "{never}");
    owner.delete(&path).await.expect(204);
    let (back, _) = shown(json!({"id": id})).await;
    let whole = json!([{"pointer": "", "after": {"title": "First", "sku": sku, "status": "draft"}}]);
    assert_eq!(back["difference"], json!({"card_id": id, "version": 6, "changes": whole}), "{back}");
}

#[tokio::test]
async fn a_card_is_a_resource_to_whoever_may_read_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let sku = unique("RES");
    let id = make(owner, json!({"title": "Resource", "sku": sku, "attributes": {"weight": 7}})).await;
    let reader = owner.key(&["mcp:use", "cards:read"]).await;
    let uri = format!("card://{id}");
    let templates = ask(&reader, "resources/templates/list", json!({})).await;
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "card://{id}", "{templates}");
    let listed = ask(&reader, "resources/list", json!({})).await["result"]["resources"].take();
    assert!(listed.as_array().unwrap().iter().any(|one| one["uri"] == uri && one["name"] == sku), "{listed}");
    let read = ask(&reader, "resources/read", json!({"uri": uri})).await["result"]["contents"].take();
    assert_eq!((&read[0]["uri"], &read[0]["mimeType"]), (&json!(uri), &json!("application/json")));
    assert_eq!(serde_json::from_str::<Value>(read[0]["text"].as_str().unwrap()).unwrap(), owner.read_card(&id).await);
    for unknown in [format!("card://{}", uuid::Uuid::now_v7()), "card://x".to_owned(), "file:///etc/passwd".to_owned()]
    {
        let answer = ask(&reader, "resources/read", json!({"uri": unknown})).await;
        assert_eq!((&answer["error"]["code"], &answer["error"]["data"]["uri"]), (&json!(-32002), &json!(unknown)));
    }
    let complete = async |user: &User, typed: &str| {
        let params =
            json!({"ref": {"type": "ref/resource", "uri": "card://{id}"}, "argument": {"name": "id", "value": typed}});
        ask(user, "completion/complete", params).await
    };
    for typed in [&sku, &id, &id[..30]] {
        let completed = complete(&reader, typed).await;
        let values = completed["result"]["completion"]["values"].as_array().unwrap();
        assert!(values.contains(&json!(id)) && values.len() <= 100, "{typed}: {completed}");
    }
    let nothing = complete(&reader, &"x".repeat(300)).await;
    assert_eq!(nothing["result"]["completion"]["values"], json!([]), "{nothing}");
    // Without the scope there are no cards.
    let blind = owner.key(&["mcp:use"]).await;
    assert_eq!(ask(&blind, "resources/list", json!({})).await["result"]["resources"], json!([]));
    assert_eq!(ask(&blind, "resources/templates/list", json!({})).await["result"]["resourceTemplates"], json!([]));
    assert_eq!(ask(&blind, "resources/read", json!({"uri": uri})).await["error"]["code"], -32002);
    assert_eq!(complete(&blind, &sku).await["error"]["code"], -32602);
    assert_eq!(ask(&reader, "resources/read", json!({})).await["error"]["code"], -32602);
    assert_eq!(ask(&reader, "resources/list", json!({"cursor": "made up"})).await["error"]["code"], -32602);
    assert_eq!(ask(&reader, "prompts/list", json!({})).await["error"]["code"], -32601);
}

#[tokio::test]
async fn the_official_client_takes_the_cards() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let sku = unique("SDK");
    let id = make(owner, json!({"title": "Official", "sku": sku})).await;
    let agent = owner.key(&UNATTENDED).await;
    let found = official_client(&host, &agent, &["call", "cards_search", &json!({"q": sku}).to_string()]).await;
    assert_eq!(
        (&found["structuredContent"]["items"][0]["id"], &found["content"][1]["type"]),
        (&json!(id), &json!("resource_link"))
    );
    let change = json!({"id": id, "version": 1, "title": "Changed"}).to_string();
    let changed = official_client(&host, &agent, &["call", "cards_update", &change]).await;
    assert_eq!(changed["structuredContent"]["item"]["version"], 2, "{changed}");
    let read = official_client(&host, &agent, &["read", &format!("card://{id}")]).await;
    assert!(read["contents"][0]["text"].as_str().unwrap().contains("Changed"), "{read}");
    let completed = official_client(&host, &agent, &["complete", &sku]).await;
    assert_eq!(completed["completion"]["values"], json!([id]), "{completed}");
}
