//! Contract 4: how the reference plugin gets along with the sites that it reads: what they permit, what they send, how
//! often they are asked.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cardinal_tests::{Answer, Host, Package, PageAnswer, Pages, PluginsFolder, User, eventually};
use futures_util::{StreamExt, future, stream};
use http::{Method, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::Notify;

const PLUGIN: &str = "/v1/admin/plugins/supplier";

fn product(name: &str) -> String {
    format!(
        r#"<!doctype html><div itemscope itemtype="https://schema.org/Product"><h1 itemprop="name">{name}</h1>
        <div itemprop="offers" itemscope itemtype="https://schema.org/Offer"><meta itemprop="price" content="5.00"></div></div>"#
    )
}

fn page(html: impl Into<Bytes>) -> PageAnswer {
    answer(&[("content-type", "text/html; charset=utf-8")], html)
}

fn answer(headers: &[(&str, &str)], body: impl Into<Bytes>) -> PageAnswer {
    let body = Full::new(body.into()).map_err(|never: Infallible| match never {}).boxed();
    with_body(headers, body)
}

fn with_body(headers: &[(&str, &str)], body: BoxBody<Bytes, io::Error>) -> PageAnswer {
    let builder = headers.iter().fold(Response::builder(), |builder, (name, value)| builder.header(*name, *value));
    builder.body(body).unwrap()
}

fn status(status: u16) -> PageAnswer {
    let mut answer = answer(&[], "");
    *answer.status_mut() = status.try_into().unwrap();
    answer
}

async fn preview(user: &User, url: &str) -> Answer {
    let escaped = url.replace(':', "%3A").replace('/', "%2F").replace('?', "%3F").replace('=', "%3D");
    user.get(&format!("{PLUGIN}/preview?url={escaped}")).await
}

async fn refreshed(user: &User, url: &str) -> Answer {
    let escaped = url.replace(':', "%3A").replace('/', "%2F");
    user.get(&format!("{PLUGIN}/preview?url={escaped}&refresh=true")).await
}

/// A host whose plugin reads this machine's pages without long pauses.
async fn hurried(change: Value) -> Host {
    let mut settings = json!({"allow_private_addresses": true, "delay_ms": 10});
    settings.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    let host = Host::settings().plugins(PluginsFolder::bundled());
    host.set("PLUGIN_SETTINGS_SUPPLIER", settings.to_string()).start().await
}

#[tokio::test]
async fn the_header_says_in_which_letters_a_page_is_written() {
    let pages = Pages::answering(async |request| match request.uri.path() {
        // "Стол" in windows-1251.
        "/cyrillic" => {
            let head = "<meta property=og:type content=product><meta property=og:title content=";
            let html = [head.as_bytes(), b"\xd1\xf2\xee\xeb>"].concat();
            answer(&[("content-type", "text/html; charset=windows-1251")], html)
        }
        "/marked" => {
            answer(&[("content-type", "text/html; charset=windows-1251")], format!("\u{feff}{}", product("Стол")))
        }
        _ => status(404),
    })
    .await;
    let host = Host::shared().await;
    for path in ["/cyrillic", "/marked"] {
        let found = preview(host.owner().await, &pages.url(path)).await.expect(200);
        assert_eq!(found["product"]["title"], "Стол", "{path}");
    }
}

#[tokio::test]
async fn a_page_that_has_not_changed_is_not_sent_again() {
    let edition = Arc::new(AtomicUsize::new(1));
    let (now, sent) = (Arc::clone(&edition), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&sent);
    let pages = Pages::answering(move |request| {
        let tag = format!("\"{}\"", now.load(Ordering::SeqCst));
        let known = request.headers.get("if-none-match").is_some_and(|known| known == tag.as_str());
        let dated =
            request.headers.get("if-modified-since").is_some_and(|date| date == "Thu, 01 Jan 2026 00:00:00 GMT");
        let headers =
            [("content-type", "text/html"), ("etag", tag.as_str()), ("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")];
        let mut reply = answer(&headers, product(&format!("Edition {tag}")));
        if known && dated {
            *reply.status_mut() = http::StatusCode::NOT_MODIFIED;
            *reply.body_mut() = Full::default().map_err(|never: Infallible| match never {}).boxed();
        } else if request.uri.path() == "/p" {
            count.fetch_add(1, Ordering::SeqCst);
        }
        future::ready(if request.uri.path() == "/robots.txt" { status(404) } else { reply })
    })
    .await;
    let host = Host::shared().await;
    let owner = host.owner().await;
    let url = pages.url("/p");
    let first = preview(owner, &url).await.expect(200)["product"].clone();
    assert_eq!(first["title"], "Edition \"1\"");
    preview(owner, &url).await.expect(200);
    assert_eq!(pages.served(), 1, "a fresh page is not asked for at all");
    let later = eventually("the same page, read later", async || {
        let product = refreshed(owner, &url).await.expect(200)["product"].clone();
        (product["fetched_at"] != first["fetched_at"]).then_some(product)
    })
    .await;
    assert!(later["fetched_at"].as_str() > first["fetched_at"].as_str(), "{later}");
    assert_eq!((&later["title"], &later["price"]), (&first["title"], &first["price"]));
    assert_eq!(sent.load(Ordering::SeqCst), 1, "the page was sent again");
    edition.store(2, Ordering::SeqCst);
    let changed = refreshed(owner, &url).await.expect(200);
    assert_eq!((&changed["product"]["title"], sent.load(Ordering::SeqCst)), (&json!("Edition \"2\""), 2));
}

#[tokio::test]
async fn what_a_site_forbids_to_robots_is_left_alone_unless_the_operator_says_otherwise() {
    let site = async || {
        Pages::answering(async |request| match request.uri.path() {
            "/robots.txt" => {
                answer(&[("content-type", "text/plain")], "User-agent: *\nDisallow: /private\nAllow: /private/*/open$")
            }
            "/moved" => {
                let mut moved = answer(&[("location", "/private/1")], "");
                *moved.status_mut() = http::StatusCode::FOUND;
                moved
            }
            _ => page(product("Chair")),
        })
        .await
    };
    let (host, pages) = (Host::shared().await, site().await);
    let owner = host.owner().await;
    for path in ["/private/1", "/moved"] {
        let refused = preview(owner, &pages.url(path)).await.refused(422, "robots-refused");
        assert_eq!(refused["errors"][0]["pointer"], "/url", "{refused}");
    }
    preview(owner, &pages.url("/private/1/open")).await.expect(200);
    assert_eq!(pages.paths(), ["/moved", "/private/1/open"]);

    let host = hurried(json!({"honour_robots": false})).await;
    let pages = site().await;
    preview(host.owner().await, &pages.url("/private/1")).await.expect(200);
}

#[tokio::test]
async fn a_site_whose_rules_cannot_be_had_is_not_read() {
    let pages = Pages::answering(async |request| match request.uri.path() {
        "/robots.txt" => status(503),
        _ => page(product("Chair")),
    })
    .await;
    let host = Host::shared().await;
    preview(host.owner().await, &pages.url("/p")).await.refused(502, "robots-unavailable");
    assert_eq!(pages.served(), 0);
}

#[tokio::test]
async fn a_site_is_asked_by_one_call_at_a_time() {
    let host = hurried(json!({})).await;
    let owner = host.owner().await;
    let pages = Pages::answering(async |request| {
        // Long enough for others to come in between, were they let.
        tokio::time::sleep(Duration::from_millis(20)).await;
        if request.uri.path() == "/robots.txt" { status(404) } else { page(product(request.uri.path())) }
    })
    .await;
    let card = owner.card("Popular").await;
    let enrich = format!("{PLUGIN}/enrich/{}", card["id"].as_str().unwrap());
    let calls =
        (0..20).map(|n| owner.call(Method::POST, &enrich).json(&json!({"url": pages.url(&format!("/p{n}"))})).send());
    for answer in future::join_all(calls).await {
        answer.expect(200);
    }
    assert_eq!((pages.served(), pages.peak()), (20, 1), "{:?}", pages.paths());

    // Of many who want the same page one asks.
    let url = pages.url("/same");
    for answer in future::join_all((0..20).map(|_| preview(owner, &url))).await {
        answer.expect(200);
    }
    assert_eq!(pages.paths().iter().filter(|path| *path == "/same").count(), 1);
    // And another site is not kept waiting by them.
    let shops = (2..12).map(|shop| (pages.url_at(shop, "/p"), shop));
    future::join_all(shops.map(async |(url, _)| preview(owner, &url).await.expect(200))).await;
    assert!(pages.peak() > 1);
}

#[tokio::test]
async fn who_leaves_frees_the_place_and_a_full_queue_says_so() {
    let host = hurried(json!({})).await;
    let owner = host.owner().await;
    let release = Arc::new(Notify::new());
    let gate = Arc::clone(&release);
    let pages = Pages::answering(move |request| {
        let gate = Arc::clone(&gate);
        async move {
            match request.uri.path() {
                "/robots.txt" => return status(404),
                "/stuck" => future::pending().await,
                "/held" => gate.notified().await,
                _ => {}
            }
            page(product("Chair"))
        }
    })
    .await;
    let asked = async |path: &str| {
        eventually(path, async || pages.paths().iter().any(|known| known == path).then_some(())).await;
    };
    let stuck = tokio::spawn(owner.call(Method::GET, &format!("{PLUGIN}/preview?url={}", pages.url("/stuck"))).send());
    asked("/stuck").await;
    let begun = Instant::now();
    stuck.abort();
    preview(owner, &pages.url("/next")).await.expect(200);
    assert!(begun.elapsed() < Duration::from_secs(8), "the place was held until the page's time was over");

    let call = |path: String| {
        tokio::spawn(owner.call(Method::GET, &format!("{PLUGIN}/preview?url={}", pages.url(&path))).send())
    };
    let held = call("/held".to_owned());
    asked("/held").await;
    // 24 may wait; which of these come too late nobody knows.
    let calls: Vec<_> = (0..30).map(|n| call(format!("/w{n}"))).collect();
    let (answers, others) = wait_for_refusals(calls, 6).await;
    for answer in answers {
        let refused = answer.refused(503, "supplier-busy");
        assert!(
            answer.header("retry-after").and_then(|wait| wait.parse::<u32>().ok()).is_some_and(|wait| wait >= 1),
            "{refused}"
        );
    }
    release.notify_one();
    held.await.unwrap().expect(200);
    for other in others {
        other.await.unwrap().expect(200);
    }
}

type Calls = Vec<tokio::task::JoinHandle<Answer>>;

/// The first `count` answers of `calls`, and the calls that have none yet.
async fn wait_for_refusals(calls: Calls, count: usize) -> (Vec<Answer>, Calls) {
    let (mut answers, mut left) = (Vec::new(), calls);
    while answers.len() < count {
        let (answer, _, others) = future::select_all(left).await;
        answers.push(answer.unwrap());
        left = others;
    }
    (answers, left)
}

#[tokio::test]
async fn the_page_says_by_which_address_it_wants_to_be_known() {
    let pages = Pages::answering(async |request| match (request.uri.path(), request.uri.query()) {
        ("/short", _) => {
            let mut moved = answer(&[("location", "/chair?campaign=1")], "");
            *moved.status_mut() = http::StatusCode::MOVED_PERMANENTLY;
            moved
        }
        ("/chair", Some("campaign=1")) => page(format!("<link rel=canonical href='/chair'>{}", product("Chair"))),
        ("/elsewhere", _) => page(format!("<link rel=canonical href='https://evil.example/x'>{}", product("Chair"))),
        _ => status(404),
    })
    .await;
    let host = Host::shared().await;
    let owner = host.owner().await;
    for (asked, known) in [("/short", "/chair"), ("/elsewhere", "/elsewhere")] {
        let found = preview(owner, &pages.url(asked)).await.expect(200);
        assert_eq!(found["product"]["url"], json!(pages.url(known)), "{asked}");
    }
    let items = owner.get(&format!("{PLUGIN}/items?limit=200")).await.expect(200);
    let asked = items["items"].as_array().unwrap().iter().any(|item| item["url"] == json!(pages.url("/short")));
    assert!(asked, "the list names what was asked for: {items}");
}

/// Much at once, so that a busy machine gets to the limit of a page before that of time.
const MORE: &str = match str::from_utf8(&[b'x'; 1 << 16]) {
    Ok(text) => text,
    Err(_) => "",
};

#[tokio::test]
async fn pages_that_break_off_never_end_or_are_too_large_are_refused_in_time() {
    let pages = Pages::answering(async |request| {
        let html = [("content-type", "text/html")];
        let chunk = |text: &'static str| Ok(Frame::data(Bytes::from(text)));
        match request.uri.path() {
            "/cut" => {
                let pieces = stream::iter([chunk("<p>half a"), Err(io::Error::other("gone"))]);
                with_body(&html, BodyExt::boxed(StreamBody::new(pieces)))
            }
            "/endless" => with_body(&html, BodyExt::boxed(StreamBody::new(stream::repeat_with(move || chunk(MORE))))),
            "/slow" => {
                let pieces = stream::once(future::ready(chunk("<p>wait"))).chain(stream::pending());
                with_body(&html, BodyExt::boxed(StreamBody::new(pieces)))
            }
            "/pdf" => answer(&[("content-type", "application/pdf")], "%PDF"),
            "/circle" => {
                let mut moved = answer(&[("location", "/circle")], "");
                *moved.status_mut() = http::StatusCode::FOUND;
                moved
            }
            "/inward" => {
                let mut moved = answer(&[("location", "http://169.254.169.254/latest/meta-data/")], "");
                *moved.status_mut() = http::StatusCode::FOUND;
                moved
            }
            _ => status(404),
        }
    })
    .await;
    let host = Host::shared().await;
    let owner = host.owner().await;
    // Each of another shop, so that none waits for another.
    let cases = [
        ("/cut", 502, "upstream-error"),
        ("/endless", 422, "page-unusable"),
        ("/slow", 504, "upstream-timeout"),
        ("/pdf", 422, "page-unusable"),
        ("/circle", 422, "page-unusable"),
        ("/inward", 422, "address-refused"),
        ("/missing", 502, "upstream-error"),
    ];
    let calls = cases.iter().zip(1..).map(async |((path, status, code), shop)| {
        preview(owner, &pages.url_at(shop, path)).await.refused(*status, code);
    });
    future::join_all(calls).await;
}

#[tokio::test]
async fn the_list_of_pages_goes_on_where_it_stopped() {
    let host = hurried(json!({"cache_max_pages": 8})).await;
    let owner = host.owner().await;
    let pages = Pages::answering(async |request| match request.uri.path() {
        "/robots.txt" => status(404),
        path => page(product(path)),
    })
    .await;
    let read = async |n: usize| preview(owner, &pages.url(&format!("/{n}"))).await.expect(200);
    for n in 0..5 {
        read(n).await;
    }
    let list = async |query: String| owner.get(&format!("{PLUGIN}/items?{query}")).await.expect(200);
    let titles = |list: &Value| {
        let titles =
            list["items"].as_array().unwrap().iter().map(|item| item["product"]["title"].as_str().unwrap().to_owned());
        titles.collect::<Vec<_>>()
    };
    let first = list("limit=2".to_owned()).await;
    assert_eq!(titles(&first), ["/4", "/3"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    // What comes in meanwhile, and what is read again, moves nothing.
    read(5).await;
    refreshed(owner, &pages.url("/0")).await.expect(200);
    let second = list(format!("limit=2&cursor={cursor}")).await;
    assert_eq!(titles(&second), ["/2", "/1"]);
    let third = list(format!("limit=2&cursor={}", second["next_cursor"].as_str().unwrap())).await;
    assert_eq!((titles(&third), &third["next_cursor"]), (vec!["/0".to_owned()], &Value::Null));
    for bad in ["1", "x", "", "AQAAAAAAAAAA", "%00", &"A".repeat(1000)] {
        owner.get(&format!("{PLUGIN}/items?cursor={bad}")).await.refused(400, "invalid-cursor");
    }
    for bad in ["limit=0", "limit=201", "limit=many", "offset=1"] {
        let refused = owner.get(&format!("{PLUGIN}/items?{bad}")).await;
        assert!([400, 422].contains(&refused.status.as_u16()), "{refused}");
        refused.problem();
    }
    // More than it may keep: those that were read longest ago are gone.
    for n in 6..10 {
        read(n).await;
    }
    let all = list("limit=200".to_owned()).await;
    assert_eq!(titles(&all).len(), 8, "{all}");
    assert!(!titles(&all).contains(&"/1".to_owned()) && titles(&all).contains(&"/0".to_owned()), "{all}");
}

#[tokio::test]
async fn a_database_of_its_first_version_is_carried_over() {
    const FIRST: &str = "
        CREATE TABLE IF NOT EXISTS pages (
          id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
          address text NOT NULL UNIQUE CHECK (length(address) <= 2048),
          product jsonb NOT NULL,
          fetched_at timestamptz NOT NULL);
        CREATE INDEX IF NOT EXISTS pages_fetched_at ON pages (fetched_at);
        CREATE TABLE IF NOT EXISTS card_pages (
          card_id uuid NOT NULL REFERENCES public.master_cards (id) ON DELETE CASCADE,
          page_id bigint NOT NULL REFERENCES pages (id) ON DELETE CASCADE,
          source_key text NOT NULL,
          enriched_at timestamptz NOT NULL DEFAULT now(),
          PRIMARY KEY (card_id, page_id));
        INSERT INTO pages (address, product, fetched_at) VALUES ('http://127.0.0.1:1/old', '{\"title\": \"Old\", \"brand\": null,
          \"sku\": null, \"gtin\": null, \"description\": null, \"price\": \"1\", \"currency\": null, \"availability\": null,
          \"images\": [], \"url\": \"http://127.0.0.1:1/old\", \"fetched_at\": \"2026-01-01T00:00:00Z\"}', now());";
    let old = PluginsFolder::default().with("supplier", &Package::bundled("supplier").schema(FIRST));
    let host = Host::settings()
        .plugins(old)
        .set("PLUGIN_SETTINGS_SUPPLIER", json!({"allow_private_addresses": true}).to_string())
        .start()
        .await;
    let host = host.restart(|settings| settings.plugins(PluginsFolder::bundled())).await;
    let owner = host.owner().await;
    let items = owner.get(&format!("{PLUGIN}/items")).await.expect(200);
    assert_eq!(items["items"][0]["product"]["title"], "Old", "what was there is there: {items}");
    // What the first version found is not taken for what this one would find.
    preview(owner, "http://127.0.0.1:1/old").await.refused(502, "upstream-error");
    let pages = Pages::answering(async |_| page(product("New"))).await;
    preview(owner, &pages.url("/p")).await.expect(200);
}
