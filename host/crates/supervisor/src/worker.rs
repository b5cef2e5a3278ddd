//! The worker as the supervisor sees it: started with the listening sockets, listened to, drained, started again
//! when it dies.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::{
    bind,
    control_service::ControlService,
    crashes::WorkerExit,
    launch::{Account, Launcher},
    liveness::{self, Liveness, Probe},
    orphans,
    output::Output,
    temp_folder,
};
use cardinal_control::{
    crash::{
        record::{Crash, WorkerStall},
        shm,
    },
    link::{MAX_DESCRIPTORS, OWN_DESCRIPTORS, ToSupervisor, ToWorker, WorkerStart, frame},
    local_socket::handover::{self, HandoverSender},
};

/// What a worker that has drained needs beyond its grace to write the last things and end.
const DRAIN_MARGIN: Duration = Duration::from_secs(5);
/// A worker that closed what it cannot do without has ended by then.
const CLOSED_GRACE: Duration = Duration::from_secs(5);
/// Answers on their way to the worker; more wait in their tasks.
const OUTBOX: usize = 16;
/// A worker says every second that its tasks run, and answers a connection to its public socket every second. One that
/// missed either for so many of the supervisor's own seconds stands still and is ended. Ticks rather than time, so that
/// a machine that was asleep ends no worker.
const MAX_SILENT_TICKS: u32 = 20;
const TICK: Duration = Duration::from_secs(1);

/// One life of the worker.
pub(crate) struct Worker {
    child: Child,
    from: Inbox,
    outbox: mpsc::Sender<ToWorker>,
    shm: shm::Shared,
    output: Output,
    /// For connections of the local socket, until it serves.
    handover: Option<HandoverSender>,
    /// The public socket, which clients connect to.
    public: SocketAddr,
    /// It accepts no connection any more, so that a probe without an answer says nothing.
    draining: bool,
    started: Instant,
    /// Of its process, and of the session that it leads.
    id: u32,
}

impl Worker {
    /// Starts the worker and sends it its settings.
    ///
    /// # Errors
    /// The process cannot be started or ended before it had listened.
    pub(crate) async fn start(
        launcher: &Launcher,
        account: Option<Account>,
        start: &WorkerStart,
        listeners: &[OwnedFd],
    ) -> anyhow::Result<Self> {
        listeners.iter().try_for_each(bind::prepare).context("preparing the listeners")?;
        let (ours, theirs) = StdUnixStream::pair().context("making the control socket")?;
        let mut command = launcher.command_as("worker", account);
        // As standard input the socket gets there without a descriptor that any other child could inherit too.
        command.stdin(OwnedFd::from(theirs));
        command.env("TMPDIR", start.config.paths.data_dir.join(temp_folder::FOLDER));
        let (output, ends) = Output::start(&start.config.observe).context("making the worker's pipes")?;
        command.stdout(ends.stdout).stderr(ends.stderr);
        // Dropped at once, with the worker's ends of the pipes in it.
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn().context("starting the worker")?;
        ours.set_nonblocking(true).context("preparing the control socket")?;
        let mut socket = UnixStream::from_std(ours).context("preparing the control socket")?;
        let shm = shm::Shared::new().context("making the shared memory")?;
        let (handover, local) = handover::channel().context("making the sockets for local connections")?;
        send_start(&mut socket, start, [shm.memory(), ends.log.as_fd(), local.as_fd()], listeners)
            .await
            .context("telling the worker its settings")?;
        let (from, to) = socket.into_split();
        let (outbox, messages) = mpsc::channel(OUTBOX);
        tokio::spawn(deliver(to, messages));
        let from = Inbox { from, read: Vec::new() };
        let public = start.config.http.listen_addr;
        let handover = Some(handover);
        let id = child.id().context("the worker has ended")?;
        Ok(Self { id, child, from, outbox, shm, output, handover, public, draining: false, started: Instant::now() })
    }

    /// Serves the worker's requests until it dies, and returns how. One that stands still is ended.
    pub(crate) async fn wait_for_exit(&mut self, control: &mut ControlService) -> WorkerExit {
        let mut standstill = None;
        let status = self.attend(control, &mut standstill).await;
        hand_over_to(control, None);
        orphans::end_session(self.id);
        self.output.finish().await;
        let uptime = self.started.elapsed().try_into().unwrap_or_default();
        let crash = Crash::read(self.shm.shm(), status, standstill, control.clock.now(), uptime);
        WorkerExit { status, crash }
    }

    async fn attend(
        &mut self,
        control: &mut ControlService,
        standstill: &mut Option<WorkerStall>,
    ) -> Option<ExitStatus> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut liveness = Liveness::watch(self.public);
        // Since the last word on the pipe, and the last answer on the public socket.
        let (mut silent, mut unanswered) = (0, 0);
        control.new_worker();
        loop {
            tokio::select! {
                status = self.child.wait() => return status.ok(),
                message = self.from.receive() => match message {
                    Ok(message) => {
                        silent = 0;
                        // Its tasks run, and one of them takes connections.
                        if let Some(handover) = self.handover.take() {
                            hand_over_to(control, Some(handover));
                        }
                        control.serve(message, &self.outbox);
                    }
                    Err(error) => {
                        tracing::debug!(%error, "the worker's end of the control socket is closed");
                        return self.end_closed().await;
                    }
                },
                () = self.output.log_closed() => return self.end_closed().await,
                probe = liveness.next() => {
                    control.probes_connect = true;
                    if probe == Probe::Answered {
                        unanswered = 0;
                    }
                }
                _ = tick.tick() => {
                    silent += 1;
                    // Where no probe ever connected something keeps the supervisor from its own socket.
                    unanswered += u32::from(control.probes_connect && !self.draining);
                    if silent.max(unanswered) > MAX_SILENT_TICKS && standstill.is_none() {
                        *standstill = Some(liveness::standstill(self.child.id()));
                        self.end_standstill(silent, unanswered);
                    }
                }
            }
        }
    }

    fn end_standstill(&mut self, silent: u32, unanswered: u32) {
        tracing::error!(
            seconds_silent = silent,
            seconds_without_answer = unanswered,
            "the worker no longer answers; ending it"
        );
        if let Err(error) = self.child.start_kill() {
            tracing::warn!(%error, "failed to end the worker");
        }
    }

    /// What it cannot do without is closed. It is about to end; one that goes on is no worker any more: native code has
    /// shut its log, or put another program in its place.
    async fn end_closed(&mut self) -> Option<ExitStatus> {
        if let Ok(status) = tokio::time::timeout(CLOSED_GRACE, self.child.wait()).await {
            return status.ok();
        }
        tracing::error!("the worker closed its log or its connection to the host and did not end; ending it");
        if let Err(error) = self.child.start_kill() {
            tracing::warn!(%error, "failed to end the worker");
        }
        self.child.wait().await.ok()
    }

    /// Tells the worker to finish, and waits for it as long as it may take. `stop_now` cuts the wait short.
    pub(crate) async fn drain(
        mut self,
        control: &mut ControlService,
        grace: Duration,
        stop_now: impl Future<Output = ()>,
    ) {
        let _ = self.outbox.send(ToWorker::Drain).await;
        self.draining = true;
        tokio::select! {
            exit = self.wait_for_exit(control) => tracing::info!(ended = describe_exit(exit.status), "the worker has drained"),
            () = tokio::time::sleep(grace + DRAIN_MARGIN) => tracing::warn!("the worker did not drain in time; ending it"),
            () = stop_now => tracing::warn!("asked to stop again; ending the worker at once"),
        }
        if let Err(error) = self.child.kill().await {
            tracing::debug!(%error, "the worker had ended already");
        }
    }
}

fn hand_over_to(control: &ControlService, worker: Option<HandoverSender>) {
    if let Some(local) = &control.local {
        local.hand_over_to(worker);
    }
}

/// For the journal: what a shell would say.
pub(crate) fn describe_exit(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "unknown".to_owned(), |status| status.to_string())
}

async fn deliver(mut to: OwnedWriteHalf, mut messages: mpsc::Receiver<ToWorker>) {
    while let Some(message) = messages.recv().await {
        let sent = match frame::encode(&message) {
            Ok(frame) => to.write_all(&frame).await,
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "the worker takes no more messages");
            return;
        }
    }
}

/// What the worker says, message by message. A read that is cut short goes on where it was.
struct Inbox {
    from: OwnedReadHalf,
    read: Vec<u8>,
}

impl Inbox {
    async fn receive(&mut self) -> std::io::Result<ToSupervisor> {
        loop {
            if let Some(length) = self.complete()? {
                let message = frame::decode(&self.read[frame::HEADER..length]);
                self.read.drain(..length);
                return message;
            }
            if self.from.read_buf(&mut self.read).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The length of the first message, once it is all there.
    fn complete(&self) -> std::io::Result<Option<usize>> {
        let Some((header, _)) = self.read.split_first_chunk::<{ frame::HEADER }>() else { return Ok(None) };
        let length = frame::HEADER + frame::body_length(*header)?;
        Ok((self.read.len() >= length).then_some(length))
    }
}

async fn send_start(
    socket: &mut UnixStream,
    start: &WorkerStart,
    own: [BorrowedFd<'_>; OWN_DESCRIPTORS],
    listeners: &[OwnedFd],
) -> anyhow::Result<()> {
    let frame = frame::encode(start)?;
    let listeners = listeners.iter().map(|listener| listener.as_fd());
    let descriptors: Vec<BorrowedFd<'_>> = own.into_iter().chain(listeners).collect();
    let sent = socket
        .async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
                return Err(std::io::Error::other("too many descriptors"));
            }
            Ok(rustix::net::sendmsg(&*socket, &[IoSlice::new(&frame)], &mut ancillary, SendFlags::NOSIGNAL)?)
        })
        .await?;
    socket.write_all(&frame[sent..]).await?;
    Ok(())
}
