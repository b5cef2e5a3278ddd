//! Errors for the client, by status, and internal ones.

use cardinal_plugin_abi::error as codes;
use serde_json::{Value, json};

use super::{Error, Kind, chain, place};

impl Error {
    /// Makes a failure for the client, with any status from 400 to 599 and a code of the plugin's own. Another status
    /// becomes 500.
    ///
    /// The code is kebab-case and never changes: programs look at it, people read `detail`. A code that is not
    /// kebab-case, or longer than 64 bytes, reaches the client as `internal-error`. A status of 502 to 504 counts as
    /// another server's fault, any other from 500 on as the plugin's.
    ///
    /// ```
    /// use cardinal_plugin::Error;
    ///
    /// let error = Error::with_code(410, "offer-over", "The offer ended yesterday.");
    /// assert_eq!((error.status(), error.code()), (Some(410), Some("offer-over")));
    /// assert_eq!(error.message(), "The offer ended yesterday.");
    /// ```
    pub fn with_code(status: u16, code: &str, detail: impl Into<String>) -> Self {
        let status = if (400..600).contains(&status) { status } else { 500 };
        Self {
            kind: Kind::Reply(status),
            message: detail.into(),
            details: json!({ "code": code }),
            flags: codes::flags::PUBLIC,
            place: None,
        }
    }

    /// Makes a 400 `invalid-request`: the request cannot be understood.
    ///
    /// ```
    /// use cardinal_plugin::{Error, Result};
    ///
    /// fn range(text: &str) -> Result<(&str, &str)> {
    ///     text.split_once("..").ok_or_else(|| Error::bad_request("`price` must be a range, as in 10..20."))
    /// }
    /// assert_eq!(range("10").unwrap_err().status(), Some(400));
    /// ```
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::with_code(400, "invalid-request", detail)
    }

    /// Makes a 403 `forbidden`: the request is understood, and refused to this caller.
    ///
    /// ```
    /// use cardinal_plugin::{Error, Result, Uuid};
    ///
    /// fn check_author(author: Uuid, caller: Uuid) -> Result<()> {
    ///     if author == caller { Ok(()) } else { Err(Error::forbidden("Only its author can change a review.")) }
    /// }
    /// assert_eq!(check_author(Uuid::nil(), Uuid::max()).unwrap_err().code(), Some("forbidden"));
    /// ```
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::with_code(403, "forbidden", detail)
    }

    /// Makes a 404 `not-found`: what the request is about does not exist, or this caller must not know that it does.
    ///
    /// ```
    /// use cardinal_plugin::{Error, Result};
    ///
    /// fn supplier<'a>(name: &str, known: &[&'a str]) -> Result<&'a str> {
    ///     let found = known.iter().find(|known| **known == name);
    ///     found.copied().ok_or_else(|| Error::not_found("There is no such supplier."))
    /// }
    /// assert_eq!(supplier("oak-and-co", &[]).unwrap_err().status(), Some(404));
    /// ```
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::with_code(404, "not-found", detail)
    }

    /// Makes a 409 `conflict`: the request is fine, but not in the present state of what it is about.
    ///
    /// ```
    /// use cardinal_plugin::{Error, Result};
    ///
    /// fn check_open(is_closed: bool) -> Result<()> {
    ///     if is_closed { Err(Error::conflict("The order is closed: open it again first.")) } else { Ok(()) }
    /// }
    /// assert_eq!(check_open(true).unwrap_err().status(), Some(409));
    /// ```
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::with_code(409, "conflict", detail)
    }

    /// Makes a 422 `validation-failed`: the request is well-formed, but a value is wrong. Name it with
    /// [`field`](Self::field).
    ///
    /// ```
    /// use cardinal_plugin::Error;
    ///
    /// let error = Error::unprocessable("The price does not fit.").field("/price", "is below 0");
    /// assert_eq!((error.status(), error.code()), (Some(422), Some("validation-failed")));
    /// ```
    pub fn unprocessable(detail: impl Into<String>) -> Self {
        Self::with_code(422, "validation-failed", detail)
    }

    /// Makes a 502 `upstream-error`: a server that the plugin asked answered nonsense, or not at all. It counts as that
    /// server's fault.
    ///
    /// ```
    /// use cardinal_plugin::{Error, Result};
    ///
    /// fn price(page: &str) -> Result<&str> {
    ///     page.split("\"price\":").nth(1).ok_or_else(|| Error::bad_gateway("The shop's page has no price."))
    /// }
    /// assert_eq!(price("<html>").unwrap_err().code(), Some("upstream-error"));
    /// ```
    pub fn bad_gateway(detail: impl Into<String>) -> Self {
        Self::with_code(502, "upstream-error", detail)
    }

    /// Makes a 503 `unavailable`: the client may try again later, in a second unless [`retry_after`](Self::retry_after)
    /// says otherwise. It counts as another server's fault.
    ///
    /// ```
    /// use cardinal_plugin::Error;
    ///
    /// let error = Error::unavailable("The price list is being read.");
    /// assert_eq!((error.status(), error.is_retryable()), (Some(503), true));
    /// ```
    pub fn unavailable(detail: impl Into<String>) -> Self {
        let error = Self::with_code(503, "unavailable", detail);
        Self { flags: error.flags | codes::flags::RETRY, ..error }
    }

    /// Makes an internal error of any other error, or of a text. `?` does the same.
    ///
    /// The client gets 500 `internal-error` and nothing of `cause`; the log has it with its chain of sources and the
    /// caller's file and line.
    ///
    /// ```
    /// use cardinal_plugin::Error;
    ///
    /// let error = Error::internal("the price list has no rows");
    /// assert_eq!((error.status(), error.message()), (None, "the price list has no rows"));
    /// ```
    #[track_caller]
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let place = place::caller();
        Self::from_code(codes::INTERNAL, chain(&*cause.into())).at(place)
    }

    pub(crate) fn from_code(code: u32, message: impl Into<String>) -> Self {
        Self { kind: Kind::Code(code), message: message.into(), details: Value::Null, flags: 0, place: None }
    }

    /// The plugin, or its call, is over.
    pub(crate) fn over(what: &str) -> Self {
        Self::from_code(codes::BAD_HANDLE, what)
    }
}
