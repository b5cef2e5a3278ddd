//! Opening a library and running its `routes` in a child process first: what aborts, exits or hangs there takes down
//! the child and nothing else.

pub mod child;
mod failure;
mod lanes;
mod started;
pub mod starter;
mod unanswered;

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::process::CommandExt as _,
    },
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

pub(crate) use self::failure::routes_hang;
pub use self::lanes::Priority;
use self::{
    child::{ANSWER, Answer},
    failure::{Cause, Failure, Step, probe_failed},
    lanes::Lanes,
    started::ProbeProcess,
    starter::ProbeStarter,
};
use super::{
    exports::{self, Export},
    settings::quoted::{READ_LIMIT, Secrets},
};
use cardinal_package::refusal::Refusal;

/// How long a library may take to open, and its `routes` to return.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(10);
/// How long the rest of its complaints is waited for, once the child has closed its output.
const COMPLAINT_GRACE: Duration = Duration::from_secs(1);
/// The longest line that is read (a list of handlers has up to 1 MiB).
const LINE_LIMIT: usize = 4 << 20;
/// How much of a child's output is read, and of its complaints.
const OUTPUT_LIMIT: u64 = 64 << 20;
/// How long a child whose turn it is may wait to begin: those before it are ending.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(30);
/// How many children are started for one try, when whoever starts them ends meanwhile, or ends them to make room, and
/// how long after one another.
const MAX_CHILDREN: usize = 10;
const CHILD_PAUSE: Duration = Duration::from_secs(2);
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
    lanes: Arc<Lanes>,
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

/// What is tried.
#[derive(Clone, Copy)]
struct Input<'i> {
    library: BorrowedFd<'i>,
    settings: &'i Map<String, Value>,
    /// Those among the settings.
    secrets: &'i Secrets,
}

/// What was heard of the child.
enum ProbeReport {
    ProbeOutcome(ProbeOutcome),
    Refused(Refusal),
    RoutesHang,
    /// It ended before it had an answer.
    Ended(Step),
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
        Self::new(StartedBy::This(ProbeCommand::from_current_exe()), TIME_LIMIT)
    }

    /// For a process that may start none.
    pub fn by_starter(starter: ProbeStarter) -> Self {
        Self::new(StartedBy::Starter(Arc::new(starter)), TIME_LIMIT)
    }

    fn new(by: StartedBy, limit: Duration) -> Self {
        Self { by, limit, lanes: Arc::default() }
    }

    /// Opens the library in a child and runs its `routes` there, with these settings, when it is its turn. Cancelled or
    /// not, no child stays behind.
    pub async fn try_out(
        &self,
        library: BorrowedFd<'_>,
        settings: &Map<String, Value>,
        priority: Priority,
    ) -> Result<ProbeOutcome, Refusal> {
        let input = Input { library, settings, secrets: &Secrets::default() };
        self.run_in_turn(priority, input).await.map_err(|failure| failure.refusal)
    }

    /// The same with a library that can be opened, to learn of the settings. `secrets` are those among them.
    pub(crate) async fn try_settings(
        &self,
        library: BorrowedFd<'_>,
        settings: &Map<String, Value>,
        secrets: &Secrets,
    ) -> SettingsTrial {
        match self.run_in_turn(Priority::InService, Input { library, settings, secrets }).await {
            Ok(ProbeOutcome::Made(_)) => SettingsTrial::Taken,
            Ok(ProbeOutcome::NotMade { refusal, wrong_settings }) => SettingsTrial::Refused(refusal, wrong_settings),
            Err(Failure { refusal, cause: Cause::Routes }) => SettingsTrial::Broke(refusal),
            Err(Failure { refusal, .. }) => SettingsTrial::NotTried(refusal),
        }
    }

    async fn run_in_turn(&self, priority: Priority, input: Input<'_>) -> Result<ProbeOutcome, Failure> {
        let tried = self.lanes.run(priority, || self.run(input)).await;
        let Some(tried) = tried else { return Err(Failure::no_turn()) };
        tried
    }

    /// A starter that ends is made again, and so are the children that ended with it. Those that made room for others
    /// are tried once these are over.
    async fn run(&self, input: Input<'_>) -> Result<ProbeOutcome, Failure> {
        for _ in 1..MAX_CHILDREN {
            match self.run_child(input).await {
                Err(Failure { cause: Cause::Starter, .. }) => tokio::time::sleep(CHILD_PAUSE).await,
                done => return done,
            }
        }
        self.run_child(input).await
    }

    async fn run_child(&self, input: Input<'_>) -> Result<ProbeOutcome, Failure> {
        let Input { library, settings, secrets } = input;
        let mut child = self.start(library, settings).map_err(|error| Failure::no_child(&error))?;
        match tokio::time::timeout(BEGIN_TIMEOUT, child.begin()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Failure { cause: Cause::Starter, ..Failure::no_child(&error) }),
            Err(_) => return Err(Failure::not_begun()),
        }
        let (report, complaint) = self.listen(&mut child).await;
        match report {
            ProbeReport::ProbeOutcome(tried) => Ok(tried.without(secrets)),
            ProbeReport::Refused(refusal) => Err(secrets.without(refusal).into()),
            ProbeReport::RoutesHang => Err(Failure { refusal: routes_hang(self.limit), cause: Cause::Routes }),
            ProbeReport::Ended(step) => Err(Failure::of_ended(&mut child, step, &secrets.hide(&complaint)).await),
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
        probe_failed("The library did not finish opening in time.")
            .expected(format!("open within {} s", self.limit.as_secs_f32()))
            .found("it was still busy")
    }
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

#[cfg(test)]
mod tests;
