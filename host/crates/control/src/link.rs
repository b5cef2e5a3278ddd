//! What supervisor and worker say to each other, and the worker's end of it. Below the supervisor, so that whatever
//! needs a schema step can ask for one.
//!
//! The socket is the worker's standard input. The first message is [`WorkerStart`], with the listening sockets
//! attached to it; after that either side speaks when it has something to say.

use std::collections::HashMap;
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub mod frame;
mod message;
mod provision;

use crate::crash::record::Crash;
use cardinal_base::config::Secret;
pub use cardinal_database::connect::ConnectParams;
use cardinal_database::connect::SocketDir;
pub use message::{
    FirstLogin, ListenerUse, ProvisionRequest, TlsReading, ToSupervisor, ToWorker, WorkerDatabase, WorkerStart,
};
pub use provision::{PluginDatabase, ProvisionFault, PurgeReport, STATEMENT_TIMEOUT_MS};

/// Descriptors that can come with a start, with room for more purposes of listening sockets than there are.
pub const MAX_DESCRIPTORS: usize = 8;

/// Before the listening sockets: shm, log, and where connections of the local socket come in.
pub const OWN_DESCRIPTORS: usize = 3;

/// The worker's end of the control socket. Clones share it; it works on any thread, with or without a runtime.
#[derive(Debug, Clone)]
pub struct SupervisorLink {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    writer: Mutex<UnixStream>,
    waiting: Mutex<Waiting>,
    next_id: AtomicU64,
    drain: CancellationToken,
    sockets: SocketDir,
}

type Answer = Result<PluginDatabase, ProvisionFault>;

impl From<LinkError> for ProvisionFault {
    fn from(_: LinkError) -> Self {
        supervisor_gone()
    }
}

/// The supervisor can be asked nothing any more.
#[derive(Debug)]
pub struct LinkError;

#[derive(Debug)]
enum Waiting {
    Open(HashMap<u64, oneshot::Sender<ToWorker>>),
    /// The supervisor is gone and nobody will ever be answered.
    Closed,
}

/// The descriptors that come with a start.
pub struct StartDescriptors {
    pub shm: OwnedFd,
    /// Where the worker's log is written.
    pub log: OwnedFd,
    /// Where the supervisor hands over connections of the local socket.
    pub local: OwnedFd,
    pub listeners: Vec<OwnedFd>,
}

/// Takes what the supervisor sends first. The socket is the worker's standard input.
///
/// # Errors
/// The supervisor is gone, or says something else.
///
/// `restrict` runs before the link starts its thread, which would not be bound by what it does.
pub fn receive_start(
    mut socket: UnixStream,
    restrict: impl FnOnce(&WorkerStart) -> anyhow::Result<()>,
) -> io::Result<(WorkerStart, StartDescriptors, SupervisorLink)> {
    let mut header = [0; frame::HEADER];
    let (taken, mut descriptors) = receive_descriptors(&socket, &mut header)?;
    socket.read_exact(&mut header[taken..])?;
    let mut start: WorkerStart = read_body(&mut socket, header)?;
    if descriptors.len() != start.listeners.len() + OWN_DESCRIPTORS {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "fewer descriptors than announced"));
    }
    let listeners = descriptors.split_off(OWN_DESCRIPTORS);
    let Ok([shm, log, local]) = <[OwnedFd; OWN_DESCRIPTORS]>::try_from(descriptors) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "fewer descriptors than announced"));
    };
    let sockets = SocketDir::open(&start.database.core.host, start.database.core.port)?;
    start.database.core = start.database.core.through(&sockets);
    start.database.reaper = start.database.reaper.through(&sockets);
    restrict(&start).map_err(io::Error::other)?;
    let link = SupervisorLink::over(socket, sockets)?;
    Ok((start, StartDescriptors { shm, log, local, listeners }, link))
}

/// Descriptors travel with the first byte of what they were sent with.
fn receive_descriptors(socket: &UnixStream, header: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [IoSliceMut::new(header)];
    let received = rustix::net::recvmsg(socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok((received.bytes, descriptors))
}

fn read_message<T: serde::de::DeserializeOwned>(socket: &mut UnixStream) -> io::Result<T> {
    let mut header = [0; frame::HEADER];
    socket.read_exact(&mut header)?;
    read_body(socket, header)
}

fn read_body<T: serde::de::DeserializeOwned>(socket: &mut UnixStream, header: [u8; frame::HEADER]) -> io::Result<T> {
    let mut body = vec![0; frame::body_length(header)?];
    socket.read_exact(&mut body)?;
    frame::decode(&body)
}

impl SupervisorLink {
    /// A link over a socket on which the start has been received already.
    ///
    /// # Errors
    /// No thread can be started, or the socket cannot be shared with it.
    pub fn over(socket: UnixStream, sockets: SocketDir) -> io::Result<Self> {
        let reader = socket.try_clone()?;
        let shared = Arc::new(Shared {
            writer: Mutex::new(socket),
            waiting: Mutex::new(Waiting::Open(HashMap::new())),
            next_id: AtomicU64::new(1),
            drain: CancellationToken::new(),
            sockets,
        });
        let listening = Arc::clone(&shared);
        // A thread rather than a task: the link is older than any runtime, and outlives it.
        std::thread::Builder::new().name("supervisor-link".to_owned()).spawn(move || listening.listen(reader))?;
        Ok(Self { shared })
    }

    /// Tells the supervisor that requests are being served.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn ready(&self, first_login: Option<FirstLogin>) -> io::Result<()> {
        self.shared.send(&ToSupervisor::Ready { first_login })
    }

    /// Lets the supervisor put a first password away that is not good any more.
    pub fn first_login(&self, login: FirstLogin) {
        self.send(&ToSupervisor::FirstLogin(login));
    }

    /// Resolves when the supervisor wants the worker to finish what it has and end; also when the supervisor is gone.
    pub async fn drained(&self) {
        self.shared.drain.cancelled().await;
    }

    /// Has the supervisor bring the plugin's roles and schema in line with the package of this hash.
    ///
    /// # Errors
    /// Why the plugin cannot have its database (now).
    pub async fn provision(&self, plugin: &str, sha256: &str) -> Answer {
        let request = ProvisionRequest { plugin: plugin.to_owned(), sha256: sha256.to_owned() };
        match self.ask(|id| ToSupervisor::Provision { id, request }).await {
            Ok(ToWorker::Provisioned { result, .. }) => {
                result.map(|found| PluginDatabase { connect: found.connect.through(&self.shared.sockets), ..found })
            }
            _ => Err(supervisor_gone()),
        }
    }

    /// Has the supervisor drop the plugin's data.
    ///
    /// # Errors
    /// Why it is not dropped (now).
    pub async fn purge(&self, plugin: &str) -> Result<PurgeReport, ProvisionFault> {
        let plugin = plugin.to_owned();
        match self.ask(|id| ToSupervisor::Purge { id, plugin }).await {
            Ok(ToWorker::Purged { result, .. }) => result,
            _ => Err(supervisor_gone()),
        }
    }

    /// Tells the supervisor that a package need not be probed again while this program runs.
    pub fn probed(&self, sha256: &str) {
        self.send(&ToSupervisor::Probed { sha256: sha256.to_owned() });
    }

    /// Has the supervisor remember that a plugin held all its threads.
    pub fn blocked(&self, crash: Crash) {
        self.send(&ToSupervisor::Blocked { crash: Box::new(crash) });
    }

    /// Tells the supervisor that tasks run.
    pub fn alive(&self) {
        self.send(&ToSupervisor::Alive);
    }

    /// What the supervisor does not hear now it hears in another life, or it is gone and this worker is about to be.
    fn send(&self, message: &ToSupervisor) {
        if let Err(error) = self.shared.send(message) {
            tracing::debug!(%error, "failed to notify the supervisor");
        }
    }

    /// Lets a plugin out of quarantine; says whether it was there.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub async fn release(&self, plugin: &str) -> Result<bool, LinkError> {
        let plugin = plugin.to_owned();
        match self.ask(|id| ToSupervisor::Release { id, plugin }).await? {
            ToWorker::Released { was_quarantined, .. } => Ok(was_quarantined),
            _ => Err(LinkError),
        }
    }

    /// What the plugins' lock file holds, as JSON; an empty lock when there is no file.
    ///
    /// # Errors
    /// It cannot be read, or the supervisor is gone.
    pub async fn read_lock(&self) -> io::Result<String> {
        match self.ask(|id| ToSupervisor::ReadLock { id }).await {
            Ok(ToWorker::Lock { lock, .. }) => lock.map_err(io::Error::other),
            _ => Err(io::Error::other("the supervisor is gone")),
        }
    }

    /// Has the supervisor write the plugins' lock file.
    ///
    /// # Errors
    /// It cannot be written, or the supervisor is gone.
    pub async fn write_lock(&self, lock: String) -> io::Result<()> {
        self.written(|id| ToSupervisor::WriteLock { id, lock }).await
    }

    /// Has the supervisor leave the first user's password for the operator; without one, take it away.
    ///
    /// # Errors
    /// It cannot be written, or the supervisor is gone.
    pub async fn bootstrap_password(&self, password: Option<Secret>) -> io::Result<()> {
        self.written(|id| ToSupervisor::BootstrapPassword { id, password }).await
    }

    /// The certificate and its key, as the supervisor has read them now.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub async fn read_tls(&self) -> Result<TlsReading, LinkError> {
        match self.ask(|id| ToSupervisor::ReadTls { id }).await? {
            ToWorker::Tls { tls, .. } => Ok(tls),
            _ => Err(LinkError),
        }
    }

    async fn written(&self, question: impl FnOnce(u64) -> ToSupervisor) -> io::Result<()> {
        match self.ask(question).await {
            Ok(ToWorker::Written { result, .. }) => result.map_err(io::Error::other),
            _ => Err(io::Error::other("the supervisor is gone")),
        }
    }

    async fn ask(&self, question: impl FnOnce(u64) -> ToSupervisor) -> Result<ToWorker, LinkError> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.shared.expect_answer(id, sender)?;
        self.shared.send(&question(id)).map_err(|error| {
            tracing::warn!(%error, "cannot reach the supervisor");
            LinkError
        })?;
        answer.await.map_err(|_| LinkError)
    }
}

impl Shared {
    fn expect_answer(&self, id: u64, sender: oneshot::Sender<ToWorker>) -> Result<(), LinkError> {
        match &mut *self.waiting.lock() {
            Waiting::Open(waiting) => {
                waiting.insert(id, sender);
                Ok(())
            }
            Waiting::Closed => Err(LinkError),
        }
    }

    fn send(&self, message: &ToSupervisor) -> io::Result<()> {
        let frame = frame::encode(message)?;
        self.writer.lock().write_all(&frame)
    }

    fn listen(&self, mut socket: UnixStream) {
        loop {
            match read_message(&mut socket) {
                Ok(ToWorker::Drain) => self.drain.cancel(),
                Ok(
                    answer @ (ToWorker::Provisioned { id, .. }
                    | ToWorker::Purged { id, .. }
                    | ToWorker::Released { id, .. }
                    | ToWorker::Lock { id, .. }
                    | ToWorker::Written { id, .. }
                    | ToWorker::Tls { id, .. }),
                ) => self.answer(id, answer),
                Err(error) => {
                    tracing::debug!(%error, "the control socket ended");
                    break;
                }
            }
        }
        *self.waiting.lock() = Waiting::Closed;
        self.drain.cancel();
    }

    fn answer(&self, id: u64, result: ToWorker) {
        if let Waiting::Open(waiting) = &mut *self.waiting.lock()
            && let Some(sender) = waiting.remove(&id)
        {
            // Nobody waits any more when the asking future was dropped.
            let _ = sender.send(result);
        }
    }
}

fn supervisor_gone() -> ProvisionFault {
    ProvisionFault::Unavailable("the supervisor is gone".to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
