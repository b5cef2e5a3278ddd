//! Starts probes for the worker, which may start no process itself (`sandbox/programs.rs`). The starter is a process
//! that the worker makes before that is forbidden, with walls like its own, and around these no one's but its own:
//! where the system knows of it, the worker's code can send it no signal. It never opens a plugin and ends with the
//! worker, and its probes end with it.
//!
//! A request is one message on a pair of sockets with descriptors: the library, the settings, the two ends of pipes to
//! be written to, and a socket whose other end the worker closes to end the probe; on that the starter says that the
//! probe has begun, and how it ended. The starter is a copy of the worker, made before that knows a secret, and a probe
//! is a copy of the starter: both are closed to others of their user from their first moment on. Settings may hold
//! secrets; the starter never reads them. Native code in the worker can send requests as well: what they start is a
//! probe, with a probe's walls, bounded in number and time.

mod fork;
mod limits;
mod process;
mod renewal;
mod watch;

use std::{
    fs::File,
    io::{self, IoSlice, Write as _},
    mem::MaybeUninit,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    os::unix::net::UnixStream as StdUnixStream,
    time::Duration,
};

use rustix::{
    fs::{MemfdFlags, memfd_create},
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
        socketpair,
        sockopt::{Timeout, set_socket_timeout},
    },
    pipe::{PipeFlags, pipe_with},
};
use tokio::net::{UnixStream, unix::pipe};

use self::fork::OneThread;
pub use self::{process::receive_text, renewal::serve, watch::watch};
use super::started::ProbeProcess;

/// Library, settings, output, errors, control.
const DESCRIPTORS: usize = 5;
const BEGIN: u8 = b'P';
/// The starter has what it was handed and takes requests.
const READY: u8 = b'R';
/// How long a starter may take until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// The worker's end.
#[derive(Debug)]
pub struct ProbeStarter(OwnedFd);

/// Makes the starter, which runs this with its end of the socket. To be called by a process that has one thread, is
/// closed to others, and knows no secret yet.
///
/// # Errors
/// There is another thread, or no room for another process.
pub fn fork(run: impl FnOnce(OwnedFd) -> io::Result<()>) -> io::Result<ProbeStarter> {
    let this = OneThread::check()?;
    let (starter, theirs) = channel()?;
    this.fork(|| fork::keep(theirs).and_then(run))?;
    Ok(starter)
}

/// # Errors
/// The system has no sockets left.
fn channel() -> io::Result<(ProbeStarter, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((ProbeStarter(ours), theirs))
}

impl ProbeStarter {
    /// Hands over what it reads first, and waits until it takes requests.
    ///
    /// # Errors
    /// It has ended, or takes too long.
    pub fn hand(&self, text: &[u8]) -> io::Result<()> {
        rustix::net::send(&self.0, text, SendFlags::NOSIGNAL)?;
        set_socket_timeout(&self.0, Timeout::Recv, Some(READY_TIMEOUT))?;
        let mut answer = [0];
        match rustix::net::recv(&self.0, &mut answer, RecvFlags::empty())? {
            (_, 1) if answer == [READY] => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Has a probe started.
    ///
    /// # Errors
    /// The system has no descriptors left, or the starter takes no request.
    pub(super) fn start(&self, library: BorrowedFd<'_>, settings: &str) -> io::Result<ProbeProcess> {
        let settings = in_memory(settings)?;
        let (output, their_output) = pipe_with(PipeFlags::CLOEXEC)?;
        let (errors, their_errors) = pipe_with(PipeFlags::CLOEXEC)?;
        let (control, their_control) = StdUnixStream::pair()?;
        let descriptors =
            [library, settings.as_fd(), their_output.as_fd(), their_errors.as_fd(), their_control.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Error::other("too many descriptors"));
        }
        // It never waits: a starter that takes nothing is one that was stopped.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.0, &[IoSlice::new(&[BEGIN])], &mut ancillary, flags)?;
        control.set_nonblocking(true)?;
        Ok(ProbeProcess::elsewhere(
            pipe::Receiver::from_owned_fd(output)?,
            pipe::Receiver::from_owned_fd(errors)?,
            UnixStream::from_std(control)?,
        ))
    }
}

/// A file that has no name and no place on a disk.
fn in_memory(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"cardinal-settings", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        os::unix::process::{CommandExt as _, ExitStatusExt as _},
        process::Command,
        thread,
    };

    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        process::{Pid, PidfdFlags, pidfd_open},
    };

    use super::{
        limits::Limits,
        process::{MAX_PROBES, serve_by},
        *,
    };
    use crate::library::SealedLibrary;

    /// Runs the script where a library would be tried, with the settings as its first argument.
    fn starter(script: &'static str) -> ProbeStarter {
        let (ours, theirs) = channel().unwrap();
        let run = |_, settings: String| {
            Err(Command::new("/bin/sh").env_clear().args(["-c", script, "probe", &settings]).exec())
        };
        let limits = Limits::of_machine(None);
        thread::spawn(move || serve_by(&OneThread::assume(), &theirs, limits, run).unwrap());
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
        let starter = starter("/bin/cat /proc/self/fd/0; echo \" $1\"; kill -SEGV $$");
        let library = SealedLibrary::seal(b"bytes").unwrap();
        let mut started = starter.start(library.fd(), "{}").unwrap();
        assert_eq!(output(&mut started).await, "bytes {}\n");
        started.begin().await.unwrap();
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
        for junk in [&b"x"[..], b"P", b"P{}", &[0xff; 9], b""] {
            rustix::net::send(&starter.0, junk, SendFlags::NOSIGNAL).unwrap();
        }
        let library = SealedLibrary::seal(b"bytes").unwrap();
        let mut started = starter.start(library.fd(), "{}").unwrap();
        assert_eq!(output(&mut started).await, "fine\n");
    }
}
