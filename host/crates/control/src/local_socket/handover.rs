//! How a connection that the supervisor let in gets to the worker: as a descriptor, over a pair of sockets made for one
//! worker, which answers when it has it. One that dies before that leaves the connection to the next worker. The worker
//! has the receiving end alone, so its plugins' native code can let nobody in. Code that puts a socket of its own in
//! the place of that end gains nothing either: the system says which process sent a message.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};
use rustix::process::Pid;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use crate::crash::descriptors;

/// A message needs a byte to carry its descriptor; the answer is the same byte.
const MESSAGE: [u8; 1] = [b'c'];

/// Answers that are passed over before one is waited for.
const MAX_STALE_ANSWERS: usize = 64;

/// The supervisor's end.
#[derive(Debug)]
pub struct HandoverSender {
    socket: UnixStream,
    /// One at a time is on its way, so that an answer is of that one.
    sending: Mutex<()>,
}

/// The worker's end.
#[derive(Debug)]
pub struct HandoverReceiver {
    socket: UnixStream,
    supervisor: Option<Pid>,
}

/// The supervisor's end and the worker's.
///
/// # Errors
/// The system has no sockets left.
pub fn channel() -> io::Result<(HandoverSender, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // Before the first message: the system notes the sender when one is sent.
    sockopt::set_socket_passcred(&theirs, true)?;
    Ok((HandoverSender { socket: stream(ours)?, sending: Mutex::default() }, theirs))
}

fn stream(socket: OwnedFd) -> io::Result<UnixStream> {
    let socket = StdUnixStream::from(socket);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

impl HandoverSender {
    /// Waits until the worker has it.
    ///
    /// # Errors
    /// The worker has ended, and does not have it.
    pub async fn send(&self, connection: &UnixStream) -> io::Result<()> {
        let _alone = self.sending.lock().await;
        // Answers of those that nobody waits for any more. Native code of the worker may send as many as it likes,
        // which is why they are not read without end, and gains nothing: it has the connection that it says it has.
        let is_stale = || self.socket.try_read(&mut MESSAGE.clone()).is_ok_and(|length| length > 0);
        (0..MAX_STALE_ANSWERS).take_while(|_| is_stale()).count();
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let descriptors = [connection.as_fd()];
            if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
                return Err(io::Error::other("no room for a descriptor"));
            }
            sendmsg(&self.socket, &[IoSlice::new(&MESSAGE)], &mut ancillary, SendFlags::NOSIGNAL)?;
            Ok(())
        };
        self.socket.async_io(Interest::WRITABLE, send).await?;
        self.answered().await
    }

    async fn answered(&self) -> io::Result<()> {
        loop {
            self.socket.readable().await?;
            match self.socket.try_read(&mut MESSAGE.clone()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// What one message brought.
#[derive(Default)]
struct HandoverMessage {
    sender: Option<Pid>,
    connection: Option<OwnedFd>,
}

impl HandoverReceiver {
    /// `supervisor` is the process that connections are taken from.
    ///
    /// # Errors
    /// The descriptor is no socket.
    pub fn new(socket: OwnedFd, supervisor: Option<Pid>) -> io::Result<Self> {
        Ok(Self { socket: stream(socket)?, supervisor })
    }

    /// The next connection. Never resolves once the supervisor's end is closed.
    ///
    /// # Errors
    /// No descriptor is left for it, and it is lost.
    pub async fn receive(&self) -> io::Result<UnixStream> {
        loop {
            let received = self.socket.async_io(Interest::READABLE, || receive_one(&self.socket)).await?;
            match received {
                HandoverMessage { sender: None, .. } => return std::future::pending().await,
                HandoverMessage { sender, .. } if sender != self.supervisor => {
                    tracing::warn!("a connection to the local socket came from another process and was turned away");
                }
                HandoverMessage { connection, .. } => {
                    // Where the supervisor is gone this process ends anyhow.
                    let _ = self.socket.try_write(&MESSAGE);
                    return stream(connection.ok_or_else(|| io::Error::other("no descriptor is left for it"))?);
                }
            }
        }
    }
}

/// Also when plugins have taken all descriptors but the reserve. A message whose descriptor finds no place is lost, so
/// it is looked at until its descriptor has one, and taken then.
fn receive_one(socket: &UnixStream) -> io::Result<HandoverMessage> {
    let mut received = HandoverMessage::default();
    let look = descriptors::with_reserve(|| {
        received = HandoverMessage::default();
        look_at_next(socket, &mut received)
    });
    match look {
        Err(error) if !descriptors::is_used_up(&error) => return Err(error),
        _ => {}
    }
    let mut byte = MESSAGE;
    let into = &mut [IoSliceMut::new(&mut byte)];
    recvmsg(socket, into, &mut RecvAncillaryBuffer::default(), RecvFlags::empty())?;
    Ok(received)
}

fn look_at_next(socket: &UnixStream, received: &mut HandoverMessage) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = MESSAGE;
    let into = &mut [IoSliceMut::new(&mut byte)];
    let message = recvmsg(socket, into, &mut ancillary, RecvFlags::PEEK | RecvFlags::CMSG_CLOEXEC)?;
    for part in ancillary.drain() {
        match part {
            RecvAncillaryMessage::ScmCredentials(sender) => received.sender = Some(sender.pid),
            RecvAncillaryMessage::ScmRights(mut descriptors) => received.connection = descriptors.next(),
            _ => {}
        }
    }
    let found_no_place = received.connection.is_none() && message.flags.contains(ReturnFlags::CTRUNC);
    if found_no_place { Err(io::Error::from_raw_os_error(libc::EMFILE)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_connection_arrives_with_what_was_sent_on_it() {
        let (sender, theirs) = channel().unwrap();
        let receiver = HandoverReceiver::new(theirs, Some(rustix::process::getpid())).unwrap();
        let (mut client, handed) = UnixStream::pair().unwrap();
        client.write_all(b"hello").await.unwrap();
        let (sent, received) = tokio::join!(sender.send(&handed), receiver.receive());
        sent.unwrap();
        drop(handed);
        let mut received = received.unwrap();
        let mut text = [0; 5];
        received.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"hello");
        drop(receiver);
        assert!(sender.send(&client).await.is_err());
    }

    #[tokio::test]
    async fn a_worker_that_dies_before_it_takes_a_connection_does_not_have_it() {
        let (sender, theirs) = channel().unwrap();
        let receiver = HandoverReceiver::new(theirs, None).unwrap();
        let (_client, handed) = UnixStream::pair().unwrap();
        let die = async {
            receiver.socket.readable().await.unwrap();
            drop(receiver);
        };
        let (sent, ()) = tokio::join!(sender.send(&handed), die);
        assert!(sent.is_err());
    }

    #[tokio::test]
    async fn a_connection_of_another_process_is_turned_away() {
        let (sender, theirs) = channel().unwrap();
        // As this process is not its parent, nothing that it sends counts.
        let receiver = HandoverReceiver::new(theirs, rustix::process::getppid()).unwrap();
        let (mut client, handed) = UnixStream::pair().unwrap();
        tokio::select! {
            _ = sender.send(&handed) => panic!("it was answered"),
            _ = receiver.socket.readable() => {}
        }
        drop(handed);
        tokio::select! {
            _ = receiver.receive() => panic!("it was taken"),
            ended = client.read_u8() => assert!(ended.is_err()),
        }
    }
}
