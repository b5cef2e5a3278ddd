//! What is known of a worker's end: read from the ledger and from how the process ended.

use std::{collections::BTreeMap, os::unix::process::ExitStatusExt, process::ExitStatus, sync::atomic::Ordering};

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use super::{
    current::Mark,
    ledger::{Ledger, Page, flags},
};

/// A worker that ended on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    pub cause: Cause,
    /// As a shell would say it.
    pub ended: String,
    /// Whose code ended it, when that is known.
    pub plugin: Option<Culprit>,
    /// The thread that ended it.
    pub thread: Option<String>,
    pub in_flight: Vec<UnderWay>,
    pub uptime_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    Segfault,
    StackOverflow,
    Abort,
    /// Another signal that a fault in code raises.
    Fault,
    /// It called `exit` or the like.
    Exit,
    /// It answered the keeper no more and was ended.
    Hang,
    /// From outside: `kill`, or the system was out of memory.
    Killed,
}

/// The plugin that did it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    pub plugin: String,
    pub version: String,
    pub sha256: String,
    pub calls: usize,
}

/// Longer text in the ledger than any of ours is not ours.
const TEXT_LIMIT: usize = 200;

impl Crash {
    /// What can be said of a worker that is gone; nothing when it ended because it wanted to.
    pub fn read(
        ledger: &Ledger,
        status: Option<ExitStatus>,
        hung: bool,
        at: OffsetDateTime,
        uptime: Duration,
    ) -> Option<Self> {
        let end = &ledger.end;
        let seen = end.state.load(Ordering::SeqCst) != 0;
        if ledger.leaving.load(Ordering::SeqCst) != 0 && !seen {
            return None;
        }
        let flags = if seen { end.flags.load(Ordering::Relaxed) } else { 0 };
        let cause = cause(status, hung, seen.then(|| (end.signal.load(Ordering::Relaxed), flags)));
        let ours = seen && flags & flags::OUTSIDE == 0;
        let thread = end.thread.read();
        Some(Self {
            at,
            cause,
            ended: status.map_or_else(|| "unknown".to_owned(), |status| status.to_string()),
            plugin: if ours { culprit(ledger) } else { None },
            thread: (ours && !thread.is_empty()).then(|| plain(thread)),
            in_flight: in_flight(ledger),
            uptime_ms: u64::try_from(uptime.whole_milliseconds()).unwrap_or(0),
        })
    }

    /// In a few words, for people.
    pub fn told(&self) -> String {
        let what = match self.cause {
            Cause::Segfault => "a segmentation fault",
            Cause::StackOverflow => "a stack overflow",
            Cause::Abort => "an abort",
            Cause::Fault => "a fault",
            Cause::Exit => "an exit of the process",
            Cause::Hang => "a standstill",
            Cause::Killed => "a kill from outside",
        };
        match self.plugin.as_ref().and_then(|plugin| plugin.handler.as_ref()) {
            Some(handler) => format!("{what} in {handler}"),
            None => what.to_owned(),
        }
    }
}

fn cause(status: Option<ExitStatus>, hung: bool, seen: Option<(u32, u32)>) -> Cause {
    let signal = status.and_then(|status| status.signal());
    let by_signal = |signal| match signal {
        libc::SIGSEGV | libc::SIGBUS => Cause::Segfault,
        libc::SIGABRT => Cause::Abort,
        _ => Cause::Fault,
    };
    match (seen, signal) {
        (Some((_, flags)), _) if flags & flags::EXIT != 0 => Cause::Exit,
        (Some((_, flags)), _) if flags & flags::OUTSIDE != 0 => Cause::Killed,
        (Some((_, flags)), _) if flags & flags::STACK != 0 => Cause::StackOverflow,
        (Some((signal, _)), _) => by_signal(i32::try_from(signal).unwrap_or_default()),
        (None, _) if hung => Cause::Hang,
        (None, Some(libc::SIGKILL | libc::SIGTERM | libc::SIGINT | libc::SIGHUP | libc::SIGQUIT)) => Cause::Killed,
        // A handler would have been there, had the thread had a stack left to run it on.
        (None, Some(libc::SIGSEGV)) => Cause::StackOverflow,
        (None, Some(signal)) => by_signal(signal),
        (None, None) => Cause::Exit,
    }
}

fn culprit(ledger: &Ledger) -> Option<Culprit> {
    let mark = Mark::of_bits(ledger.end.mark.load(Ordering::Relaxed));
    let page = ledger.page(mark)?;
    let handlers = page.handlers.read();
    let offset = ledger.end.offset.load(Ordering::Relaxed).checked_sub(1);
    Some(Culprit {
        name: plain(page.name.read()),
        version: plain(page.version.read()),
        sha256: plain(page.sha256.read()),
        handler: mark.handler_number().and_then(|at| handlers.lines().nth(at)).map(|line| plain(line.to_owned())),
        offset: offset.map(|offset| format!("{offset:#x}")),
    })
}

/// Packages that are told with a crash.
const IN_FLIGHT_TOLD: usize = 32;

/// One line a package, those with the most calls first.
fn in_flight(ledger: &Ledger) -> Vec<UnderWay> {
    let mut packages: BTreeMap<(String, String), (&Page, usize)> = BTreeMap::new();
    for (page, calls) in ledger.under_way() {
        packages.entry((page.name.read(), page.sha256.read())).or_insert((page, 0)).1 += calls;
    }
    let told = packages.into_iter().map(|((plugin, sha256), (page, calls))| UnderWay {
        plugin: plain(plugin),
        version: plain(page.version.read()),
        sha256: plain(sha256),
        calls,
    });
    let mut told: Vec<_> = told.collect();
    told.sort_by_key(|under_way| std::cmp::Reverse(under_way.calls));
    told.truncate(IN_FLIGHT_TOLD);
    told
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
        for (expected, status, hung, seen) in [
            (Cause::Segfault, status(11), false, Some((11, 0))),
            (Cause::StackOverflow, status(6), false, Some((11, flags::STACK))),
            (Cause::Abort, status(6), false, Some((6, 0))),
            (Cause::Fault, status(4), false, Some((4, 0))),
            (Cause::Exit, status(exited), false, Some((0, flags::EXIT))),
            (Cause::Killed, status(11), false, Some((11, flags::OUTSIDE))),
            (Cause::Killed, status(9), false, None),
            (Cause::Hang, status(9), true, None),
            (Cause::StackOverflow, status(11), false, None),
            (Cause::Exit, status(exited), false, None),
            (Cause::Segfault, status(11), true, Some((11, 0))),
        ] {
            assert_eq!(cause(status, hung, seen), expected, "{status:?} {hung} {seen:?}");
        }
    }

    #[test]
    fn an_empty_ledger_blames_nobody_and_a_farewell_is_no_crash() {
        let shared = super::super::ledger::Shared::new().unwrap();
        let read = || Crash::read(shared.ledger(), status(9), false, OffsetDateTime::UNIX_EPOCH, Duration::seconds(2));
        let crash = read().unwrap();
        assert_eq!((crash.cause, crash.plugin, crash.uptime_ms), (Cause::Killed, None, 2_000));
        shared.ledger().leaving.store(1, Ordering::SeqCst);
        assert_eq!(read(), None);
    }
}
