//! How the worker's log gets to the supervisor: over a pair of sockets on which each write is a message of its own. On
//! a pipe a plugin's native code could end up in the middle of a line of the host's, or open the reading end by its
//! name below `/proc` and take lines away.

use std::io::{self, IoSlice, Write};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sendmsg, socketpair, sockopt,
};

/// Bytes of lines in one message, behind its first byte.
pub const MESSAGE_BYTES: usize = 64 << 10;
/// The first byte of a message that begins with a line.
pub const BEGINS: u8 = b'L';
/// The first byte of one that goes on with the line that did not fit into the message before it.
pub const CONTINUES: u8 = b'+';
/// For a few messages; the system may give less.
const SEND_BUFFER_BYTES: usize = 512 << 10;
/// How often a message is tried again that the send buffer had no room for.
const MAX_TRIES: u32 = 3;

/// The reader's end and the writer's.
///
/// # Errors
/// The system has no sockets left.
pub fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // A message then comes with its sender, which tells an empty one from the end.
    sockopt::set_socket_passcred(&reader, true)?;
    sockopt::set_socket_send_buffer_size(&writer, SEND_BUFFER_BYTES)?;
    Ok((reader, writer))
}

/// Writes whole lines, in as few messages as they fit into.
#[derive(Debug)]
pub struct LogSender {
    socket: OwnedFd,
    is_within_line: bool,
}

impl LogSender {
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, is_within_line: false }
    }

    /// A plugin's native code can change the socket, too: not wait, or have a small buffer.
    fn send(&self, kind: u8, lines: &[u8]) -> io::Result<()> {
        let kind = [kind];
        let message = [IoSlice::new(&kind), IoSlice::new(lines)];
        let mut tries = 0;
        loop {
            match sendmsg(&self.socket, &message, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], None)?),
                Err(Errno::MSGSIZE) if tries < MAX_TRIES => {
                    tries += 1;
                    sockopt::set_socket_send_buffer_size(&self.socket, SEND_BUFFER_BYTES)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Write for LogSender {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let part = &lines[..lines.len().min(MESSAGE_BYTES)];
        let part = part.iter().rposition(|byte| *byte == b'\n').map_or(part, |last| &part[..=last]);
        self.send(if self.is_within_line { CONTINUES } else { BEGINS }, part)?;
        self.is_within_line = !part.ends_with(b"\n");
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
