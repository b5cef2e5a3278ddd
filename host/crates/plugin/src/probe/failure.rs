//! Why a child showed nothing of what it was to show, in words for the operator.

use std::{io, os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

use rustix::process::Signal;

use super::{BEGIN_TIMEOUT, lanes::WAIT_LIMIT, started::ProbeProcess};
use cardinal_package::refusal::{Code, Refusal};

/// How long the end of a child is waited for that has closed its output.
const END_GRACE: Duration = Duration::from_secs(1);
/// By these signals others end processes, and the system does when it has no memory.
const SENT_BY_OTHERS: [Signal; 5] = [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
/// What is to be done about it.
const KILLED: &str = "A library that takes too much memory or too many threads as it is tried is killed, and so is one \
    for which the system has no memory. Let it take less, or try again later.";
/// How much of the complaints a refusal shows.
const MAX_SHOWN_CHARS: usize = 300;

pub(super) struct Failure {
    pub(super) refusal: Refusal,
    pub(super) cause: Cause,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// What `routes` did.
    Routes,
    /// Whoever started it has ended, or ended it to make room: it was not its turn.
    Starter,
    Other,
}

#[derive(Clone, Copy)]
pub(super) enum Step {
    Open,
    Routes,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, cause: Cause::Other }
    }
}

impl Failure {
    /// Of a child that ended, or closed its output, in this step, with what it complained of.
    pub(super) async fn of_ended(child: &mut ProbeProcess, step: Step, complaint: &str) -> Self {
        let end = tokio::time::timeout(END_GRACE, child.wait()).await;
        let signal = end.as_ref().ok().and_then(|end| end.as_ref().ok()?.signal());
        let is_any = |signals: &[Signal]| signals.iter().any(|it| signal == Some(it.as_raw()));
        let (how, cause) = match end {
            Ok(Ok(status)) if matches!(step, Step::Open) || is_any(&SENT_BY_OTHERS) => {
                (how_it_ended(status), Cause::Other)
            }
            Ok(Ok(status)) => (how_it_ended(status), Cause::Routes),
            Ok(Err(error)) => (error.to_string(), Cause::Starter),
            Err(_) => ("closed its output and went on".to_owned(), Cause::Other),
        };
        tracing::warn!(how, complaint, "a library ended the process that tried it");
        let last = complaint.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        let last_lines: String = last.chars().take(MAX_SHOWN_CHARS).collect();
        let found = if last_lines.is_empty() { how } else { format!("{how}; it said: {last_lines}") };
        let refusal = match (step, cause) {
            (Step::Open, _) => {
                probe_failed("Opening the library ended the process that tried it.").expected("a library that opens")
            }
            (Step::Routes, Cause::Routes) => {
                probe_failed("The plugin's `routes` function ended the process that tried it.")
                    .expected("a `routes` that returns a router")
                    .fix("Correct the plugin's `routes` function; `cardinal plugin check --open` tries it again.")
            }
            (Step::Routes, _) => probe_failed("The process that tried the plugin's `routes` function gave no answer.")
                .expected("a `routes` that returns a router")
                .fix("Try again later."),
        };
        let refusal = if is_any(&[Signal::KILL]) { refusal.fix(KILLED) } else { refusal };
        Self { refusal: refusal.found(found), cause }
    }

    pub(super) fn no_turn() -> Self {
        probe_failed("The library was not tried: too many others take long to be tried.")
            .expected(format!("a turn within {} min", WAIT_LIMIT.as_secs() / 60))
            .fix("Remove the packages whose libraries take long to open, then rescan.")
            .into()
    }

    pub(super) fn not_begun() -> Self {
        probe_failed("The process that tries the library did not begin in time.")
            .expected(format!("a process within {} s", BEGIN_TIMEOUT.as_secs()))
            .fix("Try again later.")
            .into()
    }

    /// Of a child that could not be started.
    pub(super) fn no_child(error: &io::Error) -> Self {
        let refusal = probe_failed("The process that tries libraries could not be started.").found(error.to_string());
        // The worker may start no other one.
        if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
            tracing::error!(
                "the process `cardinal-probes` has ended: until Cardinal is restarted no plugin can be loaded"
            );
            return refusal
                .fix("Restart Cardinal: its process `cardinal-probes`, which starts these, has ended.")
                .into();
        }
        refusal.fix("Let the host start processes (memory, process limits), then rescan.").into()
    }
}

/// A `routes` that does not return.
pub(crate) fn routes_hang(limit: Duration) -> Refusal {
    Refusal::new(Code::CreateFailed, "The plugin's `routes` function does not return.")
        .expected(format!("done within {} s", limit.as_secs_f32()))
        .found("it was still running")
}

pub(super) fn probe_failed(reason: &str) -> Refusal {
    Refusal::new(Code::ProbeFailed, reason)
}

fn how_it_ended(status: ExitStatus) -> String {
    const NAMES: [(i32, &str); 6] =
        [(4, "SIGILL"), (6, "SIGABRT"), (7, "SIGBUS"), (8, "SIGFPE"), (9, "SIGKILL"), (11, "SIGSEGV")];
    match (status.signal(), status.code()) {
        (Some(signal), _) => match NAMES.iter().find(|(number, _)| *number == signal) {
            Some((_, name)) => format!("killed by {name}"),
            None => format!("killed by signal {signal}"),
        },
        (None, Some(code)) => format!("exited with status {code}"),
        (None, None) => "ended".to_owned(),
    }
}
