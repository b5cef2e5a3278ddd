//! What probes may have of that for which the system has no limit of one process: threads, and memory.

use std::time::Duration;

use rustix::process::Pid;

use cardinal_control::{machine_memory, sandbox::probe};

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
pub(super) const COUNT_INTERVAL: Duration = Duration::from_millis(50);

/// What a probe has of that for which the system has no limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) threads: u64,
    /// In memory, with the tables that say where it is: some of both counts for no limit.
    pub(super) memory: u64,
}

impl Usage {
    /// Nothing where the system does not show the process. What it shows and cannot be read, or lacks its memory (that
    /// of a process whose first thread has ended), is too much.
    pub(super) fn read_of(pid: Pid) -> Self {
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
pub(super) struct Limit {
    one: u64,
    all: u64,
}

/// Of those things for which the system has no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) threads: Limit,
    /// Bytes.
    pub(super) memory: Limit,
}

impl Limits {
    pub(super) fn of_this_machine() -> Self {
        Self::of_machine(machine_memory::installed())
    }

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

    /// By one probe.
    pub(super) fn are_exceeded_by(&self, usage: &Usage) -> bool {
        usage.threads > self.threads.one || usage.memory > self.memory.one
    }
}

/// The places of those that have more than one may have, and of the largest until the others together have no more than
/// all may have.
pub(super) fn greedy(amounts: impl Iterator<Item = u64>, limit: Limit) -> Vec<usize> {
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
