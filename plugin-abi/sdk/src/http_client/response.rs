//! Another server's answer.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use cardinal_plugin_abi::{self as abi, pairs, record, record::http_answer};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::de::DeserializeOwned;

use crate::{ByteStream, Error, Result, context::without_value, stream::bytes_in};

/// Another server's answer: status and headers, and a body that is still to be read.
///
/// Read the body to its end, and the host keeps the connection for the next request to the same server. Dropping the
/// answer before that closes it.
///
/// ```
/// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
/// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// # let ctx = host.context();
/// # use cardinal_plugin::testing::ServerAnswer;
/// # host.answer_http(|_| ServerAnswer::new(200).header("etag", "\"7\"").body("9.90"));
/// # cardinal_plugin::block_on(async {
/// let response = ctx.http().get("https://shop.example/lamp/price").send().await?;
/// let version = response.header("etag").map(str::to_owned); // before the body, which takes the whole answer
/// assert_eq!((version.as_deref(), response.text().await?.as_str()), (Some("\"7\""), "9.90"));
/// # Ok::<(), cardinal_plugin::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct HttpResponse {
    status: StatusCode,
    headers: HeaderMap,
    address: Option<SocketAddr>,
    body: ByteStream,
}

impl HttpResponse {
    pub(super) fn read(reply: abi::Reply) -> Result<Self> {
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
    ///
    /// ```
    /// use cardinal_plugin::http::StatusCode;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # host.answer_http(|_| cardinal_plugin::testing::ServerAnswer::new(404));
    /// # cardinal_plugin::block_on(async {
    /// let response = ctx.http().get("https://shop.example/lamp").send().await?;
    /// let is_gone = response.status() == StatusCode::NOT_FOUND;
    /// # assert!(is_gone);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the headers, as they came. Trailers are left out.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # use cardinal_plugin::testing::ServerAnswer;
    /// # host.answer_http(|_| ServerAnswer::new(200).header("link", "</a>").header("link", "</b>"));
    /// # cardinal_plugin::block_on(async {
    /// let response = ctx.http().get("https://shop.example/prices").send().await?;
    /// assert_eq!(response.headers().get_all("link").iter().count(), 2);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the first header of this name, in any case; `None` also when it is not text.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # use cardinal_plugin::testing::ServerAnswer;
    /// # host.answer_http(|_| ServerAnswer::new(301).header("location", "https://shop.example/desk-lamp"));
    /// # cardinal_plugin::block_on(async {
    /// let response = ctx.http().get("https://shop.example/lamp").send().await?;
    /// if response.status().is_redirection() {
    ///     assert_eq!(response.header("Location"), Some("https://shop.example/desk-lamp"));
    /// }
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn header(&self, name: impl AsRef<str>) -> Option<&str> {
        self.headers.get(name.as_ref())?.to_str().ok()
    }

    /// Returns the address and port that the host connected to; `None` when the host does not say.
    ///
    /// ```
    /// use cardinal_plugin::Level;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # host.answer_http(|_| cardinal_plugin::testing::ServerAnswer::new(200));
    /// # cardinal_plugin::block_on(async {
    /// let response = ctx.http().get("https://shop.example/lamp").send().await?;
    /// if let Some(address) = response.address() {
    ///     ctx.log(Level::Debug, format!("the shop is {}", address.ip()));
    /// }
    /// # assert_eq!(host.log().len(), 1);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the answer if its status is below 400.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # host.answer_http(|_| cardinal_plugin::testing::ServerAnswer::new(500));
    /// # cardinal_plugin::block_on(async {
    /// let error = ctx.http().get("https://shop.example/lamp").send().await?.error_for_status().unwrap_err();
    /// assert_eq!((error.status(), error.code()), (Some(502), Some("upstream-error")));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
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
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # host.answer_http(|_| cardinal_plugin::testing::ServerAnswer::new(200).body(&b"GIF89a"[..]));
    /// # cardinal_plugin::block_on(async {
    /// let picture = ctx.http().get("https://shop.example/lamp.gif").send().await?.error_for_status()?.bytes().await?;
    /// assert!(picture.starts_with(b"GIF"));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// When it does not come whole: [`Error::http_failure`] says why.
    ///
    /// [`HttpRequest::max_bytes`]: crate::HttpRequest::max_bytes
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
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # host.answer_http(|_| cardinal_plugin::testing::ServerAnswer::new(200).body("sku,cents\nL1,990\n"));
    /// # cardinal_plugin::block_on(async {
    /// let csv = ctx.http().get("https://shop.example/prices.csv").send().await?.text().await?;
    /// assert_eq!(csv.lines().nth(1), Some("L1,990"));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of [`bytes`](Self::bytes).
    pub async fn text(self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes().await?).into_owned())
    }

    /// Reads the whole body as JSON, whatever its `content-type`.
    ///
    /// ```
    /// use cardinal_plugin::{json, testing::ServerAnswer};
    ///
    /// #[derive(Debug, serde::Deserialize)]
    /// struct Price {
    ///     cents: i64,
    /// }
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "shop", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// host.answer_http(|_| ServerAnswer::new(200).json(&json!({ "cents": "990" })));
    /// # cardinal_plugin::block_on(async {
    /// let response = ctx.http().get("https://shop.example/lamp/price").send().await?;
    /// let error = response.json::<Price>().await.unwrap_err();
    /// assert_eq!(error.status(), Some(502)); // "... at `cents`: found string, expected i64."
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of [`bytes`](Self::bytes), and 502 `upstream-error` for a body that does not fit `T`. Its text names the
    /// place and what was expected there, never the value.
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
