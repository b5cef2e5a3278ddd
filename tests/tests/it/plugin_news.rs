//! Contract 3.4 and 4: events of the topic `plugin`.

use cardinal_tests::{EventStream, Host, Package, PluginsFolder, Sent};
use serde_json::{Value, json};

const RESCAN: &str = "/v1/admin/plugin-registry/rescan";

/// The next event of a plugin in this state; the host may still be telling of its start.
async fn until(stream: &mut EventStream, state: &str) -> Sent {
    loop {
        let event = stream.next().await;
        assert_eq!(event.kind, "plugin.changed");
        if event.data["state"] == state {
            return event;
        }
    }
}

#[tokio::test]
async fn what_becomes_of_a_plugin_is_told() {
    let plugins = PluginsFolder::default().with("quick", &Package::fixture("quick"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    let mut stream = EventStream::open(owner, "?topics=plugin", None).await.greeted().await;
    owner.post("/v1/admin/plugin-registry/quick/disable", &Value::Null).await.expect(200);
    let disabled = until(&mut stream, "disabled").await.data;
    assert_eq!((&disabled["name"], &disabled["was"]), (&json!("quick"), &json!("active")), "{disabled}");
    assert!(disabled["host_id"].is_string() && disabled["version"] == "1.0.0", "{disabled}");
    // Nothing has changed, so nothing is told of this one.
    owner.post(RESCAN, &Value::Null).await.expect(200);
    owner.post("/v1/admin/plugin-registry/quick/enable", &Value::Null).await.expect(200);
    assert_eq!(stream.next().await.data["was"], "disabled");

    std::fs::write(host.plugins().path().join("quick/manifest.json"), r#"{"name": "quick", "version": 1}"#).unwrap();
    owner.post(RESCAN, &Value::Null).await.expect(200);
    // Whoever looks while the file is being written tells that first: it is in service, with a reason and no code.
    let mut behind = stream.next().await.data;
    if behind["code"].is_null() {
        assert_eq!(behind["state"], "active", "{behind}");
        behind = stream.next().await.data;
    }
    assert_eq!((&behind["state"], &behind["code"]), (&json!("active"), &json!("bad-manifest")), "{behind}");
    std::fs::rename(host.plugins().path().join("quick"), host.data().join("away")).unwrap();
    owner.post(RESCAN, &Value::Null).await.expect(200);
    let removed = stream.next().await;
    assert_eq!((removed.kind.as_str(), &removed.data["name"]), ("plugin.removed", &json!("quick")));
}
