//! The limits of `fetch`, against real sockets.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use supplier::fetch::address::Reach;
use supplier::fetch::{self, FetchError, Fetched, Manners, OUR_NAME, Page, Validators};
use supplier::politeness::Sites;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

const MANNERS: Manners =
    Manners { reach: Reach::PrivateNetworks, delay: Duration::ZERO, honour_robots: true, user_agent: String::new() };

async fn fetched(url: &Url, manners: &Manners, known: Option<&Validators>) -> Result<Fetched, FetchError> {
    let sites = Sites::default();
    let turn = sites.turn(url, manners.delay).await.unwrap();
    fetch::page(&sites, turn, url, manners, known).await
}

async fn page(url: &Url, manners: &Manners) -> Result<Page, FetchError> {
    match fetched(url, manners, None).await? {
        Fetched::Page(page) => Ok(page),
        Fetched::Unchanged(_) => panic!("nothing was known that could be unchanged"),
    }
}

/// A server that answers each path with the bytes given for it, and remembers what it was asked for.
/// It has no robots.txt unless a test gives it one.
struct Site {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    async fn serving(pages: Vec<(&'static str, Vec<u8>)>) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => break,
                    }
                }
                let head = String::from_utf8(head).unwrap();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                log.lock().unwrap().push(path.clone());
                let answer = match pages.iter().find(|(known, _)| *known == path) {
                    Some((_, answer)) if answer == b"echo" => html(&head),
                    Some((_, answer)) => answer.clone(),
                    None => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
                };
                // A reader that has seen enough hangs up; that is not this server's failure.
                let _ = stream.write_all(&answer).await;
            }
        });
        Site { port, asked }
    }

    fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://127.0.0.1:{}{path}", self.port)).unwrap()
    }

    /// The paths that were asked for, but for robots.txt.
    fn visits(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().filter(|path| *path != "/robots.txt").cloned().collect()
    }

    async fn get(&self, path: &str) -> Result<Page, FetchError> {
        page(&self.url(path), &MANNERS).await
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
    let named = Manners { user_agent: OUR_NAME.to_owned(), ..MANNERS };
    let page = page(&url, &named).await.unwrap();
    assert_eq!(page.validators.url, site.url("/p?a=1"));
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
        let refused = page(&url, &Manners { reach: Reach::Internet, ..MANNERS }).await;
        assert!(matches!(refused, Err(FetchError::OutOfReach(_))), "{host}: {refused:?}");
    }
    assert!(site.asked.lock().unwrap().is_empty());
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
    assert_eq!(page.validators.url, end.url("/6"));
    assert_eq!(&page.body[..], b"there");

    let circle = Site::serving(vec![("/", redirect("/"))]).await;
    assert!(matches!(circle.get("/").await, Err(FetchError::TooManyRedirects)));
    assert_eq!(circle.visits().len(), 6);
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
        ("/brotli", answer("200 OK\r\ncontent-type: text/html\r\ncontent-encoding: br", "\u{1f}")),
        ("/not-modified", answer("304 Not Modified\r\nlocation: /pdf", "")),
        ("/nonsense", b"220 smtp.example ESMTP\r\n".to_vec()),
        ("/cut", b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 9\r\n\r\nhalf".to_vec()),
    ])
    .await;
    let said = |failure: Result<Page, FetchError>| failure.unwrap_err().to_string();
    assert_eq!(said(site.get("/pdf").await), "the address leads to application/pdf, not to an HTML page");
    assert!(said(site.get("/untyped").await).contains("without a type"));
    assert!(matches!(site.get("/gzip").await, Err(FetchError::Compressed)));
    assert!(matches!(site.get("/brotli").await, Err(FetchError::Compressed)));
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
    assert!(matches!(page(&url, &MANNERS).await, Err(FetchError::Timeout)));
}

#[tokio::test]
async fn a_closed_port_and_a_site_without_tls_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    assert!(matches!(page(&closed, &MANNERS).await, Err(FetchError::Connect(_))));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = Url::parse(&format!("https://{}/", listener.local_addr().unwrap())).unwrap();
    let server = async { listener.accept().await.unwrap().0.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await };
    let manners = MANNERS;
    let (answer, _) = tokio::join!(page(&plain, &manners), server);
    assert!(matches!(answer, Err(FetchError::Tls(_))), "{answer:?}");
}

#[tokio::test]
async fn a_page_may_come_packed() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all("<p>packed".repeat(100).as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-encoding: gzip\r\ncontent-length";
    let answer = [format!("{head}: {}\r\n\r\n", packed.len()).as_bytes(), &packed].concat();
    let site = Site::serving(vec![("/", answer)]).await;
    assert_eq!(&site.get("/").await.unwrap().body[..], "<p>packed".repeat(100).as_bytes());
}

#[tokio::test]
async fn what_robots_txt_forbids_is_not_asked_for() {
    let robots = answer("200 OK\r\ncontent-type: text/plain", "User-agent: *\nDisallow: /secret\nAllow: /secret/p$");
    let site = Site::serving(vec![
        ("/robots.txt", robots),
        ("/secret/1", html("secret")),
        ("/secret/p", html("open")),
        ("/away", redirect("/secret/1")),
    ])
    .await;
    assert!(matches!(site.get("/secret/1").await, Err(FetchError::RobotsRefused)));
    assert!(matches!(site.get("/away").await, Err(FetchError::RobotsRefused)), "a redirect asks too");
    assert!(site.get("/secret/p").await.is_ok());
    assert_eq!(site.visits(), ["/away", "/secret/p"]);
    let bold = Manners { honour_robots: false, ..MANNERS };
    assert!(page(&site.url("/secret/1"), &bold).await.is_ok());
    assert_eq!(site.asked.lock().unwrap().iter().filter(|path| *path == "/robots.txt").count(), 3);
}

#[tokio::test]
async fn a_site_that_cannot_say_what_it_permits_permits_nothing() {
    for (status, expected) in [("500 Oops", 500), ("503 Later", 503), ("429 Enough", 429)] {
        let site = Site::serving(vec![("/robots.txt", answer(status, "")), ("/", html("page"))]).await;
        let refused = site.get("/").await;
        assert!(matches!(refused, Err(FetchError::RobotsUnavailable(status)) if status == expected), "{refused:?}");
        assert!(site.visits().is_empty());
    }
    for permits in ["404 Not Found", "403 Forbidden", "410 Gone", "204 No Content"] {
        let site = Site::serving(vec![("/robots.txt", answer(permits, "")), ("/", html("page"))]).await;
        assert!(site.get("/").await.is_ok(), "{permits}");
    }
}

#[tokio::test]
async fn robots_txt_may_stand_elsewhere_but_never_out_of_reach() {
    let rules = answer("200 OK", "User-agent: cardinal-supplier\nDisallow: /p");
    let site = Site::serving(vec![("/robots.txt", redirect("/rules")), ("/rules", rules), ("/p", html("page"))]).await;
    assert!(matches!(site.get("/p").await, Err(FetchError::RobotsRefused)));
    let inward = redirect("http://169.254.169.254/robots.txt");
    let site = Site::serving(vec![("/robots.txt", inward), ("/p", html("page"))]).await;
    assert!(matches!(site.get("/p").await, Err(FetchError::OutOfReach(_))));
    let circle = Site::serving(vec![("/robots.txt", redirect("/robots.txt")), ("/p", html("page"))]).await;
    assert!(circle.get("/p").await.is_ok());
    // Only its beginning is read, and that counts.
    let long = format!("User-agent: *\nDisallow: /p\n{}", "# more\n".repeat(200_000));
    let site = Site::serving(vec![("/robots.txt", answer("200 OK", &long)), ("/p", html("page"))]).await;
    assert!(matches!(site.get("/p").await, Err(FetchError::RobotsRefused)));
}

#[tokio::test]
async fn a_page_is_asked_whether_it_has_changed_where_it_was_found() {
    let tagged = |body| answer("200 OK\r\ncontent-type: text/html\r\netag: \"7\"\r\nlast-modified: yesterday", body);
    let site = Site::serving(vec![
        ("/old", redirect("/p")),
        ("/p", tagged("page")),
        ("/echo", b"echo".to_vec()),
        ("/same", answer("304 Not Modified\r\netag: \"8\"", "")),
    ])
    .await;
    let validators = site.get("/old").await.unwrap().validators;
    let expected = (site.url("/p"), Some("\"7\"".to_owned()), Some("yesterday".to_owned()));
    assert_eq!((validators.url.clone(), validators.etag.clone(), validators.last_modified.clone()), expected);

    let at = |path| Validators { url: site.url(path), ..validators.clone() };
    let Ok(Fetched::Page(page)) = fetched(&site.url("/echo"), &MANNERS, Some(&at("/echo"))).await else { panic!() };
    let request = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(request.contains("if-none-match: \"7\"\r\nif-modified-since: yesterday\r\n"), "{request}");
    let Ok(Fetched::Page(page)) = fetched(&site.url("/echo"), &MANNERS, Some(&validators)).await else { panic!() };
    assert!(!String::from_utf8(page.body.to_vec()).unwrap().contains("if-"), "another page's tags say nothing");

    let Ok(Fetched::Unchanged(kept)) = fetched(&site.url("/same"), &MANNERS, Some(&at("/same"))).await else {
        panic!()
    };
    let expected = (Some("\"8\"".to_owned()), Some("yesterday".to_owned()));
    assert_eq!((kept.etag, kept.last_modified), expected);
    let unasked = fetched(&site.url("/same"), &MANNERS, None).await;
    assert!(matches!(unasked, Err(FetchError::Status(_))), "nothing was asked that could be so");
}

#[tokio::test]
async fn a_site_that_is_overrun_is_left_alone() {
    let site = Site::serving(vec![("/", answer("429 Too Many Requests\r\nretry-after: 120", ""))]).await;
    let sites = Sites::default();
    let turn = sites.turn(&site.url("/"), Duration::ZERO).await.unwrap();
    let answer = fetch::page(&sites, turn, &site.url("/"), &MANNERS, None).await;
    assert!(matches!(answer, Err(FetchError::Status(_))));
    let busy = sites.turn(&site.url("/"), Duration::ZERO).await.unwrap_err();
    assert!(busy.retry_after > Duration::from_secs(100), "{busy:?}");
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
