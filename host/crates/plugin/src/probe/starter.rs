//! Starts probes for the worker, which may start no process itself (`sandbox/programs.rs`). The starter is a process that
//! the worker makes before that is forbidden, with the same walls. It never opens a plugin and ends with the worker, and
//! its probes end with it.
//!
//! A request is one message on a pair of sockets: the settings, with the library, the two ends of pipes to be written to,
//! and a socket whose other end the worker closes to end the probe. Native code in the worker can send requests as well:
//! what they start is a probe, with a probe's walls, bounded in number and time.

use std::{
    io::{self, IoSlice, IoSliceMut, Write as _},
    mem::MaybeUninit,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    os::unix::{net::UnixStream as StdUnixStream, process::ExitStatusExt as _},
    process::{Child, ExitStatus},
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, socketpair,
    },
    pipe::{PipeFlags, pipe_with},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};
use tokio::net::{UnixStream, unix::pipe};

use super::{ProbeCommand, SETTINGS_LIMIT, TIME_LIMIT, started::ProbeProcess};

/// Library, output, errors, control.
const DESCRIPTORS: usize = 4;
/// More than the worker has at work at a time: what has answered may still be ending. Further requests wait in the socket.
const MAX_PROBES: usize = 16;
/// The worker ends a probe before that; both of its steps and the rest have time.
const MAX_PROBE_TIME: Duration = TIME_LIMIT.saturating_mul(3);
/// Every request has bytes, so that none is the end of the connection.
const BEGIN: u8 = b'P';

/// The worker's end.
#[derive(Debug)]
pub struct ProbeStarter(OwnedFd);

/// # Errors
/// The system has no sockets left.
pub fn channel() -> io::Result<(ProbeStarter, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((ProbeStarter(ours), theirs))
}

impl ProbeStarter {
    /// Has a probe started.
    ///
    /// # Errors
    /// The system has no descriptors left, or the starter takes no request.
    pub(super) fn start(&self, library: BorrowedFd<'_>, settings: &str) -> io::Result<ProbeProcess> {
        let (output, their_output) = pipe_with(PipeFlags::CLOEXEC)?;
        let (errors, their_errors) = pipe_with(PipeFlags::CLOEXEC)?;
        let (control, their_control) = StdUnixStream::pair()?;
        let descriptors = [library, their_output.as_fd(), their_errors.as_fd(), their_control.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Error::other("too many descriptors"));
        }
        // It never waits: a starter that takes nothing is one that was stopped.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(
            &self.0,
            &[IoSlice::new(&[BEGIN]), IoSlice::new(settings.as_bytes())],
            &mut ancillary,
            flags,
        )?;
        control.set_nonblocking(true)?;
        Ok(ProbeProcess::elsewhere(
            pipe::Receiver::from_owned_fd(output)?,
            pipe::Receiver::from_owned_fd(errors)?,
            UnixStream::from_std(control)?,
        ))
    }
}

struct StartRequest {
    settings: String,
    descriptors: [OwnedFd; DESCRIPTORS],
}

/// Starts what is asked for until the worker's end is closed.
///
/// # Errors
/// The socket cannot be read.
pub fn serve(socket: OwnedFd, command: &ProbeCommand) -> io::Result<()> {
    let running = Arc::new(Running::default());
    let mut buffer = vec![0; 1 + SETTINGS_LIMIT];
    loop {
        running.wait_for_room();
        let request = match receive(&socket, &mut buffer)? {
            StarterMessage::End => return Ok(()),
            // Its descriptors are closed, by which the worker sees that there is no probe.
            StarterMessage::Junk => continue,
            StarterMessage::Request(request) => request,
        };
        running.add();
        let (counted, command) = (Arc::clone(&running), command.clone());
        let started = thread::Builder::new().name("probe".to_owned()).spawn(move || {
            if let Err(error) = run(request, &command) {
                // Standard error is the worker's, whose lines the host logs.
                let _ = writeln!(io::stderr(), "failed to start a probe: {error}");
            }
            counted.remove();
        });
        if started.is_err() {
            running.remove();
        }
    }
}

/// How many probes there are, until each has ended and its end was told.
#[derive(Default)]
struct Running {
    probes: Mutex<usize>,
    ended: Condvar,
}

impl Running {
    /// Not for longer than a probe may take.
    fn wait_for_room(&self) {
        let mut probes = self.probes.lock();
        self.ended.wait_while(&mut probes, |probes| *probes >= MAX_PROBES);
    }

    fn add(&self) {
        *self.probes.lock() += 1;
    }

    fn remove(&self) {
        *self.probes.lock() -= 1;
        self.ended.notify_one();
    }
}

enum StarterMessage {
    Request(StartRequest),
    Junk,
    End,
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<StarterMessage> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let into = &mut [IoSliceMut::new(buffer)];
    let received = rustix::net::recvmsg(socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Ok(StarterMessage::End);
    }
    let settings = buffer[..received.bytes].strip_prefix(&[BEGIN]).and_then(|text| std::str::from_utf8(text).ok());
    let is_whole = !received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    Ok(match (settings, <[OwnedFd; DESCRIPTORS]>::try_from(descriptors)) {
        (Some(settings), Ok(descriptors)) if is_whole => {
            StarterMessage::Request(StartRequest { settings: settings.to_owned(), descriptors })
        }
        _ => StarterMessage::Junk,
    })
}

/// Starts a probe and waits for its end. The thread that does both is the probe's parent: Linux signals a child when that
/// thread ends.
fn run(request: StartRequest, command: &ProbeCommand) -> io::Result<()> {
    let [library, output, errors, control] = request.descriptors;
    let mut child = {
        let mut command = command.for_library(library, &request.settings);
        command.stdout(output).stderr(errors).spawn()?
        // Dropped here, with this process's copies of the pipes.
    };
    let status = wait(&mut child, &control)?;
    // The worker may have lost interest.
    let _ = StdUnixStream::from(control).write_all(&status.into_raw().to_le_bytes());
    Ok(())
}

/// Waits until the child has ended. It is ended when its time is over, or when the worker closes its end.
fn wait(child: &mut Child, control: &OwnedFd) -> io::Result<ExitStatus> {
    let pid = Pid::from_child(child);
    let ended = pidfd_open(pid, PidfdFlags::empty()).and_then(|process| {
        let mut watched =
            [PollFd::new(&process, PollFlags::IN), PollFd::new(control, PollFlags::IN | PollFlags::RDHUP)];
        let limit = Timespec { tv_sec: MAX_PROBE_TIME.as_secs().cast_signed(), tv_nsec: 0 };
        poll(&mut watched, Some(&limit))
    });
    // Before it is waited for: until then no other process gets its number.
    let _ = kill_process_group(pid, Signal::KILL);
    let status = child.wait()?;
    ended?;
    Ok(status)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ffi::OsString;

    use super::*;
    use crate::library::SealedLibrary;

    fn starter(script: &str) -> ProbeStarter {
        let (ours, theirs) = channel().unwrap();
        let command = ProbeCommand { program: "/bin/sh".into(), arguments: ["-c", script].map(OsString::from).into() };
        thread::spawn(move || serve(theirs, &command).unwrap());
        ours
    }

    async fn output(started: &mut ProbeProcess) -> String {
        let (mut output, _) = started.outputs().unwrap();
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut output, &mut text).await.unwrap();
        text
    }

    async fn first_line(started: &mut ProbeProcess) -> String {
        let (output, _) = started.outputs().unwrap();
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(output));
        lines.next_line().await.unwrap().unwrap_or_default()
    }

    #[tokio::test]
    async fn a_probe_gets_the_library_and_its_end_is_heard_of() {
        let starter = starter("/bin/cat /proc/self/fd/0; echo \" $CARDINAL_PROBE_SETTINGS\"; kill -SEGV $$");
        let library = SealedLibrary::seal(b"bytes").unwrap();
        let mut started = starter.start(library.fd(), "{}").unwrap();
        assert_eq!(output(&mut started).await, "bytes {}\n");
        assert_eq!(started.wait().await.unwrap().signal(), Some(libc::SIGSEGV));
    }

    #[tokio::test]
    async fn a_probe_that_nobody_waits_for_ends() {
        let starter = starter("echo $$; sleep 1000");
        let library = SealedLibrary::seal(b"bytes").unwrap();
        let mut started = starter.start(library.fd(), "{}").unwrap();
        let (output, _errors) = started.outputs().unwrap();
        let mut line = String::new();
        let mut output = tokio::io::BufReader::new(output);
        tokio::io::AsyncBufReadExt::read_line(&mut output, &mut line).await.unwrap();
        let process = pidfd_open(Pid::from_raw(line.trim().parse().unwrap()).unwrap(), PidfdFlags::empty()).unwrap();
        drop(started);
        // Its output ends with it, perhaps a moment before it is dead.
        tokio::io::AsyncReadExt::read_to_end(&mut output, &mut Vec::new()).await.unwrap();
        let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&minute)).unwrap(), 1);
    }

    #[tokio::test]
    async fn requests_beyond_the_bound_wait_for_their_turn() {
        let starter = starter("echo fine; exec sleep 1000");
        let library = SealedLibrary::seal(b"bytes").unwrap();
        let mut all: Vec<_> = (0..MAX_PROBES + 4).map(|_| starter.start(library.fd(), "{}").unwrap()).collect();
        let waiting = all.split_off(MAX_PROBES);
        for started in &mut all {
            assert_eq!(first_line(started).await, "fine");
        }
        drop(all);
        for mut started in waiting {
            assert_eq!(first_line(&mut started).await, "fine");
        }
    }

    #[tokio::test]
    async fn what_is_no_request_starts_nothing_and_ends_nothing() {
        let starter = starter("echo fine");
        for junk in [&b"x"[..], b"P{}", &[0xff; 9]] {
            rustix::net::send(&starter.0, junk, SendFlags::NOSIGNAL).unwrap();
        }
        let library = SealedLibrary::seal(b"bytes").unwrap();
        let mut started = starter.start(library.fd(), "{}").unwrap();
        assert_eq!(output(&mut started).await, "fine\n");
    }
}
