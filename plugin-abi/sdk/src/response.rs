//! What a handler answers: [`Response`].

mod conditional;
mod events;
mod rows;

use bytes::Bytes;
use cardinal_plugin_abi::{self as abi, pairs};
use futures_util::Stream;
use http::{HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::Value;

use crate::{Error, Result, scope::Scope, stream};

pub use events::Event;
pub use rows::RowFormat;

/// A reply: status (200 unless set), headers, body.
///
/// The host sends it when the handler is done. A body that is not a [`stream`](Self::stream) has at most 8 MiB, the
/// headers at most 64 KiB and 100 names; otherwise the client gets 502 `plugin-error`.
///
/// Of the headers the host passes those that describe this answer (`content-type`, `etag`, `location`, `cache-control`
/// and others: `plugins/README.md` lists them), and names that begin with `x-`, except those that browsers or proxies
/// obey. It drops all others and logs each name once. It says `cache-control: no-store` when the reply does not set
/// one. Replies to GET are compressed when the client asks for it.
///
/// A builder method that fails (a header that HTTP does not allow, a value that is not JSON) makes the call fail with
/// an internal error, so the methods can be chained without `?`.
///
/// ```
/// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, json};
/// use cardinal_plugin::testing::{TestHost, TestRequest};
///
/// async fn add(_: PluginContext, _: Request) -> Result<Response> {
///     Ok(Response::json(&json!({ "id": 7 })).status(201).header("location", "/items/7"))
/// }
///
/// let manifest = r#"{ "name": "items", "version": "1.0.0", "backend": {} }"#;
/// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().post("/items", add));
/// let reply = block_on(host.send(TestRequest::post("/items")));
/// assert_eq!((reply.status(), reply.header("location"), reply.text()), (201, Some("/items/7"), r#"{"id":7}"#));
/// ```
///
/// An MCP client that calls a tool gets text as text, a JSON object as structured content, and other bytes by their
/// media type.
#[derive(Debug)]
pub struct Response {
    status: u16,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Body,
    /// The first thing that went wrong in a builder method; it becomes the handler's error.
    fault: Option<Error>,
}

enum Body {
    Full(Bytes),
    /// Waits for the scope of the call that answers with it.
    Stream(Box<dyn FnOnce(Scope) -> abi::Stream + Send>),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Stream(_) => f.write_str("a stream"),
        }
    }
}

impl Response {
    /// Answers with JSON (`application/json`). A value that cannot be serialised makes the call fail with an internal
    /// error.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, block_on, json, testing::TestRequest};
    ///
    /// async fn price(_: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::json(&json!({ "sku": "L1", "cents": 990 })))
    /// }
    /// # use cardinal_plugin::{Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    ///
    /// let reply = block_on(host.call(price, TestRequest::get("/")));
    /// assert_eq!(reply.header("content-type"), Some("application/json"));
    /// ```
    pub fn json(value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => Self::with_type("application/json", bytes.into()),
            Err(error) => Self { fault: Some(Error::internal(error)), ..Self::empty() },
        }
    }

    /// Answers with plain text in UTF-8 (`text/plain; charset=utf-8`).
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, block_on, testing::TestRequest};
    ///
    /// async fn price(_: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::text("The lamp is 9.90 €."))
    /// }
    /// # use cardinal_plugin::{Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    ///
    /// assert_eq!(block_on(host.call(price, TestRequest::get("/"))).text(), "The lamp is 9.90 €.");
    /// ```
    pub fn text(text: impl Into<String>) -> Self {
        Self::with_type("text/plain; charset=utf-8", Bytes::from(text.into()))
    }

    /// Answers with bytes of a media type. They are not copied on their way out.
    ///
    /// ```
    /// use cardinal_plugin::Response;
    ///
    /// let pixel = Response::bytes("image/gif", &b"GIF89a"[..]).header("cache-control", "max-age=3600");
    /// ```
    pub fn bytes(content_type: &str, bytes: impl Into<Bytes>) -> Self {
        Self::with_type(content_type, bytes.into())
    }

    /// Answers 204 without a body.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, block_on, testing::TestRequest};
    ///
    /// async fn forget(_: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::empty()) // the same as `Ok(())` of a handler that gives `Result<()>`
    /// }
    /// # use cardinal_plugin::{Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    ///
    /// assert_eq!(block_on(host.call(forget, TestRequest::delete("/"))).status(), 204);
    /// ```
    pub fn empty() -> Self {
        Self { status: 204, headers: Vec::new(), body: Body::Full(Bytes::new()), fault: None }
    }

    /// Answers with a body that is made piece by piece.
    ///
    /// Pieces are asked for one at a time, as the client takes them: a slow client holds up the stream and fills no
    /// memory. The stream is dropped when it ends, fails, or the client goes away. It counts as a call under way, and
    /// has no time limit of its own; what it holds of the call (connections, the context) is good until it ends. Once
    /// the first piece has been sent, an error can only cut the connection.
    ///
    /// It is polled on the host's threads with the plugin's tokio entered, like a handler, and must not block.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, bytes::Bytes, futures::stream};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn lines(_: PluginContext, _: Request) -> Result<Response> {
    ///     let lines = stream::iter((1..=3).map(|n| Result::Ok(Bytes::from(format!("{n}\n")))));
    ///     Ok(Response::stream("text/plain", lines))
    /// }
    ///
    /// let manifest = r#"{ "name": "lines", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/lines", lines));
    /// assert_eq!(block_on(host.send(TestRequest::get("/lines"))).text(), "1\n2\n3\n");
    /// ```
    pub fn stream<S>(content_type: &str, pieces: S) -> Self
    where
        S: Stream<Item = Result<Bytes>> + Send + 'static,
    {
        let give = |scope| stream::give(scope, pieces);
        Self { body: Body::Stream(Box::new(give)), ..Self::with_type(content_type, Bytes::new()) }
    }

    /// Sets the status: 200 to 599. With another one the client gets 502 `plugin-error`, as a fault of the plugin.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, block_on, json, testing::TestRequest};
    ///
    /// async fn add(_: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::json(&json!({ "id": 7 })).status(201))
    /// }
    /// # use cardinal_plugin::{Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    ///
    /// assert_eq!(block_on(host.call(add, TestRequest::post("/"))).status(), 201);
    /// ```
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Sets a header, in place of one of that name. A name or value that HTTP does not allow makes the call fail with
    /// an internal error.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, block_on, testing::TestRequest};
    ///
    /// async fn prices(_: PluginContext, _: Request) -> Result<Response> {
    ///     let csv = Response::bytes("text/csv", "sku,cents\nL1,990\n");
    ///     Ok(csv.header("content-disposition", "attachment; filename=\"prices.csv\""))
    /// }
    /// # use cardinal_plugin::{Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    ///
    /// let reply = block_on(host.call(prices, TestRequest::get("/")));
    /// assert!(reply.header("content-disposition").is_some());
    /// ```
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(value)) => {
                self.headers.retain(|(own, _)| *own != name);
                self.headers.push((name, value));
            }
            (Err(error), _) => self.fail(Error::internal(format!("header name `{name}`: {error}"))),
            (_, Err(error)) => self.fail(Error::internal(format!("value of the header `{name}`: {error}"))),
        }
        self
    }

    fn with_type(content_type: &str, bytes: Bytes) -> Self {
        Self { status: 200, body: Body::Full(bytes), ..Self::empty() }.header("content-type", content_type)
    }

    fn fail(&mut self, error: Error) {
        self.fault.get_or_insert(error);
    }

    pub(crate) fn into_abi(self, scope: Scope) -> Result<abi::Reply> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let headers = self.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        let mut reply =
            abi::Reply { status: self.status, headers: pairs::write(headers).into(), ..abi::Reply::default() };
        match self.body {
            Body::Full(bytes) => reply.body = stream::bytes_out(bytes),
            Body::Stream(give) => reply.stream = give(scope),
        }
        Ok(reply)
    }
}

impl From<()> for Response {
    /// 204 without a body.
    fn from((): ()) -> Self {
        Self::empty()
    }
}

/// Answers with JSON, like [`Response::json`].
impl From<Value> for Response {
    fn from(value: Value) -> Self {
        Self::json(&value)
    }
}

/// Answers with plain text, like [`Response::text`].
impl From<String> for Response {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_fault_becomes_the_error_of_the_call() {
        let reply = Response::text("x").header("bad name", "v").header("x", "a\nb");
        let error = reply.into_abi(Scope::default()).unwrap_err();
        assert!(error.message().contains("bad name"), "{error}");
        assert_eq!(error.status(), None);
        let unserialisable = std::collections::HashMap::from([(vec![1u8], 1)]);
        assert!(Response::json(&unserialisable).into_abi(Scope::default()).is_err());
    }

    #[test]
    fn a_header_replaces_one_of_its_name() {
        let reply =
            Response::json(&1).header("Content-Type", "application/ld+json").into_abi(Scope::default()).unwrap();
        let headers: Vec<_> = pairs::read(reply.headers.get()).unwrap().collect();
        assert_eq!(headers, [(&b"content-type"[..], &b"application/ld+json"[..])]);
        assert_eq!((reply.status, reply.body.get()), (200, &b"1"[..]));
    }
}
