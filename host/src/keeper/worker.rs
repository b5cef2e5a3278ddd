//! The worker as the keeper sees it: started with the listening sockets, listened to, told to drain, started again
//! when it dies.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context as _;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::mpsc;

use super::announce::Announcement;
use super::launch::Launcher;
use super::provisioner::Provisioner;
use crate::link::{MOST_LISTENERS, ToKeeper, ToWorker, WorkerStart, frame};

/// What a worker that has drained needs beyond its grace to write the last things and end.
const DRAIN_MARGIN: Duration = Duration::from_secs(5);
/// Answers on their way to the worker; more wait in their tasks.
const OUTBOX: usize = 16;

/// One life of the worker.
pub struct Worker {
    child: Child,
    from: OwnedReadHalf,
    outbox: mpsc::Sender<ToWorker>,
}

impl Worker {
    /// Starts the worker and tells it all it has to know.
    ///
    /// # Errors
    /// The process cannot be started or ended before it had listened.
    pub async fn start(launcher: &Launcher, start: &WorkerStart, listeners: &[TcpListener]) -> anyhow::Result<Self> {
        let (ours, theirs) = StdUnixStream::pair().context("making the control socket")?;
        let mut command = launcher.command("worker");
        // As standard input the socket gets there without a descriptor that any other child could inherit too.
        command.stdin(OwnedFd::from(theirs));
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn().context("starting the worker")?;
        ours.set_nonblocking(true).context("preparing the control socket")?;
        let mut socket = UnixStream::from_std(ours).context("preparing the control socket")?;
        send_start(&mut socket, start, listeners).await.context("telling the worker its settings")?;
        let (from, to) = socket.into_split();
        let (outbox, mail) = mpsc::channel(OUTBOX);
        tokio::spawn(deliver(to, mail));
        Ok(Self { child, from, outbox })
    }

    /// Serves the worker's requests until it dies, and tells how.
    pub async fn until_death(&mut self, provisioner: &Provisioner, announcement: &Announcement) -> Option<ExitStatus> {
        loop {
            tokio::select! {
                status = self.child.wait() => return status.ok(),
                // Cancelled by a drain at most: a half-read message does not matter then.
                message = receive(&mut self.from) => match message {
                    Ok(ToKeeper::Ready) => {
                        tracing::info!("the worker is ready");
                        announcement.ready();
                    }
                    Ok(ToKeeper::Provision { id, request }) => {
                        let (provisioner, outbox) = (provisioner.clone(), self.outbox.clone());
                        tokio::spawn(async move {
                            let result = provisioner.provision(&request).await;
                            // A worker that is gone asks again in its next life.
                            let _ = outbox.send(ToWorker::Provisioned { id, result }).await;
                        });
                    }
                    Err(error) => {
                        tracing::debug!(%error, "the worker's end of the control socket is closed");
                        return self.child.wait().await.ok();
                    }
                },
            }
        }
    }

    /// Tells the worker to finish, and waits for it as long as it may take. `hurry` cuts the wait short.
    pub async fn drain(
        mut self,
        (provisioner, announcement): (&Provisioner, &Announcement),
        grace: Duration,
        hurry: impl Future<Output = ()>,
    ) {
        let _ = self.outbox.send(ToWorker::Drain).await;
        tokio::select! {
            status = self.until_death(provisioner, announcement) => tracing::info!(ended = told(status), "the worker has drained"),
            () = tokio::time::sleep(grace + DRAIN_MARGIN) => tracing::warn!("the worker did not drain in time; ending it"),
            () = hurry => tracing::warn!("told to stop once more; ending the worker at once"),
        }
        if let Err(error) = self.child.kill().await {
            tracing::debug!(%error, "the worker had ended already");
        }
    }
}

/// For the journal: what a shell would say.
pub fn told(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "unknown".to_owned(), |status| status.to_string())
}

async fn deliver(mut to: OwnedWriteHalf, mut mail: mpsc::Receiver<ToWorker>) {
    while let Some(message) = mail.recv().await {
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

async fn receive(from: &mut OwnedReadHalf) -> std::io::Result<ToKeeper> {
    let mut header = [0; frame::HEADER];
    from.read_exact(&mut header).await?;
    let mut body = vec![0; frame::body_length(header)?];
    from.read_exact(&mut body).await?;
    frame::decode(&body)
}

async fn send_start(socket: &mut UnixStream, start: &WorkerStart, listeners: &[TcpListener]) -> anyhow::Result<()> {
    let frame = frame::encode(start)?;
    let descriptors: Vec<BorrowedFd<'_>> = listeners.iter().map(|listener| listener.as_fd()).collect();
    let sent = socket
        .async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_LISTENERS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
                return Err(std::io::Error::other("too many listening sockets"));
            }
            Ok(rustix::net::sendmsg(&*socket, &[IoSlice::new(&frame)], &mut ancillary, SendFlags::NOSIGNAL)?)
        })
        .await?;
    socket.write_all(&frame[sent..]).await?;
    Ok(())
}
