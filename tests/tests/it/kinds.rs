//! Contract 4: which plugins provide and read each kind, and how many cards have it.

use cardinal_tests::{Host, Package, PluginsFolder, eventually};
use serde_json::{Value, json};

async fn kind(host: &Host, name: &str) -> Option<Value> {
    let answer = host.owner().await.get("/v1/admin/kinds").await.expect(200);
    answer["items"].as_array().unwrap().iter().find(|item| item["kind"] == name).cloned()
}

#[tokio::test]
async fn who_writes_and_reads_a_kind_and_how_many_cards_have_it() {
    let host = Host::settings().plugins(PluginsFolder::bundled()).start().await;
    let owner = host.owner().await;
    let supplier = kind(&host, "supplier").await.unwrap();
    assert!(supplier["provided_by"].as_array().unwrap().contains(&json!("supplier")), "{supplier}");
    assert_eq!((&supplier["cards"], &supplier["orphaned"]), (&json!(0), &json!(false)), "{supplier}");
    // As plugins that are gone have left them.
    let database = host.database().await;
    for i in 0..3 {
        let card = owner.card("With sources").await;
        let id: uuid::Uuid = card["id"].as_str().unwrap().parse().unwrap();
        for (key, kind) in [("supplier:a", "supplier"), ("supplier:b", "supplier"), ("gone:x", "forgotten")] {
            let insert = "INSERT INTO card_source_index (card_id, source_key, plugin, kind, bytes) \
                 VALUES ($1, $2, split_part($2, ':', 1), $3, 2)";
            if kind != "forgotten" || i == 0 {
                database.execute(insert, &[&id, &key, &kind]).await.unwrap();
            }
        }
    }
    // What was counted may be some seconds old.
    let counted = eventually("the cards are counted", async || kind(&host, "forgotten").await).await;
    assert_eq!((&counted["cards"], &counted["orphaned"]), (&json!(1), &json!(true)), "{counted}");
    assert!(counted["warning"].as_str().is_some_and(|text| text.contains("no plugin")), "{counted}");
    let supplier = kind(&host, "supplier").await.unwrap();
    assert_eq!((&supplier["cards"], &supplier["cards_is_estimate"]), (&json!(3), &json!(false)), "{supplier}");
    owner.post("/v1/admin/plugin-registry/supplier/disable", &Value::Null).await.expect(200);
    let supplier = kind(&host, "supplier").await.unwrap();
    assert!(supplier["inactive"].as_array().unwrap().contains(&json!("supplier")), "{supplier}");
    assert_eq!(supplier["orphaned"], false, "{supplier}");
    let read = supplier["read_by"].as_array().unwrap().len();
    assert_eq!(supplier["warning"].is_null(), read == 0, "a kind that is read and nobody writes: {supplier}");
    owner.get("/v1/admin/kinds?limit=1").await.refused(400, "invalid-request");
}

#[tokio::test]
async fn a_reader_that_is_left_without_a_writer_is_told_of() {
    let reader = Package::fixture("quick").manifest(|manifest| manifest["reads_kinds"] = json!(["echo", "quick"]));
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo")).with("quick", &reader);
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    let warnings = async || {
        let report = owner.get("/v1/admin/plugin-registry/quick").await.expect(200);
        report["item"]["warnings"].to_string()
    };
    assert!(!warnings().await.contains("echo"), "{}", warnings().await);
    let disabled = owner.post("/v1/admin/plugin-registry/echo/disable", &Value::Null).await.expect(200);
    let told = disabled["warnings"].as_array().unwrap();
    assert!(told.len() == 1 && told[0].as_str().unwrap().starts_with("quick reads the kind echo"), "{disabled}");
    assert!(warnings().await.contains("echo would, and is not in service"), "{}", warnings().await);
    let enabled = owner.post("/v1/admin/plugin-registry/echo/enable", &Value::Null).await.expect(200);
    assert_eq!(enabled["warnings"], json!([]));
    assert!(!warnings().await.contains("echo"), "{}", warnings().await);
    // Its own kind is nobody else's loss.
    let disabled = owner.post("/v1/admin/plugin-registry/quick/disable", &Value::Null).await.expect(200);
    assert_eq!(disabled["warnings"], json!([]));
}
