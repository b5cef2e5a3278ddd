//! Listeners and connections: bare hyper, every wait with a bound.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    request::{self, Peer},
};

/// A request's headers must have arrived after this long; also the longest idle keep-alive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of request line and headers together.
const HEADER_BYTES: usize = 64 * 1024;
const HEADER_COUNT: usize = 100;
/// Open connections per listener; the next one waits in the kernel's queue.
const CONNECTIONS: usize = 10_000;
/// How long to wait after the listener failed (out of file descriptors, say) before trying again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`, then lets the requests in flight finish for at most `grace`. With `public`,
/// only what is meant for the public: the admin API and its like have a listener of their own.
pub async fn serve(app: Arc<App>, listener: TcpListener, public: bool, stop: CancellationToken, grace: Duration) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES)
        .max_headers(HEADER_COUNT);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((stream, peer, place)) => {
                let app = Arc::clone(&app);
                let peer = Peer { ip: canonical(peer), public };
                let service = service_fn(move |request| {
                    let app = Arc::clone(&app);
                    async move { Ok::<_, std::convert::Infallible>(request::serve(app, peer, request).await) }
                });
                let connection = server.serve_connection(TokioIo::new(stream), service);
                let connection = graceful.watch(connection);
                tokio::spawn(async move {
                    // A broken connection is the client's business; its requests have their own log lines.
                    if let Err(error) = connection.await {
                        tracing::debug!(peer = %peer.ip, %error, "connection ended");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::warn!(seconds = grace.as_secs(), "requests were still running at the end of the grace period");
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> anyhow::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer, place))
}

fn canonical(peer: SocketAddr) -> IpAddr {
    peer.ip().to_canonical()
}
