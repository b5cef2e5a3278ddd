//! What a plugin says that its tool would change, before a person confirms a call of it.

use cardinal_tests::{Host, Package, PluginsFolder};
use serde_json::json;

use super::mcp_confirmation::{Agent, approval_path, asked, decide, ran};

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
