//! Why a page could not be read.

use std::time::Duration;

use cardinal_plugin::{Error, HttpFailure};

use super::{MAX_REDIRECTS, MAX_URL, TOTAL_TIMEOUT};
use crate::politeness::Busy;

/// One text for both, the log has which it was: whoever could tell them apart could find out which names there are in
/// the network behind the host.
const NO_HOST: &str = "the host of this address was not found, or is none that pages are read from; \
    private networks are open only when the operator opens them";

/// Every text is for the caller: plain words, and nothing about the network behind the host.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("this is not a web address: it must begin with http:// or https:// and name a host")]
    NotAWebAddress,
    #[error("a web address of more than {MAX_URL} characters is not read")]
    TooLong,
    #[error("a web address with a user name or password in it is not read")]
    Credentials,
    #[error("{NO_HOST}")]
    OutOfReach(#[source] Cause),
    #[error("the supplier's robots.txt does not permit robots to read this page")]
    RobotsRefused,
    #[error("the supplier's site answered {0} for its robots.txt, so nobody knows which pages it permits to read")]
    RobotsUnavailable(u16),
    #[error("the supplier's site is asked by many at the moment, or wants a pause: try again in {} seconds", .0.as_secs().max(1))]
    Busy(Duration),
    #[error("the page redirects more than {MAX_REDIRECTS} times")]
    TooManyRedirects,
    #[error("the page is larger than 4 MiB, or the feed larger than 32")]
    TooLarge,
    #[error("the address leads to {0}, not to an HTML page")]
    NotHtml(String),
    #[error("the page came in a compression that was not asked for, or damaged")]
    Compressed,
    #[error("the supplier's site answered {0}")]
    Status(cardinal_plugin::http::StatusCode),
    #[error("the supplier's site answered {0} and wants to be left alone for {seconds} seconds", seconds = .1.as_secs().max(1))]
    Overrun(cardinal_plugin::http::StatusCode, Duration),
    #[error("the page did not arrive within {} seconds", TOTAL_TIMEOUT.as_secs())]
    Timeout,
    #[error("{NO_HOST}")]
    NoSuchHost(#[source] Cause),
    #[error("the supplier's site could not be connected to")]
    Connect(#[source] Cause),
    #[error("no secure connection to the supplier's site could be made")]
    Tls(#[source] Cause),
    #[error("the supplier's site broke off or does not speak HTTP")]
    Http(#[source] Cause),
    /// The host's own error, to be passed on as it is: the call is over, or too much is under way.
    #[error("the host did not ask: {}", .0.message())]
    Host(Error),
}

/// What the host says of a failure, for the log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Cause(String);

impl From<Error> for FetchError {
    fn from(error: Error) -> FetchError {
        let cause = || Cause(error.message().to_owned());
        match error.http_failure() {
            None | Some(HttpFailure::InvalidUrl) => FetchError::Host(error),
            Some(HttpFailure::AddressRefused) => FetchError::OutOfReach(cause()),
            Some(HttpFailure::NameNotFound) => FetchError::NoSuchHost(cause()),
            Some(HttpFailure::Connect) => FetchError::Connect(cause()),
            Some(HttpFailure::Tls) => FetchError::Tls(cause()),
            Some(HttpFailure::TimedOut) => FetchError::Timeout,
            Some(HttpFailure::TooLarge) => FetchError::TooLarge,
            Some(_) => FetchError::Http(cause()),
        }
    }
}

impl From<Busy> for FetchError {
    fn from(busy: Busy) -> FetchError {
        FetchError::Busy(busy.retry_after)
    }
}
