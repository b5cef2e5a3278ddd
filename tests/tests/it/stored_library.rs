//! A library that an earlier build made is served without being built again.
#![cfg(target_arch = "x86_64")]

use cardinal_tests::{Host, Package, PluginsFolder, repository};
use serde_json::json;

/// The fixture `quick` of the version that it is named after (`tests/stored/README.md`).
const STORED: [&str; 1] = ["quick-1.0.0-dev-x86_64.so.zst"];

#[tokio::test]
async fn libraries_of_earlier_builds_are_served() {
    for name in STORED {
        let packed = std::fs::read(repository().join("tests/stored").join(name)).unwrap();
        let library = zstd::decode_all(&*packed).unwrap();
        let package = Package::fixture("quick").library(|_| Some(library));
        let host = Host::settings().plugins(PluginsFolder::default().with("quick", &package)).start().await;
        let owner = host.owner().await;
        let route = |path: &str| format!("/v1/admin/plugins/quick/{path}");
        assert_eq!(owner.get(&route("hello")).await.expect(200), json!({"message": "hello", "number": 42}), "{name}");
        assert_eq!(owner.get(&route("query")).await.expect(200)["number"], 42, "{name}: a row of its own database");
        let card = owner.card("Chair").await;
        let enrich = route(&format!("enrich/{}", card["id"].as_str().unwrap()));
        assert_eq!(owner.post(&enrich, &json!({})).await.expect(200)["version"], 2, "{name}: a source of the card");
    }
}
