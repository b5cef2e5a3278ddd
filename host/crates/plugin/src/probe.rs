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
use cardinal_package::state::{Code, Refusal};

/// How long a library may take to open, and its `routes` to return.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(10);
/// How long the rest of its complaints, and then its end, is waited for, once the child has closed its output.
const COMPLAINT_GRACE: Duration = Duration::from_secs(1);
const END_GRACE: Duration = Duration::from_secs(1);
/// The longest line that is read (a list of handlers has up to 1 MiB).
const LINE_LIMIT: usize = 4 << 20;
/// How much of a child's output is read.
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

/// Reads to the end, so that the child never waits for us; keeps the beginning.
async fn keep_beginning(mut errors: impl AsyncRead + Unpin, kept: &mut Vec<u8>) {
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
    failed("The process that tries libraries could not be started.")
        .found(error.to_string())
        .fix("Let the host start processes (memory, process limits), then rescan.")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rustix::process::Pid;
    use serde_json::json;

    use super::*;
    use crate::library::SealedLibrary;

    fn prober(script: &str, limit: Duration) -> Prober {
        let arguments = ["-c", script].map(OsString::from).into();
        Prober { by: StartedBy::This(ProbeCommand { program: "/bin/sh".into(), arguments }), limit }
    }

    async fn run(script: &str, limit: Duration) -> Result<ProbeOutcome, Refusal> {
        prober(script, limit).try_out(SealedLibrary::seal(b"bytes").unwrap().fd(), &Map::new()).await
    }

    async fn tried(script: &str, secrets: &[&str]) -> SettingsTrial {
        let library = SealedLibrary::seal(b"bytes").unwrap();
        let (schema, settings) = (json!({"properties": {"secrets": {"writeOnly": true}}}), json!({"secrets": secrets}));
        let secrets = Secrets::from_settings(Some(&schema), &settings, []);
        prober(script, LONG).try_settings(library.fd(), &Map::new(), &secrets).await
    }

    /// A shell's line that gives an answer.
    fn answering(answer: &Answer) -> String {
        format!("echo '{ANSWER}{}'; ", serde_json::to_string(answer).unwrap().replace('\'', r"'\''"))
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn an_answer_counts_whatever_else_is_written() {
        let made = answering(&Answer::Made(r#"[{"name":"list","method":"GET","path":"/"}]"#.to_owned()));
        let script =
            format!("echo noise; echo more >&2; printf 'half\\n'; {}echo noise; {made}", answering(&Answer::Opened));
        let ProbeOutcome::Made(exports) = run(&script, LONG).await.unwrap() else { panic!("it was made") };
        assert_eq!(exports[0].describe(), "GET /");
        let refusal = failed("told by the child");
        assert_eq!(run(&answering(&Answer::Refused(refusal.clone())), LONG).await, Err(refusal));
    }

    #[tokio::test]
    async fn routes_that_give_no_router_are_no_reason_to_refuse_the_library() {
        let refusal = Refusal::new(Code::CreatePanicked, "It panicked.");
        let wrong_settings = vec![("/price".to_owned(), "is below 0".to_owned())];
        let answer = Answer::NotMade(refusal.clone(), wrong_settings.clone());
        let script = answering(&Answer::Opened) + &answering(&answer);
        assert_eq!(run(&script, LONG).await, Ok(ProbeOutcome::NotMade { refusal, wrong_settings }));
    }

    #[tokio::test]
    async fn secrets_that_a_plugin_quotes_are_not_passed_on() {
        let secrets = ["OPERATORS-SECRET", "line\nbreak", "a"];
        let refusal = Refusal::new(Code::CreateFailed, "It failed.").found("OPERATORS-SECRET is no good");
        let wrong = vec![("/OPERATORS-SECRET".to_owned(), r#"of "line\nbreak" a part is bad"#.to_owned())];
        let answer = answering(&Answer::Opened) + &answering(&Answer::NotMade(refusal, wrong));
        let SettingsTrial::Refused(refusal, wrong) = tried(&answer, &secrets).await else { panic!("its own answer") };
        assert_eq!(refusal.found.as_deref(), Some("[secret] is no good"));
        assert_eq!(wrong, [("/[secret]".to_owned(), r#"of "[secret]" a part is bad"#.to_owned())]);
        let ended = answering(&Answer::Opened) + "echo 'boom: OPERATORS-SECRET' >&2; exit 3";
        let SettingsTrial::Broke(refusal) = tried(&ended, &secrets).await else { panic!("it ended by itself") };
        assert_eq!(refusal.found.as_deref(), Some("exited with status 3; it said: boom: [secret]"));
        // Whatever the library itself may write as an answer.
        let mut forged = Refusal::new(Code::ProbeFailed, "OPERATORS-SECRET");
        (forged.expected, forged.fix) = (Some("OPERATORS-SECRET".to_owned()), "OPERATORS-SECRET".to_owned());
        forged.losses = Box::new(["OPERATORS-SECRET".to_owned()]);
        let SettingsTrial::NotTried(refusal) = tried(&answering(&Answer::Refused(forged)), &secrets).await else {
            panic!("it did not open")
        };
        assert!(!format!("{refusal:?}").contains("OPERATORS"), "{refusal:?}");
    }

    #[tokio::test]
    async fn a_secret_behind_a_lot_of_noise_is_not_shown_in_part() {
        let lines: Vec<String> = (0..26).map(|line| format!("{line:02}").repeat(32)).collect();
        let pem = format!("-----BEGIN KEY-----\n{}\n-----END KEY-----\n", lines.join("\n"));
        for noise in (2_400..4_100).step_by(17) {
            let mut complaint = Vec::new();
            let written = format!("{}\n{pem}", "n".repeat(noise));
            keep_beginning(written.as_bytes(), &mut complaint).await;
            let schema = json!({"properties": {"key": {"writeOnly": true}}});
            let secrets = Secrets::from_settings(Some(&schema), &json!({"key": pem}), []);
            let shown = secrets.hide(&String::from_utf8_lossy(&complaint));
            assert!(!shown.contains(['0', '1', '2', 'K']), "{noise}: {shown}");
        }
    }

    #[tokio::test]
    async fn what_others_did_to_the_process_is_not_the_plugins_answer() {
        let opened = answering(&Answer::Opened);
        for ended in ["kill -KILL $$", "kill -TERM $$", "exec >&- 2>&-; sleep 1000"] {
            let tried = tried(&(opened.clone() + ended), &[]).await;
            assert!(matches!(tried, SettingsTrial::NotTried(_)), "{ended}: {tried:?}");
        }
        assert!(matches!(tried("kill -SEGV $$", &[]).await, SettingsTrial::NotTried(_)), "it did not open");
        for ended in ["kill -ABRT $$", "kill -SEGV $$", "exit 0", "exit 3"] {
            let tried = tried(&(opened.clone() + ended), &[]).await;
            assert!(matches!(tried, SettingsTrial::Broke(_)), "{ended}: {tried:?}");
        }
    }

    #[tokio::test]
    async fn a_starter_that_has_ended_is_not_the_plugins_answer() {
        let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
        let pipe = || tokio::net::unix::pipe::pipe().unwrap().1;
        let mut child = ProbeProcess::elsewhere(pipe(), pipe(), ours);
        drop(theirs);
        let failure = ended(&mut child, Step::Routes, "").await;
        assert!(!failure.by_routes, "{}", failure.refusal);
    }

    #[tokio::test]
    async fn routes_that_end_or_hold_the_process_are_told_from_a_library_that_does_not_open() {
        let opened = answering(&Answer::Opened);
        let refusal = run(&format!("{opened} kill -SEGV $$"), LONG).await.unwrap_err();
        assert_eq!((refusal.code, refusal.found.as_deref()), (Code::ProbeFailed, Some("killed by SIGSEGV")));
        assert!(refusal.reason.contains("`routes`") && refusal.fix.contains("`routes`"), "{refusal}");
        let refusal = run(&format!("{opened} sleep 1000"), Duration::from_secs(1)).await.unwrap_err();
        assert_eq!((refusal.code, refusal.expected.as_deref()), (Code::CreateFailed, Some("done within 1 s")));
    }

    #[tokio::test]
    async fn a_child_that_ends_without_an_answer_is_told_apart_by_how() {
        for (script, found) in [("exit 0", "exited with status 0"), ("kill -ABRT $$", "killed by SIGABRT")] {
            let refusal = run(script, LONG).await.unwrap_err();
            assert_eq!((refusal.code, refusal.found.as_deref()), (Code::ProbeFailed, Some(found)));
        }
        let refusal = run("echo first >&2; echo 'boom at 7' >&2; exit 3", LONG).await.unwrap_err();
        assert_eq!(refusal.found.as_deref(), Some("exited with status 3; it said: boom at 7"));
    }

    #[tokio::test]
    async fn a_child_that_hangs_is_not_waited_for_nor_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let refusal = run(&script, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(refusal.found.as_deref(), Some("it was still busy"));
        let sleeper: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        let pid = Pid::from_raw(sleeper).unwrap();
        let gone = || match std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) {
            Ok(stat) => stat.contains(") Z "), // dead, and its new parent has not looked yet
            Err(_) => true,
        };
        for _ in 0..200 {
            if gone() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the child's child is still there");
    }

    #[tokio::test]
    async fn a_child_that_closes_its_output_is_not_waited_for_either() {
        for script in ["exec >&-; sleep 1000", "exec >&- 2>&-; sleep 1000"] {
            let refusal = run(script, LONG).await.unwrap_err();
            assert_eq!(refusal.found.as_deref(), Some("closed its output and went on"), "{script}");
        }
    }

    #[tokio::test]
    async fn the_child_has_its_settings_for_environment_and_the_library_as_input() {
        // The shell itself sets PWD and a few more; what the host has (PATH, HOME) is not there.
        let script = "test -z \"$HOME\" && test \"$CARDINAL_PROBE_SETTINGS\" = {} && \
                      test \"$(/bin/cat /proc/self/fd/0)\" = bytes && echo fine >&2; exit 3";
        let refusal = run(script, LONG).await.unwrap_err();
        assert_eq!(refusal.found.as_deref(), Some("exited with status 3; it said: fine"));
    }
}
