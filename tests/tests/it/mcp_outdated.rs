//! Confirmations about a card that changes before they are used: they end as void, and nothing is done.

use cardinal_tests::{Client, Host, User, eventually};
use http::Method;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::mcp_confirmation::{APPROVALS, approval_path, asked, decide, last, reply, result, session, text, yes};
use super::mcp_sessions::{BOTH, MODERN, REVISION, read_until, send};

const VOID: &str = "confirmation_void: the cards have changed";

fn message(tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

async fn call(key: &User, tool: &str, arguments: &Value) -> Value {
    result(&key.mcp(&message(tool, arguments)).await)
}

/// An agent's key, and a card with the path of its own.
async fn agent(owner: &User) -> (User, String, String) {
    let id = owner.card("Before").await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/admin/master-cards/{id}");
    (owner.key(&["mcp:use", "cards:write"]).await, id, path)
}

async fn change(owner: &User, path: &str) {
    owner.patch(path, &json!({"title": "Changed by another"})).await.expect(200);
}

/// Demands that this approval ended as void, was not used, and is shown so.
async fn is_void(owner: &User, approval: &str) {
    let item = owner.get(approval).await.expect(200)["item"].take();
    assert_eq!((&item["state"], &item["used_at"]), (&json!("void"), &Value::Null), "{item}");
}

async fn lines(owner: &User, approval: &str) -> Vec<Value> {
    let id = approval.rsplit('/').next().unwrap();
    let page = owner.get(&format!("/v1/admin/audit?target={id}")).await.expect(200);
    page["items"].as_array().unwrap().iter().map(|line| line["action"].clone()).collect()
}

#[tokio::test]
async fn nobody_can_approve_a_change_of_a_card_that_is_not_what_was_shown() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for (is_deleted, tool) in
        [(false, "cards_update"), (false, "cards_restore"), (true, "cards_update"), (true, "cards_restore")]
    {
        let (key, id, path) = agent(owner).await;
        let arguments = match tool {
            "cards_update" => json!({"id": id, "version": 1, "title": "After"}),
            _ => json!({"id": id, "version": 1, "current_version": 1}),
        };
        let approval = approval_path(&asked(owner, &arguments, call(&key, tool, &arguments)).await);
        if is_deleted {
            owner.delete(&path).await.expect(204);
        } else {
            change(owner, &path).await;
        }
        let refused = decide(owner, &approval, "approve").await;
        refused.refused(409, "conflict");
        assert!(refused.json()["detail"].as_str().unwrap().starts_with("The cards have changed"), "{refused}");
        is_void(owner, &approval).await;
        decide(owner, &approval, "deny").await.refused(409, "conflict");
    }
}

#[tokio::test]
async fn an_approval_ends_when_its_call_comes_too_late() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for (is_deleted, told) in [(false, "version-mismatch"), (true, "not-found")] {
        let (key, id, path) = agent(owner).await;
        let arguments = json!({"id": id, "version": 1, "title": "After"});
        let approval = approval_path(&asked(owner, &arguments, call(&key, "cards_update", &arguments)).await);
        decide(owner, &approval, "approve").await.expect(200);
        if is_deleted {
            owner.delete(&path).await.expect(204);
        } else {
            change(owner, &path).await;
        }
        let late = call(&key, "cards_update", &arguments).await;
        assert!(late["isError"] == true && text(&late).starts_with(told), "{late}");
        is_void(owner, &approval).await;
        assert_eq!(lines(owner, &approval).await, [json!("approval.approve"), json!("approval.ask")]);
    }
}

#[tokio::test]
async fn another_call_of_the_same_card_keeps_its_approval() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (key, id, _) = agent(owner).await;
    let arguments = json!({"id": id, "version": 1, "title": "After"});
    let approval = approval_path(&asked(owner, &arguments, call(&key, "cards_update", &arguments)).await);
    decide(owner, &approval, "approve").await.expect(200);
    for wrong in [json!({"id": id, "version": 7, "title": "After"}), json!({"id": id, "version": 1, "title": " "})] {
        assert_eq!(call(&key, "cards_update", &wrong).await["isError"], true, "{wrong}");
    }
    assert_ne!(call(&key, "cards_update", &arguments).await["isError"], true);
    assert_eq!(owner.get(&approval).await.expect(200)["item"]["state"], "used");
    assert_eq!(owner.read_card(&id).await["title"], "After");
}

/// A call in a session, up to the question to its user: the stream, the question and the approval's path.
async fn question(owner: &User, key: &Client, session: &str, arguments: &Value) -> (Incoming, Value, String) {
    let call = key.call(Method::POST, "/api").json(&message("cards_update", arguments)).header("accept", BOTH);
    let call = call.header("mcp-session-id", session).header("mcp-protocol-version", REVISION);
    let mut stream = call.open(None).await.unwrap().into_body();
    let read = read_until(&mut stream, "elicitation/create").await;
    let data = read.lines().filter_map(|line| line.strip_prefix("data: ")).find(|data| data.contains("elicitation"));
    let question: Value = serde_json::from_str(data.unwrap()).unwrap();
    let page = owner.get(&format!("{APPROVALS}?limit=200")).await.expect(200);
    let waiting = page["items"].as_array().unwrap().iter().find(|item| item["arguments"] == *arguments).unwrap();
    (stream, question, approval_path(waiting))
}

#[tokio::test]
async fn a_users_yes_counts_for_the_card_that_the_user_saw() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (key, id, path) = agent(owner).await;
    let session = session(&key, &json!({"elicitation": {}})).await;
    let arguments = json!({"id": id, "version": 1, "title": "After"});
    let (stream, question, approval) = question(owner, &key, &session, &arguments).await;
    change(owner, &path).await;
    assert_eq!(send(&key, &session, &reply(&question, &yes())).await.status, 202);
    let void = last(stream).await;
    assert!(void["isError"] == true && text(&void).starts_with(VOID), "{void}");
    is_void(owner, &approval).await;
    assert_eq!(lines(owner, &approval).await, [json!("approval.approve"), json!("approval.ask")], "and none used it");
    assert_eq!(owner.read_card(&id).await["title"], "Changed by another");
}

#[tokio::test]
async fn a_call_whose_card_changes_while_it_begins_does_nothing() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let (key, id, _) = agent(owner).await;
    let session = session(&key, &json!({"elicitation": {}})).await;
    let arguments = json!({"id": id, "version": 1, "title": "After"});
    let (stream, question, approval) = question(owner, &key, &session, &arguments).await;
    // Somebody who writes the card has begun before the call and ends after it was let through.
    let mut database = host.database().await;
    let other = database.transaction().await.unwrap();
    let sql = "UPDATE public.master_cards SET title = 'Changed by another', version = version + 1 WHERE id::text = $1";
    assert_eq!(other.execute(sql, &[&id]).await.unwrap(), 1);
    assert_eq!(send(&key, &session, &reply(&question, &yes())).await.status, 202);
    eventually("the approval is used", async || {
        (owner.get(&approval).await.expect(200)["item"]["state"] == "used").then_some(())
    })
    .await;
    other.commit().await.unwrap();
    let void = last(stream).await;
    assert!(void["isError"] == true && text(&void).starts_with(VOID), "{void}");
    is_void(owner, &approval).await;
    assert_eq!(owner.read_card(&id).await["title"], "Changed by another");
}

#[tokio::test]
async fn a_client_that_answers_with_its_call_is_told_that_the_card_has_changed() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (key, id, path) = agent(owner).await;
    let arguments = json!({"id": id, "version": 1, "title": "After"});
    let ask = async |more: Value| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        });
        let mut params = json!({"name": "cards_update", "arguments": arguments, "_meta": meta});
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        let message = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
        let call = key.call(Method::POST, "/api").json(&message).header("accept", BOTH);
        let call = call.header("mcp-protocol-version", MODERN).header("mcp-method", "tools/call");
        result(&call.header("mcp-name", "cards_update").send().await)
    };
    let asked = ask(json!({})).await;
    let state = &asked["requestState"];
    let page = owner.get(&format!("{APPROVALS}?limit=200")).await.expect(200);
    let waiting = page["items"].as_array().unwrap().iter().find(|item| item["arguments"] == arguments).unwrap();
    change(owner, &path).await;
    let late = ask(json!({"requestState": state, "inputResponses": {"confirm": yes()}})).await;
    assert!(late["isError"] == true && text(&late).starts_with("version-mismatch"), "{late}");
    is_void(owner, &approval_path(waiting)).await;
}
