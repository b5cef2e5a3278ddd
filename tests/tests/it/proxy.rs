//! Contract 1, "everything else": what crosses the HTTP proxy, and what of it is changed.

use std::sync::{Arc, OnceLock, Weak};

use cardinal_tests::{Host, Seen, Upstream, WebSocketEcho, unique};
use http::Method;
use tokio::sync::Mutex;

/// A host that proxies to the shared upstream: `/kept` keeps its prefix, `/cut` and `/based` replace it.
pub(super) async fn proxying() -> Arc<Host> {
    static SHARED: Mutex<Weak<Host>> = Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(host) = shared.upgrade() {
        return host;
    }
    let host = Arc::new(proxying_alone().await);
    *shared = Arc::downgrade(&host);
    host
}

/// The same for one test, which may measure it.
pub(super) async fn proxying_alone() -> Host {
    let up = Upstream::shared().url();
    let mut routes = format!("/kept={up},/cut={up}/,/based={up}/some/base/,/kept/nobody=http://127.0.0.1:1");
    for (at, lane) in LANES.iter().enumerate() {
        routes += &format!(",/lane{at}={}", lane.get_or_init(Upstream::start).url());
    }
    routes += &format!(",/ws=http://{}", WebSocketEcho::shared().address());
    let settings = Host::settings().set("PROXY_ROUTES", routes).set("PROXY_TIMEOUT_SECONDS", "2");
    let settings = settings.set("PROXY_IDLE_SECONDS", "4");
    // 127.0.0.1 is a stranger, 127.0.0.77 a proxy in front.
    settings.set("TRUSTED_PROXIES", "127.0.0.77").start().await
}

static LANES: [OnceLock<Upstream>; 6] = [const { OnceLock::new() }; 6];

/// An upstream at `/laneN` for one test alone, which may count its connections and bytes.
pub(super) fn lane(at: usize) -> &'static Upstream {
    LANES[at].get_or_init(Upstream::start)
}

/// The one request with this mark.
pub(super) fn only(mark: &str) -> Seen {
    let mut seen = Upstream::shared().seen(mark);
    assert_eq!(seen.len(), 1, "{seen:?}");
    seen.remove(0)
}

#[tokio::test]
async fn the_longest_prefix_decides_and_stays_unless_the_upstream_names_a_path() {
    let host = proxying().await;
    for (path, target) in [
        ("/kept", "/kept"),
        ("/kept/a%20b/?q=1&q=%2F", "/kept/a%20b/?q=1&q=%2F"),
        ("/kept//double/./dot;x=1", "/kept//double/./dot;x=1"),
        ("/cut", "/"),
        ("/cut/a?q", "/a?q"),
        ("/based/a/", "/some/base/a/"),
        ("/based?q", "/some/base?q"),
    ] {
        let mark = unique("mark");
        host.client().call(Method::GET, path).header("x-mark", &mark).send().await.expect(200);
        assert_eq!(only(&mark).target(), target, "{path}");
    }
    for path in ["/keptt", "/Kept", "/", "/cutter/a"] {
        let answer = host.client().get(path).await;
        if path == "/" {
            assert_eq!((answer.status.as_u16(), answer.header("location")), (307, Some("/admin/")), "{answer}");
        } else {
            answer.refused(404, "not-found");
        }
    }
    host.client().get("/kept/nobody/x").await.refused(502, "upstream-error");
}

#[tokio::test]
async fn method_query_headers_and_body_arrive_as_they_were_sent() {
    let host = proxying().await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
        let mark = unique("mark");
        let call = host.client().call(method.parse().unwrap(), "/kept/x?y=z");
        let call = call
            .header("x-mark", &mark)
            .header("cookie", "a=b; c=d")
            .header_too("accept", "a")
            .header_too("accept", "b");
        let call = call.header("authorization", "Bearer not.ours.atall").body("text/x-odd", "the body");
        call.send().await.expect(200);
        let seen = only(&mark);
        assert_eq!(seen.lines[0], format!("{method} /kept/x?y=z HTTP/1.1"));
        assert_eq!(seen.body, b"the body", "{method}");
        assert_eq!(seen.all("accept"), ["a", "b"]);
        assert_eq!(seen.header("cookie"), Some("a=b; c=d"));
        assert_eq!(seen.header("content-type"), Some("text/x-odd"));
        assert_eq!(seen.header("authorization"), Some("Bearer not.ours.atall"));
    }
}

#[tokio::test]
async fn the_upstream_is_told_where_a_request_comes_from() {
    let host = proxying().await;
    let mark = unique("mark");
    let call = host.client().from_address([127, 0, 0, 9]).call(Method::GET, "/cut/x").header("x-mark", &mark);
    let call =
        call.header("x-forwarded-for", "6.6.6.6").header("forwarded", "for=6.6.6.6").header("x-real-ip", "6.6.6.6");
    let call =
        call.header("x-forwarded-proto", "https").header("x-forwarded-host", "evil").header("x-request-id", "mine-1");
    let answer = call.send().await;
    answer.expect(200);
    assert_eq!(answer.header("x-request-id"), Some("mine-1"));
    let (seen, own) = (only(&mark), host.address().to_string());
    assert_eq!(seen.all("x-forwarded-for"), ["127.0.0.9"]);
    assert_eq!(seen.all("x-forwarded-proto"), ["http"]);
    assert_eq!(seen.all("x-forwarded-host"), [own.as_str()]);
    assert_eq!(seen.all("x-forwarded-prefix"), ["/cut"]);
    assert_eq!(seen.all("host"), [own.as_str()]);
    assert_eq!(seen.all("forwarded"), [format!("for=127.0.0.9;host=\"{own}\";proto=http")]);
    assert_eq!(seen.all("x-request-id"), ["mine-1"]);
    assert!(seen.all("x-real-ip").is_empty());
    assert!(seen.header("via").is_some_and(|via| via.starts_with("1.1 cardinal-")), "{seen:?}");
}

#[tokio::test]
async fn a_trusted_proxy_in_front_is_believed() {
    let host = proxying().await;
    let mark = unique("mark");
    let call = host.client().from_address([127, 0, 0, 77]).call(Method::GET, "/kept/x").header("x-mark", &mark);
    let call = call.header("x-forwarded-for", "6.6.6.6, 198.51.100.7").header("x-forwarded-proto", "https");
    call.header("x-forwarded-host", "shop.example").send().await.expect(200);
    let seen = only(&mark);
    assert_eq!(seen.all("x-forwarded-for"), ["6.6.6.6, 198.51.100.7, 127.0.0.77"]);
    assert_eq!(seen.all("x-forwarded-proto"), ["https"]);
    assert_eq!(seen.all("x-forwarded-host"), ["shop.example"]);
    assert!(seen.all("x-forwarded-prefix").is_empty(), "the prefix is part of the path that the upstream sees");
}

#[tokio::test]
async fn the_client_behind_a_trusted_proxy_is_the_one_that_is_throttled() {
    let host = proxying().await;
    let front = host.client().from_address([127, 0, 0, 77]);
    let name = unique("nobody");
    let attempt = async |forwarded: &str| {
        let body = serde_json::json!({"username": name, "password": "wrong password"});
        let call = front.call(Method::POST, "/v1/admin/auth/login").json(&body).header("x-forwarded-for", forwarded);
        call.send().await
    };
    for _ in 0..5 {
        attempt("203.0.113.1").await.refused(401, "invalid-credentials");
    }
    attempt("203.0.113.1").await.refused(429, "rate-limited");
    attempt("6.6.6.6, 203.0.113.1").await.refused(429, "rate-limited");
    attempt("203.0.113.2").await.refused(401, "invalid-credentials");
}

#[tokio::test]
async fn an_answer_keeps_its_own_headers_and_gets_none_of_ours_but_the_request_id() {
    let host = proxying().await;
    let raw = "HTTP/1.1 299 Odd\\r\\nConnection: X-Hop\\r\\nX-Hop: 1\\r\\nKeep-Alive: timeout=9\\r\\nSet-Cookie: a=b\\r\\nSet-Cookie: c=d\\r\\n\
        Access-Control-Allow-Origin: https://their.example\\r\\nCache-Control: public, max-age=9\\r\\nStrict-Transport-Security: max-age=1\\r\\n\
        Service-Worker-Allowed: /\\r\\nX-Request-Id: theirs\\r\\nContent-Type: text/plain\\r\\nContent-Length: 4\\r\\n\\r\\nbody";
    let call = host.client().call(Method::GET, "/kept/x").header("x-script", &format!("raw-kept={raw}"));
    let answer = call.header("origin", "https://other.example").header("x-request-id", "ours").send().await;
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (299, "body"));
    let mut names: Vec<&str> = answer.headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    let own = ["access-control-allow-origin", "cache-control", "content-length", "content-type", "date", "set-cookie"];
    assert_eq!(names, [&own[..], &["strict-transport-security", "x-request-id"]].concat());
    assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://their.example"));
    assert_eq!(answer.header("x-request-id"), Some("ours"));
}

#[tokio::test]
async fn a_preflight_is_the_upstreams_to_answer() {
    let host = proxying().await;
    let mark = unique("mark");
    let call = host.client().call(Method::OPTIONS, "/kept/x").header("x-mark", &mark);
    let call = call.header("origin", "https://other.example").header("access-control-request-method", "PUT");
    let answer = call.send().await;
    answer.expect(200);
    assert!(answer.header("access-control-allow-origin").is_none(), "{answer}");
    assert_eq!(only(&mark).header("access-control-request-method"), Some("PUT"));
}

#[tokio::test]
async fn redirects_to_the_upstream_itself_come_back_through_the_proxy() {
    let host = proxying().await;
    let up = Upstream::shared().authority();
    for (path, location, seen) in [
        ("/kept/x", format!("http://{up}/kept/login?a=b"), "/kept/login?a=b"),
        ("/cut/x", format!("http://{up}/login"), "/cut/login"),
        ("/cut/x", "/login".to_owned(), "/cut/login"),
        ("/kept/x", "/login".to_owned(), "/login"),
        ("/cut/x", "https://elsewhere.example/".to_owned(), "https://elsewhere.example/"),
    ] {
        let raw = format!("raw-kept=HTTP/1.1 302 Found\\r\\nLocation: {location}\\r\\nContent-Length: 0\\r\\n\\r\\n");
        let answer = host.client().call(Method::GET, path).header("x-script", &raw).send().await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (302, Some(seen)), "{path} {location}");
    }
}

#[tokio::test]
async fn head_and_answers_without_a_body_keep_their_length() {
    let host = proxying().await;
    let whole = host.client().get("/kept/x").await;
    let head = host.client().call(Method::HEAD, "/kept/x").send().await;
    assert_eq!(head.status, 200);
    assert!(head.body.is_empty());
    // The two request lines differ by the length of their methods.
    let length = |answer: &cardinal_tests::Answer| answer.header("content-length").unwrap().parse::<usize>().unwrap();
    assert_eq!(length(&head), length(&whole) + 1);
    for (raw, status) in [
        ("HTTP/1.1 204 No Content\\r\\n\\r\\n", 204),
        ("HTTP/1.1 304 Not Modified\\r\\nETag: \"x\"\\r\\nContent-Length: 5\\r\\n\\r\\n", 304),
    ] {
        let answer =
            host.client().call(Method::GET, "/kept/x").header("x-script", &format!("raw-kept={raw}")).send().await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (status, 0), "{answer}");
    }
}

#[tokio::test]
async fn an_upstream_that_fails_is_a_plain_problem() {
    let host = proxying().await;
    let play = async |script: &str| host.client().call(Method::GET, "/kept/x").header("x-script", script).send().await;
    for garbage in [
        "raw=nonsense\\r\\n\\r\\n",
        "raw=",
        "raw=HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nContent-Length: 6\\r\\n\\r\\n",
        "upgrade",
    ] {
        let problem = play(garbage).await.refused(502, "upstream-error");
        let shown = problem.to_string();
        assert!(!shown.contains("127.0.0.1:1") && !shown.contains("hyper"), "internals are shown: {shown}");
    }
    let begun = std::time::Instant::now();
    play("silent").await.refused(504, "upstream-timeout");
    let metrics = host.owner().await.get("/metrics").await.text();
    for line in [
        r#"cardinal_proxy_faults_total{prefix="/kept",kind="timeout"} "#,
        r#"cardinal_proxy_requests_total{prefix="/kept"} "#,
    ] {
        assert!(metrics.contains(line), "{line} is not in:\n{metrics}");
    }
    assert!(begun.elapsed().as_secs() < 20);
}
