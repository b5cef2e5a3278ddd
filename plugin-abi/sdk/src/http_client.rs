//! Requests to other servers, over the host's connections.

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
    /// The host's HTTP client: TLS, kept connections, time-outs, and no way into networks that the operator has not opened.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cardinal_plugin::{PluginContext, Result};
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
    /// ```
    ///
    /// Redirects are not followed: the plugin looks at `location` and decides. Cookies and compression are its own affair,
    /// too. In a call, request and answer end with the call; [`as_plugin`](Self::as_plugin) makes those that go on, until
    /// the plugin stops. A manifest that requires it says `"requires": ["http-client"]`.
    pub fn http(&self) -> HttpClient<'_> {
        HttpClient(self)
    }
}

/// The host's HTTP client, by [`PluginContext::http`].
#[derive(Clone, Copy, Debug)]
pub struct HttpClient<'a>(&'a PluginContext);

impl HttpClient<'_> {
    /// A request. `url` is `http` or `https`, without a user name or a password in it.
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

    /// A GET request.
    pub fn get(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::GET, url)
    }

    /// A POST request.
    pub fn post(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::POST, url)
    }

    /// A PUT request.
    pub fn put(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::PUT, url)
    }

    /// A DELETE request.
    pub fn delete(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::DELETE, url)
    }
}

/// A request to another server that is being put together.
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
    /// Adds a header. `host`, `content-length` and what belongs to the connection are the host's; `user-agent` is the
    /// plugin's name and version unless it is set here.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Adds headers.
    pub fn headers(self, headers: &HeaderMap) -> Self {
        headers.iter().fold(self, |request, (name, value)| request.header(name, value))
    }

    /// The body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// A JSON body, with its `content-type`.
    ///
    /// # Errors
    /// When `body` cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(self, body: &T) -> Result<Self> {
        Ok(self.header(CONTENT_TYPE, "application/json").body(serde_json::to_vec(body)?))
    }

    /// The time for all of it, waiting for a connection and reading the body included. 15 seconds unless it is said, ten
    /// minutes at most.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How many bytes the body of the answer may have; a larger one is an error once it is read that far. 8 MiB unless it
    /// is said, 1 GiB at most.
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = Some(max_bytes);
        self
    }

    /// Sends it; ready when the head of the answer is there. Every status is an answer. The host begins at once, and
    /// stops when the future is dropped. 32 requests of a plugin are under way at a time, further ones wait.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result};
    ///
    /// async fn is_up(ctx: &PluginContext) -> Result<bool> {
    ///     match ctx.http().get("https://shop.example/healthz").send().await {
    ///         Ok(response) => Ok(response.status().is_success()),
    ///         Err(error) if error.is_retryable() => Ok(false),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// When there is no answer ([`Error::http_failure`] says why), or the request is none. Passed on with `?` the first is
    /// 502 `upstream-error`, or 504 `upstream-timeout`, without a word about the other server.
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

/// Another server's answer. Dropping it before its body was read to the end closes the connection.
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

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers, as they came.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The first header of this name, when it is text.
    pub fn header(&self, name: impl AsRef<str>) -> Option<&str> {
        self.headers.get(name.as_ref())?.to_str().ok()
    }

    /// The address that was connected to.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The answer, if its status is below 400.
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

    /// The body whole.
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

    /// The body as text. What is no UTF-8 is replaced.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub async fn text(self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes().await?).into_owned())
    }

    /// The body, which is JSON.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes), and 502 `upstream-error` when it is not what `T` expects.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T> {
        let body = self.bytes().await?;
        serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(&body)).map_err(|error| {
            let (path, fault) = (error.path().to_string(), without_value(&error.inner().to_string()));
            Error::bad_gateway(format!("Another server's answer is not what was expected: at `{path}`: {fault}."))
        })
    }

    /// The body piece by piece.
    pub fn stream(self) -> ByteStream {
        self.body
    }
}

/// Why another server gave no answer, or no whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HttpFailure {
    /// Every address of the server is in a network that the operator has not opened. Whoever chose the address should not
    /// learn more than with [`NameNotFound`](Self::NameNotFound): the two take the same time.
    AddressRefused,
    /// The name was not found.
    NameNotFound,
    /// No address took the connection.
    Connect,
    /// No secure connection could be made.
    Tls,
    /// The request's time was over.
    TimedOut,
    /// The body is larger than [`HttpRequest::max_bytes`].
    TooLarge,
    /// The server broke off, or does not speak HTTP.
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
