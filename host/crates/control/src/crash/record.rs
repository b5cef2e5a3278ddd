//! What is known of a worker's end: read from the shared memory and from how the process ended.

use std::{collections::BTreeMap, os::unix::process::ExitStatusExt, process::ExitStatus, sync::atomic::Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use super::{
    shm::{CrashShm, PluginSlot, flags},
    tag::PluginTag,
};
use cardinal_base::schema::DateTime;

/// A worker that ended on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Crash {
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    pub at: OffsetDateTime,
    pub cause: Cause,
    /// As a shell would say it.
    pub ended: String,
    /// Whose code ended it, when that is known.
    pub plugin: Option<Culprit>,
    /// The thread that ended it.
    pub thread: Option<String>,
    pub in_flight: Vec<ActivePlugin>,
    /// Whose code ran at that moment, and on how many threads (`calls`). Of a standstill, on the host's own threads.
    #[serde(default)]
    pub running: Vec<ActivePlugin>,
    pub uptime_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "CrashCause")]
pub enum Cause {
    Segfault,
    StackOverflow,
    Abort,
    /// Another signal that a fault in code raises.
    Fault,
    /// It called `exit` or the like.
    Exit,
    /// It answered the supervisor no more and was ended. With a plugin that is known to have done it: its library did
    /// not finish opening.
    Hang,
    /// From outside: `kill`, or the system was out of memory.
    Killed,
    /// A signal had stopped it (`SIGSTOP`, a debugger), so that it answered the supervisor no more and was ended.
    Stopped,
    /// Descriptors that the host lives by were closed or replaced, or the limit of open files was lowered for good. Or
    /// plugins took all that there are, so that no new connection found one.
    Descriptors,
    /// Not an end of the worker: handlers that never return held all threads that the plugin may have.
    Blocked,
}

impl Cause {
    /// Whether a fault in code did it, so that a plugin can be behind it when nobody is known to be.
    pub(crate) fn is_fault(self) -> bool {
        !matches!(self, Self::Killed | Self::Stopped)
    }
}

/// The plugin that did it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrashCulprit")]
pub struct Culprit {
    pub name: String,
    pub version: String,
    pub sha256: String,
    /// The route or handler that was at work; none in a thread of its own and while the plugin was loaded.
    pub handler: Option<String>,
    /// Where in its library, for addr2line.
    pub offset: Option<String>,
}

/// What a plugin had under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PluginAtCrash")]
pub struct ActivePlugin {
    pub plugin: String,
    pub version: String,
    pub sha256: String,
    pub calls: usize,
}

/// Bound for a text that is read from the shared memory, which a plugin may have overwritten.
const TEXT_LIMIT: usize = 200;

impl Crash {
    /// What can be said of a worker that is gone; nothing when it ended because it wanted to.
    pub fn read(
        shm: &CrashShm,
        status: Option<ExitStatus>,
        standstill: Option<WorkerStall>,
        at: OffsetDateTime,
        uptime: Duration,
    ) -> Option<Self> {
        let end = &shm.end;
        let seen = end.state.load(Ordering::SeqCst) != 0;
        if shm.leaving.load(Ordering::SeqCst) != 0 && !seen {
            return None;
        }
        let flags = if seen { end.flags.load(Ordering::Relaxed) } else { 0 };
        let cause = cause(status, standstill, seen.then(|| (end.signal.load(Ordering::Relaxed), flags)));
        let ours = seen && flags & flags::OUTSIDE == 0;
        let thread = end.thread.read();
        Some(Self {
            at,
            cause,
            ended: status.map_or_else(|| "unknown".to_owned(), |status| status.to_string()),
            plugin: if ours { culprit(shm) } else { None },
            thread: (ours && !thread.is_empty()).then(|| plain(thread)),
            in_flight: in_flight(shm),
            // A plugin's own threads may be held for as long as they like: that stops nobody else.
            running: running(shm, standstill.is_some()),
            uptime_ms: u64::try_from(uptime.whole_milliseconds()).unwrap_or(0),
        })
    }

    /// Whether code did it and it is not known whose.
    pub fn is_unattributed(&self) -> bool {
        self.plugin.is_none() && self.cause.is_fault()
    }

    /// Packages whose code ran at that moment.
    pub fn seen_running(&self) -> Box<dyn Iterator<Item = &ActivePlugin> + '_> {
        Box::new(self.running.iter().filter(|it| it.calls > 0))
    }

    /// Packages that had calls under way. At a standstill that says nothing: calls wait for whatever stands still.
    pub fn seen_calling(&self) -> Box<dyn Iterator<Item = &ActivePlugin> + '_> {
        let counts = self.cause != Cause::Hang;
        Box::new(self.in_flight.iter().filter(move |it| counts && it.calls > 0))
    }

    /// In a few words, for people.
    pub fn describe(&self) -> String {
        let what = match self.cause {
            Cause::Segfault => "a segmentation fault",
            Cause::StackOverflow => "a stack overflow",
            Cause::Abort => "an abort",
            Cause::Fault => "a fault",
            Cause::Exit => "an exit of the process",
            Cause::Hang if self.plugin.is_some() => "a library that does not finish opening",
            Cause::Hang => "a standstill",
            Cause::Killed => "a kill from outside",
            Cause::Stopped => "a stop signal from outside",
            Cause::Descriptors => "closing, replacing or using up descriptors of the host",
            Cause::Blocked => "calls that never return",
        };
        match self.plugin.as_ref().and_then(|plugin| plugin.handler.as_ref()) {
            Some(handler) => format!("{what} in {handler}"),
            None => what.to_owned(),
        }
    }
}

/// How a worker was found that did not answer and was ended for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerStall {
    Silent,
    /// A signal had stopped it.
    Stopped,
}

fn cause(status: Option<ExitStatus>, standstill: Option<WorkerStall>, seen: Option<(u32, u32)>) -> Cause {
    let signal = status.and_then(|status| status.signal());
    let by_signal = |signal| match signal {
        libc::SIGSEGV | libc::SIGBUS => Cause::Segfault,
        libc::SIGABRT => Cause::Abort,
        _ => Cause::Fault,
    };
    match (seen, signal) {
        (Some((_, flags)), _) if flags & flags::EXIT != 0 => Cause::Exit,
        (Some((_, flags)), _) if flags & flags::DESCRIPTORS != 0 => Cause::Descriptors,
        (Some((_, flags)), _) if flags & flags::OPENING != 0 => Cause::Hang,
        (Some((_, flags)), _) if flags & flags::OUTSIDE != 0 => Cause::Killed,
        (Some((_, flags)), _) if flags & flags::STACK != 0 => Cause::StackOverflow,
        (Some((signal, _)), _) => by_signal(i32::try_from(signal).unwrap_or_default()),
        (None, _) if standstill == Some(WorkerStall::Stopped) => Cause::Stopped,
        (None, _) if standstill.is_some() => Cause::Hang,
        (None, Some(libc::SIGKILL | libc::SIGTERM | libc::SIGINT | libc::SIGHUP | libc::SIGQUIT)) => Cause::Killed,
        // A handler would have been there, had the thread had a stack left to run it on.
        (None, Some(libc::SIGSEGV)) => Cause::StackOverflow,
        (None, Some(signal)) => by_signal(signal),
        (None, None) => Cause::Exit,
    }
}

fn culprit(shm: &CrashShm) -> Option<Culprit> {
    let tag = PluginTag::from_bits(shm.end.tag.load(Ordering::Relaxed));
    let slot = shm.page(tag)?;
    let handlers = slot.handlers.read();
    let offset = shm.end.offset.load(Ordering::Relaxed).checked_sub(1);
    Some(Culprit {
        name: plain(slot.name.read()),
        version: plain(slot.version.read()),
        sha256: plain(slot.sha256.read()),
        handler: tag.handler_number().and_then(|at| handlers.lines().nth(at)).map(|line| plain(line.to_owned())),
        offset: offset.map(|offset| format!("{offset:#x}")),
    })
}

/// Packages that are shown with a crash.
const SHOWN_PACKAGES: usize = 32;

fn in_flight(shm: &CrashShm) -> Vec<ActivePlugin> {
    by_package(shm.under_way().into_iter())
}

fn running(shm: &CrashShm, own_threads_alone: bool) -> Vec<ActivePlugin> {
    let slots = shm.running(own_threads_alone).filter_map(|tag| shm.page(tag));
    by_package(slots.map(|slot| (slot, 1)))
}

/// One line a package, those with the highest count first.
fn by_package<'l>(counts: impl Iterator<Item = (&'l PluginSlot, usize)>) -> Vec<ActivePlugin> {
    let mut packages: BTreeMap<(String, String), (&PluginSlot, usize)> = BTreeMap::new();
    for (page, count) in counts {
        let sum = &mut packages.entry((page.name.read(), page.sha256.read())).or_insert((page, 0)).1;
        *sum = sum.saturating_add(count);
    }
    let shown = packages.into_iter().map(|((plugin, sha256), (page, calls))| ActivePlugin {
        plugin: plain(plugin),
        version: plain(page.version.read()),
        sha256: plain(sha256),
        calls,
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort_by_key(|under_way| std::cmp::Reverse(under_way.calls));
    shown.truncate(SHOWN_PACKAGES);
    shown
}

/// Whatever a plugin may have scribbled there, it is shown to people.
fn plain(text: String) -> String {
    text.chars().filter(|c| !c.is_control()).take(TEXT_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(raw: i32) -> Option<ExitStatus> {
        Some(ExitStatus::from_raw(raw))
    }

    #[test]
    fn causes_are_told_apart() {
        let exited = 7 << 8;
        for (expected, status, standstill, seen) in [
            (Cause::Segfault, status(11), None, Some((11, 0))),
            (Cause::StackOverflow, status(6), None, Some((11, flags::STACK))),
            (Cause::Abort, status(6), None, Some((6, 0))),
            (Cause::Fault, status(4), None, Some((4, 0))),
            (Cause::Exit, status(exited), None, Some((0, flags::EXIT))),
            (Cause::Killed, status(11), None, Some((11, flags::OUTSIDE))),
            (Cause::Killed, status(9), None, None),
            (Cause::Hang, status(9), Some(WorkerStall::Silent), None),
            (Cause::Stopped, status(9), Some(WorkerStall::Stopped), None),
            (Cause::Descriptors, status(exited), None, Some((0, flags::DESCRIPTORS))),
            (Cause::Hang, status(exited), None, Some((0, flags::OPENING))),
            (Cause::StackOverflow, status(11), None, None),
            (Cause::Exit, status(exited), None, None),
            (Cause::Segfault, status(11), Some(WorkerStall::Silent), Some((11, 0))),
        ] {
            assert_eq!(cause(status, standstill, seen), expected, "{status:?} {standstill:?} {seen:?}");
        }
    }

    #[test]
    fn an_empty_memory_blames_nobody_and_a_farewell_is_no_crash() {
        let shared = super::super::shm::Shared::new().unwrap();
        let read = || Crash::read(shared.shm(), status(9), None, OffsetDateTime::UNIX_EPOCH, Duration::seconds(2));
        let crash = read().unwrap();
        assert_eq!((crash.cause, crash.plugin, crash.uptime_ms), (Cause::Killed, None, 2_000));
        shared.shm().leaving.store(1, Ordering::SeqCst);
        assert_eq!(read(), None);
    }
}
