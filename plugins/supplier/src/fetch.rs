//! Reads one page from the web, within limits. The connections are the host's, which refuses addresses of networks that
//! its operator has not opened.

mod error;
mod exchange;
mod permission;
mod validators;

use std::time::Duration;

use bytes::Bytes;
use cardinal_plugin::http::StatusCode;
use cardinal_plugin::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use cardinal_plugin::{HttpResponse, PluginContext};
use tokio::time::{Instant, timeout};
use url::Url;

use crate::politeness::{Sites, Turn};
pub use error::FetchError;
use exchange::Exchange;
pub use validators::Validators;

/// For everything together but the waiting for turns: names, connections, robots.txt, redirects,
/// the body.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;
const MAX_BODY: usize = 4 << 20;
const MAX_FEED: usize = 32 << 20;
/// The same for a feed, which is larger, and which no caller waits for.
const FEED_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_URL: usize = 2048;

/// How robots.txt files call us, and the beginning of our `User-Agent`.
const OUR_TOKEN: &str = "cardinal-supplier";
pub const OUR_NAME: &str = concat!("cardinal-supplier/", env!("CARGO_PKG_VERSION"));

/// How the operator wants us to behave towards sites.
#[derive(Debug, Clone)]
pub struct Manners {
    /// Between two visits of a site.
    pub delay: Duration,
    pub honour_robots: bool,
    pub user_agent: String,
}

/// A page as it came, without the compression of its transport.
#[derive(Debug)]
pub struct Page {
    pub content_type: String,
    pub body: Bytes,
    /// With where it was finally found.
    pub validators: Validators,
}

#[derive(Debug)]
pub enum Fetched {
    Page(Page),
    /// The page that `known` came from has not changed; these validators are to be kept now.
    Unchanged(Validators),
}

/// A page's address as somebody typed it.
pub fn parse(text: &str) -> Result<Url, FetchError> {
    let text = text.trim();
    if text.len() > MAX_URL {
        return Err(FetchError::TooLong);
    }
    let mut url = Url::parse(text).map_err(|_| FetchError::NotAWebAddress)?;
    url.set_fragment(None);
    check(&url)?;
    Ok(url)
}

fn check(url: &Url) -> Result<(), FetchError> {
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(FetchError::NotAWebAddress);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(FetchError::Credentials);
    }
    Ok(())
}

/// What is asked for, and what may come.
struct FetchOptions {
    accept: &'static str,
    max_body: usize,
    timeout: Duration,
    is_page: bool,
}

const PAGE: FetchOptions = FetchOptions {
    accept: "text/html, application/xhtml+xml;q=0.9",
    max_body: MAX_BODY,
    timeout: TOTAL_TIMEOUT,
    is_page: true,
};
const FEED: FetchOptions = FetchOptions {
    accept: "application/xml, text/xml, application/json, text/csv, text/plain;q=0.8, */*;q=0.5",
    max_body: MAX_FEED,
    timeout: FEED_TIMEOUT,
    is_page: false,
};

/// Whom a page is read for, and how.
#[derive(Clone, Copy)]
pub struct Visit<'a> {
    pub ctx: &'a PluginContext,
    pub sites: &'a Sites,
    pub manners: &'a Manners,
}

/// Reads the feed or sitemap at `url`, of whatever type; a file that is packed itself (`sitemap.xml.gz`) is unpacked.
pub async fn feed(visit: Visit<'_>, turn: Turn, url: &Url) -> Result<Page, FetchError> {
    match follow(visit, turn, url, &FEED, None).await?.0 {
        Fetched::Page(page) => Ok(Page { body: exchange::unpacked(page.body, MAX_FEED).await?, ..page }),
        Fetched::Unchanged(_) => Err(FetchError::Status(StatusCode::NOT_MODIFIED)),
    }
}

/// Reads the HTML page at `url`, unless it is still the one that `known` came from.
///
/// Follows redirects: each step is checked, and asks its site's permission, like the first. `turn`
/// is the one at the site of `url`; a step to another site gives it up and waits for one there. The turn that it comes
/// to is given back: who waits for it finds the page in the cache when it is kept before that turn ends.
pub async fn page(
    visit: Visit<'_>,
    turn: Turn,
    url: &Url,
    known: Option<&Validators>,
) -> Result<(Fetched, Turn), FetchError> {
    follow(visit, turn, url, &PAGE, known).await
}

async fn follow(
    visit: Visit<'_>,
    mut turn: Turn,
    url: &Url,
    wanted: &FetchOptions,
    known: Option<&Validators>,
) -> Result<(Fetched, Turn), FetchError> {
    let mut url = url.clone();
    let mut left = wanted.timeout;
    for _ in 0..=MAX_REDIRECTS {
        check(&url)?;
        if !turn.covers(&url) {
            drop(turn);
            turn = visit.sites.turn(&url, visit.manners.delay).await?;
        }
        let begun = Instant::now();
        let known = known.filter(|known| known.url == url);
        let step = timeout(left, step(visit, &mut turn, &url, wanted, known));
        match step.await.unwrap_or(Err(FetchError::Timeout))? {
            Step::There(fetched) => return Ok((fetched, turn)),
            Step::Redirect(to) => url = to,
        }
        left = left.saturating_sub(begun.elapsed());
    }
    Err(FetchError::TooManyRedirects)
}

enum Step {
    There(Fetched),
    Redirect(Url),
}

async fn step(
    visit: Visit<'_>,
    turn: &mut Turn,
    url: &Url,
    wanted: &FetchOptions,
    known: Option<&Validators>,
) -> Result<Step, FetchError> {
    if visit.manners.honour_robots {
        permission::ask(visit, turn, url).await?;
    }
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(wanted.accept));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    known.into_iter().for_each(|known| known.ask(&mut headers));
    let exchange = Exchange { url, headers, max_bytes: wanted.max_body, timeout: wanted.timeout };
    read(turn, url, wanted, known, exchange.send(visit).await?).await
}

async fn read(
    turn: &mut Turn,
    url: &Url,
    wanted: &FetchOptions,
    known: Option<&Validators>,
    response: HttpResponse,
) -> Result<Step, FetchError> {
    if let Some(to) = exchange::redirect(url, &response) {
        return Ok(Step::Redirect(to?));
    }
    let status = response.status();
    if let (StatusCode::NOT_MODIFIED, Some(known)) = (status, known) {
        return Ok(Step::There(Fetched::Unchanged(known.clone().renewed(response.headers()))));
    }
    if !status.is_success() {
        return Err(match rest(&response) {
            Some(asked) => FetchError::Overrun(status, turn.rest(asked)),
            None => FetchError::Status(status),
        });
    }
    let content_type = content_type(response.headers(), wanted)?;
    let validators = Validators::from_headers(url.clone(), response.headers());
    let body = exchange::body(response, wanted.max_body).await?;
    Ok(Step::There(Fetched::Page(Page { content_type, body, validators })))
}

/// A site that is overrun may say for how long.
fn rest(response: &HttpResponse) -> Option<Duration> {
    let overrun = matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let seconds = response.headers().get(RETRY_AFTER).filter(|_| overrun)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

fn content_type(headers: &HeaderMap, wanted: &FetchOptions) -> Result<String, FetchError> {
    let content_type = headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let content_type = content_type.unwrap_or_default().into_owned();
    if !wanted.is_page {
        return Ok(content_type);
    }
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "text/html" | "application/xhtml+xml" => Ok(content_type),
        "" => Err(FetchError::NotHtml("something without a type".into())),
        other => Err(FetchError::NotHtml(other.chars().take(80).collect())),
    }
}
