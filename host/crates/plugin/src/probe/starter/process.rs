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
    BEGIN, DESCRIPTORS, READY,
    fork::{Input, OneThread},
};
use crate::probe::{TIME_LIMIT, started::BEGUN};
use cardinal_control::{machine_memory, sandbox::probe};

/// More than the worker has at work at a time: what has answered may still be ending.
pub(super) const MAX_PROBES: usize = 16;
/// The worker ends a probe before that; both of its steps and the rest have time.
const MAX_PROBE_TIME: Duration = TIME_LIMIT.saturating_mul(3);

/// Threads that a probe may have, and that all may have together, beside some for each processor: runtimes start one or
/// two for each. They count for the user and the container, whose the worker's are, too.
const PROBE_THREADS: u64 = 32;
const PROBE_THREADS_PER_PROCESSOR: u64 = 4;
const PROBES_THREADS: u64 = 96;
const PROBES_THREADS_PER_PROCESSOR: u64 = 8;
/// The part of the machine's memory, or of the container's, that one probe may have, and that all may have together:
/// what serves goes on beside them.
const PROBE_SHARE: u64 = 4;
const PROBES_SHARE: u64 = 2;
/// Small machines run plugins, too.
const MIN_MEMORY: u64 = 256 << 20;
/// How often a probe's threads and memory are counted: the system has no limit for one process.
const COUNT_INTERVAL: Duration = Duration::from_millis(50);

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

/// Says that it is ready, and has `probe` run in a copy of this process, with the settings, for each request until the
/// worker's end is closed.
///
/// # Errors
/// This process has more than one thread, or the socket can't be read.
pub fn serve(socket: &OwnedFd, probe: impl Fn(String) -> io::Result<()>) -> io::Result<()> {
    let this = OneThread::check()?;
    let limits = Limits::of_machine(machine_memory::installed());
    rustix::net::send(socket, &[READY], SendFlags::NOSIGNAL)?;
    serve_by(&this, socket, limits, probe)
}

pub(super) fn serve_by(
    this: &OneThread,
    socket: &OwnedFd,
    limits: Limits,
    probe: impl Fn(String) -> io::Result<()>,
) -> io::Result<()> {
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
            Message::Request(input, control) => match Running::start(this, input, control, &probe) {
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

/// What a probe has of that for which the system has no limit.
#[derive(Debug, PartialEq, Eq)]
struct Usage {
    threads: u64,
    /// In memory, with the tables that say where it is: some of both counts for no limit.
    memory: u64,
}

impl Usage {
    /// Nothing where the system does not show the process. What it shows and cannot be read, or lacks its memory (that
    /// of a process whose first thread has ended), is too much.
    fn read_of(pid: Pid) -> Self {
        match std::fs::read(format!("/proc/{}/status", pid.as_raw_nonzero())) {
            Ok(status) => Self::read(&status).unwrap_or(Self { threads: u64::MAX, memory: u64::MAX }),
            Err(_) => Self { threads: 0, memory: 0 },
        }
    }

    /// The program's name is among the lines, with its line breaks escaped. It may be no text.
    fn read(status: &[u8]) -> Option<Self> {
        let field = |name: &str| {
            let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name.as_bytes()))?;
            std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        Some(Self { threads: field("Threads:")?, memory: (field("VmRSS:")? + field("VmPTE:")?) << 10 })
    }
}

/// Of one thing: what one probe may have, and all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    one: u64,
    all: u64,
}

/// Of those things for which the system has no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    threads: Limit,
    /// Bytes.
    memory: Limit,
}

impl Limits {
    pub(super) fn of_machine(installed: Option<u64>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let threads = Limit {
            one: PROBE_THREADS + PROBE_THREADS_PER_PROCESSOR * processors,
            all: PROBES_THREADS + PROBES_THREADS_PER_PROCESSOR * processors,
        };
        let installed = installed.unwrap_or(u64::MAX);
        let one = (installed / PROBE_SHARE).clamp(MIN_MEMORY, probe::MAX_MEMORY);
        Self { threads, memory: Limit { one, all: (installed / PROBES_SHARE).max(one) } }
    }
}

/// Ends those that have more than they may.
fn end_greedy(running: &mut [Running], limits: Limits) {
    let mut alive: Vec<_> = running.iter_mut().filter(|probe| !probe.was_killed).collect();
    let usages: Vec<_> = alive.iter().map(|probe| Usage::read_of(probe.pid)).collect();
    let threads = greedy(usages.iter().map(|usage| usage.threads), limits.threads);
    let memory = greedy(usages.iter().map(|usage| usage.memory), limits.memory);
    for place in threads.into_iter().chain(memory) {
        alive[place].kill();
    }
}

/// The places of those that have more than one may have, and of the largest until the others together have no more than
/// all may have.
fn greedy(amounts: impl Iterator<Item = u64>, limit: Limit) -> Vec<usize> {
    let mut largest_first: Vec<(usize, u64)> = amounts.enumerate().collect();
    largest_first.sort_by_key(|(_, amount)| std::cmp::Reverse(*amount));
    let mut left = largest_first.iter().fold(0, |sum: u64, (_, amount)| sum.saturating_add(*amount));
    let mut is_too_much = |amount: u64| {
        let is_too_much = left > limit.all || amount > limit.one;
        left = left.saturating_sub(amount);
        is_too_much
    };
    largest_first.into_iter().filter(|(_, amount)| is_too_much(*amount)).map(|(place, _)| place).collect()
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
        let started = Self { pid, process, control, end: Instant::now() + MAX_PROBE_TIME, was_killed: false };
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
            self.send(&status.as_raw().to_le_bytes());
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn no_name_hides_what_a_probe_has() {
        let status = b"Name:\t\xff\xfe) S\\nThreads:\t1\nVmRSS:\t  2048 kB\nVmPTE:\t    64 kB\nThreads:\t7\n";
        assert_eq!(Usage::read(status), Some(Usage { threads: 7, memory: 2112 << 10 }));
        assert_eq!(Usage::read(b"Name:\tx\nThreads:\t7\n"), None, "its first thread has ended");
        let (own, limits) = (Usage::read_of(rustix::process::getpid()), Limits::of_machine(None));
        assert!(own.memory > 0 && own.memory < limits.memory.one && own.threads > 0);
    }

    #[test]
    fn what_probes_may_have_follows_the_machine() {
        let memory = |gibibytes: u64| {
            let Limit { one, all } = Limits::of_machine(Some(gibibytes << 30)).memory;
            (one >> 20, all >> 20)
        };
        assert_eq!((memory(64), memory(8), memory(2)), ((4096, 32 * 1024), (2048, 4096), (512, 1024)));
        assert_eq!(memory(0), (256, 256), "a library can be opened anywhere");
    }

    #[test]
    fn who_has_too_much_is_ended_and_then_the_largest() {
        let greedy = |amounts: &[u64]| super::greedy(amounts.iter().copied(), Limit { one: 100, all: 200 });
        assert_eq!(greedy(&[]), [0; 0]);
        assert_eq!(greedy(&[100, 100]), [0; 0], "no more than they may");
        assert_eq!(greedy(&[10, 101, 20]), [1]);
        assert_eq!(greedy(&[60, 80, 90, 70]), [2, 1], "130 are left then");
        assert_eq!(greedy(&[u64::MAX, 10, 20]), [0], "one that cannot be read is no others' fault");
    }
}
