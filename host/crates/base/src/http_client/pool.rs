//! Connections that were used and are kept a moment for the next request to the same server.

use std::{
    net::SocketAddr,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;
use tokio::{task::JoinHandle, time::sleep};
use url::{Origin, Url};

/// Shorter than the 5 s after which Node.js, the quickest of the usual servers, closes idle connections: one that is
/// taken up while the other end closes it costs a request, unless that may be repeated.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Connections that one pool keeps, of all servers together; the one that is idle for longest gives way.
const MAX_IDLE: usize = 16;

/// A connection to a server, driven by a task of its own that ends with it.
pub(super) struct PooledConnection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// What it is connected to, which was checked then.
    pub(super) address: SocketAddr,
    pub(super) origin: Origin,
    pub(super) _driver: Driver,
}

/// Drives a connection, and closes it when it is dropped, whatever is on its way.
pub(super) struct Driver(pub(super) JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Idle connections, the one that is idle for longest first.
#[derive(Default)]
pub(super) struct Pool(Mutex<State>);

#[derive(Default)]
struct State {
    idle: Vec<(Instant, PooledConnection)>,
    is_swept: bool,
}

impl State {
    fn forget_unusable(&mut self) {
        self.idle.retain(|(since, connection)| since.elapsed() < IDLE_TIMEOUT && !connection.sender.is_closed());
    }
}

impl Pool {
    /// A connection to the URL's server.
    pub(super) fn take(&self, url: &Url) -> Option<PooledConnection> {
        let (origin, mut state) = (url.origin(), self.0.lock());
        state.forget_unusable();
        let at = state.idle.iter().rposition(|(_, connection)| connection.origin == origin)?;
        Some(state.idle.remove(at).1)
    }

    /// Keeps a connection that is ready for another request.
    pub(super) fn put(self: &Arc<Self>, connection: PooledConnection) {
        let mut state = self.0.lock();
        state.forget_unusable();
        if state.idle.len() >= MAX_IDLE {
            state.idle.remove(0);
        }
        state.idle.push((Instant::now(), connection));
        if !std::mem::replace(&mut state.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }
}

/// Closes connections whose time is over, until none is left.
async fn sweep(pool: Weak<Pool>) {
    loop {
        sleep(IDLE_TIMEOUT).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut state = pool.0.lock();
        state.forget_unusable();
        if state.idle.is_empty() {
            state.is_swept = false;
            return;
        }
    }
}
