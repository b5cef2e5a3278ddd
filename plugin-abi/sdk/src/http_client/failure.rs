//! Why another server gave no answer.

use cardinal_plugin_abi::error::http_kind;

/// Why another server gave no answer, or no whole one: [`Error::http_failure`](crate::Error::http_failure).
///
/// A host may know more reasons than this SDK; those are [`BrokenOff`](Self::BrokenOff) here.
///
/// ```
/// use cardinal_plugin::{Error, HttpFailure};
///
/// /// Whether the operator has something to do.
/// fn is_for_the_operator(error: &Error) -> bool {
///     matches!(error.http_failure(), Some(HttpFailure::AddressRefused | HttpFailure::Tls))
/// }
/// assert!(!is_for_the_operator(&Error::bad_gateway("The shop's page has no price.")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HttpFailure {
    /// The URL is not valid, is neither `http` nor `https`, or has a user name or a password in it. Nothing was asked.
    ///
    /// Whoever gave the URL is told: passed on with `?` it is 422 `validation-failed`, with what is wrong in its text.
    /// Where the URL is the plugin's own, or comes from its settings, make
    /// [`Error::internal`](crate::Error::internal) of it. To name the field:
    ///
    /// ```
    /// use cardinal_plugin::{Error, HttpFailure, PluginContext, Request, Response, Result, Router, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct FeedInput {
    ///     url: String,
    /// }
    ///
    /// async fn add(ctx: PluginContext, req: Request) -> Result<Response> {
    ///     let FeedInput { url } = req.input().await?;
    ///     let named = |error: Error| match error.http_failure() {
    ///         Some(HttpFailure::InvalidUrl) => Error::unprocessable("No such feed.").field("/url", error.message()),
    ///         _ => error,
    ///     };
    ///     let feed = ctx.http().get(url).send().await.map_err(named)?;
    ///     Ok(Response::text(feed.text().await?))
    /// }
    ///
    /// let manifest = r#"{ "name": "feeds", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().post("/feeds", add));
    /// let reply = block_on(host.send(TestRequest::post("/feeds").json(&json!({ "url": "ftp://shop.example/" }))));
    /// assert_eq!((reply.status(), &reply.json()["errors"][0]["pointer"]), (422, &json!("/url")));
    /// ```
    InvalidUrl,
    /// Every address of the server is in a network that the operator has not opened. Whoever chose the address should
    /// not learn more from it than from [`NameNotFound`](Self::NameNotFound): the two take the same time.
    AddressRefused,
    /// The name of the server was not found.
    NameNotFound,
    /// No address of the server took the connection.
    Connect,
    /// No secure connection could be made: a certificate that is not trusted or does not match, or no common version of
    /// TLS.
    Tls,
    /// The request's time was over, while it waited, connected or read.
    TimedOut,
    /// The body of the answer is larger than [`HttpRequest::max_bytes`](crate::HttpRequest::max_bytes).
    TooLarge,
    /// The server closed the connection too early, or does not speak HTTP.
    BrokenOff,
}

const KINDS: [(&str, HttpFailure); 8] = [
    (http_kind::INVALID_URL, HttpFailure::InvalidUrl),
    (http_kind::ADDRESS_REFUSED, HttpFailure::AddressRefused),
    (http_kind::NAME_NOT_FOUND, HttpFailure::NameNotFound),
    (http_kind::CONNECT, HttpFailure::Connect),
    (http_kind::TLS, HttpFailure::Tls),
    (http_kind::TIMED_OUT, HttpFailure::TimedOut),
    (http_kind::TOO_LARGE, HttpFailure::TooLarge),
    (http_kind::BROKEN_OFF, HttpFailure::BrokenOff),
];

impl HttpFailure {
    /// Of an error's `kind`.
    pub(crate) fn from_kind(kind: &str) -> Self {
        KINDS.iter().find(|(known, _)| *known == kind).map_or(Self::BrokenOff, |(_, failure)| *failure)
    }

    #[cfg(feature = "testing")]
    pub(crate) fn kind(self) -> &'static str {
        KINDS.iter().find(|(_, failure)| *failure == self).map_or(http_kind::BROKEN_OFF, |(kind, _)| kind)
    }
}
