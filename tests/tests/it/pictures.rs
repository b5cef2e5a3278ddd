//! Pictures of others come through the host: read from where they are, checked, kept for a while, and nothing else ever
//! comes that way. The shared host may read from 127.0.0.1 and from no other address of this machine.

use std::{convert::Infallible, io};

use bytes::Bytes;
use cardinal_tests::{Answer, Host, PageAnswer, Pages, User};
use futures_util::{StreamExt, future::ready, stream};
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::Frame;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
const MAX_BYTES: usize = 8 << 20;

fn file(content_type: &str, bytes: impl Into<Bytes>) -> PageAnswer {
    let body = Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed();
    Response::builder().header("content-type", content_type).body(body).unwrap()
}

fn status(status: StatusCode) -> PageAnswer {
    let mut answer = file("text/plain", "no");
    *answer.status_mut() = status;
    answer
}

/// A picture that never ends, or does after so many pieces.
fn endless(first: &'static [u8]) -> PageAnswer {
    let pieces = stream::once(ready(Bytes::from_static(first))).chain(stream::repeat(Bytes::from(vec![0; 64 << 10])));
    let body: BoxBody<Bytes, io::Error> = BodyExt::boxed(StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))));
    Response::new(body)
}

async fn site() -> Pages {
    Pages::answering(async |request| match request.uri.path() {
        "/a.png" => file("text/html", PNG),
        "/page" => file("image/png", "<!doctype html><script>alert(1)</script>"),
        "/drawing.svg" => file("image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
        "/short" => file("image/png", &PNG[..4]),
        "/largest" => file("image/png", [PNG, &vec![0; MAX_BYTES - PNG.len()]].concat()),
        "/too-large" => file("image/png", [PNG, &vec![0; MAX_BYTES - PNG.len() + 1]].concat()),
        "/endless" => endless(PNG),
        "/endless-page" => endless(b"<html>"),
        "/silent" => std::future::pending().await,
        "/gone" => status(StatusCode::GONE),
        "/circle" => redirect("/circle"),
        path => match path.strip_prefix("/to/") {
            Some(target) => redirect(&plain(target)),
            None => status(StatusCode::NOT_FOUND),
        },
    })
    .await
}

fn redirect(to: &str) -> PageAnswer {
    let mut answer = status(StatusCode::FOUND);
    answer.headers_mut().insert("location", to.parse().unwrap());
    answer
}

/// An address in a path, and back.
fn hex(url: &str) -> String {
    url.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn plain(hex: &str) -> String {
    let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
    String::from_utf8(bytes.collect()).unwrap()
}

fn escaped(url: &str) -> String {
    url.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn picture(user: &User, url: &str) -> Answer {
    user.get(&format!("/v1/admin/pictures?url={}", escaped(url))).await
}

#[tokio::test]
async fn a_picture_is_what_its_bytes_say_and_is_read_once() {
    let (host, site) = (Host::shared().await, site().await);
    let owner = host.owner().await;
    let url = site.url("/a.png?once#part");
    let (first, second) = tokio::join!(picture(owner, &url), picture(owner, &url));
    for answer in [&first, &second, &picture(owner, &url).await] {
        assert_eq!((answer.status.as_u16(), &answer.body[..]), (200, PNG), "{answer}");
        for (name, value) in [
            ("content-type", "image/png"),
            ("cache-control", "private, max-age=3600"),
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "sandbox; default-src 'none'"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name}");
        }
    }
    assert_eq!(site.served(), 1);
    let tag = first.header("etag").unwrap();
    let call = owner.call(Method::GET, &format!("/v1/admin/pictures?url={}", escaped(&url)));
    let known = call.header("if-none-match", tag).send().await;
    assert_eq!((known.status.as_u16(), known.body.len(), known.header("etag")), (304, 0, Some(tag)), "{known}");
    let reader = owner.make_user("viewer").await;
    assert_eq!(picture(&reader, &url).await.status, 200);
    assert_eq!(picture(owner, &site.url("/largest")).await.body.len(), MAX_BYTES);
}

#[tokio::test]
async fn what_is_no_picture_never_comes_through() {
    let (host, site) = (Host::shared().await, site().await);
    let owner = host.owner().await;
    for path in ["/page", "/drawing.svg", "/short", "/too-large", "/endless", "/endless-page", "/gone", "/none"] {
        let answer = picture(owner, &site.url(path)).await;
        answer.refused(404, "not-found");
        assert!(!answer.text().contains("alert"), "{answer}");
    }
    // A failure is kept too, for a shorter time.
    let before = site.served();
    picture(owner, &site.url("/gone")).await.refused(404, "not-found");
    assert_eq!(site.served(), before);
    for bad in [
        "",
        "a.png",
        "/a.png",
        "ftp://a/b.png",
        "file:///etc/passwd",
        "data:image/png;base64,AA==",
        "http://u:p@127.0.0.1/",
    ] {
        picture(owner, bad).await.refused(400, "invalid-request");
    }
    picture(owner, &format!("http://a/{}", "x".repeat(2_100))).await.refused(400, "invalid-request");
    owner.get("/v1/admin/pictures").await.refused(400, "invalid-request");
}

#[tokio::test]
async fn a_site_that_says_nothing_is_given_up() {
    let (host, site) = (Host::shared().await, site().await);
    picture(host.owner().await, &site.url("/silent")).await.refused(504, "upstream-timeout");
}

#[tokio::test]
async fn redirects_end_and_lead_to_no_private_network() {
    let (host, site) = (Host::shared().await, site().await);
    let owner = host.owner().await;
    let to = |url: &str| site.url(&format!("/to/{}", hex(url)));
    let there = picture(owner, &to(&site.url("/a.png"))).await;
    assert_eq!(&there.body[..], PNG, "{there}");
    // Each of these would end at a server that answers with a picture.
    let closed = site.url_at(2, "/a.png");
    for url in [closed.clone(), to(&closed), to(&to(&closed)), closed.replace("127.0.0.2", "[::ffff:127.0.0.2]")] {
        let problem = picture(owner, &url).await.refused(404, "not-found");
        assert!(problem["detail"].as_str().unwrap().contains("a network that pictures are not read from"), "{problem}");
    }
    assert_eq!(site.paths().iter().filter(|path| *path == "/a.png").count(), 1, "{:?}", site.paths());
    picture(owner, &site.url("/circle")).await.refused(404, "not-found");
    for other in ["http://169.254.169.254/a.png", "http://[::1]/a.png", "http://10.0.0.1/a.png", "http://0/a.png"] {
        picture(owner, other).await.refused(404, "not-found");
    }
    // What is not there and what is out of reach look alike.
    let [missing, private] =
        ["http://no-such-host.invalid/a.png", "http://127.0.0.2/a.png"].map(|url| picture(owner, url));
    let (missing, private) = (missing.await.problem(), private.await.problem());
    assert_eq!((&missing["code"], &missing["detail"]), (&private["code"], &private["detail"]));
}

#[tokio::test]
async fn without_the_setting_this_machine_is_out_of_reach() {
    let (host, site) = (Host::settings().start().await, site().await);
    picture(host.owner().await, &site.url("/a.png")).await.refused(404, "not-found");
    assert_eq!(site.served(), 0);
}
