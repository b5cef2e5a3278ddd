//! Reads one picture from the web, within limits. The connections are the host's, which refuses addresses of networks
//! that its operator has not opened, at redirects too.

use std::time::Duration;

use bytes::Bytes;
use cardinal_plugin::http::StatusCode;
use cardinal_plugin::http::header::{ACCEPT, LOCATION, USER_AGENT};
use cardinal_plugin::{Error, HttpFailure, HttpResponse, PluginContext};
use tokio::time::timeout;
use url::Url;

use crate::pictures;

/// For everything together: names, connections, redirects, the body.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_REDIRECTS: usize = 5;
const OUR_NAME: &str = concat!("cardinal-gallery/", env!("CARGO_PKG_VERSION"));

/// One text for both, the log has which it was: whoever could tell them apart could find out which names there are in
/// the network behind the host.
const NO_HOST: &str = "the host of this picture was not found, or is none that pictures are read from; \
    private networks are open only when the operator opens them";

/// Every text is for the caller: plain words, and nothing about the network behind the host.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("the picture's address is not one of the web")]
    NotAWebAddress,
    #[error("{NO_HOST}")]
    OutOfReach(#[source] Cause),
    #[error("{NO_HOST}")]
    NoSuchHost(#[source] Cause),
    #[error("the picture's address redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    #[error("the file is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    #[error("the picture's site answered {0}")]
    Status(StatusCode),
    #[error("the picture did not arrive within {} seconds", TOTAL_TIMEOUT.as_secs())]
    Timeout,
    #[error("the picture's site could not be connected to")]
    Connect(#[source] Cause),
    #[error("no secure connection to the picture's site could be made")]
    Tls(#[source] Cause),
    #[error("the picture's site broke off or does not speak HTTP")]
    Http(#[source] Cause),
    /// The host's own error, to be passed on as it is: the call is over, or too much is under way.
    #[error("the host did not ask: {}", .0.message())]
    Host(Error),
}

/// What the host says of a failure, for the log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Cause(String);

impl FetchError {
    fn new(error: Error, max_bytes: usize) -> Self {
        let cause = || Cause(error.message().to_owned());
        match error.http_failure() {
            None => Self::Host(error),
            Some(HttpFailure::AddressRefused) => Self::OutOfReach(cause()),
            Some(HttpFailure::NameNotFound) => Self::NoSuchHost(cause()),
            Some(HttpFailure::Connect) => Self::Connect(cause()),
            Some(HttpFailure::Tls) => Self::Tls(cause()),
            Some(HttpFailure::TimedOut) => Self::Timeout,
            Some(HttpFailure::TooLarge) => Self::TooLarge(max_bytes),
            Some(_) => Self::Http(cause()),
        }
    }
}

/// The file at `address`, whatever it is, of at most `max_bytes`.
pub(crate) async fn file(ctx: &PluginContext, address: &str, max_bytes: usize) -> Result<Bytes, FetchError> {
    timeout(TOTAL_TIMEOUT, follow(ctx, address, max_bytes)).await.unwrap_or(Err(FetchError::Timeout))
}

enum Step {
    File(Bytes),
    Redirect(Url),
}

async fn follow(ctx: &PluginContext, address: &str, max_bytes: usize) -> Result<Bytes, FetchError> {
    let mut url = Url::parse(address).map_err(|_| FetchError::NotAWebAddress)?;
    for _ in 0..=MAX_REDIRECTS {
        let is_plain = url.username().is_empty() && url.password().is_none();
        if !is_plain || pictures::web_address(url.as_str()).is_none() {
            return Err(FetchError::NotAWebAddress);
        }
        let request = ctx.http().get(&url).timeout(TOTAL_TIMEOUT).max_bytes(max_bytes as u64);
        let request = request.header(ACCEPT, "image/webp, image/png, image/jpeg").header(USER_AGENT, OUR_NAME);
        let response = request.send().await.map_err(|error| FetchError::new(error, max_bytes))?;
        match read(&url, response, max_bytes).await? {
            Step::File(bytes) => return Ok(bytes),
            Step::Redirect(to) => url = to,
        }
    }
    Err(FetchError::TooManyRedirects)
}

async fn read(url: &Url, response: HttpResponse, max_bytes: usize) -> Result<Step, FetchError> {
    let status = response.status();
    if let (true, Some(to)) = (status.is_redirection(), response.headers().get(LOCATION)) {
        // Not `to_str`: sites send raw UTF-8 in here.
        let to = url.join(&String::from_utf8_lossy(to.as_bytes())).map_err(|_| FetchError::NotAWebAddress)?;
        return Ok(Step::Redirect(to));
    }
    if !status.is_success() {
        return Err(FetchError::Status(status));
    }
    Ok(Step::File(response.bytes().await.map_err(|error| FetchError::new(error, max_bytes))?))
}
