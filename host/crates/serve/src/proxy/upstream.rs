//! Connections to upstreams: hyper's client, a bounded pool of idle ones, and what its failures mean.

use std::{
    error::Error,
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response, Uri};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{
        self,
        connect::{Connected, Connection, HttpConnector},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::net::TcpStream;
use tower_service::Service;

use super::body::Upload;
use crate::http::error::ApiError;
use crate::http::paced::WriteTimeout;
use cardinal_base::{causes::causes, codes};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Shorter than the 5 s after which Node.js, the quickest of the usual servers, closes idle connections: one that is
/// taken up while the other end closes it costs a request, unless that may be repeated.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// As none is kept for longer than [`POOL_IDLE_TIMEOUT`], this is a bound for a burst: below it, clients that come and
/// go together never make the proxy close connections that it opens again a moment later.
const MAX_IDLE_PER_UPSTREAM: usize = 512;
/// How often a request is tried on connections that were kept, and turn out to be closed. All that an upstream has
/// closed together are noticed by the time of the second.
const MAX_TRIES: usize = 3;
/// An upstream that takes nothing for this long is given up.
const WRITE_STALL: Duration = Duration::from_secs(60);
/// Finds out, in the end, that a machine is gone whose connection waits in silence.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// Sends requests to upstreams, over connections that it keeps.
pub(super) struct Client(legacy::Client<Dialer, Upload>);

impl Client {
    pub(super) fn new() -> Self {
        let mut http = HttpConnector::new();
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        http.set_keepalive(Some(TCP_KEEPALIVE));
        http.set_nodelay(true);
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_PER_UPSTREAM)
            .set_host(false)
            .build(Dialer(http));
        Self(client)
    }

    /// The head of the answer.
    ///
    /// Any upstream may close a connection in the very moment in which it is taken up for the next request. What has
    /// not been sent by then, is sent over another one by hyper's client; what has, only if it is safe to repeat (RFC
    /// 9110, 9.2.2) and has no body. Nothing is ever repeated that was sent over a new connection.
    pub(super) async fn send(&self, mut request: Request<Upload>) -> Result<Response<Incoming>, legacy::Error> {
        for _ in 1..MAX_TRIES {
            let Some(again) = repeated(&request) else { break };
            match self.send_once(request).await {
                Err(error) if died_while_kept(&error) => request = again,
                answered => return answered,
            }
        }
        self.send_once(request).await
    }

    async fn send_once(&self, request: Request<Upload>) -> Result<Response<Incoming>, legacy::Error> {
        let mut answer = self.0.request(request).await?;
        if let Some(AnswerFlag(served)) = answer.extensions_mut().remove() {
            served.store(true, Ordering::Relaxed);
        }
        Ok(answer)
    }
}

/// The same request again, if sending it twice is no more than sending it once.
fn repeated(request: &Request<Upload>) -> Option<Request<Upload>> {
    let repeats = request.method().is_safe() && request.body().is_end_stream();
    repeats.then(|| {
        let mut again = Request::new(Upload::none());
        again.method_mut().clone_from(request.method());
        again.uri_mut().clone_from(request.uri());
        again.headers_mut().clone_from(request.headers());
        again
    })
}

/// The connection had been kept, and ended without an answer.
fn died_while_kept(error: &legacy::Error) -> bool {
    let mut extensions = http::Extensions::new();
    if let Some(connected) = error.connect_info() {
        connected.get_extras(&mut extensions);
    }
    let was_kept = extensions.get().is_some_and(|AnswerFlag(served)| served.load(Ordering::Relaxed));
    let ended = |cause: &(dyn Error + 'static)| cause.downcast_ref().is_some_and(hyper::Error::is_incomplete_message);
    let broke = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
    was_kept && (causes(error).any(ended) || has_kind(error, &broke))
}

/// Why there is no answer.
pub(super) fn failure(error: legacy::Error) -> ApiError {
    let has_timed_out = has_kind(&error, &[io::ErrorKind::TimedOut]);
    let code = if has_timed_out { &codes::UPSTREAM_TIMEOUT } else { &codes::UPSTREAM_ERROR };
    ApiError::new(code).cause(error)
}

/// Whether it came of a failure of the connection of one of these kinds.
fn has_kind(error: &legacy::Error, kinds: &[io::ErrorKind]) -> bool {
    let is_one = |error: &io::Error| kinds.contains(&error.kind());
    causes(error).any(|cause| cause.downcast_ref().is_some_and(is_one))
}

/// An open connection to an upstream.
pub(super) type UpstreamStream = WriteTimeout<TokioIo<TcpStream>>;

/// Whether a connection has brought an answer.
#[derive(Clone, Default)]
struct AnswerFlag(Arc<AtomicBool>);

/// Opens connections that don't wait for ever for an upstream to read.
#[derive(Clone)]
pub(super) struct Dialer(HttpConnector);

impl Service<Uri> for Dialer {
    type Response = UpstreamStream;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<UpstreamStream, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move { Ok(WriteTimeout::new(connecting.await?, WRITE_STALL)) })
    }
}

impl Connection for UpstreamStream {
    fn connected(&self) -> Connected {
        // Not what the connector says of it: each answer would carry that, and nobody reads it.
        Connected::new().extra(AnswerFlag::default())
    }
}
