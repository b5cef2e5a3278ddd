//! Requests to other servers, over the host's connections: [`PluginContext::http`], [`HttpRequest`], [`HttpResponse`].

use std::{future::Future, net::SocketAddr, time::Duration};

use bytes::{Bytes, BytesMut};
use cardinal_plugin_abi::{
    self as abi, Slice,
    error::{self as codes, http_kind},
    pairs, record,
    record::{http_answer, http_request},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header::CONTENT_TYPE};
use serde::{Serialize, de::DeserializeOwned};

use crate::{ByteStream, Error, PluginContext, Result, context::without_value, stream::bytes_in};

impl PluginContext {
    /// Returns the host's HTTP client: TLS, kept connections, time-outs, and no way into networks that the operator has not
    /// opened.
    ///
    /// The host resolves the name, checks every address, and connects to one that it has checked: the internet, and the
    /// private networks that the operator opened to this plugin. It adds `user-agent`, and the call's `traceparent`, where
    /// the request has none. It follows no redirects: the plugin looks at `location` and decides. Cookies and compression
    /// are left to the plugin.
    ///
    /// In a call, request and answer end with the call. [`as_plugin`](Self::as_plugin) makes those that go on, until the
    /// plugin stops. 32 requests of a plugin are under way at a time, unread bodies among them; 256 more wait, which spends
    /// their own time.
    ///
    /// A manifest with `"requires": ["http-client"]` keeps the plugin out of hosts without a client.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cardinal_plugin::{PluginContext, Result, Router, block_on, json};
    /// use cardinal_plugin::testing::{ServerAnswer, TestHost};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Rates {
    ///     eur: f64,
    /// }
    ///
    /// async fn rates(ctx: &PluginContext) -> Result<Rates> {
    ///     let request = ctx.http().get("https://rates.example/latest.json").header("accept", "application/json");
    ///     request.timeout(Duration::from_secs(5)).max_bytes(64 << 10).send().await?.error_for_status()?.json().await
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "rates", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// host.answer_http(|_| ServerAnswer::new(200).json(&json!({ "eur": 1.17 })));
    /// assert_eq!(block_on(rates(&host.context())).unwrap().eur, 1.17);
    /// host.answer_http(|_| ServerAnswer::new(503));
    /// assert_eq!(block_on(rates(&host.context())).err().unwrap().code(), Some("upstream-error"));
    /// ```
    pub fn http(&self) -> HttpClient<'_> {
        HttpClient(self)
    }
}

/// The host's HTTP client, from [`PluginContext::http`]. It makes requests and holds nothing: the connections are the
/// host's.
#[derive(Clone, Copy, Debug)]
pub struct HttpClient<'a>(&'a PluginContext);

impl HttpClient<'_> {
    /// Begins a request with any method but CONNECT and TRACE.
    ///
    /// `url` is `http` or `https`, at most 8 KiB, without a user name or a password in it (send these in a header). It is
    /// checked when the request is sent.
    #[must_use = "nothing is asked until it is sent"]
    pub fn request(&self, method: Method, url: impl AsRef<str>) -> HttpRequest {
        HttpRequest {
            ctx: self.0.clone(),
            method,
            url: url.as_ref().to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
            timeout: None,
            max_bytes: None,
        }
    }

    /// Begins a GET request.
    pub fn get(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::GET, url)
    }

    /// Begins a POST request.
    pub fn post(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::POST, url)
    }

    /// Begins a PUT request.
    pub fn put(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::PUT, url)
    }

    /// Begins a DELETE request.
    pub fn delete(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::DELETE, url)
    }
}

/// A request to another server that is being put together. Nothing happens before [`send`](Self::send).
///
/// A clone is another request; sending both asks twice.
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
    /// Adds a header. A name that is added twice is sent twice. At most 100 headers with 32 KiB.
    ///
    /// `host`, `content-length`, `expect`, `trailer` and the headers of the connection are the host's: a request with one
    /// of them is refused. `user-agent` is the plugin's name and version unless it is set here.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Adds all of these headers, as [`header`](Self::header) does.
    pub fn headers(self, headers: &HeaderMap) -> Self {
        headers.iter().fold(self, |request, (name, value)| request.header(name, value))
    }

    /// Sets the body: at most 64 MiB. It is sent whole, with its `content-length`.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a JSON body and its `content-type`.
    ///
    /// # Errors
    /// An internal error when `body` cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(self, body: &T) -> Result<Self> {
        Ok(self.header(CONTENT_TYPE, "application/json").body(serde_json::to_vec(body)?))
    }

    /// Sets the time for all of it, including the wait for a connection and the body of the answer.
    ///
    /// It is 15 seconds unless it is set. More than 10 minutes is refused.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how many bytes the body of the answer may have. A larger one is an error ([`HttpFailure::TooLarge`]) once it
    /// has been read that far.
    ///
    /// It is 8 MiB unless it is set. More than 1 GiB is refused.
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
    ///   `upstream-timeout` for the client, without a word about the other server.
    /// * [`Error::is_retryable`] when 256 requests of the plugin wait already.
    /// * An internal error for a request that is refused: a URL, header, time or size out of bounds.
    /// * [`Error::is_cancelled`] when the call is over or the plugin has been stopped.
    pub fn send(self) -> impl Future<Output = Result<HttpResponse>> + Send + use<> {
        let client = self.ctx.core.host.http_client().ok_or_else(no_client);
        let answer = client.map(|client| {
            let record = self.record();
            (client.send)(self.ctx.core.ctx, self.ctx.call_id(), Slice::new(&record))
        });
        async move { HttpResponse::read(answer?.await.map_err(Error::of_host)?) }
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
    Error::of_code(codes::UNSUPPORTED, reason)
}

/// Another server's answer: status and headers, and a body that is still to be read.
///
/// Read the body to its end, and the host keeps the connection for the next request to the same server. Dropping the answer
/// before that closes it.
#[derive(Debug)]
pub struct HttpResponse {
    status: StatusCode,
    headers: HeaderMap,
    address: Option<SocketAddr>,
    body: ByteStream,
}

impl HttpResponse {
    fn read(reply: abi::Reply) -> Result<Self> {
        let abi::Reply { status, headers, body, stream, extra } = reply;
        let pairs = pairs::read(headers.get()).ok_or_else(|| Error::internal("the host's headers are malformed"))?;
        let pairs = pairs.map(|(name, value)| Ok((HeaderName::from_bytes(name)?, HeaderValue::from_bytes(value)?)));
        let address = record::field(extra.get(), http_answer::ADDRESS);
        Ok(Self {
            status: StatusCode::from_u16(status)?,
            headers: pairs.collect::<Result<_>>()?,
            address: std::str::from_utf8(address).ok().and_then(|text| text.parse().ok()),
            body: if stream.is_none() { ByteStream::from_bytes(bytes_in(body)) } else { ByteStream::new(stream) },
        })
    }

    /// Returns the status, as it came. A redirect (3xx) is not followed.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the headers, as they came. Trailers are left out.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the first header of this name, in any case; `None` also when it is not text.
    pub fn header(&self, name: impl AsRef<str>) -> Option<&str> {
        self.headers.get(name.as_ref())?.to_str().ok()
    }

    /// Returns the address and port that the host connected to; `None` when the host does not say.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the answer if its status is below 400.
    ///
    /// # Errors
    /// 502 `upstream-error`, with the status in its text.
    pub fn error_for_status(self) -> Result<Self> {
        match self.status {
            status if status.is_client_error() || status.is_server_error() => {
                Err(Error::bad_gateway(format!("Another server answered {status}.")))
            }
            _ => Ok(self),
        }
    }

    /// Reads the whole body into memory: at most [`HttpRequest::max_bytes`].
    ///
    /// # Errors
    /// When it does not come whole: [`Error::http_failure`] says why.
    pub async fn bytes(self) -> Result<Bytes> {
        let mut stream = self.body;
        let Some(first) = stream.next().await.transpose()? else { return Ok(Bytes::new()) };
        let Some(second) = stream.next().await.transpose()? else { return Ok(first) };
        let mut whole = BytesMut::with_capacity(first.len() + second.len());
        whole.extend_from_slice(&first);
        whole.extend_from_slice(&second);
        while let Some(piece) = stream.next().await {
            whole.extend_from_slice(&piece?);
        }
        Ok(whole.freeze())
    }

    /// Reads the whole body as UTF-8, whatever the headers say. What is not UTF-8 is replaced by `U+FFFD`.
    ///
    /// # Errors
    /// Those of [`bytes`](Self::bytes).
    pub async fn text(self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes().await?).into_owned())
    }

    /// Reads the whole body as JSON, whatever its `content-type`.
    ///
    /// # Errors
    /// Those of [`bytes`](Self::bytes), and 502 `upstream-error` for a body that does not fit `T`. Its text names the place
    /// and what was expected there, never the value.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T> {
        let body = self.bytes().await?;
        serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(&body)).map_err(|error| {
            let (path, fault) = (error.path().to_string(), without_value(&error.inner().to_string()));
            Error::bad_gateway(format!("Another server's answer is not what was expected: at `{path}`: {fault}."))
        })
    }

    /// Returns the body as a stream of pieces, for answers that are too large to keep in memory.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result};
    ///
    /// /// Passes a picture of another server on as it comes.
    /// async fn picture(ctx: PluginContext, _: Request) -> Result<Response> {
    ///     let picture = ctx.http().get("https://shop.example/lamp.jpg").max_bytes(64 << 20).send().await?.error_for_status()?;
    ///     Ok(Response::stream("image/jpeg", picture.stream()))
    /// }
    /// ```
    pub fn stream(self) -> ByteStream {
        self.body
    }
}

/// Why another server gave no answer, or no whole one: [`Error::http_failure`].
///
/// A host may know more reasons than this SDK; those are [`BrokenOff`](Self::BrokenOff) here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HttpFailure {
    /// Every address of the server is in a network that the operator has not opened. Whoever chose the address should not
    /// learn more from it than from [`NameNotFound`](Self::NameNotFound): the two take the same time.
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
    /// The body of the answer is larger than [`HttpRequest::max_bytes`].
    TooLarge,
    /// The server closed the connection too early, or does not speak HTTP.
    BrokenOff,
}

const KINDS: [(&str, HttpFailure); 7] = [
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
