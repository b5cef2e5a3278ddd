//! The starter's process: takes requests, makes probes, tells how each of them ended.

use std::{
    fs::File,
    io::{self, IoSliceMut, Write as _},
    mem::MaybeUninit,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, sockopt::set_socket_linger},
    process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process_group, pidfd_open, pidfd_send_signal, waitpid},
};

use super::{
    BEGIN, DESCRIPTORS,
    fork::{Input, OneThread},
    limits::{COUNT_INTERVAL, Limits, Usage, greedy},
};
use crate::probe::{
    TIME_LIMIT,
    started::{BEGUN, MADE_ROOM},
};

/// More than the worker has at work at a time: what has answered may still be ending.
pub(super) const MAX_PROBES: usize = 16;
/// The worker ends a probe before that; both of its steps and the rest have time.
const MAX_PROBE_TIME: Duration = TIME_LIMIT.saturating_mul(3);

/// The longest text that the worker hands over.
const TEXT_LIMIT: usize = 1 << 20;

/// What the worker hands over first.
///
/// # Errors
/// The worker has ended.
pub fn receive_text(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut text = vec![0; TEXT_LIMIT];
    let (_, length) = rustix::net::recv(socket, &mut *text, RecvFlags::empty())?;
    if length == 0 || length > TEXT_LIMIT {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    text.truncate(length);
    Ok(text)
}

/// Has `probe` run in a copy of this process for each request, with this one's number and the settings, until the
/// worker's end is closed.
pub(super) fn serve_by(
    this: &OneThread,
    socket: &OwnedFd,
    limits: Limits,
    probe: impl Fn(u32, String) -> io::Result<()>,
) -> io::Result<()> {
    let parent = std::process::id();
    let probe = |settings| probe(parent, settings);
    let mut running: Vec<Running> = Vec::new();
    loop {
        // Further requests wait in the socket.
        let awaited = Some(socket).filter(|_| running.len() < MAX_PROBES);
        wait(awaited, &running)?;
        end_greedy(&mut running, limits);
        running.retain_mut(|probe| !probe.has_ended());
        if !awaited.is_some_and(|socket| is_ready(socket, PollFlags::IN)) {
            continue;
        }
        match receive(socket)? {
            Message::End => return Ok(()),
            // Its descriptors are closed, by which the worker sees that there is no probe.
            Message::Junk => {}
            Message::Request(input, control) => match Running::start(this, input, control, probe) {
                Ok(probe) => running.push(probe),
                // Standard error is the worker's, whose lines the host logs.
                Err(error) => drop(writeln!(io::stderr(), "failed to start a probe: {error}")),
            },
        }
    }
}

/// Waits for a request, and for whatever is to be done for a probe.
fn wait(socket: Option<&OwnedFd>, running: &[Running]) -> io::Result<()> {
    let mut watched: Vec<PollFd<'_>> = socket.map(|socket| PollFd::new(socket, PollFlags::IN)).into_iter().collect();
    let mut limit = None;
    for probe in running {
        watched.push(PollFd::new(&probe.process, PollFlags::IN));
        // A worker that has gone from a probe would wake us until that one is dead.
        if !probe.was_killed {
            watched.push(PollFd::new(&probe.control, LEFT));
            limit = Some(COUNT_INTERVAL);
        }
    }
    let limit = limit.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
    match poll(&mut watched, limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_ready(descriptor: &OwnedFd, flags: PollFlags) -> bool {
    poll(&mut [PollFd::new(descriptor, flags)], Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

enum Message {
    Request(Input, OwnedFd),
    Junk,
    End,
}

fn receive(socket: &OwnedFd) -> io::Result<Message> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut text = [0; 2];
    let into = &mut [IoSliceMut::new(&mut text)];
    let received = rustix::net::recvmsg(socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    // Native code in the worker can hand over sockets that make whoever closes them wait for their last bytes.
    for descriptor in &descriptors {
        let _ = set_socket_linger(descriptor, None); // none of those that a request has is such a one
    }
    // Native code in the worker can send nothing at all; that is no end.
    if received.bytes == 0 && is_ready(socket, PollFlags::RDHUP) {
        return Ok(Message::End);
    }
    let is_request = text[..received.bytes] == [BEGIN] && !received.flags.contains(ReturnFlags::CTRUNC);
    Ok(match <[OwnedFd; DESCRIPTORS]>::try_from(descriptors) {
        Ok([library, settings, output, errors, control]) if is_request => {
            Message::Request(Input { library, settings: File::from(settings), output, errors }, control)
        }
        _ => Message::Junk,
    })
}

/// Ends those that have more than they may.
fn end_greedy(running: &mut [Running], limits: Limits) {
    let mut alive: Vec<_> = running.iter_mut().filter(|probe| !probe.was_killed).collect();
    let usages: Vec<_> = alive.iter().map(|probe| Usage::read_of(probe.pid)).collect();
    let threads = greedy(usages.iter().map(|usage| usage.threads), limits.threads);
    let memory = greedy(usages.iter().map(|usage| usage.memory), limits.memory);
    for place in threads.into_iter().chain(memory) {
        alive[place].kill();
        alive[place].made_room = !limits.are_exceeded_by(&usages[place]);
    }
}

/// A probe that has not been seen to end.
struct Running {
    pid: Pid,
    /// Readable when it has ended.
    process: OwnedFd,
    /// The worker's other end closes when the probe is to end.
    control: OwnedFd,
    end: Instant,
    was_killed: bool,
    /// It was killed for what others have beside it.
    made_room: bool,
}

const LEFT: PollFlags = PollFlags::IN.union(PollFlags::RDHUP);

impl Running {
    fn start(
        this: &OneThread,
        input: Input,
        control: OwnedFd,
        probe: impl FnOnce(String) -> io::Result<()>,
    ) -> io::Result<Self> {
        let pid = this.fork_probe(input, probe)?;
        let process = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        })?;
        let started =
            Self { pid, process, control, end: Instant::now() + MAX_PROBE_TIME, was_killed: false, made_room: false };
        started.send(&[BEGUN]);
        Ok(started)
    }

    /// To a worker that may have lost interest. It never waits: native code there can hand over any descriptor.
    fn send(&self, bytes: &[u8]) {
        let _ = rustix::net::send(&self.control, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }

    /// Ends it when its time is over or nobody waits for it any more; tells the worker how it ended, once it has.
    fn has_ended(&mut self) -> bool {
        let is_over = is_ready(&self.process, PollFlags::IN);
        let is_unwanted = || is_ready(&self.control, LEFT) || Instant::now() >= self.end;
        if is_over || (!self.was_killed && is_unwanted()) {
            self.kill();
        }
        if !is_over {
            return false;
        }
        if let Ok(Some((_, status))) = waitpid(Some(self.pid), WaitOptions::empty()) {
            let end = if self.made_room { MADE_ROOM } else { status.as_raw() };
            self.send(&end.to_le_bytes());
        }
        true
    }

    /// Before it is waited for: until then no other process gets its number.
    fn kill(&mut self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
        // Whatever group it may have joined.
        let sent = pidfd_send_signal(&self.process, Signal::KILL);
        self.was_killed = sent.is_ok() || is_ready(&self.process, PollFlags::IN);
    }
}
