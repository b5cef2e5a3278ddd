//! Listeners and connections: bare hyper, every wait with a bound.

mod accept;
mod connections;
mod idle_queue;
mod idle_timer;
mod open_connection;
mod repoll;
mod unread_head;

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use http::{HeaderValue, Request, Response, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixStream},
};
use tokio_util::sync::CancellationToken;

use self::{
    accept::{AcceptedConnection, Shortage, accept},
    connections::{ConnectionSlot, Connections},
    idle_timer::IdleTimer,
    open_connection::OpenConnection,
    repoll::repoll,
    unread_head::UnreadHead,
};
use crate::{
    api,
    app::App,
    http::{body::Body, paced::WriteTimeout, request_body::RequestBody},
    request::{self, ListenerRole, Peer, RefusalHold},
    tls::{AcceptedStream, Tls},
};
use cardinal_control::local_socket::HandoverReceiver;

/// A request's headers must have arrived after this long; also the longest idle keep-alive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of request line and headers together.
const HEADER_BYTES: usize = 64 * 1024;
/// Headers of a request.
const HEADER_COUNT: usize = 256;
/// A client that takes nothing of its answer for this long is given up.
const WRITE_STALL: Duration = Duration::from_secs(60);
/// How long to wait after the listener failed (out of file descriptors, say) before trying again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where connections come in, and what may be asked there.
pub(crate) enum Listener {
    Tcp(TcpListener, ListenerRole, Option<Arc<Tls>>),
    /// Connections of the local socket, as the supervisor lets them in.
    Local(HandoverReceiver),
}

/// A connection that came in.
enum Stream {
    Tcp(TcpStream),
    Tls(TcpStream, Arc<Tls>),
    Local(UnixStream),
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream) | Self::Tls(stream, _) => stream.as_raw_fd(),
            Self::Local(stream) => stream.as_raw_fd(),
        }
    }
}

/// Serves until `stop`, then lets the requests in flight finish for at most `grace`.
pub(crate) async fn serve(app: Arc<App>, listener: Listener, stop: CancellationToken, grace: Duration) {
    let connections = Connections::new(app.config.http.trusted_proxies.clone(), Arc::clone(&app.limits));
    let mut server = http1::Builder::new();
    server.header_read_timeout(HEADER_TIMEOUT).max_headers(HEADER_COUNT).max_buf_size(HEADER_BYTES);
    let mut shortage = Shortage::default();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &connections) => accepted,
        };
        if shortage.lasts(&accepted) {
            app.plugins.end_for_taken_descriptors();
        }
        match accepted {
            Ok(Some(accepted)) => start(&app, &server, accepted, &stop),
            Ok(None) => {}
            Err(error) => {
                connections.note_failure(&error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.drain();
    tokio::spawn(refuse(Arc::clone(&app), server, listener, Arc::clone(&connections)));
    if tokio::time::timeout(grace, connections.ended()).await.is_err() {
        tracing::warn!(seconds = grace.as_secs(), "requests were still running at the end of the grace period");
    }
}

/// Answers whoever comes while the host drains, until the process ends. The socket is the supervisor's, too, and a
/// worker cannot close it (`crash/vital.rs`): clients that nobody answers would wait for the end and be cut off.
async fn refuse(app: Arc<App>, server: http1::Builder, listener: Listener, connections: Arc<Connections>) {
    // A connection that is shut down before its first request is closed without an answer.
    let never = CancellationToken::new();
    // The supervisor lets nobody in at the local socket any more.
    while let Listener::Tcp(..) = listener {
        match accept(&listener, &connections).await {
            Ok(Some(accepted)) => start(&app, &server, accepted, &never),
            Ok(None) => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn start(app: &Arc<App>, server: &http1::Builder, accepted: AcceptedConnection, stop: &CancellationToken) {
    let (app, mut server, stop) = (Arc::clone(app), server.clone(), stop.clone());
    tokio::spawn(async move {
        let Some((stream, mut peer, mut slot)) = accepted.with_slot().await else { return };
        server.timer(IdleTimer::new(slot.connection()));
        match stream {
            Stream::Tcp(stream) => connection(app, server, stream, peer, stop, slot).await,
            Stream::Tls(stream, tls) => match open_tls(&tls, stream, &mut slot, &stop).await {
                Some(AcceptedStream::Encrypted(stream)) => connection(app, server, stream, peer, stop, slot).await,
                Some(AcceptedStream::InClear(stream)) => {
                    peer.listener_role = ListenerRole::InClear;
                    connection(app, server, stream, peer, stop, slot).await;
                }
                None => {}
            },
            Stream::Local(stream) => connection(app, server, stream, peer, stop, slot).await,
        }
    });
}

/// None where the connection ends before there are keys. Meanwhile it counts as idle.
async fn open_tls(
    tls: &Tls,
    stream: TcpStream,
    slot: &mut ConnectionSlot,
    stop: &CancellationToken,
) -> Option<AcceptedStream> {
    let mut opening = pin!(tls.open(stream));
    let opened = poll_fn(|cx| match opening.as_mut().poll(cx) {
        Poll::Pending => slot.poll_close(cx, false).map(|()| None),
        Poll::Ready(opened) => Poll::Ready(Some(opened)),
    });
    let opened = tokio::select! {
        opened = opened => opened?,
        () = stop.cancelled() => return None,
    };
    opened.inspect_err(|error| tracing::debug!(%error, "a TLS connection did not come about")).ok()
}

/// Serves one connection until it ends or changes its protocol. After `stop` it ends with the request in flight, an
/// idle one at once; also when its place is wanted.
async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    app: Arc<App>,
    server: http1::Builder,
    stream: S,
    peer: Peer,
    stop: CancellationToken,
    mut slot: ConnectionSlot,
) {
    let _counted = ConnectionGuard::new(&app);
    let state = Arc::clone(&app);
    let io = WriteTimeout::new(TokioIo::new(stream), WRITE_STALL);
    let stalled = io.stalled();
    let respond = Arc::clone(&app);
    let respond = Box::new(move |status| request::unreadable(&respond, peer, status));
    let io = UnreadHead::new(io, slot.connection(), respond);
    let held = slot.connection();
    // Behind an `Arc` of this connection: cloning the token itself takes a lock that all connections share.
    let stopping = Arc::new(stop.clone());
    let service =
        service_fn(move |request| answer(Arc::clone(&app), Arc::clone(&held), Arc::clone(&stopping), peer, request));
    let mut connection = server.serve_connection(io, service).with_upgrades();
    let mut stopped = pin!(stop.cancelled());
    let mut watching = true;
    let mut asleep = false;
    let ended = poll_fn(|cx| {
        // One look is enough to be woken at the stop, and each costs a lock that all connections share.
        if watching && (!asleep || state.draining.load(Ordering::Acquire)) {
            asleep = true;
            if stopped.as_mut().poll(cx).is_ready() {
                watching = false;
                Pin::new(&mut connection).graceful_shutdown();
            }
        }
        let polled = Pin::new(&mut connection).poll(cx);
        if polled.is_pending() && slot.poll_close(cx, stalled.load(Ordering::Relaxed)).is_ready() {
            return Poll::Ready(Ok(()));
        }
        polled
    });
    if let Err(error) = repoll(ended).await {
        tracing::debug!(peer = %peer.ip, %error, "connection ended");
        // A broken connection is the client's business; its requests have their own log lines. Of another protocol
        // hyper closes it without a word.
        if error.is_parse_version_h2()
            && let Some(parts) = connection.into_parts()
        {
            drop(tokio::time::timeout(WRITE_STALL, parts.io.refuse()).await);
        }
    }
    drop(slot);
}

/// Answers one request of a connection. No `async fn`: what is passed to one by value lies in its future twice.
fn answer(
    app: Arc<App>,
    connection: Arc<OpenConnection>,
    stopping: Arc<CancellationToken>,
    peer: Peer,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Body>, Infallible>> {
    let request = match peer.full {
        None => RequestBody::from_request(request),
        // A probe has no body, and what is refused must not keep a reserved place until its body is there.
        Some(_) => request.map(|_| RequestBody::none()),
    };
    async move {
        let mut answer = match peer.listener_role {
            ListenerRole::Metrics => api::metrics::separate(&app, &request).await,
            _ => request::serve(app, peer, request).await,
        };
        if let Some(RefusalHold(time)) = answer.extensions_mut().remove() {
            // Meanwhile the connection counts as idle: it is closed first when its place is wanted.
            connection.head_awaited();
            tokio::select! {
                () = tokio::time::sleep(time) => {}
                () = stopping.cancelled() => {}
            }
            connection.head_read();
        }
        if peer.full.is_some() {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(answer)
    }
}

/// A connection among those that the host has open.
struct ConnectionGuard(Arc<App>);

impl ConnectionGuard {
    fn new(app: &Arc<App>) -> Self {
        app.telemetry.connections.up();
        Self(Arc::clone(app))
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.telemetry.connections.down();
    }
}

impl Listener {
    /// # Errors
    /// The descriptor is no socket that listens.
    pub(crate) fn tcp(listener: OwnedFd, role: ListenerRole, tls: Option<Arc<Tls>>) -> io::Result<Self> {
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(TcpListener::from_std(listener)?, role, tls))
    }

    /// # Errors
    /// The descriptor is no socket.
    pub(crate) fn local(handed: OwnedFd) -> io::Result<Self> {
        Ok(Self::Local(HandoverReceiver::new(handed, rustix::process::getppid())?))
    }
}
