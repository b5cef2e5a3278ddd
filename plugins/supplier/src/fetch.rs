//! Reads one page from the web, within limits.
//!
//! There is no HTTP client with a pool here on purpose: pages of strangers are read one by one, and
//! each connection must go to the very address that was checked (see [`address`]).

pub mod address;
mod connection;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, LOCATION, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use url::{Position, Url};

use address::Reach;

/// For everything together: names, connections, redirects, the body.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;
const MAX_BODY: usize = 4 << 20;
const MAX_HEAD: usize = 64 << 10;
const MAX_URL: usize = 2048;
const OUR_NAME: &str = concat!("cardinal-supplier/", env!("CARGO_PKG_VERSION"));

/// A page as it came.
#[derive(Debug)]
pub struct Page {
    /// Where it was finally found.
    pub url: Url,
    pub content_type: String,
    pub body: Bytes,
}

/// Every text is for the caller: plain words, and nothing about the network behind the host.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("this is not a web address: it must begin with http:// or https:// and name a host")]
    NotAWebAddress,
    #[error("a web address of more than {MAX_URL} characters is not read")]
    TooLong,
    #[error("a web address with a user name or password in it is not read")]
    Credentials,
    #[error("the address of this page is {0}; only the setting allow_private_addresses opens private networks")]
    OutOfReach(&'static str),
    #[error("the page redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    #[error("the page is larger than 4 MiB")]
    TooLarge,
    #[error("the address leads to {0}, not to an HTML page")]
    NotHtml(String),
    #[error("the page came compressed though this was not asked for")]
    Compressed,
    #[error("the supplier's site answered {0}")]
    Status(hyper::StatusCode),
    #[error("the page did not arrive within {} seconds", TOTAL_TIMEOUT.as_secs())]
    Timeout,
    #[error("no host of this name was found")]
    NoSuchHost(#[source] std::io::Error),
    #[error("the supplier's site could not be connected to")]
    Connect(#[source] std::io::Error),
    #[error("no secure connection to the supplier's site could be made")]
    Tls(#[source] std::io::Error),
    #[error("the supplier's site broke off or does not speak HTTP")]
    Http(#[source] hyper::Error),
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

/// Reads the HTML page at `url`, following redirects; each step is checked like the first.
pub async fn page(url: &Url, reach: Reach) -> Result<Page, FetchError> {
    tokio::time::timeout(TOTAL_TIMEOUT, follow(url.clone(), reach)).await.unwrap_or(Err(FetchError::Timeout))
}

async fn follow(mut url: Url, reach: Reach) -> Result<Page, FetchError> {
    for _ in 0..=MAX_REDIRECTS {
        check(&url)?;
        match get(&url, reach).await? {
            Answer::Page { content_type, body } => {
                return Ok(Page { url, content_type, body });
            }
            Answer::Redirect(to) => url = to,
        }
    }
    Err(FetchError::TooManyRedirects)
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

enum Answer {
    Page { content_type: String, body: Bytes },
    Redirect(Url),
}

async fn get(url: &Url, reach: Reach) -> Result<Answer, FetchError> {
    let stream = connection::open(url, reach).await?;
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(MAX_HEAD).handshake(TokioIo::new(stream)).await.map_err(FetchError::Http)?;
    let exchange = async {
        let response = sender.send_request(request(url)?).await.map_err(FetchError::Http)?;
        read(url, response).await
    };
    // The connection is driven here and not in a task of its own: when this future is dropped,
    // everything it opened is closed with it.
    let driver = async {
        let _ = connection.await; // its failure reaches the exchange too, which then says so
        std::future::pending().await
    };
    tokio::select! {
        answer = exchange => answer,
        never = driver => never,
    }
}

fn request(url: &Url) -> Result<Request<Empty<Bytes>>, FetchError> {
    Request::get(&url[Position::BeforePath..Position::AfterQuery])
        .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(USER_AGENT, OUR_NAME)
        .header(ACCEPT, "text/html, application/xhtml+xml;q=0.9")
        .header(ACCEPT_ENCODING, "identity")
        .body(Empty::new())
        .map_err(|_| FetchError::NotAWebAddress)
}

async fn read(url: &Url, response: Response<Incoming>) -> Result<Answer, FetchError> {
    if let Some(to) = redirect(url, &response) {
        return Ok(Answer::Redirect(to?));
    }
    if !response.status().is_success() {
        return Err(FetchError::Status(response.status()));
    }
    let content_type = html_type(response.headers())?;
    let body = read_body(response.into_body()).await?;
    Ok(Answer::Page { content_type, body })
}

fn redirect(url: &Url, response: &Response<Incoming>) -> Option<Result<Url, FetchError>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?;
    // Not `to_str`: sites send raw UTF-8 in here.
    let location = String::from_utf8_lossy(location.as_bytes());
    let to = url.join(&location).map_err(|_| FetchError::NotAWebAddress);
    Some(to.map(|mut to| {
        to.set_fragment(None);
        to
    }))
}

fn html_type(headers: &HeaderMap) -> Result<String, FetchError> {
    let text = |name| {
        let value = headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        value.unwrap_or_default().into_owned()
    };
    let encoding = text(CONTENT_ENCODING);
    if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
        return Err(FetchError::Compressed);
    }
    let content_type = text(CONTENT_TYPE);
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "text/html" | "application/xhtml+xml" => Ok(content_type),
        "" => Err(FetchError::NotHtml("something without a type".into())),
        other => Err(FetchError::NotHtml(other.chars().take(80).collect())),
    }
}

async fn read_body(mut body: Incoming) -> Result<Bytes, FetchError> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(FetchError::Http)?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        if read.len() + data.len() > MAX_BODY {
            return Err(FetchError::TooLarge);
        }
        read.extend_from_slice(data);
    }
    Ok(read.freeze())
}
