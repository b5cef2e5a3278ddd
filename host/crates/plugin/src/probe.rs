//! Opening a library and running its `routes` in a child process first: what aborts, exits or hangs there takes down
//! the child and nothing else.

pub mod child;
mod started;
pub mod starter;
mod unanswered;

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::{Map, Value};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

use self::{
    child::{ANSWER, Answer},
    started::ProbeProcess,
    starter::ProbeStarter,
};
use super::{
    exports::{self, Export},
    settings::quoted::{READ_LIMIT, Secrets},
};
use cardinal_package::refusal::{Code, Refusal};

/// How long a library may take to open, and its `routes` to return.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(10);
/// How long the rest of its complaints, and then its end, is waited for, once the child has closed its output.
const COMPLAINT_GRACE: Duration = Duration::from_secs(1);
const END_GRACE: Duration = Duration::from_secs(1);
/// The longest line that is read (a list of handlers has up to 1 MiB).
const LINE_LIMIT: usize = 4 << 20;
/// How much of a child's output is read, and of its complaints.
const OUTPUT_LIMIT: u64 = 64 << 20;
/// By these signals others end processes, and the system does when it has no memory.
const SENT_BY_OTHERS: [Signal; 5] = [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
/// How long a child may wait for its turn to begin.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of the complaints a refusal shows.
const MAX_SHOWN_CHARS: usize = 300;
/// Settings that are longer are not handed to a child that is a program of its own: they are a variable of its
/// environment, and the system bounds those. An argument could be read by everybody on the machine.
const VARIABLE_LIMIT: usize = 64 << 10;
/// The variable's name.
pub const SETTINGS_VARIABLE: &str = "CARDINAL_PROBE_SETTINGS";

/// Has children started that open what they find on their standard input.
#[derive(Clone, Debug)]
pub struct Prober {
    by: StartedBy,
    limit: Duration,
}

#[derive(Clone, Debug)]
enum StartedBy {
    /// While it starts, others of its user can read its settings.
    This(ProbeCommand),
    Starter(Arc<ProbeStarter>),
}

/// What a child is started as.
#[derive(Clone, Debug)]
pub(crate) struct ProbeCommand {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl ProbeCommand {
    /// This program's own `probe` command.
    pub(crate) fn from_current_exe() -> Self {
        let parent = std::process::id().to_string();
        Self {
            // The very file that is running, even if another one was put in its place since.
            program: PathBuf::from("/proc/self/exe"),
            arguments: ["probe", "--parent", &parent].map(OsString::from).into(),
        }
    }

    fn for_library(&self, library: OwnedFd, settings: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().env(SETTINGS_VARIABLE, settings);
        command.process_group(0).stdin(library);
        command
    }
}

/// What was heard of the child.
enum ProbeReport {
    ProbeOutcome(ProbeOutcome),
    Refused(Refusal),
    RoutesHang,
    /// It ended before it had an answer.
    Ended(Step),
}

/// A child that showed nothing of what it was to show.
struct Failure {
    refusal: Refusal,
    /// What `routes` did is the reason.
    by_routes: bool,
}

#[derive(Clone, Copy)]
enum Step {
    Open,
    Routes,
}

/// What `routes` of a library that can be opened came to.
#[derive(Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// A router with these handlers.
    Made(Vec<Export>),
    /// None. With other settings it may give one.
    NotMade {
        refusal: Refusal,
        /// Which settings it says are wrong: a JSON pointer and what is wrong with it.
        wrong_settings: Vec<(String, String)>,
    },
}

/// What a plugin makes of settings, by a library that serves. What it says has no secret of theirs.
#[derive(Debug)]
pub(crate) enum SettingsTrial {
    Taken,
    /// Its own answer, with the settings that it names: a JSON pointer and what is wrong with it.
    Refused(Refusal, Vec<(String, String)>),
    /// `routes` ended its process, or did not return.
    Broke(Refusal),
    /// Nothing is known of the plugin.
    NotTried(Refusal),
}

impl ProbeOutcome {
    /// The same without these in what it says.
    fn without(self, secrets: &Secrets) -> Self {
        let Self::NotMade { refusal, wrong_settings } = self else { return self };
        let hide = |(pointer, detail): (String, String)| (secrets.hide(&pointer), secrets.hide(&detail));
        let wrong_settings = wrong_settings.into_iter().map(hide).collect();
        Self::NotMade { refusal: secrets.without(refusal), wrong_settings }
    }
}

impl Prober {
    /// Starts them itself.
    pub fn from_current_exe() -> Self {
        Self { by: StartedBy::This(ProbeCommand::from_current_exe()), limit: TIME_LIMIT }
    }

    /// For a process that may start none.
    pub fn by_starter(starter: ProbeStarter) -> Self {
        Self { by: StartedBy::Starter(Arc::new(starter)), limit: TIME_LIMIT }
    }

    /// Opens the library in a child and runs its `routes` there, with these settings. Cancelled or not, no child stays
    /// behind.
    pub async fn try_out(
        &self,
        library: BorrowedFd<'_>,
        settings: &Map<String, Value>,
    ) -> Result<ProbeOutcome, Refusal> {
        self.run(library, settings, &Secrets::default()).await.map_err(|failure| failure.refusal)
    }

    /// The same with a library that can be opened, to learn of the settings. `secrets` are those among them.
    pub(crate) async fn try_settings(
        &self,
        library: BorrowedFd<'_>,
        settings: &Map<String, Value>,
        secrets: &Secrets,
    ) -> SettingsTrial {
        match self.run(library, settings, secrets).await {
            Ok(ProbeOutcome::Made(_)) => SettingsTrial::Taken,
            Ok(ProbeOutcome::NotMade { refusal, wrong_settings }) => SettingsTrial::Refused(refusal, wrong_settings),
            Err(Failure { refusal, by_routes: true }) => SettingsTrial::Broke(refusal),
            Err(Failure { refusal, by_routes: false }) => SettingsTrial::NotTried(refusal),
        }
    }

    async fn run(
        &self,
        library: BorrowedFd<'_>,
        settings: &Map<String, Value>,
        secrets: &Secrets,
    ) -> Result<ProbeOutcome, Failure> {
        let not_by_routes = |refusal| Failure { refusal, by_routes: false };
        let mut child = self.start(library, settings).map_err(|error| not_by_routes(no_child(&error)))?;
        match tokio::time::timeout(QUEUE_TIMEOUT, child.begin()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(not_by_routes(no_child(&error))),
            Err(_) => return Err(not_by_routes(queue_full())),
        }
        let (report, complaint) = self.listen(&mut child).await;
        match report {
            ProbeReport::ProbeOutcome(tried) => Ok(tried.without(secrets)),
            ProbeReport::Refused(refusal) => Err(not_by_routes(secrets.without(refusal))),
            ProbeReport::RoutesHang => Err(Failure { refusal: routes_hang(self.limit), by_routes: true }),
            ProbeReport::Ended(step) => Err(ended(&mut child, step, &secrets.hide(&complaint)).await),
        }
    }

    fn start(&self, library: BorrowedFd<'_>, settings: &Map<String, Value>) -> io::Result<ProbeProcess> {
        let settings = serde_json::to_string(settings)?;
        match &self.by {
            StartedBy::This(command) => {
                let fitting = if settings.len() <= VARIABLE_LIMIT { &settings } else { "{}" };
                let mut command = command.for_library(library.try_clone_to_owned()?, fitting);
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                Ok(ProbeProcess::own(tokio::process::Command::from(command).kill_on_drop(true).spawn()?))
            }
            StartedBy::Starter(starter) => starter.start(library, &settings),
        }
    }

    /// What came of it, and the beginning of what was written to standard error, secrets included.
    async fn listen(&self, child: &mut ProbeProcess) -> (ProbeReport, String) {
        let Some((output, errors)) = child.outputs() else { return (ProbeReport::Ended(Step::Open), String::new()) };
        let mut complaint = Vec::new();
        let report = {
            let mut complaints = std::pin::pin!(keep_beginning(errors, &mut complaint));
            let mut report = std::pin::pin!(self.read_report(output));
            tokio::select! {
                biased;
                report = &mut report => {
                    // Without an answer the child is ending, and what it complains of is the reason.
                    if matches!(report, ProbeReport::Ended(_)) {
                        let _ = tokio::time::timeout(COMPLAINT_GRACE, complaints).await;
                    }
                    report
                }
                () = &mut complaints => report.await,
            }
        };
        (report, String::from_utf8_lossy(&complaint).into_owned())
    }

    async fn read_report(&self, output: impl AsyncRead + Unpin) -> ProbeReport {
        let mut output = BufReader::new(output.take(OUTPUT_LIMIT));
        match tokio::time::timeout(self.limit, answer(&mut output)).await {
            Ok(Some(Answer::Opened)) => {}
            Ok(Some(Answer::Refused(refusal))) => return ProbeReport::Refused(refusal),
            Ok(_) => return ProbeReport::Ended(Step::Open),
            Err(_) => return ProbeReport::Refused(self.too_slow()),
        }
        match tokio::time::timeout(self.limit, answer(&mut output)).await {
            Ok(Some(Answer::Made(list))) => ProbeReport::ProbeOutcome(match exports::parse(list.as_bytes()) {
                Ok(exports) => ProbeOutcome::Made(exports),
                Err(refusal) => ProbeOutcome::NotMade { refusal, wrong_settings: Vec::new() },
            }),
            Ok(Some(Answer::NotMade(refusal, wrong_settings))) => {
                ProbeReport::ProbeOutcome(ProbeOutcome::NotMade { refusal, wrong_settings })
            }
            Ok(_) => ProbeReport::Ended(Step::Routes),
            Err(_) => ProbeReport::RoutesHang,
        }
    }

    fn too_slow(&self) -> Refusal {
        failed("The library did not finish opening in time.")
            .expected(format!("open within {} s", self.limit.as_secs_f32()))
            .found("it was still busy")
    }
}

/// A `routes` that does not return.
pub(crate) fn routes_hang(limit: Duration) -> Refusal {
    Refusal::new(Code::CreateFailed, "The plugin's `routes` function does not return.")
        .expected(format!("done within {} s", limit.as_secs_f32()))
        .found("it was still running")
}

/// The next answer; `None` when there comes none.
async fn answer(output: &mut (impl AsyncBufRead + Unpin)) -> Option<Answer> {
    loop {
        let mut line = Vec::new();
        let read = (&mut *output).take(LINE_LIMIT as u64).read_until(b'\n', &mut line).await;
        if read.unwrap_or(0) == 0 {
            return None;
        }
        if let Some(text) = line.strip_prefix(ANSWER.as_bytes()) {
            return Answer::read(text);
        }
    }
}

/// Reads to the end, so that the child never waits for us, and no more than a child with something to say writes: it
/// takes the host's time. Keeps the beginning.
async fn keep_beginning(errors: impl AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let mut errors = errors.take(OUTPUT_LIMIT);
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = errors.read(&mut chunk).await {
        let room = READ_LIMIT.saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..read.min(room)]);
    }
}

async fn ended(child: &mut ProbeProcess, step: Step, complaint: &str) -> Failure {
    let (how, by_itself) = match tokio::time::timeout(END_GRACE, child.wait()).await {
        Ok(Ok(status)) => {
            (how_it_ended(status), !SENT_BY_OTHERS.iter().any(|signal| status.signal() == Some(signal.as_raw())))
        }
        // Whoever started it has ended, or has not heard of its end.
        Ok(Err(error)) => (error.to_string(), false),
        Err(_) => ("closed its output and went on".to_owned(), false),
    };
    let by_routes = by_itself && matches!(step, Step::Routes);
    tracing::warn!(how, complaint, "a library ended the process that tried it");
    let last = complaint.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let last_lines: String = last.chars().take(MAX_SHOWN_CHARS).collect();
    let found = if last_lines.is_empty() { how } else { format!("{how}; it said: {last_lines}") };
    let refusal = match step {
        Step::Open => failed("Opening the library ended the process that tried it.").expected("a library that opens"),
        Step::Routes if by_itself => failed("The plugin's `routes` function ended the process that tried it.")
            .expected("a `routes` that returns a router")
            .fix("Correct the plugin's `routes` function; `cardinal plugin check --open` tries it again."),
        Step::Routes => failed("The process that tried the plugin's `routes` function gave no answer.")
            .expected("a `routes` that returns a router")
            .fix("Try again later."),
    }
    .found(found);
    Failure { refusal, by_routes }
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

fn failed(reason: &str) -> Refusal {
    Refusal::new(Code::ProbeFailed, reason)
}

fn queue_full() -> Refusal {
    failed("The library was not tried: too many others are being tried.")
        .expected(format!("a place within {} s", QUEUE_TIMEOUT.as_secs()))
        .fix("Try again later.")
}

fn no_child(error: &io::Error) -> Refusal {
    let refusal = failed("The process that tries libraries could not be started.").found(error.to_string());
    // The worker may start no other one.
    if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
        tracing::error!("the process `cardinal-probes` has ended: until Cardinal is restarted no plugin can be loaded");
        return refusal.fix("Restart Cardinal: its process `cardinal-probes`, which starts these, has ended.");
    }
    refusal.fix("Let the host start processes (memory, process limits), then rescan.")
}

#[cfg(test)]
mod tests;
