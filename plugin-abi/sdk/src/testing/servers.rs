//! Other servers, as a test lets them answer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use cardinal_plugin_abi::{
    self as abi, Error, error as codes, pairs,
    record::{self, http_answer, http_request},
    stream::Source,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde_json::{Value, json};

use super::{TestHost, fake_host::lock};
use crate::{HttpFailure, stream::bytes_out};

/// Bytes of a piece of a body.
const PIECE: usize = 16 << 10;
/// A request of the plugin's to another server, as [`TestHost::answer_http`] shows it.
///
/// ```
/// use cardinal_plugin::testing::{SentRequest, ServerAnswer};
///
/// /// A shop that wants a key.
/// fn shop(request: &SentRequest) -> ServerAnswer {
///     match (request.method.as_str(), request.header("x-api-key")) {
///         ("GET", Some("k1")) => ServerAnswer::new(200).body("9.90"),
///         _ => ServerAnswer::new(401),
///     }
/// }
///
/// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
/// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// # let ctx = host.context();
/// host.answer_http(shop);
/// # cardinal_plugin::block_on(async {
/// let asked = ctx.http().get("https://shop.example/price").header("x-api-key", "k1").send().await?;
/// assert_eq!(asked.text().await?, "9.90");
/// # Ok::<(), cardinal_plugin::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SentRequest {
    /// The method.
    pub method: Method,
    /// The whole URL, its query included.
    pub url: String,
    /// The headers that the plugin has set; those of the host are missing.
    pub headers: HeaderMap,
    /// The body; empty when there is none.
    pub body: Bytes,
    /// The time of [`HttpRequest::timeout`](crate::HttpRequest::timeout), when it was set. Nothing enforces it here.
    pub timeout: Option<Duration>,
    /// The size of [`HttpRequest::max_bytes`](crate::HttpRequest::max_bytes), when it was set. It is enforced.
    pub max_bytes: Option<u64>,
}

impl SentRequest {
    pub(super) fn read(record: &[u8]) -> Result<Self, Error> {
        let invalid = |reason: String| Error::new(codes::INVALID_ARGUMENT, reason);
        let text = |number| String::from_utf8_lossy(record::field(record, number)).into_owned();
        let url = text(http_request::URL);
        check_url(&url)?;
        let mut headers = HeaderMap::new();
        let pairs = pairs::read(record::field(record, http_request::HEADERS)).into_iter().flatten();
        for (name, value) in pairs {
            match (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                (Ok(name), Ok(value)) => drop(headers.append(name, value)),
                _ => return Err(invalid(format!("the header {:?} is none", String::from_utf8_lossy(name)))),
            }
        }
        Ok(Self {
            method: text(http_request::METHOD).parse().map_err(|_| invalid("the method is none".to_owned()))?,
            url,
            headers,
            body: Bytes::copy_from_slice(record::field(record, http_request::BODY)),
            timeout: text(http_request::TIMEOUT_MS).parse().ok().map(Duration::from_millis),
            max_bytes: text(http_request::MAX_BYTES).parse().ok(),
        })
    }

    /// Returns the URL's path with its query: what stands behind the server's name.
    ///
    /// ```
    /// use cardinal_plugin::testing::ServerAnswer;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// host.answer_http(|request| match request.path() {
    ///     "/prices?sku=L1" => ServerAnswer::new(200).body("9.90"),
    ///     _ => ServerAnswer::new(404),
    /// });
    /// # cardinal_plugin::block_on(async {
    /// assert_eq!(ctx.http().get("https://shop.example/prices?sku=L1").send().await?.status(), 200);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn path(&self) -> &str {
        let after = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        after.find('/').map_or("/", |at| &after[at..])
    }

    /// Returns the first header of this name, in any case; `None` also when it is not text.
    ///
    /// ```
    /// use cardinal_plugin::testing::ServerAnswer;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// host.answer_http(|request| ServerAnswer::new(request.header("Authorization").map_or(401, |_| 200)));
    /// # cardinal_plugin::block_on(async {
    /// assert_eq!(ctx.http().get("https://shop.example/").send().await?.status(), 401);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// What another server answers, or how it fails to.
///
/// ```
/// use cardinal_plugin::testing::{ServerAnswer, TestHost};
/// use cardinal_plugin::{HttpFailure, PluginContext, Router, block_on};
///
/// let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// host.answer_http(|_| ServerAnswer::new(200).body("half of i").then_failed(HttpFailure::BrokenOff));
/// let ctx = host.context();
/// let error = block_on(async { ctx.http().get("https://shop.example/").send().await?.text().await }).unwrap_err();
/// assert_eq!(error.http_failure(), Some(HttpFailure::BrokenOff));
/// ```
#[derive(Clone, Debug)]
pub struct ServerAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Bytes,
    failure: Option<HttpFailure>,
}

impl ServerAnswer {
    /// Answers with this status, without a body.
    ///
    /// ```
    /// use cardinal_plugin::testing::ServerAnswer;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// host.answer_http(|_| ServerAnswer::new(503));
    /// # cardinal_plugin::block_on(async {
    /// assert_eq!(ctx.http().get("https://shop.example/").send().await?.status(), 503);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new(), failure: None }
    }

    /// Gives no answer: [`send`](crate::HttpRequest::send) fails with this.
    ///
    /// ```
    /// use cardinal_plugin::{HttpFailure, testing::ServerAnswer};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// host.answer_http(|_| ServerAnswer::failed(HttpFailure::NameNotFound));
    /// # cardinal_plugin::block_on(async {
    /// let error = ctx.http().get("https://shop.example/").send().await.unwrap_err();
    /// assert_eq!(error.http_failure(), Some(HttpFailure::NameNotFound));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn failed(failure: HttpFailure) -> Self {
        Self { failure: Some(failure), ..Self::new(0) }
    }

    /// Adds a header.
    ///
    /// ```
    /// use cardinal_plugin::testing::ServerAnswer;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// host.answer_http(|_| ServerAnswer::new(429).header("retry-after", "60"));
    /// # cardinal_plugin::block_on(async {
    /// assert_eq!(ctx.http().get("https://shop.example/").send().await?.header("retry-after"), Some("60"));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    ///
    /// ```
    /// use cardinal_plugin::testing::ServerAnswer;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// host.answer_http(|_| ServerAnswer::new(200).body("sku,cents\nL1,990\n"));
    /// # cardinal_plugin::block_on(async {
    /// assert_eq!(ctx.http().get("https://shop.example/").send().await?.text().await?, "sku,cents\nL1,990\n");
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a JSON body and its `content-type`.
    ///
    /// ```
    /// use cardinal_plugin::{json, serde_json::Value, testing::ServerAnswer};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// host.answer_http(|_| ServerAnswer::new(200).json(&json!({ "cents": 990 })));
    /// # cardinal_plugin::block_on(async {
    /// let price: Value = ctx.http().get("https://shop.example/").send().await?.json().await?;
    /// assert_eq!(price["cents"], 990);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }

    /// Lets the answer fail with this once the body that is set has been read.
    ///
    /// ```
    /// use cardinal_plugin::{HttpFailure, testing::ServerAnswer};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// host.answer_http(|_| ServerAnswer::new(200).body("sku,ce").then_failed(HttpFailure::TimedOut));
    /// # cardinal_plugin::block_on(async {
    /// let response = ctx.http().get("https://shop.example/").send().await?; // the head is there
    /// assert_eq!(response.text().await.unwrap_err().http_failure(), Some(HttpFailure::TimedOut));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn then_failed(mut self, failure: HttpFailure) -> Self {
        self.failure = Some(failure);
        self
    }

    pub(super) fn into_reply(self, max_bytes: u64) -> Result<abi::Reply, Error> {
        if let (0, Some(failure)) = (self.status, self.failure) {
            return Err(error_of(failure));
        }
        let headers = pairs::write(self.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        let pieces = Pieces { left: self.body, max_bytes, failure: self.failure };
        Ok(abi::Reply {
            status: self.status,
            headers: headers.into(),
            body: abi::Bytes::EMPTY,
            stream: abi::Stream::new(pieces),
            extra: record::write(&[(http_answer::ADDRESS, b"192.0.2.1:80")]).into(),
        })
    }
}

/// As a host does, in the host's words where a test may look for them.
fn check_url(url: &str) -> Result<(), Error> {
    let refused = |reason: String| {
        let error = Error { message: reason.into(), ..error_of(HttpFailure::InvalidUrl) };
        Err(Error { flags: error.flags | codes::flags::PUBLIC, ..error })
    };
    match url.split_once("://") {
        None => return refused("The URL must begin with https:// or http://.".to_owned()),
        Some((scheme, _)) if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) => {
            return refused(format!("The URL must begin with https:// or http://, not with {scheme}:."));
        }
        Some(_) => {}
    }
    match url.parse::<Uri>() {
        Err(error) => refused(format!("The URL is not valid: {error}.")),
        Ok(uri) if uri.authority().is_none_or(|authority| authority.as_str().contains('@')) => {
            refused("The URL must not have a user name or a password in it.".to_owned())
        }
        Ok(_) => Ok(()),
    }
}

fn error_of(failure: HttpFailure) -> Error {
    let (status, code) = match failure {
        HttpFailure::InvalidUrl => (422, "validation-failed"),
        HttpFailure::TimedOut => (504, "upstream-timeout"),
        _ => (502, "upstream-error"),
    };
    let details = json!({ "kind": failure.kind(), "status": status, "code": code }).to_string();
    let mut error = Error::new(codes::HTTP, format!("another server failed as the test says: {}", failure.kind()));
    (error.flags, error.details) = (codes::flags::HOST, details.into());
    error
}

/// A body, piece by piece.
struct Pieces {
    left: Bytes,
    max_bytes: u64,
    failure: Option<HttpFailure>,
}

impl Source for Pieces {
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<abi::Bytes, Error>>> {
        if self.left.is_empty() {
            return Poll::Ready(self.failure.take().map(|failure| Err(error_of(failure))));
        }
        let length = self.left.len().min(PIECE);
        let piece = self.left.split_to(length);
        let Some(max_bytes) = self.max_bytes.checked_sub(length as u64) else {
            return Poll::Ready(Some(Err(error_of(HttpFailure::TooLarge))));
        };
        self.max_bytes = max_bytes;
        Poll::Ready(Some(Ok(bytes_out(piece))))
    }
}

impl TestHost {
    /// Lets `servers` answer the plugin's requests to other servers ([`PluginContext::http`]); nothing leaves this
    /// process.
    ///
    /// It runs on the thread that sends the request, and replaces the one that was set before. Without one every
    /// request is an error. A request is in the [journal](Self::journal), too, as `http GET https://...`.
    ///
    /// ```
    /// use cardinal_plugin::testing::{ServerAnswer, TestHost};
    /// use cardinal_plugin::{HttpFailure, PluginContext, Router, block_on, json};
    ///
    /// let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// host.answer_http(|request| match request.path() {
    ///     "/stock" => ServerAnswer::new(200).json(&json!({ "left": 3 })),
    ///     _ => ServerAnswer::failed(HttpFailure::Connect),
    /// });
    /// let ctx = host.context();
    /// let stock = block_on(async { ctx.http().get("https://shop.example/stock").send().await?.text().await });
    /// assert_eq!(stock.unwrap(), r#"{"left":3}"#);
    /// let failed = block_on(ctx.http().get("https://shop.example/").send()).unwrap_err();
    /// assert_eq!(failed.http_failure(), Some(HttpFailure::Connect));
    /// assert_eq!(host.journal(), ["http GET https://shop.example/stock", "http GET https://shop.example/"]);
    /// ```
    ///
    /// [`PluginContext::http`]: crate::PluginContext::http
    pub fn answer_http(&self, servers: impl Fn(&SentRequest) -> ServerAnswer + Send + Sync + 'static) {
        *lock(&self.fake.servers) = Some(Arc::new(servers));
    }
}
