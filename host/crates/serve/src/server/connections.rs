//! Who holds a listener's places.
//!
//! An address may be one attacker or a proxy with everybody behind it, the prober of a balancer among them. So an
//! address that is over its share is not shut out: its longest idle connection is closed for the new one. A connection
//! with a request under way is never closed for another. Where all of them have one, the new connection comes in on a
//! reserved place, where only probes are answered.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{idle_queue::IdleQueue, open_connection::OpenConnection};
use crate::request::Full;
use cardinal_base::config::Cidr;
use cardinal_identity::limit::{Limits, addresses::Network};

/// Open connections per listener.
pub(super) const MAX_CONNECTIONS: u32 = 10_000;
/// Of these, by one address (IPv6: by a /64).
const MAX_PER_ADDRESS: usize = 2_000;
/// The same for a peer of TRUSTED_PROXIES, which carries many clients.
const MAX_PER_PROXY: usize = 8_000;
/// Beside these, for probes when nothing can be closed.
const RESERVED_SLOTS: u32 = 500;
/// Accepted connections that wait for a place at a time.
const MAX_WAITING: u32 = 256;
/// A connection that was asked to close is gone before this, or a request came in on it first.
const CLOSING_TIME: Duration = Duration::from_millis(50);
/// Closed connections, and failures to accept, are logged once in this time.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// The connections of one listener.
pub(super) struct Connections {
    trusted: Vec<Cidr>,
    limits: Arc<Limits>,
    places: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// Places of those that are refused because the host stops; nobody waits for these to end.
    draining: Arc<Semaphore>,
    is_draining: AtomicBool,
    table: Mutex<ConnectionTable>,
}

#[derive(Default)]
struct ConnectionTable {
    all: IdleQueue,
    by_network: HashMap<Network, IdleQueue>,
    reserved: IdleQueue,
    /// Closed for others of their address since the last line of the log.
    closed: u64,
    logged: Option<Instant>,
    /// When a failure to accept was logged last.
    failed: Option<Instant>,
}

/// A place that a connection holds until it ends.
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    connection: Arc<OpenConnection>,
    yielding: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_registered: bool,
    _permit: OwnedSemaphorePermit,
}

impl Connections {
    pub(super) fn new(trusted: Vec<Cidr>, limits: Arc<Limits>) -> Arc<Self> {
        Arc::new(Self {
            trusted,
            limits,
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS as usize)),
            reserved: Arc::new(Semaphore::new(RESERVED_SLOTS as usize)),
            waiting: Arc::new(Semaphore::new(MAX_WAITING as usize)),
            draining: Arc::new(Semaphore::new(RESERVED_SLOTS as usize)),
            is_draining: AtomicBool::new(false),
            table: Mutex::default(),
        })
    }

    /// From now on connections get a place where they are refused, beside those that [`ended`](Self::ended) waits for.
    pub(super) fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// A place for a connection that was accepted, from an address or from the local socket. Waits while the listener
    /// is full of requests. `None`: the address is over its share and there is no reserved place left, or the listener
    /// is full and the address asks again and again though it is refused.
    pub(super) async fn admit(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<ConnectionSlot> {
        if self.places.available_permits() == 0 && peer.is_some_and(|peer| self.limits.floods(peer)) {
            return None;
        }
        let (permit, full) = if self.is_draining.load(Ordering::Acquire) {
            (Arc::clone(&self.draining).try_acquire_owned().ok()?, Some(Full::Draining))
        } else if peer.is_some_and(|peer| !self.make_room(peer)) {
            (self.reserved_place()?, Some(Full::Address))
        } else {
            self.place().await?
        };
        let connection = Arc::new(OpenConnection::new(peer.map(Network::from), full));
        self.table().enter(&connection);
        let connections = Arc::clone(self);
        Some(ConnectionSlot { connections, connection, yielding: None, is_registered: false, _permit: permit })
    }

    /// Lets an accepted connection wait for its place beside those that are accepted after it.
    pub(super) async fn wait_for_place(&self) -> io::Result<OwnedSemaphorePermit> {
        Arc::clone(&self.waiting).acquire_owned().await.map_err(io::Error::other)
    }

    /// Closes the connection of any address that has been idle longest.
    pub(super) fn close_longest_idle(&self) {
        self.table().all.close_longest_idle();
    }

    /// Logs that accepting failed, once in a while.
    pub(super) fn note_failure(&self, error: &std::io::Error) {
        let mut table = self.table();
        if table.failed.is_none_or(|at| at.elapsed() >= LOG_PAUSE) {
            table.failed = Some(Instant::now());
            tracing::warn!(%error, "failed to accept a connection; closing idle ones to make room");
        }
    }

    /// Waits until every connection has ended.
    pub(super) async fn ended(&self) {
        let _ = tokio::join!(self.places.acquire_many(MAX_CONNECTIONS), self.reserved.acquire_many(RESERVED_SLOTS));
    }

    /// Whether the address has its share left, or a connection that is closed for the new one.
    fn make_room(&self, peer: IpAddr) -> bool {
        let is_proxy = self.trusted.iter().any(|network| network.contains(peer));
        let share = if is_proxy { MAX_PER_PROXY } else { MAX_PER_ADDRESS };
        let mut table = self.table();
        let Some(own) = table.by_network.get_mut(&Network::from(peer)) else { return true };
        if own.open() < share {
            return true;
        }
        let has_room = own.close_longest_idle();
        if has_room {
            table.note_closed(peer, share);
        }
        has_room
    }

    /// One of the listener's places, or a reserved one when all have requests under way.
    async fn place(&self) -> Option<(OwnedSemaphorePermit, Option<Full>)> {
        loop {
            if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
                return Some((place, None));
            }
            if !self.table().all.close_longest_idle()
                && let Some(place) = self.reserved_place()
            {
                return Some((place, Some(Full::Listener)));
            }
            let freed = Arc::clone(&self.places).acquire_owned();
            if let Ok(place) = tokio::time::timeout(CLOSING_TIME, freed).await {
                return Some((place.ok()?, None));
            }
        }
    }

    fn reserved_place(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.reserved).try_acquire_owned().ok()?;
        // One is kept free for the next.
        if self.reserved.available_permits() == 0 {
            self.table().reserved.close_longest_idle();
        }
        Some(place)
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock()
    }
}

impl ConnectionTable {
    fn enter(&mut self, connection: &Arc<OpenConnection>) {
        if connection.full.is_some() {
            return self.reserved.push(Arc::clone(connection));
        }
        self.all.push(Arc::clone(connection));
        if let Some(network) = connection.network {
            self.by_network.entry(network).or_default().push(Arc::clone(connection));
        }
    }

    fn leave(&mut self, connection: &OpenConnection) {
        if connection.full.is_some() {
            return self.reserved.left();
        }
        self.all.left();
        if let Some(network) = connection.network
            && let Some(own) = self.by_network.get_mut(&network)
        {
            own.left();
            if own.open() == 0 {
                self.by_network.remove(&network);
            }
        }
    }

    fn note_closed(&mut self, address: IpAddr, share: usize) {
        self.closed += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_PAUSE) {
            self.logged = Some(Instant::now());
            let closed = std::mem::take(&mut self.closed);
            tracing::warn!(%address, share, closed, "an address opens more connections than its share; closing its \
                idle ones");
        }
    }
}

impl ConnectionSlot {
    pub(super) fn connection(&self) -> Arc<OpenConnection> {
        Arc::clone(&self.connection)
    }

    /// Set on a reserved place.
    pub(super) fn full(&self) -> Option<Full> {
        self.connection.full
    }

    /// Ready when the connection was asked to close and has no request. To be called after each poll of the connection,
    /// which `is_writing` while bytes of an answer wait for the client.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>, is_writing: bool) -> Poll<()> {
        if !self.is_registered {
            self.is_registered = true;
            self.connection.waker.register(cx.waker());
        }
        if !self.connection.is_asked_to_close() {
            return Poll::Pending;
        }
        // A request may lie in the socket unseen: tokio looks there before it comes back to a task that has yielded.
        let yielding = self.yielding.get_or_insert_with(|| Box::pin(tokio::task::yield_now()));
        ready!(yielding.as_mut().poll(cx));
        self.yielding = None;
        if self.connection.wait().is_some() && !is_writing {
            return Poll::Ready(());
        }
        self.connection.close_asked.store(false, Ordering::Release);
        self.connection.waker.register(cx.waker());
        Poll::Pending
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connection.gone.store(true, Ordering::Release);
        self.connections.table().leave(&self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    async fn slots(connections: &Arc<Connections>, peer: IpAddr, count: usize) -> Vec<ConnectionSlot> {
        let mut slots = Vec::new();
        for _ in 0..count {
            slots.push(connections.admit(Some(peer)).await.unwrap());
        }
        slots
    }

    fn asked_to_close(slots: &[ConnectionSlot]) -> Vec<usize> {
        (0..slots.len()).filter(|i| slots[*i].connection.is_asked_to_close()).collect()
    }

    #[tokio::test]
    async fn over_its_share_an_address_closes_its_own_longest_idle_connection() {
        let connections = Connections::new(vec![], Arc::new(Limits::new(6000)));
        let other = slots(&connections, THERE, 1).await;
        let own = slots(&connections, HERE, MAX_PER_ADDRESS).await;
        own[0].connection.head_read();
        own[1].connection.head_read();
        own[1].connection.head_awaited(); // used since
        assert!(asked_to_close(&own).is_empty());
        let late = slots(&connections, HERE, 2).await;
        assert_eq!((asked_to_close(&own), asked_to_close(&late), asked_to_close(&other)), (vec![2, 3], vec![], vec![]));
        assert!(late.iter().all(|slot| slot.full().is_none()));
    }

    #[tokio::test]
    async fn an_address_with_requests_everywhere_gets_reserved_places() {
        let connections = Connections::new(vec![], Arc::new(Limits::new(6000)));
        let own = slots(&connections, HERE, MAX_PER_ADDRESS).await;
        own.iter().for_each(|slot| slot.connection.head_read());
        let late = slots(&connections, HERE, RESERVED_SLOTS as usize).await;
        assert!(asked_to_close(&own).is_empty() && late.iter().all(|slot| slot.full() == Some(Full::Address)));
        assert_eq!(asked_to_close(&late), [0], "one is freed for the next prober");
        assert!(connections.admit(Some(HERE)).await.is_none());
        assert!(connections.admit(Some(THERE)).await.unwrap().full().is_none(), "the other address has its share");
        drop((own, late));
        assert!(connections.admit(Some(HERE)).await.unwrap().full().is_none());
        assert!(connections.table().by_network.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_listener_closes_the_longest_idle_connection_or_answers_probes() {
        let connections = Connections::new(vec![], Arc::new(Limits::new(6000)));
        let mut all = Vec::new();
        for host in 0..5 {
            all.extend(slots(&connections, IpAddr::from([198, 51, 100, host]), MAX_PER_ADDRESS).await);
        }
        assert_eq!(connections.places.available_permits(), 0);
        all.iter().skip(1).for_each(|slot| slot.connection.head_read());
        let mut admitting = Box::pin(connections.admit(Some(HERE)));
        assert!(futures_util::poll!(&mut admitting).is_pending());
        assert_eq!(asked_to_close(&all), [0]);
        drop(all.remove(0));
        let taken = admitting.await.unwrap();
        assert_eq!(taken.full(), None);
        taken.connection.head_read();
        assert_eq!(connections.admit(Some(HERE)).await.unwrap().full(), Some(Full::Listener));
        assert!(asked_to_close(&all).is_empty());
    }

    #[tokio::test]
    async fn a_64_of_ipv6_is_one_address() {
        let connections = Connections::new(vec![], Arc::new(Limits::new(6000)));
        let mut held = slots(&connections, "2001:db8::1".parse().unwrap(), MAX_PER_ADDRESS).await;
        assert!(asked_to_close(&held).is_empty());
        held.extend(slots(&connections, "2001:db8:0:1::1".parse().unwrap(), 1).await);
        assert!(asked_to_close(&held).is_empty(), "another network");
        held.extend(slots(&connections, "2001:db8::ffff:1".parse().unwrap(), 1).await);
        assert_eq!(asked_to_close(&held), [0]);
    }

    #[tokio::test]
    async fn a_proxy_that_is_trusted_has_a_larger_share() {
        let connections = Connections::new(vec!["192.0.2.0/31".parse().unwrap()], Arc::new(Limits::new(6000)));
        let own = slots(&connections, HERE, MAX_PER_ADDRESS + 1).await;
        assert!(asked_to_close(&own).is_empty());
    }

    #[tokio::test]
    async fn a_request_that_comes_first_keeps_the_connection() {
        let connections = Connections::new(vec![], Arc::new(Limits::new(6000)));
        let mut slot = connections.admit(Some(HERE)).await.unwrap();
        let close = async |slot: &mut ConnectionSlot, is_writing: bool| {
            slot.connection.ask_to_close();
            std::future::poll_fn(|cx| match slot.poll_close(cx, is_writing) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if slot.connection.is_asked_to_close() => Poll::Pending,
                Poll::Pending => Poll::Ready(false),
            })
            .await
        };
        slot.connection.head_read();
        assert!(!close(&mut slot, false).await, "a request is under way");
        slot.connection.head_awaited();
        assert!(!close(&mut slot, true).await, "its answer is not written yet");
        assert!(close(&mut slot, false).await);
    }
}
