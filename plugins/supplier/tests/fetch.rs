//! The limits of `fetch`, against real sockets.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use supplier::fetch::address::Reach;
use supplier::fetch::{self, FetchError, Page};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

/// A server that answers each path with the bytes given for it, and counts its visitors.
struct Site {
    port: u16,
    visits: Arc<AtomicUsize>,
}

impl Site {
    async fn serving(pages: Vec<(&'static str, Vec<u8>)>) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let visits = Arc::new(AtomicUsize::new(0));
        let counter = visits.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => break,
                    }
                }
                let head = String::from_utf8(head).unwrap();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let answer = match pages.iter().find(|(known, _)| *known == path) {
                    Some((_, answer)) if answer == b"echo" => html(&head),
                    Some((_, answer)) => answer.clone(),
                    None => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
                };
                // A reader that has seen enough hangs up; that is not this server's failure.
                let _ = stream.write_all(&answer).await;
            }
        });
        Site { port, visits }
    }

    fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://127.0.0.1:{}{path}", self.port)).unwrap()
    }

    async fn get(&self, path: &str) -> Result<Page, FetchError> {
        fetch::page(&self.url(path), Reach::PrivateNetworks).await
    }
}

fn answer(head: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn html(body: &str) -> Vec<u8> {
    answer("200 OK\r\ncontent-type: text/html; charset=utf-8", body)
}

fn redirect(to: &str) -> Vec<u8> {
    answer(&format!("302 Found\r\nlocation: {to}"), "")
}

#[tokio::test]
async fn a_page_is_read_with_an_honest_request() {
    let site = Site::serving(vec![("/p?a=1", b"echo".to_vec())]).await;
    let url = fetch::parse(&format!("  {}#reviews ", site.url("/p?a=1"))).unwrap();
    let page = fetch::page(&url, Reach::PrivateNetworks).await.unwrap();
    assert_eq!(page.url, site.url("/p?a=1"));
    assert_eq!(page.content_type, "text/html; charset=utf-8");
    let request = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(request.starts_with("GET /p?a=1 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: 127.0.0.1:{}\r\n", site.port)), "{request}");
    assert!(request.contains("user-agent: cardinal-supplier/"), "{request}");
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_the_connection() {
    let page = b"HTTP/1.1 200 OK\r\ncontent-type: application/xhtml+xml\r\n\r\n<p>to the end".to_vec();
    let site = Site::serving(vec![("/", page)]).await;
    assert_eq!(&site.get("/").await.unwrap().body[..], b"<p>to the end");
}

#[tokio::test]
async fn without_the_setting_nothing_private_is_even_connected_to() {
    let site = Site::serving(vec![("/", html("secret"))]).await;
    let port = site.port;
    // However this machine is spelt.
    for host in ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
        let url = fetch::parse(&format!("http://{host}:{port}/")).unwrap();
        let refused = fetch::page(&url, Reach::Internet).await;
        assert!(matches!(refused, Err(FetchError::OutOfReach(_))), "{host}: {refused:?}");
    }
    assert_eq!(site.visits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn every_redirect_is_checked_like_the_first_address() {
    let site = Site::serving(vec![
        ("/metadata", redirect("http://169.254.169.254/latest/meta-data/")),
        ("/mapped", redirect("http://[::ffff:a9fe:a9fe]/")),
        ("/file", redirect("file:///etc/passwd")),
        ("/user", redirect("http://user:secret@127.0.0.1/")),
    ])
    .await;
    for path in ["/metadata", "/mapped"] {
        assert!(matches!(site.get(path).await, Err(FetchError::OutOfReach(_))), "{path}");
    }
    assert!(matches!(site.get("/file").await, Err(FetchError::NotAWebAddress)));
    assert!(matches!(site.get("/user").await, Err(FetchError::Credentials)));
}

#[tokio::test]
async fn five_redirects_are_followed_and_not_one_more() {
    let chain = |last| {
        vec![
            ("/1", redirect("/2")),
            ("/2", redirect("3#part")),
            ("/3", redirect("//127.0.0.1:PORT/4")),
            ("/4", redirect("/5")),
            ("/5", redirect("/6")),
            ("/6", last),
        ]
    };
    let with_port = |site: u16, pages: Vec<(&'static str, Vec<u8>)>| {
        let port = site.to_string();
        let fill = |body: Vec<u8>| String::from_utf8(body).unwrap().replace("PORT", &port).into_bytes();
        pages.into_iter().map(|(path, body)| (path, fill(body))).collect::<Vec<_>>()
    };
    // The chain names another site by its port, so that site must exist first.
    let end = Site::serving(with_port(0, chain(html("there"))).split_off(3)).await;
    let start = Site::serving(with_port(end.port, chain(html("")))).await;
    let page = start.get("/1").await.unwrap();
    assert_eq!(page.url, end.url("/6"));
    assert_eq!(&page.body[..], b"there");

    let circle = Site::serving(vec![("/", redirect("/"))]).await;
    assert!(matches!(circle.get("/").await, Err(FetchError::TooManyRedirects)));
    assert_eq!(circle.visits.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn what_is_too_large_is_refused_with_and_without_a_length() {
    let large = "x".repeat((4 << 20) + 1);
    let endless = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n{large}");
    let many_headers = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(200_000));
    let site = Site::serving(vec![
        ("/length", html(&large)),
        ("/endless", endless.into_bytes()),
        ("/just", html(&large[1..])),
        ("/head", many_headers.into_bytes()),
    ])
    .await;
    assert!(matches!(site.get("/length").await, Err(FetchError::TooLarge)));
    assert!(matches!(site.get("/endless").await, Err(FetchError::TooLarge)));
    assert_eq!(site.get("/just").await.unwrap().body.len(), 4 << 20);
    assert!(matches!(site.get("/head").await, Err(FetchError::Http(_))));
}

#[tokio::test]
async fn only_html_that_is_there_is_read() {
    let site = Site::serving(vec![
        ("/pdf", answer("200 OK\r\ncontent-type: application/pdf", "%PDF")),
        ("/untyped", answer("200 OK", "<p>")),
        ("/gzip", answer("200 OK\r\ncontent-type: text/html\r\ncontent-encoding: gzip", "\u{1f}")),
        ("/not-modified", answer("304 Not Modified\r\nlocation: /pdf", "")),
        ("/nonsense", b"220 smtp.example ESMTP\r\n".to_vec()),
        ("/cut", b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 9\r\n\r\nhalf".to_vec()),
    ])
    .await;
    let said = |failure: Result<Page, FetchError>| failure.unwrap_err().to_string();
    assert_eq!(said(site.get("/pdf").await), "the address leads to application/pdf, not to an HTML page");
    assert!(said(site.get("/untyped").await).contains("without a type"));
    assert!(matches!(site.get("/gzip").await, Err(FetchError::Compressed)));
    assert_eq!(said(site.get("/missing").await), "the supplier's site answered 404 Not Found");
    assert!(matches!(site.get("/not-modified").await, Err(FetchError::Status(_))));
    assert!(matches!(site.get("/nonsense").await, Err(FetchError::Http(_))));
    assert!(matches!(site.get("/cut").await, Err(FetchError::Http(_))));
}

#[tokio::test(start_paused = true)]
async fn a_silent_site_ends_with_the_total_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    // The kernel accepts the connection; nobody ever answers on it.
    assert!(matches!(fetch::page(&url, Reach::PrivateNetworks).await, Err(FetchError::Timeout)));
}

#[tokio::test]
async fn a_closed_port_and_a_site_without_tls_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    assert!(matches!(fetch::page(&closed, Reach::PrivateNetworks).await, Err(FetchError::Connect(_))));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = Url::parse(&format!("https://{}/", listener.local_addr().unwrap())).unwrap();
    let server = async { listener.accept().await.unwrap().0.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await };
    let (answer, _) = tokio::join!(fetch::page(&plain, Reach::PrivateNetworks), server);
    assert!(matches!(answer, Err(FetchError::Tls(_))), "{answer:?}");
}

#[test]
fn addresses_that_are_not_read() {
    for text in ["", "shop.example/p", "ftp://shop.example/", "file:///etc/passwd", "http://", "javascript:alert(1)"] {
        assert!(matches!(fetch::parse(text), Err(FetchError::NotAWebAddress)), "{text}");
    }
    assert!(matches!(fetch::parse("https://u:p@shop.example/"), Err(FetchError::Credentials)));
    assert!(matches!(fetch::parse("https://u@shop.example/"), Err(FetchError::Credentials)));
    let long = format!("https://shop.example/{}", "x".repeat(2048));
    assert!(matches!(fetch::parse(&long), Err(FetchError::TooLong)));
}
