//! Contract 4: who wrote what to a card; what a removed plugin leaves behind stays and is labelled.

use cardinal_tests::{Host, Package, PluginsFolder, User};
use http::Method;
use serde_json::{Value, json};

async fn host() -> Host {
    Host::settings().plugins(PluginsFolder::default().with("quick", &Package::fixture("quick"))).start().await
}

/// A card that `quick` has written to.
async fn enriched(owner: &User) -> String {
    let id = owner.card("Enriched").await["id"].as_str().unwrap().to_owned();
    owner.post(&format!("/v1/admin/plugins/quick/enrich/{id}"), &json!({})).await.expect(200);
    id
}

async fn sources(owner: &User, card: &str) -> Vec<Value> {
    let answer = owner.get(&format!("/v1/admin/master-cards/{card}/sources")).await.expect(200);
    answer["items"].as_array().unwrap().clone()
}

async fn rescan(owner: &User) {
    owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);
}

#[tokio::test]
async fn what_a_removed_plugin_wrote_stays_and_is_orphaned_until_it_comes_back() {
    let host = host().await;
    let owner = host.owner().await;
    let card = enriched(owner).await;
    let before = sources(owner, &card).await;
    let [source] = before.as_slice() else { panic!("{before:?}") };
    assert_eq!((&source["source_key"], &source["plugin"]), (&json!("quick:bench"), &json!("quick")), "{source}");
    assert_eq!((&source["kind"], &source["orphaned"]), (&json!("quick"), &json!(false)), "{source}");
    assert_eq!(source["updated_by"]["id"], owner.id.to_string(), "{source}");
    assert!(source["bytes"].as_u64().is_some_and(|bytes| bytes > 0) && source.get("data").is_none(), "{source}");

    owner.post("/v1/admin/plugin-registry/quick/disable", &Value::Null).await.expect(200);
    assert_eq!(sources(owner, &card).await[0]["orphaned"], false, "a disabled plugin is still there");
    owner.post("/v1/admin/plugin-registry/quick/enable", &Value::Null).await.expect(200);

    let package = host.plugins().path().join("quick");
    let away = host.data().join("taken-away");
    std::fs::rename(&package, &away).unwrap();
    rescan(owner).await;
    let whole = owner.get(&format!("/v1/admin/master-cards/{card}")).await.expect(200);
    assert!(whole["item"]["attributes"]["sources"]["quick:bench"]["data"].is_object(), "{whole}");
    assert_eq!(sources(owner, &card).await[0]["orphaned"], true);
    std::fs::rename(&away, &package).unwrap();
    rescan(owner).await;
    assert_eq!(sources(owner, &card).await, before, "it is what it was");

    std::fs::rename(&package, &away).unwrap();
    rescan(owner).await;
    let path = format!("/v1/admin/master-cards/{card}/sources/quick:bench");
    let version = whole["item"]["version"].as_i64().unwrap();
    let remove = |path: &str, tag: &str| owner.call(Method::DELETE, path).header("if-match", tag).send();
    let stale = remove(&path, &format!("\"{}\"", version - 1)).await.refused(412, "version-mismatch");
    assert_eq!(stale["current_version"], version, "{stale}");
    remove(&path, "nonsense").await.refused(400, "invalid-request");
    remove(&path, &format!("W/\"{version}\"")).await.refused(412, "version-mismatch");
    let absent = format!("{path}-not");
    remove(&absent, &format!("\"{version}\"")).await.refused(404, "not-found");
    assert_eq!(sources(owner, &card).await[0]["orphaned"], true, "nothing was removed");
    remove(&path, &format!("\"{version}\"")).await.expect(204);
    remove(&path, "*").await.refused(404, "not-found");
    assert_eq!(sources(owner, &card).await, Vec::<Value>::new(), "an orphan can be removed");
}

#[tokio::test]
async fn the_sources_of_no_card_are_not_found() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    owner.get("/v1/admin/master-cards/not-an-id/sources").await.refused(404, "not-found");
    let card = owner.card("Without any").await["id"].as_str().unwrap().to_owned();
    assert_eq!(sources(owner, &card).await, Vec::<Value>::new());
    let path = format!("/v1/admin/master-cards/{card}/sources");
    owner.get(&format!("{path}?limit=1")).await.refused(400, "invalid-request");
    owner.delete(&format!("/v1/admin/master-cards/{card}")).await.expect(204);
    owner.get(&path).await.refused(404, "not-found");
}

#[tokio::test]
async fn a_source_is_removed_whatever_its_key_holds() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    let card = owner.card("With odd keys").await["id"].as_str().unwrap().to_owned();
    for key in ["a/b", r"a\b", "//", "ü %?#&", "..a", ".."] {
        let source = format!("echo:{key}");
        owner.post(&format!("/v1/admin/plugins/echo/enrich/{card}"), &json!({"key": key})).await.expect(200);
        let path: String = source.bytes().map(|byte| format!("%{byte:02X}")).collect();
        owner.delete(&format!("/v1/admin/master-cards/{card}/sources/{path}")).await.expect(204);
        assert_eq!(sources(owner, &card).await, Vec::<Value>::new(), "{source}");
    }
    // What could be taken for a way out of the folder is no key.
    let climbing = format!("/v1/admin/master-cards/{card}/sources/echo:%2F..%2F..%2Fusers");
    owner.delete(&climbing).await.refused(400, "invalid-request");
}
