//! Answers in the coding that a client prefers: the same bytes once decoded, tags that still work, events at once; and what
//! is never compressed. Contract 1, 2.

use std::io::Read;

use bytes::Bytes;
use cardinal_tests::{Answer, Host, Package, Pages, PluginsFolder, User, unique};
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::json;

const CARDS: &str = "/v1/admin/master-cards";
const ECHO: &str = "/v1/admin/plugins/echo";
const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];

async fn ask(user: &User, path: &str, accepted: &str) -> Answer {
    user.call(Method::GET, path).header("accept-encoding", accepted).send().await
}

fn decoded(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut reader: Box<dyn Read + '_> = match coding {
        "zstd" => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
        "br" => Box::new(brotli::Decompressor::new(bytes, 4_096)),
        "gzip" => Box::new(flate2::read::GzDecoder::new(bytes)),
        other => panic!("{other}"),
    };
    let mut plain = Vec::new();
    reader.read_to_end(&mut plain).unwrap();
    plain
}

/// As much as there is of what has not ended.
fn decoded_so_far(bytes: &[u8]) -> String {
    let mut reader = zstd::stream::read::Decoder::new(bytes).unwrap();
    let (mut plain, mut piece) = (Vec::new(), [0; 4_096]);
    while let Ok(length @ 1..) = reader.read(&mut piece) {
        plain.extend_from_slice(&piece[..length]);
    }
    String::from_utf8(plain).unwrap()
}

/// A card of over 1 KiB.
async fn card(owner: &User, word: &str) -> String {
    let attributes = json!({"text": "as long as they are ".repeat(100)});
    let wanted = json!({"title": word, "sku": unique(word), "attributes": attributes});
    owner.post(CARDS, &wanted).await.expect(201)["item"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn lists_and_exports_are_the_same_once_decoded() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let word = unique("compressed");
    for n in 0..30 {
        card(owner, &format!("{word} {n}")).await;
    }
    for path in [
        format!("{CARDS}?q={word}&sort=sku"),
        format!("{CARDS}/export?q={word}"),
        format!("{CARDS}/export?q={word}&format=csv"),
        "/problems/not-found".to_owned(),
    ] {
        let plain = owner.get(&path).await;
        assert_eq!((plain.status.as_u16(), plain.header("content-encoding")), (200, None), "{plain}");
        let varies = plain.headers.get_all("vary").iter().any(|value| value == "Accept-Encoding");
        assert_eq!(varies, plain.body.len() >= 1_024, "{plain}");
        for coding in CODINGS.into_iter().filter(|_| varies) {
            let answer = ask(owner, &path, &format!("identity;q=0.1, {coding}")).await;
            assert_eq!(answer.header("content-encoding"), Some(coding), "{:?}", answer.headers);
            assert_eq!(answer.header("content-type"), plain.header("content-type"));
            assert!(answer.body.len() < plain.body.len() / 2, "{} of {}", answer.body.len(), plain.body.len());
            assert_eq!(decoded(coding, &answer.body), plain.body, "{path} {coding}");
        }
        assert_eq!(ask(owner, &path, "gzip;q=0, br;q=0, *;q=0").await.body, plain.body);
    }
    // The middle weight wins, and HEAD says what GET says.
    let path = format!("{CARDS}?q={word}&sort=sku");
    let preferred = "zstd;q=0.1, br;q=0.3, gzip;q=0.2";
    let got = ask(owner, &path, preferred).await;
    let head = owner.call(Method::HEAD, &path).header("accept-encoding", preferred).send().await;
    for name in ["content-encoding", "content-length", "content-type"] {
        assert_eq!(head.header(name), got.header(name), "{name}");
    }
    assert_eq!((got.header("content-encoding"), head.body.len()), (Some("br"), 0));
}

#[tokio::test]
async fn the_tag_of_a_compressed_card_finds_the_card() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let path = format!("{CARDS}/{}", card(owner, "tagged").await);
    let tag = |answer: &Answer| answer.header("etag").unwrap().to_owned();
    assert_eq!(tag(&owner.get(&path).await), "\"1\"");
    for coding in CODINGS {
        let answer = ask(owner, &path, coding).await;
        assert_eq!(tag(&answer), format!("\"1+{coding}\""));
        let known = owner.call(Method::GET, &path).header("accept-encoding", coding);
        let known = known.header("if-none-match", &format!("\"9\", {}", tag(&answer))).send().await;
        assert_eq!((known.status.as_u16(), tag(&known), known.body.len()), (304, tag(&answer), 0));
    }
    let change = async |tag: &str, title: &str| {
        let call = owner.call(Method::PATCH, &path).header("accept-encoding", "zstd");
        call.header("if-match", tag).json(&json!({"title": title})).send().await
    };
    change("W/\"1+zstd\"", "weak").await.refused(412, "version-mismatch");
    let changed = change("\"1+zstd\"", "changed").await;
    assert_eq!((changed.status.as_u16(), changed.header("content-encoding")), (200, None), "{changed}");
    change("\"1+zstd\"", "late").await.refused(412, "version-mismatch");
    change("\"2\"", "again").await.expect(200);
}

#[tokio::test]
async fn what_shows_a_secret_is_never_compressed() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let scopes: Vec<String> = (0..60).map(|n| format!("plugin:as-long-as-they-are-{n}:read")).collect();
    let wanted = json!({"name": unique("long"), "scopes": scopes});
    let asks = |path: &str| owner.call(Method::POST, path).header("accept-encoding", "zstd, br, gzip");
    let made = asks("/v1/admin/api-keys").json(&wanted).send().await;
    let key = made.expect(201);
    assert!(made.body.len() > 1_024 && made.header("content-encoding").is_none(), "{made}");
    let rotate = format!("/v1/admin/api-keys/{}/rotate", key["item"]["id"].as_str().unwrap());
    let rotated = asks(&rotate).json(&json!({"overlap_seconds": 0})).send().await;
    rotated.expect(201);
    assert!(rotated.body.len() > 1_024 && rotated.header("content-encoding").is_none(), "{rotated}");
}

#[tokio::test]
async fn replies_of_plugins_are_compressed_unless_they_say_otherwise() {
    let host = Host::settings().plugins(PluginsFolder::default().with("echo", &Package::fixture("echo"))).start().await;
    let owner = host.owner().await;
    let text = |length: usize, more: &str| format!("{ECHO}/text?length={length}{more}");
    for (path, coding) in [
        (text(1_023, ""), None),
        (text(1_024, ""), Some("zstd")),
        (text(7_000_000, ""), Some("zstd")),
        (text(5_000, "&name=content-encoding&value=x-own"), Some("x-own")),
        (text(5_000, "&name=cache-control&value=no-transform"), None),
        (text(5_000, "&name=content-range&value=bytes+0-4999/5000"), None),
    ] {
        let answer = ask(owner, &path, "zstd, br, gzip").await;
        assert_eq!(answer.header("content-encoding"), coding, "{path}");
        let expected = if coding == Some("zstd") { "\"a+zstd\"" } else { "\"a\"" };
        assert_eq!(answer.header("etag"), Some(expected), "{path}");
        let body = if coding == Some("zstd") { decoded("zstd", &answer.body) } else { answer.body.to_vec() };
        assert!(body.iter().all(|byte| *byte == b'a') && body.len() >= 1_023, "{path}: {} bytes", body.len());
    }
    // The plugin sees its own tag and what the client takes.
    let seen = owner.call(Method::GET, &format!("{ECHO}/request/x")).header("accept-encoding", "br;q=0.5");
    let seen = seen.header("if-none-match", "\"a+zstd\"").send().await.expect(200);
    assert!(seen["headers"].as_array().unwrap().contains(&json!(["if-none-match", "\"a\""])), "{seen}");
    assert!(seen["headers"].as_array().unwrap().contains(&json!(["accept-encoding", "br;q=0.5"])), "{seen}");
    // Another method, a tool, the proxy.
    let posted = owner.call(Method::POST, &format!("{ECHO}/echo")).header("accept-encoding", "zstd");
    let posted = posted.json(&json!({"text": "a".repeat(5_000)})).send().await;
    assert_eq!((posted.status.as_u16(), posted.header("content-encoding")), (200, None));
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "plugin_echo_say", "arguments": {"text": "a".repeat(5_000)}}});
    let called = owner.call(Method::POST, "/api").header("accept-encoding", "zstd");
    let called = called.header("accept", "application/json, text/event-stream").json(&message).send().await;
    assert_eq!((called.status.as_u16(), called.header("content-encoding")), (200, None), "{called}");
    assert!(called.body.len() > 5_000, "{called}");
}

#[tokio::test]
async fn events_and_lines_come_when_they_are_made() {
    let host = Host::settings().plugins(PluginsFolder::default().with("echo", &Package::fixture("echo"))).start().await;
    let owner = host.owner().await;
    let call = owner.call(Method::GET, "/v1/admin/events?topics=card").header("accept-encoding", "zstd");
    let (head, mut body) = call.open(None).await.unwrap().into_parts();
    assert_eq!(head.headers["content-encoding"], "zstd");
    let mut read = Vec::new();
    for n in 0..3 {
        let sku = unique("event");
        let id = owner.post(CARDS, &json!({"title": format!("{n}"), "sku": sku})).await.expect(201);
        let id = id["item"]["id"].as_str().unwrap().to_owned();
        // Nothing comes after the event that would push it out.
        while !decoded_so_far(&read).contains(&id) {
            read.extend_from_slice(&more(&mut body).await);
        }
    }
    let call =
        owner.call(Method::GET, &format!("{ECHO}/stream?pieces=3&pause_ms=5000")).header("accept-encoding", "zstd");
    let mut body = call.open(None).await.unwrap().into_body();
    let mut read = Vec::new();
    while decoded_so_far(&read).is_empty() {
        read.extend_from_slice(&more(&mut body).await);
    }
    assert_eq!(decoded_so_far(&read), "0\n", "one line, not all of them at the end");
}

async fn more(body: &mut hyper::body::Incoming) -> Bytes {
    let frame = tokio::time::timeout(std::time::Duration::from_secs(60), body.frame()).await.expect("in a minute");
    frame.expect("it goes on").unwrap().into_data().unwrap()
}

#[tokio::test]
async fn the_files_of_the_ui_and_of_plugins_come_compressed() {
    let host = Host::settings().plugins(PluginsFolder::default().with("echo", &Package::fixture("echo"))).start().await;
    let owner = host.owner().await;
    let plugins = owner.get("/v1/admin/plugins").await.expect(200);
    let script = plugins["items"][0]["frontend"]["main_url"].as_str().unwrap().to_owned();
    let plain = owner.get(&script).await;
    for coding in CODINGS {
        let answer = ask(owner, &script, coding).await;
        let compressed = answer.header("content-encoding") == Some(coding);
        assert_eq!(compressed, plain.body.len() >= 1_024, "{:?}", answer.headers);
        let bytes = if compressed { decoded(coding, &answer.body) } else { answer.body.to_vec() };
        assert_eq!(bytes, plain.body);
    }
    let open = async |path: &str, accepted: &str| {
        let page = owner.call(Method::GET, path).header("accept", "text/html").header("accept-encoding", accepted);
        page.send().await
    };
    let page = open("/admin/", "identity").await;
    // A build without the Admin UI has none of its files, and some are too short.
    let mut script = None;
    for path in page.text().split('"').filter(|text| text.ends_with(".js")) {
        if ask(owner, path, "identity").await.body.len() >= 1_024 {
            script = Some(path.to_owned());
        }
    }
    for (accepted, coding) in [("br;q=0.5, gzip", "gzip"), ("gzip, br", "br"), ("zstd", "zstd"), ("zstd, br", "br")] {
        let short = open("/admin/", accepted).await;
        assert_eq!((short.body.len() < 1_024, short.header("content-encoding")), (true, None), "{:?}", short.headers);
        let Some(script) = &script else { continue };
        let answer = ask(owner, script, accepted).await;
        assert_eq!(answer.header("content-encoding"), Some(coding), "{:?}", answer.headers);
        assert_eq!(decoded(coding, &answer.body), ask(owner, script, "identity").await.body);
    }
}

/// What an upstream says of its bytes is left to it.
#[tokio::test]
async fn the_proxy_compresses_nothing() {
    let page = "<p>as long as they are".repeat(300);
    let upstream = Pages::serve([("/site/page", page.clone())]).await;
    let host = Host::settings().set("PROXY_ROUTES", format!("/site={}", upstream.url(""))).start().await;
    let answer = host.client().call(Method::GET, "/site/page").header("accept-encoding", "zstd").send().await;
    assert_eq!((answer.status.as_u16(), answer.header("content-encoding")), (200, None), "{answer}");
    assert_eq!(answer.text(), page);
}
