//! Contract 4: proxy routes that are set while the host runs.

use cardinal_tests::{Answer, Host, Upstream, User, eventually};
use http::Method;
use serde_json::{Value, json};

const ROUTES: &str = "/v1/admin/proxy-routes";

async fn put(user: &User, body: &Value, tag: Option<&str>) -> Answer {
    let call = user.call(Method::PUT, ROUTES).json(body);
    match tag {
        Some(tag) => call.header("if-match", tag).send().await,
        None => call.send().await,
    }
}

#[tokio::test]
async fn routes_are_set_changed_and_survive_a_restart() {
    let (up, other) = (Upstream::start(), Upstream::start());
    let host = Host::settings().set("PROXY_ROUTES", format!("/fixed={}", up.url())).start().await;
    let owner = host.owner().await;
    let first = owner.get(ROUTES).await;
    let fixed = json!({"prefix": "/fixed", "upstream": up.url(), "read_only": true, "shadowed": false});
    assert_eq!(first.expect(200)["items"], json!([fixed]), "{first}");
    assert_eq!(first.header("etag"), Some("\"0\""));
    assert!(first.json()["warnings"][0].as_str().unwrap().contains("origin"), "{first}");
    host.client().get("/shop/x").await.refused(404, "not-found");
    // What was read goes back with one line more.
    let wanted = json!({"items": [fixed, {"prefix": "/shop/", "upstream": other.url()}]});
    let set = put(owner, &wanted, Some("\"0\"")).await;
    let items = set.expect(200)["items"].clone();
    assert_eq!(items[1], json!({"prefix": "/shop", "upstream": other.url(), "read_only": false, "shadowed": false}));
    assert_eq!((set.header("etag"), &set.json()["version"]), (Some("\"1\""), &json!(1)));
    host.client().get("/shop/x").await.expect(200);
    assert_eq!((up.all_seen().len(), other.all_seen().len()), (0, 1));
    put(owner, &json!({"items": []}), Some("\"0\"")).await.refused(412, "version-mismatch");
    let unchanged = owner.call(Method::GET, ROUTES).header("if-none-match", "\"1\"").send().await;
    assert_eq!(unchanged.status, 304);
    let audit = owner.get("/v1/admin/audit?action=proxy.routes&outcome=ok").await.expect(200);
    assert_eq!(audit["items"][0]["detail"]["now"][0]["prefix"], "/shop", "{audit}");
    let host = host.restart(|settings| settings).await;
    host.client().get("/shop/x").await.expect(200);
    put(host.owner().await, &json!({"items": []}), None).await.expect(200);
    host.client().get("/shop/x").await.refused(404, "not-found");
    host.client().get("/fixed/x").await.expect(200);
}

#[tokio::test]
async fn what_cannot_be_a_route_is_named_and_changes_nothing() {
    let host = Host::settings().set("PROXY_ROUTES", "/fixed=http://127.0.0.1:9").start().await;
    let owner = host.owner().await;
    for (item, pointer) in [
        (json!({"prefix": "/v1/admin", "upstream": "http://127.0.0.1:9"}), "/items/1/prefix"),
        (json!({"prefix": "/Admin/x", "upstream": "http://127.0.0.1:9"}), "/items/1/prefix"),
        (json!({"prefix": "/api", "upstream": "http://127.0.0.1:9"}), "/items/1/prefix"),
        (json!({"prefix": "shop", "upstream": "http://127.0.0.1:9"}), "/items/1/prefix"),
        (json!({"prefix": "/fixed", "upstream": "http://127.0.0.1:9"}), "/items/1/prefix"),
        (json!({"prefix": "/good", "upstream": "http://127.0.0.1:9"}), "/items/1/prefix"),
        (json!({"prefix": "/shop", "upstream": "ftp://127.0.0.1"}), "/items/1/upstream"),
        (json!({"prefix": "/shop", "upstream": "http://user:secret@127.0.0.1"}), "/items/1/upstream"),
        (json!({"prefix": "/shop", "upstream": ""}), "/items/1/upstream"),
        (json!({"prefix": "/shop"}), "/items/1/upstream"),
        (json!({"prefix": "/shop", "upstream": "http://127.0.0.1", "timeout": 5}), "/items/1/timeout"),
    ] {
        let body = json!({"items": [{"prefix": "/good", "upstream": "http://127.0.0.1:9"}, item]});
        let refused = put(owner, &body, None).await.refused(422, "validation-failed");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{item}: {refused}");
    }
    assert_eq!(owner.get(ROUTES).await.expect(200)["version"], 0);
}

#[tokio::test]
async fn a_host_beside_follows_within_seconds() {
    let up = Upstream::start();
    let host = Host::settings().start().await;
    let beside = host.beside().start().await;
    let wanted = json!({"items": [{"prefix": "/shop", "upstream": up.url()}]});
    let began = std::time::Instant::now();
    put(host.owner().await, &wanted, None).await.expect(200);
    eventually("the other host proxies", async || (beside.client().get("/shop/x").await.status == 200).then_some(()))
        .await;
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    // Two that change from the same version: one of them wins.
    let (one, two) = (json!({"items": []}), json!({"items": [{"prefix": "/b", "upstream": up.url()}]}));
    let (a, b) =
        tokio::join!(put(host.owner().await, &one, Some("\"1\"")), put(beside.owner().await, &two, Some("\"1\"")));
    let mut statuses = [a.status.as_u16(), b.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412], "{a} {b}");
}
