//! Taking the next connection of a listener, also when plugins have taken all descriptors.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::fd::AsRawFd as _,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use cardinal_control::crash::descriptors;
use futures_util::FutureExt as _;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    Listener, Stream,
    connections::{ConnectionSlot, Connections},
};
use crate::request::{ListenerRole, Peer};

/// How long there may be no descriptor for any new connection before something is done about it.
const SHORTAGE_TIME: Duration = Duration::from_secs(2);

/// A connection that was accepted.
pub(super) struct AcceptedConnection {
    stream: Stream,
    ip: IpAddr,
    listener_role: ListenerRole,
    admission: Admission,
}

enum Admission {
    Seated(ConnectionSlot),
    /// The listener is full. Others are accepted meanwhile, in bounded numbers.
    Waiting(Pin<Box<dyn Future<Output = Option<ConnectionSlot>> + Send>>, OwnedSemaphorePermit),
}

impl AcceptedConnection {
    /// With its place; `None` when it is turned away.
    pub(super) async fn with_slot(self) -> Option<(Stream, Peer, ConnectionSlot)> {
        let slot = match self.admission {
            Admission::Seated(slot) => slot,
            Admission::Waiting(admission, _permit) => admission.await?,
        };
        let peer = Peer { ip: self.ip, listener_role: self.listener_role, full: slot.full() };
        Some((self.stream, peer, slot))
    }
}

/// The next connection; `None` when it was turned away.
pub(super) async fn accept(
    listener: &Listener,
    connections: &Arc<Connections>,
) -> io::Result<Option<AcceptedConnection>> {
    let accepted = match accept_stream(listener).await {
        Err(error) if is_exhausted(&error) => accept_on_reserve(listener, connections, error)?,
        accepted => accepted?,
    };
    let Some((stream, ip, listener_role)) = accepted else { return Ok(None) };
    let admitting = Arc::clone(connections);
    let mut admission = Box::pin(async move { admitting.admit(ip).await });
    let admission = match (&mut admission).now_or_never() {
        Some(Some(slot)) => Admission::Seated(slot),
        Some(None) => return Ok(None),
        None => Admission::Waiting(admission, connections.wait_for_place().await?),
    };
    // Without an address; what is counted by address is not counted there.
    let ip = ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    Ok(Some(AcceptedConnection { stream, ip, listener_role, admission }))
}

type AcceptOutcome = Option<(Stream, Option<IpAddr>, ListenerRole)>;

async fn accept_stream(listener: &Listener) -> io::Result<AcceptOutcome> {
    Ok(match listener {
        Listener::Tcp(listener, listener_role, tls) => {
            let (stream, peer) = listener.accept().await?;
            // It fails when the client has gone away already.
            stream.set_nodelay(true).is_ok().then(|| {
                let stream = match tls {
                    Some(tls) => Stream::Tls(stream, Arc::clone(tls)),
                    None => Stream::Tcp(stream),
                };
                (stream, Some(canonical(peer)), *listener_role)
            })
        }
        Listener::Local(handed) => {
            let stream = handed.receive().await?;
            let uid = stream.peer_cred()?.uid();
            Some((Stream::Local(stream), None, ListenerRole::Local { uid }))
        }
    })
}

/// This process, or the system, has no descriptor left.
fn is_exhausted(error: &io::Error) -> bool {
    descriptors::is_used_up(error) || error.raw_os_error() == Some(libc::ENFILE)
}

/// Plugins have taken all descriptors but those that are kept back for connections. When few of those are left, a
/// connection that is idle makes room.
fn accept_on_reserve(listener: &Listener, connections: &Connections, error: io::Error) -> io::Result<AcceptOutcome> {
    // The system looks for a descriptor before it looks for a client: without one, it may still be that nobody waits.
    let accepted = descriptors::with_reserve(|| accept_stream(listener).now_or_never().transpose());
    let Some(accepted) = accepted.transpose() else { return Ok(None) };
    connections.note_failure(&error);
    let leaves_enough = |stream: &Stream| !descriptors::is_among_the_last(stream.as_raw_fd());
    if !matches!(&accepted, Ok(Some((stream, ..))) if leaves_enough(stream)) {
        connections.close_longest_idle();
    }
    accepted
}

/// Since when no connection found a descriptor.
#[derive(Default)]
pub(super) struct Shortage(Option<Instant>);

impl Shortage {
    /// Takes note of how accepting went; gives whether it has failed for too long.
    pub(super) fn lasts<T>(&mut self, accepted: &io::Result<T>) -> bool {
        match accepted {
            Err(error) if descriptors::is_used_up(error) => {
                self.0.get_or_insert_with(Instant::now).elapsed() >= SHORTAGE_TIME
            }
            _ => {
                self.0 = None;
                false
            }
        }
    }
}

fn canonical(peer: SocketAddr) -> IpAddr {
    peer.ip().to_canonical()
}
