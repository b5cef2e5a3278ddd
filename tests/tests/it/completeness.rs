//! The plugin `completeness`: every card has a score by the operator's rules, and the worst come first.

use cardinal_tests::{Host, Package, PluginsFolder, User, eventually, unique};
use http::Method;
use serde_json::{Value, json};

const PLUGIN: &str = "/v1/admin/plugins/completeness";
const SETTINGS: &str = "/v1/admin/plugin-registry/completeness/settings";
const CARDS: usize = 300;

async fn host() -> Host {
    let plugins = PluginsFolder::default().with("completeness", &Package::bundled("completeness"));
    Host::settings().plugins(plugins).start().await
}

/// Cards of which every second has a brand.
async fn import(owner: &User, count: usize) {
    let line = |n: usize| {
        let attributes = if n.is_multiple_of(2) { json!({"brand": "Lumo"}) } else { json!({}) };
        json!({"title": format!("Card {n}"), "sku": unique("SKU"), "attributes": attributes}).to_string()
    };
    let lines: Vec<String> = (0..count).map(line).collect();
    let import = owner.call(Method::POST, "/v1/admin/master-cards/import?mode=create");
    import.body("application/x-ndjson", lines.join("\n")).send().await.expect(202);
}

async fn summary(owner: &User) -> Value {
    owner.get(&format!("{PLUGIN}/summary")).await.expect(200)
}

/// Waits until the summary is as it should be.
async fn summed_up(owner: &User, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || Some(summary(owner).await).filter(|summary| is_so(summary))).await
}

#[tokio::test]
async fn all_cards_are_scored_followed_and_listed_the_worst_first() {
    let host = host().await;
    let owner = host.owner().await;
    import(owner, CARDS).await;
    let all = json!(CARDS);
    let sum =
        summed_up(owner, "the cards are scored", |sum| sum["cards"] == all && sum["walk"]["is_running"] == false).await;
    assert_eq!(
        sum["missing"].as_array().unwrap().iter().find(|rule| rule["rule"] == "attribute:brand").unwrap()["cards"],
        CARDS / 2
    );
    let reader = owner.key(&["plugin:completeness:read", "mcp:use"]).await;
    let (mut seen, mut path) = (Vec::new(), format!("{PLUGIN}/worst?limit=120"));
    loop {
        let page = reader.get(&path).await.expect(200);
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["score"].as_i64().unwrap()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("{PLUGIN}/worst?limit=120&cursor={cursor}");
    }
    assert!(seen.len() == CARDS && seen.is_sorted() && seen[0] < seen[CARDS - 1], "{seen:?}");

    // A card that changes is scored anew by itself.
    let worst = reader.get(&format!("{PLUGIN}/worst?limit=1")).await.expect(200)["items"][0].clone();
    let attributes = json!({"brand": "Lumo", "gtin": "4006381333931", "price": "1.00", "description": "x".repeat(80),
        "images": ["https://a.example/1.png"]});
    let path = format!("/v1/admin/master-cards/{}", worst["card_id"].as_str().unwrap());
    owner.patch(&path, &json!({"attributes": attributes})).await.expect(200);
    summed_up(owner, "the card is complete", |sum| sum["complete"] == 1).await;
    assert_eq!(owner.get(&path).await.expect(200)["item"]["version"], 2, "the plugin leaves cards alone");

    let arguments =
        json!({"name": "plugin_completeness_worst", "arguments": {"limit": 1, "missing": "attribute:brand"}});
    let answer = reader.mcp(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments})).await;
    assert!(answer.status == 200 && answer.text().contains("attribute:brand"), "{answer}");
    reader.post(&format!("{PLUGIN}/recompute"), &json!({})).await.refused(403, "insufficient-scope");
    owner.key(&["cards:read"]).await.get(&format!("{PLUGIN}/worst")).await.refused(403, "insufficient-scope");
}

#[tokio::test]
async fn other_rules_are_walked_over_all_cards_and_kept_in_them_on_demand() {
    let host = host().await;
    let owner = host.owner().await;
    import(owner, 10).await;
    summed_up(owner, "the cards are scored", |sum| sum["cards"] == 10).await;
    let rules =
        json!({"required_attributes": ["brand"], "min_description": 0, "min_pictures": 0, "write_to_cards": true});
    owner.call(Method::PUT, SETTINGS).json(&rules).send().await.expect(200);
    let sum =
        summed_up(owner, "the rules are in force", |sum| sum["complete"] == 5 && sum["walk"]["is_running"] == false)
            .await;
    assert_eq!((&sum["average"], &sum["missing"][0]["cards"]), (&json!(50.0), &json!(5)), "{sum}");
    let page = owner.get("/v1/admin/master-cards?kind=completeness").await.expect(200);
    let cards = page["items"].as_array().unwrap();
    assert_eq!(cards.len(), 10);
    for card in cards {
        let source = &card["attributes"]["sources"]["completeness:score"];
        let score = if card["attributes"]["brand"].is_null() { 0 } else { 100 };
        assert_eq!(
            (&source["data"]["score"], &source["updated_by"]["kind"]),
            (&json!(score), &json!("plugin")),
            "{source}"
        );
        assert_eq!(card["version"], 2, "its own write is nothing new to it");
    }
    owner.call(Method::PUT, SETTINGS).json(&json!({"weight_kind": 101})).send().await.refused(422, "validation-failed");
}
