//! The limits of `fetch`, against sites that the test plays.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use cardinal_plugin::testing::{SentRequest, ServerAnswer, TestHost};
use cardinal_plugin::{HttpFailure, PluginContext, Router};
use supplier::fetch::{self, FetchError, Fetched, Manners, OUR_NAME, Page, Validators, Visit};
use supplier::politeness::Sites;
use url::Url;

const MANNERS: Manners = Manners { delay: Duration::ZERO, honour_robots: true, user_agent: String::new() };

/// Sites by the addresses of their pages; what is not there is 404. No site has a robots.txt unless a test gives it
/// one.
struct Web(TestHost);

impl Web {
    fn new(pages: &[(&str, ServerAnswer)]) -> Web {
        let pages: HashMap<String, ServerAnswer> =
            pages.iter().map(|(path, answer)| (address(path), answer.clone())).collect();
        Web::playing(move |request| pages.get(&request.url).cloned().unwrap_or(ServerAnswer::new(404)))
    }

    fn playing(site: impl Fn(&SentRequest) -> ServerAnswer + Send + Sync + 'static) -> Web {
        let manifest = r#"{ "name": "supplier", "version": "1.0.0" }"#;
        let host = TestHost::new(manifest, |_: &PluginContext| Router::new());
        host.answer_http(site);
        Web(host)
    }

    async fn visit(&self, path: &str, manners: &Manners, known: Option<&Validators>) -> Result<Fetched, FetchError> {
        let (sites, ctx, url) = (Sites::default(), self.0.context(), url(path));
        let turn = sites.turn(&url, manners.delay).await.unwrap();
        fetch::page(Visit { ctx: &ctx, sites: &sites, manners }, turn, &url, known).await.map(|(fetched, _)| fetched)
    }

    async fn get(&self, path: &str) -> Result<Page, FetchError> {
        self.get_as(path, &MANNERS).await
    }

    async fn get_as(&self, path: &str, manners: &Manners) -> Result<Page, FetchError> {
        match self.visit(path, manners, None).await? {
            Fetched::Page(page) => Ok(page),
            Fetched::Unchanged(_) => panic!("nothing was known that could be unchanged"),
        }
    }

    /// The addresses that were asked for.
    fn asked(&self) -> Vec<String> {
        self.0.journal().iter().filter_map(|line| Some(line.strip_prefix("http GET ")?.to_owned())).collect()
    }

    /// The same but for robots.txt.
    fn visits(&self) -> Vec<String> {
        self.asked().into_iter().filter(|url| !url.ends_with("/robots.txt")).collect()
    }
}

/// Of the shop, unless it says another.
fn address(path: &str) -> String {
    if path.starts_with('/') { format!("http://shop.example{path}") } else { path.to_owned() }
}

fn url(path: &str) -> Url {
    Url::parse(&address(path)).unwrap()
}

fn html(body: impl Into<bytes::Bytes>) -> ServerAnswer {
    ServerAnswer::new(200).header("content-type", "text/html; charset=utf-8").body(body)
}

fn text(body: &str) -> ServerAnswer {
    ServerAnswer::new(200).header("content-type", "text/plain").body(body.to_owned())
}

fn redirect(to: &str) -> ServerAnswer {
    ServerAnswer::new(302).header("location", to)
}

/// A page that shows the request's headers.
fn echo(request: &SentRequest) -> ServerAnswer {
    let lines = request.headers.iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()));
    html(lines.collect::<String>())
}

#[tokio::test]
async fn a_page_is_read_with_an_honest_request() {
    let web = Web::playing(echo);
    let url = fetch::parse(&format!("  {}#reviews ", address("/p?a=1"))).unwrap();
    let named = Manners { user_agent: OUR_NAME.to_owned(), honour_robots: false, ..MANNERS };
    let page = web.get_as(url.as_str(), &named).await.unwrap();
    assert_eq!(page.validators.url, url);
    assert_eq!(page.content_type, "text/html; charset=utf-8");
    let request = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(
        request.contains("user-agent: cardinal-supplier/") && request.contains("accept-encoding: gzip"),
        "{request}"
    );
    assert_eq!(web.asked(), ["http://shop.example/p?a=1"], "the fragment is not asked for");
}

#[tokio::test]
async fn every_redirect_is_checked_like_the_first_address() {
    let web = Web::playing(|request| match request.path() {
        "/inward" => redirect("http://169.254.169.254/latest/meta-data/"),
        "/file" => redirect("file:///etc/passwd"),
        "/user" => redirect("http://user:secret@shop.example/"),
        "/latest/meta-data/" => ServerAnswer::failed(HttpFailure::AddressRefused),
        _ => ServerAnswer::new(404),
    });
    assert!(matches!(web.get("/inward").await, Err(FetchError::OutOfReach(_))));
    assert!(matches!(web.get("/file").await, Err(FetchError::NotAWebAddress)));
    assert!(matches!(web.get("/user").await, Err(FetchError::Credentials)));
}

#[tokio::test]
async fn five_redirects_are_followed_and_not_one_more() {
    let web = Web::new(&[
        ("/1", redirect("/2")),
        ("/2", redirect("3#part")),
        ("/3", redirect("//other.example/4")),
        ("http://other.example/4", redirect("/5")),
        ("http://other.example/5", redirect("/6")),
        ("http://other.example/6", html("there")),
        ("/circle", redirect("/circle")),
    ]);
    let page = web.get("/1").await.unwrap();
    assert_eq!((page.validators.url.as_str(), &page.body[..]), ("http://other.example/6", &b"there"[..]));
    let before = web.visits().len();
    assert!(matches!(web.get("/circle").await, Err(FetchError::TooManyRedirects)));
    assert_eq!(web.visits().len() - before, 6);
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let large = vec![b'x'; (4 << 20) + 1];
    let web = Web::new(&[("/large", html(large.clone())), ("/just", html(large[1..].to_vec()))]);
    assert!(matches!(web.get("/large").await, Err(FetchError::TooLarge)));
    assert_eq!(web.get("/just").await.unwrap().body.len(), 4 << 20);
}

#[tokio::test]
async fn only_html_that_is_there_is_read() {
    let typed = |kind| ServerAnswer::new(200).header("content-type", kind).body("x");
    let packed = |coding| html("\u{1f}").header("content-encoding", coding);
    let web = Web::new(&[
        ("/pdf", typed("application/pdf")),
        ("/xhtml", typed("application/xhtml+xml")),
        ("/untyped", ServerAnswer::new(200).body("<p>")),
        ("/gzip", packed("gzip")),
        ("/brotli", packed("br")),
        ("/not-modified", ServerAnswer::new(304).header("location", "/pdf")),
        ("/cut", html("half").then_failed(HttpFailure::BrokenOff)),
    ]);
    let said = |failure: Result<Page, FetchError>| failure.unwrap_err().to_string();
    assert_eq!(said(web.get("/pdf").await), "the address leads to application/pdf, not to an HTML page");
    assert!(web.get("/xhtml").await.is_ok());
    assert!(said(web.get("/untyped").await).contains("without a type"));
    assert!(matches!(web.get("/gzip").await, Err(FetchError::Compressed)));
    assert!(matches!(web.get("/brotli").await, Err(FetchError::Compressed)));
    assert_eq!(said(web.get("/missing").await), "the supplier's site answered 404 Not Found");
    assert!(matches!(web.get("/not-modified").await, Err(FetchError::Status(_))));
    assert!(matches!(web.get("/cut").await, Err(FetchError::Http(_))));
}

#[tokio::test]
async fn how_the_host_failed_is_told_apart() {
    for (failure, is_it) in [
        (HttpFailure::AddressRefused, (|error| matches!(error, FetchError::OutOfReach(_))) as fn(FetchError) -> bool),
        (HttpFailure::NameNotFound, |error| matches!(error, FetchError::NoSuchHost(_))),
        (HttpFailure::Connect, |error| matches!(error, FetchError::Connect(_))),
        (HttpFailure::Tls, |error| matches!(error, FetchError::Tls(_))),
        (HttpFailure::TimedOut, |error| matches!(error, FetchError::Timeout)),
        (HttpFailure::BrokenOff, |error| matches!(error, FetchError::Http(_))),
    ] {
        let web = Web::playing(move |_| ServerAnswer::failed(failure));
        assert!(is_it(web.get("/").await.unwrap_err()), "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_site_ends_with_the_total_time() {
    let web = Web::playing(|_| html("never"));
    web.0.hold("http");
    assert!(matches!(web.get("/").await, Err(FetchError::Timeout)));
    assert!(web.0.journal().contains(&"cancelled http".to_owned()));
}

#[tokio::test]
async fn a_page_may_come_packed() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all("<p>packed".repeat(100).as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let site = Web::new(&[("/", html(packed).header("content-encoding", "gzip"))]);
    assert_eq!(&site.get("/").await.unwrap().body[..], "<p>packed".repeat(100).as_bytes());
}

#[tokio::test]
async fn what_robots_txt_forbids_is_not_asked_for() {
    let robots = text("User-agent: *\nDisallow: /secret\nAllow: /secret/p$");
    let site = Web::new(&[
        ("/robots.txt", robots),
        ("/secret/1", html("secret")),
        ("/secret/p", html("open")),
        ("/away", redirect("/secret/1")),
    ]);
    assert!(matches!(site.get("/secret/1").await, Err(FetchError::RobotsRefused)));
    assert!(matches!(site.get("/away").await, Err(FetchError::RobotsRefused)), "a redirect asks too");
    assert!(site.get("/secret/p").await.is_ok());
    assert_eq!(site.visits(), ["/away", "/secret/p"].map(address));
    let bold = Manners { honour_robots: false, ..MANNERS };
    assert!(site.get_as("/secret/1", &bold).await.is_ok());
    assert_eq!(site.asked().len() - site.visits().len(), 3);
}

#[tokio::test]
async fn a_site_that_cannot_say_what_it_permits_permits_nothing() {
    for expected in [500, 503, 429] {
        let site = Web::new(&[("/robots.txt", ServerAnswer::new(expected)), ("/", html("page"))]);
        let refused = site.get("/").await;
        assert!(matches!(refused, Err(FetchError::RobotsUnavailable(status)) if status == expected), "{refused:?}");
        assert!(site.visits().is_empty());
    }
    for permits in [404, 403, 410, 204] {
        let site = Web::new(&[("/robots.txt", ServerAnswer::new(permits)), ("/", html("page"))]);
        assert!(site.get("/").await.is_ok(), "{permits}");
    }
}

#[tokio::test]
async fn robots_txt_may_stand_elsewhere_but_never_out_of_reach() {
    let rules = text("User-agent: cardinal-supplier\nDisallow: /p");
    let site = Web::new(&[("/robots.txt", redirect("/rules")), ("/rules", rules), ("/p", html("page"))]);
    assert!(matches!(site.get("/p").await, Err(FetchError::RobotsRefused)));
    let (inward, refused) =
        (redirect("http://169.254.169.254/robots.txt"), ServerAnswer::failed(HttpFailure::AddressRefused));
    let site =
        Web::new(&[("/robots.txt", inward), ("http://169.254.169.254/robots.txt", refused), ("/p", html("page"))]);
    assert!(matches!(site.get("/p").await, Err(FetchError::OutOfReach(_))));
    let circle = Web::new(&[("/robots.txt", redirect("/robots.txt")), ("/p", html("page"))]);
    assert!(circle.get("/p").await.is_ok());
    // Only its beginning is read, and that counts.
    let long = format!("User-agent: *\nDisallow: /p\n{}", "# more\n".repeat(200_000));
    let site = Web::new(&[("/robots.txt", text(&long)), ("/p", html("page"))]);
    assert!(matches!(site.get("/p").await, Err(FetchError::RobotsRefused)));
}

#[tokio::test]
async fn a_page_is_asked_whether_it_has_changed_where_it_was_found() {
    let site = Web::playing(|request| match request.path() {
        "/old" => redirect("/p"),
        "/p" => html("page").header("etag", "\"7\"").header("last-modified", "yesterday"),
        "/echo" => echo(request),
        "/same" => ServerAnswer::new(304).header("etag", "\"8\""),
        _ => ServerAnswer::new(404),
    });
    let validators = site.get("/old").await.unwrap().validators;
    let expected = (url("/p"), Some("\"7\"".to_owned()), Some("yesterday".to_owned()));
    assert_eq!((validators.url.clone(), validators.etag.clone(), validators.last_modified.clone()), expected);

    let at = |path| Validators { url: url(path), ..validators.clone() };
    let Ok(Fetched::Page(page)) = site.visit("/echo", &MANNERS, Some(&at("/echo"))).await else { panic!() };
    let request = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(request.contains("if-none-match: \"7\"\nif-modified-since: yesterday\n"), "{request}");
    let Ok(Fetched::Page(page)) = site.visit("/echo", &MANNERS, Some(&validators)).await else { panic!() };
    assert!(!String::from_utf8(page.body.to_vec()).unwrap().contains("if-"), "another page's tags say nothing");

    let Ok(Fetched::Unchanged(kept)) = site.visit("/same", &MANNERS, Some(&at("/same"))).await else { panic!() };
    let expected = (Some("\"8\"".to_owned()), Some("yesterday".to_owned()));
    assert_eq!((kept.etag, kept.last_modified), expected);
    let unasked = site.visit("/same", &MANNERS, None).await;
    assert!(matches!(unasked, Err(FetchError::Status(_))), "nothing was asked that could be so");
}

#[tokio::test]
async fn a_site_that_is_overrun_is_left_alone() {
    let site = Web::new(&[("/", ServerAnswer::new(429).header("retry-after", "120"))]);
    let (sites, ctx) = (Sites::default(), site.0.context());
    let turn = sites.turn(&url("/"), Duration::ZERO).await.unwrap();
    let visit = Visit { ctx: &ctx, sites: &sites, manners: &MANNERS };
    let answer = fetch::page(visit, turn, &url("/"), None).await;
    assert!(matches!(answer, Err(FetchError::Overrun(_, wait)) if wait == Duration::from_secs(120)));
    let busy = sites.turn(&url("/"), Duration::ZERO).await.unwrap_err();
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
