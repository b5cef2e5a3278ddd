//! What a plugin does in its calls never harms the host, another call or another plugin. The plugin is `unruly`.

use std::time::{Duration, Instant};

use cardinal_tests::{Host, Package, PluginsFolder, User, eventually};
use http::Method;
use serde_json::{Value, json};

const UNRULY: &str = "/v1/admin/plugins/unruly";
const SECRET: &str = "cellar";

async fn ask(user: &User, route: &str) -> cardinal_tests::Answer {
    user.get(&format!("{UNRULY}{route}")).await
}

#[tokio::test]
async fn a_panic_is_this_calls_failure_alone() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let worker = host.worker_pid();
    for route in ["/panic", "/panic-later"] {
        for _ in 0..5 {
            let answer = ask(owner, route).await;
            answer.refused(500, "plugin-panicked");
            assert!(!answer.text().contains(SECRET), "{answer}");
            // More than one: other tests share this plugin, and it is closed when half of its calls go wrong.
            for _ in 0..2 {
                ask(owner, "/who").await.expect(200);
            }
        }
    }
    owner.get("/v1/admin/master-cards?limit=1").await.expect(200);
    assert_eq!(host.worker_pid(), worker, "the worker died of a plugin's panic");
}

#[tokio::test]
async fn a_call_that_hangs_ends_at_its_deadline() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let begun = Instant::now();
    ask(owner, "/hang").await.refused(504, "plugin-timeout");
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1400) && took < Duration::from_secs(20), "{took:?}");
    ask(owner, "/who").await.expect(200);
}

#[tokio::test]
async fn an_error_of_a_plugin_shows_nothing_of_itself() {
    let host = Host::shared().await;
    let answer = ask(host.owner().await, "/leak").await;
    answer.refused(500, "internal-error");
    assert!(!answer.text().contains(SECRET), "{answer}");
}

#[tokio::test]
async fn an_error_that_a_plugin_means_arrives_as_it_meant_it() {
    let host = Host::shared().await;
    let refused = ask(host.owner().await, "/refuse").await.refused(409, "already-there");
    assert_eq!(refused["detail"], "There is one already.", "{refused}");
}

#[tokio::test]
async fn headers_that_a_plugin_may_not_set_are_dropped() {
    let host = Host::shared().await;
    let answer = ask(host.owner().await, "/headers").await;
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, "headers"), "{answer}");
    assert_eq!(answer.header("x-unruly"), Some("kept"), "{answer}");
    for dropped in [
        "set-cookie",
        "access-control-allow-origin",
        "clear-site-data",
        "service-worker-allowed",
        "strict-transport-security",
        "www-authenticate",
        "server",
        "transfer-encoding",
        "alt-svc",
        "nel",
        "report-to",
        "reporting-endpoints",
        "refresh",
        "link",
        "x-frame-options",
        "sourcemap",
        "cdn-cache-control",
        "x-accel-redirect",
        "other",
    ] {
        assert_eq!(answer.header(dropped), None, "{dropped}: {answer}");
    }
    assert_eq!(answer.header("cache-control"), Some("private, max-age=60"), "no cache that others share: {answer}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{answer}");
    assert_eq!(answer.header("content-security-policy"), Some("sandbox; default-src 'none'"), "{answer}");
}

#[tokio::test]
async fn dropped_headers_are_logged_once() {
    let plugins = PluginsFolder::default().with("unruly", &Package::fixture("unruly"));
    let host = Host::settings().plugins(plugins).start().await;
    for _ in 0..5 {
        ask(host.owner().await, "/headers").await;
    }
    let log = eventually("a line says what was dropped", async || {
        let log = host.log();
        log.contains("alt-svc").then_some(log)
    })
    .await;
    assert_eq!(log.matches("plugins may not set").count(), 1, "{log}");
}

#[tokio::test]
async fn the_text_of_an_error_is_bounded() {
    let host = Host::shared().await;
    let answer = ask(host.owner().await, "/long-error").await;
    answer.refused(422, "validation-failed");
    assert!(answer.body.len() < 16 << 10, "{} bytes", answer.body.len());
}

#[tokio::test]
async fn a_reply_that_cannot_be_sent_is_the_plugins_error() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for route in ["/odd-status", "/huge"] {
        ask(owner, route).await.refused(502, "plugin-error");
    }
}

#[tokio::test]
async fn a_plugin_sees_its_caller_and_never_the_credential() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let call = owner.call(Method::GET, &format!("{UNRULY}/who")).header("cookie", "a=b").header("x-own", "seen");
    let answer = call.header("x-request-id", "seen-by-plugin").send().await;
    let seen = answer.expect(200);
    assert_eq!(seen["user"]["id"], json!(owner.id), "{seen}");
    assert_eq!((&seen["authorization"], &seen["cookie"], &seen["x_own"]), (&Value::Null, &Value::Null, &json!("seen")));
    assert_eq!((&seen["request_id"], &seen["path"]), (&json!("seen-by-plugin"), &json!("/who")), "{seen}");
    let key = owner.key(&["plugin:unruly:read"]).await;
    let by_key = ask(&key, "/who").await.expect(200);
    assert_eq!(by_key["user"]["id"], json!(owner.id), "a key calls as its owner: {by_key}");
}

#[tokio::test]
async fn bodies_of_plugin_routes_are_bounded() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let echo = format!("{UNRULY}/echo");
    let send = async |bytes: usize| {
        owner.call(Method::POST, &echo).body("application/octet-stream", vec![b'x'; bytes]).send().await
    };
    assert_eq!(send(100_000).await.body.len(), 100_000);
    let answer = send((1 << 20) + 1).await;
    assert_eq!(answer.status, 413, "{}", answer.call);
    answer.problem();
}

#[tokio::test]
async fn routes_of_a_plugin_have_their_methods_and_scopes() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let wrong = owner.call(Method::PUT, &format!("{UNRULY}/who")).send().await;
    assert_eq!((wrong.status.as_u16(), wrong.header("allow")), (405, Some("GET, HEAD")), "{wrong}");
    wrong.problem();
    owner.get(&format!("{UNRULY}/nothing")).await.refused(404, "not-found");
    let head = owner.call(Method::HEAD, &format!("{UNRULY}/who")).send().await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0), "{head}");
    let reader = owner.key(&["plugin:unruly:read"]).await;
    let refused = reader.post(&format!("{UNRULY}/echo"), &json!({})).await.refused(403, "insufficient-scope");
    assert_eq!(refused["required_scope"], "plugin:unruly:write", "{refused}");
    host.client().get(&format!("{UNRULY}/who")).await.refused(401, "missing-token");
}

#[tokio::test]
async fn what_a_plugin_may_not_write_is_refused_with_its_reason() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Target").await;
    let id = card["id"].as_str().unwrap();
    let enrich = async |card: &str, body: Value| owner.post(&format!("{UNRULY}/enrich/{card}"), &body).await;
    let source = |key: &str, kind: &str, data: Value| json!({"source_key": key, "kind": kind, "data": data});
    for key in ["supplier:x", "unruly", "unruly:", ":x", "", "Unruly:x"] {
        enrich(id, source(key, "unruly-note", json!({}))).await.refused(422, "source-key-invalid");
    }
    enrich(id, source("unruly:x", "supplier", json!({}))).await.refused(422, "kind-not-declared");
    let big = json!({"text": "x".repeat(257 * 1024)});
    enrich(id, source("unruly:x", "unruly-note", big)).await.refused(422, "source-limit-exceeded");
    let unknown = uuid::Uuid::now_v7().to_string();
    enrich(&unknown, source("unruly:x", "unruly-note", json!({}))).await.refused(404, "not-found");
    let mut other = source("unruly:x", "unruly-note", json!({}));
    other["user_id"] = json!(uuid::Uuid::now_v7());
    assert_eq!(enrich(id, other).await.status, 403);
    assert_eq!(owner.read_card(id).await, card, "a refused write changed the card");
    enrich(id, source("unruly:x", "unruly-note", json!({"a": 1}))).await.expect(200);
}

#[tokio::test]
async fn a_card_holds_a_bounded_number_of_sources() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Full").await;
    let id = card["id"].as_str().unwrap();
    let enrich = |n: usize| {
        let body = json!({"source_key": format!("unruly:{n}"), "kind": "unruly-note", "data": {"n": n}});
        owner.call(Method::POST, &format!("{UNRULY}/enrich/{id}")).json(&body).send()
    };
    for begin in (0..256).step_by(32) {
        for answer in futures_util::future::join_all((begin..begin + 32).map(enrich)).await {
            answer.expect(200);
        }
    }
    enrich(256).await.refused(422, "source-limit-exceeded");
    enrich(7).await.expect(200);
    let after = owner.read_card(id).await;
    assert_eq!(after["attributes"]["sources"].as_object().unwrap().len(), 256);
    assert_eq!(after["version"], 258);
}

#[tokio::test]
async fn a_connection_comes_back_clean_whatever_was_done_with_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let clean = ask(owner, "/state").await.expect(200);
    assert!(clean["search_path"].as_str().unwrap().starts_with("plugin_unruly"), "{clean}");
    assert_eq!(
        (&clean["listening"], &clean["marks"], &clean["timeout"]),
        // The limit that the host gives every plugin's role.
        (&json!(0), &json!(0), &json!("15s")),
        "{clean}"
    );
    for sin in ["/open-transaction", "/other-role", "/other-path", "/listen", "/abandon"] {
        // More often than the pool has connections, so that one of them must be met again.
        for _ in 0..12 {
            ask(owner, sin).await;
        }
        for _ in 0..12 {
            assert_eq!(ask(owner, "/state").await.expect(200), clean, "after {sin}");
        }
    }
}

#[tokio::test]
async fn postgresql_itself_keeps_a_plugin_at_home() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Guarded").await;
    let tried = ask(owner, "/trespass").await.expect(200);
    assert_eq!(tried["allowed"], json!([]), "PostgreSQL allowed what it must refuse");
    assert_eq!(owner.read_card(card["id"].as_str().unwrap()).await, card);
}

#[tokio::test]
async fn a_stopping_host_answers_what_it_has_begun() {
    let unruly = Package::fixture("unruly").manifest(|manifest| manifest["limits"]["timeout_ms"] = 30_000.into());
    let mut host = Host::settings().plugins(PluginsFolder::default().with("unruly", &unruly)).start().await;
    let owner = host.owner().await;
    let slow = owner.call(Method::GET, &format!("{UNRULY}/slow?ms=5000")).send();
    let slow = tokio::spawn(slow);
    host.calls_under_way("unruly", 1).await;
    host.program().signal(rustix::process::Signal::TERM);
    let answer = slow.await.unwrap();
    assert_eq!(answer.expect(200)["slept"], 5000, "{answer}");
    assert!(host.program().ended().await.success(), "{}", host.log());
}

#[tokio::test]
async fn who_comes_while_the_host_stops_is_told_so_at_once() {
    let plugins = PluginsFolder::default().with("unruly", &Package::fixture("unruly"));
    let mut host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await.unlimited().await;
    let held = owner.call(Method::GET, &format!("{UNRULY}/silent")).open(None).await.unwrap();
    host.program().signal(rustix::process::Signal::TERM);
    let told = eventually("a new connection is told that the host stops", async || {
        let answer = owner.call(Method::GET, "/readyz").try_send().await.ok()?;
        (answer.status == 503).then_some(answer)
    })
    .await;
    told.refused(503, "draining");
    assert!(told.header("retry-after").is_some(), "{told}");
    for path in ["/v1/admin/master-cards", &format!("{UNRULY}/who"), "/api", "/nowhere"] {
        let answer = owner.get(path).await;
        answer.refused(503, "draining");
        assert_eq!(answer.header("connection"), Some("close"), "{answer}");
    }
    assert_eq!(owner.get("/healthz").await.status, 200, "it is alive");
    drop(held);
    assert!(host.program().ended().await.success(), "{}", host.log());
}
