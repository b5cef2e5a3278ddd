//! Connections to upstreams: hyper's client, a bounded pool of idle ones, and what its failures mean.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
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
use crate::http::{codes, error::ApiError, paced::Paced};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Shorter than the 5 s after which Node.js, the quickest of the usual servers, closes idle connections: one that is
/// taken up while the other end closes it costs a request.
const KEPT_IDLE: Duration = Duration::from_secs(4);
const KEPT_PER_UPSTREAM: usize = 128;
/// An upstream that takes nothing for this long is given up.
const WRITE_STALL: Duration = Duration::from_secs(60);
/// Finds out, in the end, that a machine is gone whose connection waits in silence.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

pub type Client = legacy::Client<Dialer, Upload>;

/// A request that died with a kept connection before any of it was sent is sent again by the client itself; nothing
/// else ever is.
pub fn client() -> Client {
    let mut http = HttpConnector::new();
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(TCP_KEEPALIVE));
    http.set_nodelay(true);
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(KEPT_IDLE)
        .pool_max_idle_per_host(KEPT_PER_UPSTREAM)
        .set_host(false)
        .build(Dialer(http))
}

/// Why there is no answer.
pub fn failure(error: legacy::Error) -> ApiError {
    let code = if has_timed_out(&error) { &codes::UPSTREAM_TIMEOUT } else { &codes::UPSTREAM_ERROR };
    ApiError::new(code).cause(error)
}

fn has_timed_out(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An open connection to an upstream.
pub type Line = Paced<TokioIo<TcpStream>>;

/// Opens connections that don't wait for ever for an upstream to read.
#[derive(Clone)]
pub struct Dialer(HttpConnector);

impl Service<Uri> for Dialer {
    type Response = Line;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Line, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move { Ok(Paced::new(connecting.await?, WRITE_STALL)) })
    }
}

impl Connection for Line {
    fn connected(&self) -> Connected {
        self.get_ref().connected()
    }
}
