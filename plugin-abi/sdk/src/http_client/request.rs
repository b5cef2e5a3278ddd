//! A request to another server.

use std::{fmt::Display, future::Future, time::Duration};

use bytes::Bytes;
use cardinal_plugin_abi::{Slice, error as codes, pairs, record, record::http_request};
use http::{HeaderMap, Method, header::CONTENT_TYPE};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use super::HttpResponse;
use crate::{Error, PluginContext, Result};

/// All but what RFC 3986 reserves for nothing.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A request to another server that is being put together. Nothing happens before [`send`](Self::send).
///
/// A clone is another request; sending both asks twice.
///
/// ```
/// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
/// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// # let ctx = host.context();
/// # host.answer_http(|request| cardinal_plugin::testing::ServerAnswer::new(200).body(request.url.clone()));
/// # cardinal_plugin::block_on(async {
/// let request = ctx.http().get("https://shop.example/prices").header("accept", "text/csv");
/// let again = request.clone();
/// assert_eq!(request.send().await?.status(), 200);
/// assert_eq!(again.send().await?.status(), 200); // asked twice
/// # Ok::<(), cardinal_plugin::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is asked until it is sent"]
pub struct HttpRequest {
    ctx: PluginContext,
    method: Method,
    url: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Bytes,
    timeout: Option<Duration>,
    max_bytes: Option<u64>,
}

impl HttpRequest {
    pub(super) fn new(ctx: PluginContext, method: Method, url: String) -> Self {
        Self { ctx, method, url, headers: Vec::new(), body: Bytes::new(), timeout: None, max_bytes: None }
    }

    /// Adds a parameter to the query of the URL, name and value percent-encoded, so that the value may be any text.
    ///
    /// What the URL has already stays. A name that is added twice is sent twice.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::{ServerAnswer, TestHost}};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # host.answer_http(|request| ServerAnswer::new(200).body(request.url.clone()));
    /// # cardinal_plugin::block_on(async {
    /// let request = ctx.http().get("https://shop.example/items?lang=de").query("words", "oak & co").query("limit", 20);
    /// let asked = request.send().await?;
    /// # assert_eq!(asked.text().await?, "https://shop.example/items?lang=de&words=oak%20%26%20co&limit=20");
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn query(mut self, name: impl AsRef<str>, value: impl Display) -> Self {
        let encoded = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
        let pair = format!("{}={}", encoded(name.as_ref()), encoded(&value.to_string()));
        let end = self.url.find('#').unwrap_or(self.url.len());
        let separator = match self.url[..end].split_once('?') {
            None => "?",
            Some((_, query)) if query.is_empty() || query.ends_with('&') => "",
            Some(_) => "&",
        };
        self.url.insert_str(end, &format!("{separator}{pair}"));
        self
    }

    /// Adds a header. A name that is added twice is sent twice. At most 100 headers with 32 KiB.
    ///
    /// `host`, `content-length`, `expect`, `trailer` and the headers of the connection are the host's: a request with
    /// one of them is refused. `user-agent` is the plugin's name and version unless it is set here.
    ///
    /// ```
    /// use cardinal_plugin::testing::ServerAnswer;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// host.answer_http(|request| ServerAnswer::new(request.header("authorization").map_or(401, |_| 200)));
    /// # cardinal_plugin::block_on(async {
    /// let token = "Bearer 7f3a"; // from the plugin's settings
    /// let response = ctx.http().get("https://shop.example/prices").header("authorization", token).send().await?;
    /// assert_eq!(response.status(), 200);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Adds all of these headers, as [`header`](Self::header) does.
    ///
    /// ```
    /// use cardinal_plugin::http::{HeaderMap, HeaderValue, header::ACCEPT};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # use cardinal_plugin::testing::ServerAnswer;
    /// # host.answer_http(|request| ServerAnswer::new(request.header("accept").map_or(406, |_| 200)));
    /// # cardinal_plugin::block_on(async {
    /// let usual = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/csv"))]);
    /// let response = ctx.http().get("https://shop.example/prices").headers(&usual).send().await?;
    /// # assert_eq!(response.status(), 200);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn headers(self, headers: &HeaderMap) -> Self {
        headers.iter().fold(self, |request, (name, value)| request.header(name, value))
    }

    /// Sets the body: at most 64 MiB. It is sent whole, with its `content-length`.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # host.answer_http(|request| cardinal_plugin::testing::ServerAnswer::new(200).body(request.body.clone()));
    /// # cardinal_plugin::block_on(async {
    /// let csv = "sku,cents\nL1,990\n";
    /// let request = ctx.http().post("https://shop.example/prices").header("content-type", "text/csv").body(csv);
    /// assert_eq!(request.send().await?.status(), 200);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a JSON body and its `content-type`.
    ///
    /// ```
    /// use cardinal_plugin::{json, testing::ServerAnswer};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// host.answer_http(|request| ServerAnswer::new(200).body(request.body.clone())); // an echo
    /// # cardinal_plugin::block_on(async {
    /// let request = ctx.http().post("https://shop.example/orders").json(&json!({ "sku": "L1" }))?;
    /// assert_eq!(request.send().await?.text().await?, r#"{"sku":"L1"}"#);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// An internal error when `body` cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(self, body: &T) -> Result<Self> {
        Ok(self.header(CONTENT_TYPE, "application/json").body(serde_json::to_vec(body)?))
    }

    /// Sets the time for all of it, including the wait for a connection and the body of the answer.
    ///
    /// It is 15 seconds unless it is set. More than 10 minutes is refused.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # use cardinal_plugin::testing::ServerAnswer;
    /// # host.answer_http(|request| ServerAnswer::new(request.timeout.map_or(500, |_| 200)));
    /// # cardinal_plugin::block_on(async {
    /// // A list that the shop makes while we wait.
    /// let request = ctx.http().get("https://shop.example/prices.csv").timeout(Duration::from_secs(120));
    /// assert_eq!(request.send().await?.status(), 200);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how many bytes the body of the answer may have. A larger one is an error ([`HttpFailure::TooLarge`]) once
    /// it has been read that far.
    ///
    /// It is 8 MiB unless it is set. More than 1 GiB is refused.
    ///
    /// ```
    /// use cardinal_plugin::{HttpFailure, testing::ServerAnswer};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// host.answer_http(|_| ServerAnswer::new(200).body("x".repeat(5_000)));
    /// # cardinal_plugin::block_on(async {
    /// let response = ctx.http().get("https://shop.example/lamp").max_bytes(4_096).send().await?;
    /// assert_eq!(response.text().await.unwrap_err().http_failure(), Some(HttpFailure::TooLarge));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// [`HttpFailure::TooLarge`]: crate::HttpFailure::TooLarge
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = Some(max_bytes);
        self
    }

    /// Sends the request; ready when the head of the answer is there. An answer with any status is a success.
    ///
    /// The host begins when this method is called, not at the first poll, and closes the connection when the future is
    /// dropped.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result, Router, block_on};
    /// use cardinal_plugin::testing::{ServerAnswer, TestHost};
    ///
    /// /// Any answer shows that the shop is there; a connection that fails is for the operator to look at.
    /// async fn is_up(ctx: &PluginContext) -> Result<bool> {
    ///     match ctx.http().get("https://shop.example/healthz").send().await {
    ///         Ok(response) => Ok(response.status().is_success()),
    ///         Err(error) if error.http_failure().is_some() => Ok(false),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// host.answer_http(|_| ServerAnswer::new(500));
    /// assert!(!block_on(is_up(&host.context())).unwrap());
    /// ```
    ///
    /// # Errors
    /// * [`Error::http_failure`] says why there is no answer. Passed on with `?` it is 502 `upstream-error` or 504
    ///   `upstream-timeout` for the client, without a word about the other server; for a URL that is not valid it is
    ///   422 `validation-failed`, and says what is wrong with the URL.
    /// * [`Error::is_retryable`] when 256 requests of the plugin wait already.
    /// * An internal error for a request that is refused: a header, time or size out of bounds.
    /// * [`Error::is_cancelled`] when the call is over or the plugin has been stopped.
    pub fn send(self) -> impl Future<Output = Result<HttpResponse>> + Send + use<> {
        let client = self.ctx.core.host.http_client().ok_or_else(no_client);
        let answer = client.map(|client| {
            let record = self.record();
            (client.send)(self.ctx.core.ctx, self.ctx.call_id(), Slice::new(&record))
        });
        async move { HttpResponse::read(answer?.await.map_err(Error::from_host)?) }
    }

    fn record(&self) -> Vec<u8> {
        let headers = pairs::write(self.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_slice())));
        let timeout = self.timeout.map(|timeout| timeout.as_millis().to_string()).unwrap_or_default();
        let max_bytes = self.max_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        record::write(&[
            (http_request::METHOD, self.method.as_str().as_bytes()),
            (http_request::URL, self.url.as_bytes()),
            (http_request::HEADERS, &headers),
            (http_request::BODY, &self.body),
            (http_request::TIMEOUT_MS, timeout.as_bytes()),
            (http_request::MAX_BYTES, max_bytes.as_bytes()),
        ])
    }
}

fn no_client() -> Error {
    let reason = "this host has no HTTP client; a manifest that needs it says \"requires\": [\"http-client\"]";
    Error::from_code(codes::UNSUPPORTED, reason)
}
