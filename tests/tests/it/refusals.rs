//! Contract 5.2: what is not a good plugin is refused with a reason, and harms nobody.

use cardinal_tests::{Host, Package, PluginsFolder};
use serde_json::{Value, json};

/// The registry's entry of the package in `folder`, whatever the host made of it.
async fn entry(host: &Host, about: &str) -> Value {
    let found = host.owner().await.get("/v1/admin/plugin-registry").await.expect(200);
    let items = found["items"].as_array().unwrap();
    items.iter().find(|item| item.to_string().contains(about)).cloned().unwrap_or_else(|| panic!("{about} in {found}"))
}

#[tokio::test]
async fn each_bad_package_is_refused_for_its_own_reason_and_the_good_one_serves() {
    let unruly = || Package::fixture("unruly");
    let text = |library: &[u8]| {
        let library = library.to_vec();
        unruly().library(move |_| Some(library))
    };
    let folders = [
        ("text-as-library", text(b"this is no library")),
        ("empty-library", text(b"")),
        ("truncated-library", unruly().library(|whole| Some(whole[..whole.len() / 2].to_vec()))),
        ("no-library", unruly().library(|_| None)),
        ("broken-manifest", unruly().manifest_text("{\"name\": ")),
        ("no-name", unruly().manifest(|manifest| drop(manifest.as_object_mut().unwrap().remove("name")))),
        ("bad-name", unruly().manifest(|manifest| manifest["name"] = json!("Not Kebab"))),
        ("reserved-name", unruly().manifest(|manifest| manifest["name"] = json!("core"))),
        ("bad-version", unruly().manifest(|manifest| manifest["version"] = json!("one"))),
        ("wrong-type", unruly().manifest(|manifest| manifest["provides_kinds"] = json!("unruly-note"))),
        ("later-api", unruly().manifest(|manifest| manifest["engine"]["plugin_api_version"] = json!("2"))),
        ("later-core", unruly().manifest(|manifest| manifest["engine"]["core_version"] = json!(">=2.0.0"))),
        ("other-name", unruly().manifest(|manifest| manifest["name"] = json!("other-name"))),
    ];
    let plugins = folders.iter().fold(PluginsFolder::bundled(), |plugins, (name, package)| plugins.with(name, package));
    let host = Host::settings().plugins(plugins).start().await;
    for (folder, _) in &folders {
        let refused = entry(&host, folder).await;
        assert_eq!(refused["state"], "refused", "{folder}: {refused}");
        let code = refused["refusal"]["code"].as_str().unwrap_or_else(|| panic!("{folder}: no code in {refused}"));
        assert!(!code.is_empty() && refused["refusal"]["fix"].is_string(), "{folder}: {refused}");
    }
    let owner = host.owner().await;
    let active = owner.get("/v1/admin/plugins").await.expect(200);
    let names: Vec<&str> =
        active["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"supplier") && !names.contains(&"unruly"), "{active}");
    owner.get("/v1/admin/plugins/unruly/who").await.refused(503, "plugin-unavailable");
}
