//! The walls between proxied pages and ours.

use cardinal_tests::{Host, Upstream, eventually, unique};
use http::Method;

use super::proxy::{only, proxying};

#[tokio::test]
async fn no_spelling_of_our_own_paths_reaches_an_upstream() {
    let up = Upstream::start();
    let host = Host::settings().set("PROXY_ROUTES", format!("/={}", up.url())).start().await;
    for path in [
        "/%761/admin/users",
        "/v1/%61dmin/master-cards",
        "//v1/admin/master-cards",
        "/x/../v1/admin/users",
        "/x/%2e%2e/admin/",
        "/./admin/",
        "/%2561dmin/",
        "/admin;x/",
        "/x/..;/metrics",
        "/%61pi",
        "/%68ealthz",
        "/problems/%2e%2e/x/../../metrics",
        "/.well-known//oauth-protected-resource",
        "/.well-known%2foauth-protected-resource",
        "/x/../y",
        "/x/%2e%2e%2fy",
    ] {
        host.client().get(path).await.refused(400, "invalid-request");
    }
    for path in [
        "/v1/nothing",
        "/V1/admin",
        "/Admin/",
        "/API",
        "/metrics/x",
        "/problems/x",
        "/.well-known/oauth-protected-resource/x",
    ] {
        let answer = host.client().get(path).await;
        assert!([401, 404].contains(&answer.status.as_u16()), "{answer}");
    }
    assert!(up.all_seen().is_empty(), "{:?}", up.all_seen());
    // Only what is covered by a route is proxied, `/` too.
    host.client().get("/").await.expect(200);
    host.client().get("/apiary").await.expect(200);
    assert_eq!(up.all_seen().len(), 2);
    let warning = "share the Admin UI's origin";
    eventually("the log warns", async || host.log().contains(warning).then_some(())).await;
    let html = "raw-kept=HTTP/1.1 200 OK\\r\\nContent-Type: Text/HTML; charset=x\\r\\nContent-Length: 0\\r\\n\\r\\n";
    host.client().call(Method::GET, "/page").header("x-script", html).send().await;
    let warning = "answers HTML on the Admin UI's origin";
    eventually("the log warns", async || host.log().contains(warning).then_some(())).await;
}

#[tokio::test]
async fn our_own_credentials_never_leave() {
    let host = proxying().await;
    let key = host.owner().await.key(&["cards:read"]).await;
    for value in [
        format!("Bearer {}", key.token),
        format!("bearer  {}", key.token),
        format!("Bearer {}", host.owner().await.token),
        key.token.clone(),
        // user:mpk_abc
        "Basic dXNlcjptcGtfYWJj".to_owned(),
    ] {
        let mark = unique("mark");
        let call = host.client().call(Method::GET, "/kept/x").header("x-mark", &mark).header("authorization", &value);
        call.header("proxy-authorization", &value).send().await.expect(200);
        let seen = only(&mark);
        assert!(seen.header("authorization").is_none() && seen.header("proxy-authorization").is_none(), "{seen:?}");
    }
}

#[tokio::test]
async fn service_workers_are_not_served() {
    let host = proxying().await;
    let mark = unique("mark");
    let call =
        host.client().call(Method::GET, "/kept/sw.js").header("x-mark", &mark).header("service-worker", "script");
    call.send().await.refused(403, "forbidden");
    assert!(Upstream::shared().seen(&mark).is_empty());
}

#[tokio::test]
async fn what_no_upstream_should_get_is_turned_away() {
    let host = proxying().await;
    let mark = unique("mark");
    let trace = host.client().call(Method::TRACE, "/kept/x").header("x-mark", &mark).send().await;
    trace.refused(405, "method-not-allowed");
    assert!(trace.header("allow").is_some());
    // A request that comes back to where it was.
    host.client().call(Method::GET, "/kept/x").header("x-mark", &mark).send().await.expect(200);
    let via = only(&mark).header("via").unwrap().to_owned();
    let again = host.client().call(Method::GET, "/kept/x").header("via", &format!("1.1 other, {via}")).send().await;
    again.refused(502, "upstream-error");
}

#[tokio::test]
async fn proxy_hosts_serve_the_proxy_and_nothing_else() {
    let up = Upstream::start();
    let settings = Host::settings().set("PROXY_ROUTES", format!("/={}", up.url()));
    let host = settings.set("PROXY_HOSTS", "www.example,shop.example:81").start().await;
    let get = async |name: &str, path: &str| host.client().call(Method::GET, path).header("host", name).send().await;
    for name in ["www.example", "WWW.example:8080", "shop.example:81"] {
        get(name, "/page").await.expect(200);
        for path in ["/admin", "/admin/", "/v1/admin/auth/me", "/api", "/healthz", "/metrics", "/problems/not-found"] {
            get(name, path).await.refused(404, "not-found");
        }
    }
    let own = host.address().to_string();
    get(&own, "/page").await.refused(404, "not-found");
    assert_eq!(get(&own, "/").await.status, 307);
    assert_eq!(get(&own, "/healthz").await.status, 200);
    get("shop.example", "/page").await.refused(421, "misdirected-request");
    assert_eq!(up.all_seen().len(), 3);
    assert_eq!(up.all_seen()[1].header("host"), Some("WWW.example:8080"));
    assert!(!host.log().contains("share the Admin UI's origin"), "{}", host.log());
}

#[tokio::test]
async fn with_a_listener_of_its_own_the_admin_api_has_no_proxied_neighbours() {
    let up = Upstream::start();
    let settings = Host::settings().set("PROXY_ROUTES", format!("/shop={}", up.url()));
    let host = settings.set("ADMIN_LISTEN_ADDR", "127.0.0.1:0").start().await;
    let addresses: serde_json::Value =
        serde_json::from_slice(&std::fs::read(host.data().join("addresses.json")).unwrap()).unwrap();
    let admin = cardinal_tests::Client::new(addresses["admin"].as_str().unwrap().parse().unwrap());
    host.client().get("/shop/x").await.expect(200);
    host.client().get("/admin/").await.refused(404, "not-found");
    host.client().get("/").await.refused(404, "not-found");
    admin.get("/shop/x").await.refused(404, "not-found");
    assert_eq!(admin.get("/").await.status, 307);
    assert!(!host.log().contains("share the Admin UI's origin"), "{}", host.log());
}
