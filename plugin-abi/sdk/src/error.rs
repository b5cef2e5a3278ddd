//! What a handler answers when it does not answer a [`Response`](crate::Response): an [`Error`], which speaks to the
//! client or to the log.

mod accessors;
mod constructors;
mod fields;
pub(crate) mod place;
mod std_error;

use std::{
    fmt::{self, Display},
    time::Duration,
};

use cardinal_plugin_abi::{self as abi, error as codes};
use serde::Deserialize;
use serde_json::{Value, json};

pub use self::std_error::StdError;
use self::{place::Place, std_error::Inner};

/// The result of everything in this crate that can fail.
///
/// ```
/// use cardinal_plugin::Result;
///
/// fn cents(text: &str) -> Result<i64> {
///     let euros: f64 = text.trim().parse()?; // any standard error becomes an `Error`
///     Ok((euros * 100.0).round() as i64)
/// }
/// assert_eq!(cents("9.90")?, 990);
/// assert!(cents("cheap").is_err());
/// # Ok::<(), cardinal_plugin::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, in one of two forms:
///
/// * **Made for the client** by one of the constructors below: status, code and detail reach the client as a problem
///   document (RFC 9457), word for word.
/// * **Anything else**: whatever `?` converts from a [`std::error::Error`], and what the host answers. The client sees
///   only what the host decides to show (an internal error shows nothing); the whole chain of causes goes to the log,
///   with the id of the request.
///
/// Errors of the host, of the database and of other servers can be passed on with `?`: the client gets the status that
/// belongs to them, and the operator sees whose fault it was. The host cuts a text after 8 KiB and names at most 64
/// fields.
///
/// The log line of a call that has failed ends with the place of the `?`, of [`Error::internal`], or of the statement
/// that the database refused: `error: invalid digit found in string (at src/routes.rs:31:30)`.
///
/// It does not implement [`std::error::Error`] itself, so that `?` can convert from all that do, and from
/// `anyhow::Error` and `eyre::Report`. [`into_std`](Self::into_std) makes one of it.
///
/// ```
/// use cardinal_plugin::{Error, Result};
///
/// fn quantity(text: &str) -> Result<u32> {
///     let n: u32 = text.parse()?; // a ParseIntError: "500 internal-error" for the client, all of it in the log
///     if n == 0 {
///         return Err(Error::unprocessable("The quantity must be at least 1.").field("/quantity", "is 0"));
///     }
///     Ok(n)
/// }
/// assert_eq!(quantity("0").unwrap_err().status(), Some(422));
/// assert_eq!(quantity("x").unwrap_err().status(), None);
/// ```
///
/// A client, and a test, see the problem document:
///
/// ```
/// use cardinal_plugin::{Error, PluginContext, Request, Response, Result, Router, block_on, json};
/// use cardinal_plugin::testing::{TestHost, TestRequest};
///
/// async fn order(_: PluginContext, _: Request) -> Result<Response> {
///     Err(Error::unprocessable("The quantity must be at least 1.").field("/quantity", "is 0"))
/// }
///
/// let manifest = r#"{ "name": "orders", "version": "1.0.0", "backend": {} }"#;
/// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().post("/orders", order));
/// let reply = block_on(host.send(TestRequest::post("/orders")));
/// assert_eq!(reply.json(), json!({
///     "status": 422, "code": "validation-failed", "detail": "The quantity must be at least 1.",
///     "errors": [{ "pointer": "/quantity", "detail": "is 0" }],
/// }));
/// ```
pub struct Error {
    kind: Kind,
    message: String,
    details: Value,
    /// Bits of [`codes::flags`], kept so that an error of the host's can be passed on as it came.
    flags: u32,
    /// Where the plugin's code made it, when that is known.
    place: Option<Place>,
}

#[derive(Clone, Copy)]
enum Kind {
    /// For the client, with the status.
    Reply(u16),
    /// A code of [`codes`], of the host or ours.
    Code(u32),
}

impl Error {
    /// Turns this error into a [`std::error::Error`], for code that passes errors on as `anyhow::Error` or another. `?`
    /// in a handler gives it back as it was, with its status for the client.
    ///
    /// ```
    /// use cardinal_plugin::{Error, Result};
    ///
    /// fn parse(text: &str) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    ///     if text.is_empty() {
    ///         return Err(Error::unprocessable("Say a number.").into_std().into());
    ///     }
    ///     Ok(text.parse()?)
    /// }
    ///
    /// fn handle(text: &str) -> Result<u32> {
    ///     Ok(parse(text)?)
    /// }
    /// assert_eq!(handle("").unwrap_err().status(), Some(422));
    /// assert_eq!(handle("x").unwrap_err().status(), None);
    /// ```
    pub fn into_std(self) -> StdError {
        StdError { inner: Inner(self) }
    }

    fn from_std(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(cause) = next {
            let ours = cause.downcast_ref::<StdError>().map(|own| &own.inner.0);
            if let Some(ours) = ours.or_else(|| cause.downcast_ref::<Inner>().map(|own| &own.0)) {
                return ours.copy();
            }
            next = cause.source();
        }
        Self::from_code(codes::INTERNAL, chain(error))
    }

    fn copy(&self) -> Self {
        let (message, details) = (self.message.clone(), self.details.clone());
        Self { kind: self.kind, message, details, flags: self.flags, place: self.place }
    }

    /// Tells the client when to try again (`Retry-After`): in whole seconds, rounded up, at least one, and a day at
    /// most. It makes the error [retryable](Self::is_retryable).
    ///
    /// ```
    /// use std::time::Duration;
    /// use cardinal_plugin::{Error, PluginContext, Request, Response, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn stock(_: PluginContext, _: Request) -> Result<Response> {
    ///     Err(Error::unavailable("The shop counts its stock.").retry_after(Duration::from_secs(60)))
    /// }
    ///
    /// let manifest = r#"{ "name": "shop", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/stock", stock));
    /// let reply = block_on(host.send(TestRequest::get("/stock")));
    /// assert_eq!((reply.status(), reply.header("retry-after")), (503, Some("60")));
    /// ```
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.flags |= codes::flags::RETRY;
        let started = u64::from(wait.subsec_nanos() > 0);
        self.set("retry_after", wait.as_secs().saturating_add(started).max(1).into());
        self
    }

    /// Returns the time that [`retry_after`](Self::retry_after) set, in whole seconds.
    ///
    /// ```
    /// use cardinal_plugin::Error;
    /// use std::time::Duration;
    ///
    /// let busy = Error::unavailable("The shop wants a pause.").retry_after(Duration::from_millis(1_500));
    /// assert_eq!(busy.retry_delay(), Some(Duration::from_secs(2)));
    /// assert_eq!(Error::not_found("There is no such shop.").retry_delay(), None);
    /// ```
    pub fn retry_delay(&self) -> Option<Duration> {
        self.details.get("retry_after").and_then(Value::as_u64).map(Duration::from_secs)
    }

    pub(crate) fn set(&mut self, key: &str, value: Value) {
        match &mut self.details {
            Value::Object(details) => {
                details.insert(key.to_owned(), value);
            }
            other => *other = json!({ key: value }),
        }
    }
}

/// The part of [`abi::Error::details`] that decides what kind of error it is.
#[derive(Deserialize)]
struct Reply {
    status: u16,
}

impl Error {
    /// An error of the host's. (Not `From`: that would collide with the conversion from every
    /// `std::error::Error`.)
    pub(crate) fn from_host(error: abi::Error) -> Self {
        let details: Value = serde_json::from_slice(error.details.get()).unwrap_or_default();
        let kind = match error.code {
            codes::REPLY => Reply::deserialize(&details).map_or(Kind::Code(codes::INTERNAL), |r| Kind::Reply(r.status)),
            code => Kind::Code(code),
        };
        Self { kind, message: error.text(), details, flags: error.flags, place: None }
    }
}

impl From<Error> for abi::Error {
    fn from(mut error: Error) -> Self {
        let code = match error.kind {
            Kind::Code(code) => {
                if let Some(place) = error.place {
                    error.set("location", place.to_string().into());
                }
                code
            }
            Kind::Reply(status) => {
                error.set("status", status.into());
                codes::REPLY
            }
        };
        let details = if error.details.is_null() { String::new() } else { error.details.to_string() };
        Self { code, flags: error.flags, message: error.message.into(), details: details.into() }
    }
}

/// Converts everything that is, or becomes, a standard error: [`std::error::Error`]s, `anyhow::Error`, `eyre::Report`,
/// texts. One that [`Error::into_std`] made comes back as it was, also from within others.
impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for Error {
    #[track_caller]
    fn from(error: E) -> Self {
        let place = place::caller();
        Self::from_std(&*error.into()).at(place)
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Reply(status) => write!(f, "{status} {}: {}", self.code().unwrap_or("-"), self.message)?,
            Kind::Code(codes::PANICKED) => write!(f, "panic: {}", self.message)?,
            Kind::Code(code) => write!(f, "host error {code}: {}", self.message)?,
        }
        if self.details.is_null() { Ok(()) } else { write!(f, " {}", self.details) }
    }
}

/// An error and its sources, outermost first. A source whose text its parent already ends with is
/// left out: many errors print their source themselves.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_survives_the_border() {
        let sent = Error::conflict("taken").field("/sku", "exists").field("/title", "empty");
        let error = Error::from_host(abi::Error::from(sent));
        assert_eq!((error.status(), error.code(), error.message()), (Some(409), Some("conflict"), "taken"));
        assert_eq!(error.details["errors"][1]["pointer"], "/title");
    }

    #[test]
    fn fields_are_named_together_or_there_is_no_error() {
        let checked = |stars: u8, text: &str| {
            let error = Error::unprocessable("no").field_if(stars > 5, "/stars", "is over 5");
            error.field_if(text.is_empty(), "/text", "is empty").check()
        };
        assert!(checked(5, "x").is_ok());
        let error = checked(6, "").unwrap_err();
        assert_eq!(
            (&error.details["errors"][0]["pointer"], &error.details["errors"][1]["detail"]),
            (&json!("/stars"), &json!("is empty"))
        );
    }

    #[test]
    fn a_wait_is_told_in_whole_seconds() {
        for (wait, seconds) in [(0, 1), (1000, 1), (1001, 2), (29_500, 30)] {
            let error = Error::unavailable("later").retry_after(Duration::from_millis(wait));
            assert_eq!((error.details["retry_after"].as_u64(), error.is_retryable()), (Some(seconds), true));
        }
    }

    #[test]
    fn an_error_of_the_host_is_passed_on_as_it_came() {
        let mut raw = abi::Error::new(codes::FORBIDDEN, "no");
        (raw.flags, raw.details) =
            (codes::flags::PUBLIC | 1 << 9, String::from("{\"required_scope\":\"x:read\"}").into());
        let passed = abi::Error::from(Error::from_host(raw));
        assert_eq!((passed.code, passed.flags), (codes::FORBIDDEN, codes::flags::PUBLIC | 1 << 9));
        assert_eq!(passed.details.get(), b"{\"required_scope\":\"x:read\"}");
    }

    #[test]
    fn an_internal_error_tells_its_causes_once_and_has_no_status() {
        #[derive(Debug)]
        struct Outer(std::num::ParseIntError);
        impl Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("no such page")
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = Error::from(Outer("x".parse::<u32>().unwrap_err()));
        assert_eq!(error.message(), "no such page: invalid digit found in string");
        assert_eq!(error.status(), None);
        assert_eq!(abi::Error::from(error).code, codes::INTERNAL);
    }

    #[test]
    fn anyhow_is_taken_and_gives_back_what_was_ours() {
        use anyhow::Context as _;
        fn fails() -> anyhow::Result<u32> {
            "x".parse::<u32>().context("reading the page").context("importing")
        }
        fn passes_on(ours: bool) -> anyhow::Result<u32> {
            if ours { Err(Error::conflict("taken").into_std()).context("importing") } else { fails() }
        }
        fn handler(ours: bool) -> Result<u32> {
            Ok(passes_on(ours)?)
        }
        let error = handler(false).unwrap_err();
        assert_eq!(error.message(), "importing: reading the page: invalid digit found in string");
        assert_eq!(handler(true).unwrap_err().status(), Some(409));
        let bare = || -> Result<()> { Err(anyhow::Error::new(Error::conflict("taken").into_std()))? };
        assert_eq!(bare().unwrap_err().status(), Some(409));
        let text = || -> Result<()> { Err("no page")? };
        assert_eq!(text().unwrap_err().message(), "no page");
        let ours = || -> Result<()> { Err(Error::conflict("taken"))? };
        assert_eq!(ours().unwrap_err().status(), Some(409));
    }

    #[test]
    fn malformed_details_of_the_other_side_do_no_harm() {
        let mut raw = abi::Error::new(codes::REPLY, "x");
        raw.details = String::from("{\"status\": \"many\"").into();
        assert_eq!(Error::from_host(raw).status(), None);
    }
}
