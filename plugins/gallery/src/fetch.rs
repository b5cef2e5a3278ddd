//! Reads one picture from the web, within limits. Each connection goes to the very address that was checked
//! ([`address`]), redirects included.

pub(crate) mod address;
mod connection;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_LENGTH, HOST, LOCATION, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use url::{Position, Url};

use crate::pictures;
use address::{OutOfReach, Reach};

/// For everything together: names, connections, redirects, the body.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_REDIRECTS: usize = 5;
const MAX_HEAD: usize = 64 << 10;
const OUR_NAME: &str = concat!("cardinal-gallery/", env!("CARGO_PKG_VERSION"));

/// One text for both, the log has which it was: whoever could tell them apart could find out which names there are in the
/// network behind the host.
const NO_HOST: &str = "the host of this picture was not found, or is none that pictures are read from; \
    only the setting allow_private_addresses opens private networks";

/// Every text is for the caller: plain words, and nothing about the network behind the host.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("the picture's address is not one of the web")]
    NotAWebAddress,
    #[error("{NO_HOST}")]
    OutOfReach(#[source] OutOfReach),
    #[error("{NO_HOST}")]
    NoSuchHost(#[source] std::io::Error),
    #[error("the picture's address redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    #[error("the file is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    #[error("the picture's site answered {0}")]
    Status(StatusCode),
    #[error("the picture did not arrive within {} seconds", TOTAL_TIMEOUT.as_secs())]
    Timeout,
    #[error("the picture's site could not be connected to")]
    Connect(#[source] std::io::Error),
    #[error("no secure connection to the picture's site could be made")]
    Tls(#[source] std::io::Error),
    #[error("the picture's site broke off or does not speak HTTP")]
    Http(#[source] hyper::Error),
}

/// The file at `address`, whatever it is, of at most `max_bytes`.
pub(crate) async fn file(address: &str, reach: Reach, max_bytes: usize) -> Result<Bytes, FetchError> {
    timeout(TOTAL_TIMEOUT, follow(address, reach, max_bytes)).await.unwrap_or(Err(FetchError::Timeout))
}

enum Step {
    File(Bytes),
    Redirect(Url),
}

async fn follow(address: &str, reach: Reach, max_bytes: usize) -> Result<Bytes, FetchError> {
    let mut url = Url::parse(address).map_err(|_| FetchError::NotAWebAddress)?;
    for _ in 0..=MAX_REDIRECTS {
        let is_plain = url.username().is_empty() && url.password().is_none();
        if !is_plain || pictures::web_address(url.as_str()).is_none() {
            return Err(FetchError::NotAWebAddress);
        }
        match step(&url, reach, max_bytes).await? {
            Step::File(bytes) => return Ok(bytes),
            Step::Redirect(to) => url = to,
        }
    }
    Err(FetchError::TooManyRedirects)
}

async fn step(url: &Url, reach: Reach, max_bytes: usize) -> Result<Step, FetchError> {
    let stream = connection::open(url, reach).await?;
    let handshake = http1::Builder::new().max_buf_size(MAX_HEAD).handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(FetchError::Http)?;
    let request = Request::get(&url[Position::BeforePath..Position::AfterQuery])
        .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(ACCEPT, "image/webp, image/png, image/jpeg")
        .header(USER_AGENT, OUR_NAME);
    let request = request.body(Empty::<Bytes>::new()).map_err(|_| FetchError::NotAWebAddress)?;
    let exchange = async { read(url, sender.send_request(request).await.map_err(FetchError::Http)?, max_bytes).await };
    // The connection is driven here and not in a task of its own: when this future is dropped, it is closed with it.
    let driver = async {
        let _ = connection.await; // its failure reaches the exchange too, which then says so
        std::future::pending().await
    };
    tokio::select! {
        step = exchange => step,
        never = driver => never,
    }
}

async fn read(url: &Url, response: Response<Incoming>, max_bytes: usize) -> Result<Step, FetchError> {
    let status = response.status();
    if let (true, Some(to)) = (status.is_redirection(), response.headers().get(LOCATION)) {
        // Not `to_str`: sites send raw UTF-8 in here.
        let to = url.join(&String::from_utf8_lossy(to.as_bytes())).map_err(|_| FetchError::NotAWebAddress)?;
        return Ok(Step::Redirect(to));
    }
    if !status.is_success() {
        return Err(FetchError::Status(status));
    }
    let announced = response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > max_bytes) {
        return Err(FetchError::TooLarge(max_bytes));
    }
    let (mut body, mut file) = (response.into_body(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(FetchError::Http)?;
        let data = frame.data_ref().map(|data| &**data).unwrap_or_default();
        if file.len() + data.len() > max_bytes {
            return Err(FetchError::TooLarge(max_bytes));
        }
        file.extend_from_slice(data);
    }
    Ok(Step::File(file.freeze()))
}
