//! What a call would change, shown to the person who is to confirm it: by the host of the core's tools, by a plugin of its own.

use cardinal_tests::{Host, Package, PluginsFolder};
use serde_json::json;

use super::mcp_confirmation::{APPROVALS, Agent, approval_path, asked, decide, ran, result};

#[tokio::test]
async fn a_tool_of_the_core_that_writes_shows_what_it_would_change() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let key = owner.key(&["mcp:use", "cards:write"]).await;
    let card = owner.card("Before").await;
    let arguments = json!({"id": card["id"], "version": 1, "title": "After", "attributes": {"size": {"w": 3}}});
    let params = json!({"name": "cards_update", "arguments": arguments});
    let message = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
    let asked = result(&key.mcp(&message).await);
    assert!(asked["isError"] == true && asked.get("structuredContent").is_none(), "it has an output schema: {asked}");
    let id = asked["_meta"]["cardinal/confirmation"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked}"));
    let approval = format!("{APPROVALS}/{id}");
    let shown = owner.get(&approval).await.expect(200)["item"].clone();
    let changes = json!([
        {"pointer": "/attributes/size", "after": {"w": 3}},
        {"pointer": "/title", "before": "Before", "after": "After"},
    ]);
    assert_eq!(shown["difference"], json!({"card_id": card["id"], "version": 1, "changes": changes}), "{shown}");
    assert!(shown["plugin"].is_null() && shown["arguments"] == arguments, "{shown}");
    decide(owner, &approval, "approve").await.expect(200);
    assert_ne!(result(&key.mcp(&message).await)["isError"], true);
    assert_eq!(owner.read_card(card["id"].as_str().unwrap()).await["title"], "After");
}

/// The fixture `echo` with the handler that is to say what `enrich` would change.
fn with_preview(handler: &str) -> PluginsFolder {
    let echo = Package::fixture("echo").manifest(|manifest| manifest["mcp"]["tools"][2]["preview"] = handler.into());
    PluginsFolder::default().with("echo", &echo)
}

#[tokio::test]
async fn a_plugin_shows_what_its_tool_would_change() {
    let host = Host::settings().plugins(with_preview("repeat")).start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    let shown = asked(owner, &agent.arguments("shown"), agent.call("shown")).await["difference"].take();
    let changes = json!([{"pointer": "/card_id", "after": agent.card}, {"pointer": "/note", "after": "shown"}]);
    assert_eq!(shown, json!({"card_id": null, "version": null, "changes": changes}));
    let (_stream, question) = agent.asked(&agent.session().await, "asked").await;
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("What it would change: ") && message.contains("\"pointer\":\"/note\""), "{message}");
}

#[tokio::test]
async fn a_preview_writes_nothing_and_a_failed_one_is_said() {
    let host = Host::settings().plugins(with_preview("enrich")).start().await;
    let owner = host.owner().await;
    let agent = Agent::new(owner).await;
    let waiting = asked(owner, &agent.arguments("never"), agent.call("never")).await;
    let (shown, approval) = (&waiting["difference"], approval_path(&waiting));
    let problem = shown["problem"].as_str().unwrap_or_else(|| panic!("{shown}"));
    assert!(problem.starts_with("insufficient-scope") && shown["changes"] == json!([]), "{shown}");
    assert_eq!(agent.runs(owner).await, 0, "it has the rights to read alone");
    let (_stream, question) = agent.asked(&agent.session().await, "asked").await;
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("The plugin could not say what it would change: insufficient-scope"), "{message}");
    decide(owner, &approval, "approve").await.expect(200);
    ran(&agent.call("never").await);
    assert_eq!(agent.runs(owner).await, 1, "the call itself writes");
}
