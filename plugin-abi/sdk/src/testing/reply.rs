//! What a test gets back: a [`TestCall`] under way, and its [`TestReply`].

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use cardinal_plugin_abi::{self as abi, CallId, Fut, pairs};
use futures_util::FutureExt;
use serde_json::{Value, json};

use super::{
    LogLine,
    fake_host::{FakeHost, lock},
};
use crate::{ByteStream, Error, Result};

/// The largest streamed body that is collected.
const LARGEST_BODY: usize = 64 << 20;
/// Seconds of `Retry-After` when a retryable error does not say: the host's own.
const DEFAULT_RETRY: u64 = 1;

/// A call under way, from [`TestHost::begin`](super::TestHost::begin), for tests of time and cancellation.
///
/// It runs when it is awaited or [asked](Self::is_waiting). Dropping it is what a client does that goes away. After its
/// end, and that of its streamed body, the host refuses what is asked with its context.
///
/// ```
/// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
/// use cardinal_plugin::testing::{TestHost, TestRequest};
///
/// async fn price(_: PluginContext, _: Request) -> Result<Response> {
///     Ok(Response::text("9.90"))
/// }
///
/// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
/// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/price", price));
/// let mut call = host.begin(TestRequest::get("/price"));
/// assert!(!call.is_waiting(), "it has nothing to wait for");
/// assert_eq!(block_on(call).text(), "9.90");
/// ```
#[must_use = "a call runs only when it is awaited"]
pub struct TestCall {
    running: Fut<abi::Reply>,
    caller: Option<CallerGuard>,
}

/// The call's entry at the host, for as long as the call and its streamed body last.
struct CallerGuard {
    host: Arc<FakeHost>,
    call: CallId,
}

impl std::fmt::Debug for CallerGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "call {}", self.call)
    }
}

impl Drop for CallerGuard {
    fn drop(&mut self) {
        lock(&self.host.callers).remove(&self.call);
        self.host.end_listeners_of_call(self.call);
        lock(&self.host.jobs).remove(&self.call);
    }
}

impl TestCall {
    pub(super) fn new(running: Fut<abi::Reply>, host: Arc<FakeHost>, call: CallId) -> Self {
        Self { running, caller: Some(CallerGuard { host, call }) }
    }

    /// Lets the handler go on as far as it can; returns whether it waits for something then. `false` means that the
    /// reply is ready: await the call to get it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, tokio};
    ///
    /// fn routes(_: &PluginContext) -> Router {
    ///     Router::new().get("/slow", slow)
    /// }
    ///
    /// async fn slow(_: PluginContext, _: Request) -> Result<Response> {
    ///     tokio::time::sleep(Duration::from_secs(60)).await;
    ///     Ok(Response::text("at last"))
    /// }
    ///
    /// let host = TestHost::builder(r#"{ "name": "slow", "version": "1.0.0", "backend": {} }"#).paused().start(routes);
    /// let mut call = host.begin(TestRequest::get("/slow"));
    /// assert!(call.is_waiting());
    /// block_on(host.advance(Duration::from_secs(60)));
    /// assert_eq!(block_on(call).text(), "at last");
    /// ```
    pub fn is_waiting(&mut self) -> bool {
        let Some(caller) = self.caller.take() else { return false };
        match self.running.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {
                self.caller = Some(caller);
                true
            }
            Poll::Ready(reply) => {
                self.running = Fut::ready(reply);
                self.caller = Some(caller);
                false
            }
        }
    }
}

impl Future for TestCall {
    type Output = TestReply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TestReply> {
        let reply = std::task::ready!(self.running.poll_unpin(cx));
        let caller = self.caller.take();
        Poll::Ready(match reply {
            Ok(reply) => TestReply::read(reply, caller),
            Err(error) => TestReply::failed(with_place(Error::from_host(error), caller.as_ref())),
        })
    }
}

/// A panic with its place, which the panic hook has logged.
fn with_place(mut error: Error, caller: Option<&CallerGuard>) -> Error {
    let Some(caller) = caller.filter(|_| error.is_panic()) else { return error };
    let log = lock(&caller.host.log);
    let is_of_call = |line: &&LogLine| line.call == caller.call && line.field("panic") == true;
    if let Some(line) = log.iter().rev().find(is_of_call) {
        error.set("location", line.field("location"));
    }
    drop(log);
    error
}

impl std::fmt::Debug for TestCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TestCall")
    }
}

/// What a client would get: status, headers, body; and the handler's [`Error`], when it ended with one.
///
/// The headers are those that the plugin set: the host's own are missing, and none is dropped.
///
/// ```
/// use cardinal_plugin::testing::{TestHost, TestRequest};
/// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
///
/// async fn parse(_: PluginContext, req: Request) -> Result<Response> {
///     let body = req.body().await?;
///     let number: u32 = std::str::from_utf8(&body)?.parse()?; // an internal error, which clients see nothing of
///     Ok(Response::text(number.to_string()))
/// }
///
/// let manifest = r#"{ "name": "parser", "version": "1.0.0", "backend": {} }"#;
/// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().post("/parse", parse));
/// let reply = block_on(host.send(TestRequest::post("/parse").body("text/plain", "seven")));
/// assert_eq!((reply.status(), &reply.json()["code"]), (500, &"internal-error".into()));
/// assert_eq!(reply.error().unwrap().message(), "invalid digit found in string");
/// ```
#[derive(Debug)]
pub struct TestReply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Bytes,
    stream: Option<ByteStream>,
    error: Option<Error>,
    _caller: Option<CallerGuard>,
}

impl TestReply {
    fn read(reply: abi::Reply, caller: Option<CallerGuard>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = pairs::read(reply.headers.get()).into_iter().flatten();
        Self {
            status: reply.status,
            headers: headers.map(|(name, value)| (text(name), text(value))).collect(),
            body: Bytes::copy_from_slice(reply.body.get()),
            stream: (!reply.stream.is_none()).then(|| ByteStream::new(reply.stream)),
            error: None,
            _caller: caller,
        }
    }

    /// The problem document that the host makes of an error.
    pub(super) fn failed(error: Error) -> Self {
        let status = error.client_status();
        let (code, detail) = match error.is_public() {
            true => (error.code().unwrap_or("internal-error"), error.message()),
            false => ("internal-error", "The plugin failed; the log says why."),
        };
        let mut problem = json!({ "status": status, "code": code, "detail": detail });
        if let Some(errors) = error.fields() {
            problem["errors"] = errors.clone();
        }
        let mut headers = vec![("content-type".to_owned(), "application/problem+json".to_owned())];
        if error.is_retryable() {
            let seconds = error.retry_delay().map_or(DEFAULT_RETRY, |wait| wait.as_secs());
            headers.push(("retry-after".to_owned(), seconds.to_string()));
        }
        let body = problem.to_string().into();
        Self { status, headers, body, stream: None, error: Some(error), _caller: None }
    }

    /// Reads a streamed body to its end. [`TestHost::send`](super::TestHost::send) has done so.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn price(_: PluginContext, _: Request) -> Result<Response> {
    ///     let pieces = cardinal_plugin::futures::stream::iter(["9", ".90"].map(|piece| Ok(piece.into())));
    ///     Ok(Response::stream("text/plain", pieces))
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/price", price));
    /// let reply = block_on(host.begin(TestRequest::get("/price")));
    /// assert!(reply.bytes().is_empty(), "the body is a stream");
    /// assert_eq!(block_on(reply.collected()).text(), "9.90");
    /// ```
    ///
    /// # Panics
    /// When the stream fails, or is larger than 64 MiB.
    pub async fn collected(mut self) -> Self {
        let mut whole = BytesMut::from(&self.body[..]);
        while let Some(piece) = self.next_piece().await {
            match piece {
                Ok(piece) => whole.extend_from_slice(&piece),
                Err(error) => panic!("the reply's stream failed after {} bytes: {error:?}", whole.len()),
            }
            assert!(whole.len() <= LARGEST_BODY, "the reply's stream does not end; read it with `next_piece`");
        }
        self.stream = None;
        self.body = whole.freeze();
        self
    }

    /// Returns the next piece of a streamed body, of a reply that [`TestHost::begin`](super::TestHost::begin) gave;
    /// `None` at its end, and for a body that is not streamed.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn price(_: PluginContext, _: Request) -> Result<Response> {
    ///     let pieces = cardinal_plugin::futures::stream::iter(["9", ".90"].map(|piece| Ok(piece.into())));
    ///     Ok(Response::stream("text/plain", pieces))
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/price", price));
    /// let mut reply = block_on(host.begin(TestRequest::get("/price")));
    /// assert_eq!(block_on(reply.next_piece()).unwrap().unwrap(), "9");
    /// assert_eq!(block_on(reply.next_piece()).unwrap().unwrap(), ".90");
    /// assert!(block_on(reply.next_piece()).is_none());
    /// ```
    ///
    /// # Errors
    /// What the plugin's stream failed with. A client would see the connection break.
    pub async fn next_piece(&mut self) -> Option<Result<Bytes>> {
        self.stream.as_mut()?.next().await
    }

    /// Returns the status: of the reply, or what the host makes of the error.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn price(_: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::text("9.90"))
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/price", price));
    /// assert_eq!(block_on(host.send(TestRequest::get("/price"))).status(), 200);
    /// assert_eq!(block_on(host.send(TestRequest::get("/prices"))).status(), 404);
    /// ```
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns a header; the name in any case.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn price(_: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::text("9.90").etag("7"))
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/price", price));
    /// let reply = block_on(host.send(TestRequest::get("/price")));
    /// assert_eq!(reply.header("ETag"), Some("\"7\""));
    /// assert_eq!(reply.header("x-request-id"), None); // a host's own
    /// ```
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the body; of an error the problem document that a client gets (`status`, `code`, `detail`, `errors`). It
    /// is empty for a streamed body that was not [collected](Self::collected).
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn price(_: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::bytes("image/gif", &b"GIF89a"[..]))
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/price", price));
    /// let reply = block_on(host.send(TestRequest::get("/price")));
    /// assert_eq!(&reply.bytes()[..], b"GIF89a");
    /// ```
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// Returns the body as text.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn price(_: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::text("9.90"))
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/price", price));
    /// assert_eq!(block_on(host.send(TestRequest::get("/price"))).text(), "9.90");
    /// ```
    ///
    /// # Panics
    /// When it is not UTF-8.
    pub fn text(&self) -> &str {
        match std::str::from_utf8(&self.body) {
            Ok(text) => text,
            Err(error) => panic!("the body is not UTF-8: {error}"),
        }
    }

    /// Returns the body as JSON.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn price(_: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::json(&cardinal_plugin::json!({ "cents": 990 })))
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/price", price));
    /// let reply = block_on(host.send(TestRequest::get("/price")));
    /// assert_eq!(reply.json()["cents"], 990);
    /// ```
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("the body is not JSON: {error}: {:?}", self.body),
        }
    }

    pub(super) fn into_error(self) -> Option<Error> {
        self.error
    }

    /// Returns what the handler ended with when it made no reply: all that the log gets, and a client does not. A panic
    /// is one, with [`Error::is_panic`]; `{:?}` has its place.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn price(_: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::text("9,90".parse::<f64>()?.to_string()))
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/price", price));
    /// let reply = block_on(host.send(TestRequest::get("/price")));
    /// let message = reply.error().unwrap().message(); // for the log; a client sees `internal-error` alone
    /// assert_eq!(message, "invalid float literal");
    /// ```
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }
}
