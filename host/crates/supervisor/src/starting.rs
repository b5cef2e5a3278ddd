//! Answers while the start waits, for its database as a rule, and no worker runs yet: `/healthz` is alive, all else is
//! 503 `starting`. Without them a probe would wait in the listener's queue and take the host for dead. A start that
//! waits for nothing takes a moment, and its first clients wait for the worker instead.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::tls::TlsSource;
use cardinal_base::{
    codes,
    config::HANDSHAKE_RECORD,
    request_id::{self, RequestId},
};

/// A start that takes longer is one that waits.
const QUICK_START: Duration = Duration::from_secs(5);
/// Connections of a listener that are answered at a time; for one more the oldest is closed, which asks nothing.
const MAX_CONNECTIONS: usize = 256;
/// For a connection from its first byte to its last.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait after the listener failed (out of file descriptors, say) before trying again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// About how often the database is tried.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("2");

/// Answers until it is dropped. Connections that were accepted before are still answered then.
pub(crate) struct StartingAnswers {
    _accepting: JoinSet<()>,
}

impl StartingAnswers {
    /// Once the start has taken for [`QUICK_START`].
    ///
    /// # Errors
    /// A listener cannot be watched.
    pub(crate) fn begin(listeners: &[OwnedFd], tls: &TlsSource, base_url: &str) -> io::Result<Self> {
        let answers = Answers { tls: tls.acceptor(), base_url: base_url.into() };
        let mut accepting = JoinSet::new();
        for listener in listeners {
            let listener = TcpListener::from_std(StdTcpListener::from(listener.try_clone()?))?;
            accepting.spawn(answers.clone().accept_all(listener));
        }
        Ok(Self { _accepting: accepting })
    }
}

#[derive(Clone)]
struct Answers {
    tls: Option<TlsAcceptor>,
    base_url: Arc<str>,
}

impl Answers {
    async fn accept_all(self, listener: TcpListener) {
        tokio::time::sleep(QUICK_START).await;
        let mut serving: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    serving.retain(|connection| !connection.is_finished());
                    if serving.len() >= MAX_CONNECTIONS
                        && let Some(oldest) = serving.pop_front()
                    {
                        oldest.abort();
                    }
                    serving.push_back(tokio::spawn(self.clone().serve(stream)).abort_handle());
                }
                Err(error) => {
                    tracing::debug!(%error, "accepting a connection failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve(self, stream: TcpStream) {
        let served = async {
            let mut first = [0]; // Balancers ask in clear where TLS is spoken, too.
            stream.peek(&mut first).await?;
            match &self.tls {
                Some(tls) if first == [HANDSHAKE_RECORD] => self.answer(tls.accept(stream).await?).await,
                _ => self.answer(stream).await,
            }
        };
        let served: Result<anyhow::Result<()>, _> = tokio::time::timeout(CONNECTION_TIMEOUT, served).await;
        tracing::debug!(?served, "answered a connection before the first worker");
    }

    /// One request: the next is the worker's.
    async fn answer(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> anyhow::Result<()> {
        let answer =
            service_fn(|request: Request<Incoming>| std::future::ready(Ok::<_, Infallible>(self.reply(&request))));
        let mut server = http1::Builder::new();
        server.keep_alive(false).timer(TokioTimer::new());
        Ok(server.serve_connection(TokioIo::new(stream), answer).await?)
    }

    fn reply(&self, request: &Request<Incoming>) -> Response<String> {
        let id = RequestId::from_headers(request.headers());
        let code = &codes::STARTING;
        let (status, content_type, body) = match request.uri().path() {
            "/healthz" => (StatusCode::OK, "text/plain; charset=utf-8", "ok\n".to_owned()),
            _ => (code.status(), "application/problem+json", code.problem(&self.base_url, id.as_str()).to_string()),
        };
        let mut reply = Response::new(body);
        *reply.status_mut() = status;
        let headers = reply.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if status != StatusCode::OK {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        if let Ok(id) = HeaderValue::from_str(id.as_str()) {
            headers.insert(request_id::HEADER, id);
        }
        reply
    }
}
