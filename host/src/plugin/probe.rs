//! Opening a library in a child process first: constructors that abort, exit or hang take down the
//! child and nobody else.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::{fd::AsFd, unix::process::ExitStatusExt},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, setrlimit};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader},
    process::{Child, Command},
};

use super::{
    library::{self, SealedLibrary},
    state::{Code, Refusal},
};

/// How long a library may take to open.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);
/// What the answer's line begins with. A library may write to the same output.
const ANSWER: &str = "cardinal-probe:";
/// The longest line that is read, and how much of the child's complaints is kept.
const LINE_LIMIT: usize = 64 << 10;
const COMPLAINT_LIMIT: usize = 4 << 10;
/// How much of the complaints a refusal shows.
const SHOWN: usize = 300;

/// How to start a child that opens what it finds on its standard input.
#[derive(Clone, Debug)]
pub struct Prober {
    program: PathBuf,
    arguments: Vec<OsString>,
    limit: Duration,
}

enum Answer {
    Opened,
    Refused(Refusal),
}

impl Prober {
    /// This program's own `probe` command.
    pub fn of_this_program() -> Self {
        let parent = std::process::id().to_string();
        Self {
            // The very file that is running, even if another one was put in its place since.
            program: PathBuf::from("/proc/self/exe"),
            arguments: ["probe", "--parent", &parent].map(OsString::from).into(),
            limit: TIME_LIMIT,
        }
    }

    /// Opens the library in a child. Cancelled or not, no child stays behind.
    pub async fn try_open(&self, library: &SealedLibrary) -> Result<(), Refusal> {
        let mut child = self.start(library).map_err(|error| no_child(&error))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let _group = KillGroup(group);
        let (answer, complaint) = match tokio::time::timeout(self.limit, listen(&mut child)).await {
            Ok(heard) => heard,
            Err(_) => {
                return Err(failed("The library did not finish opening in time.")
                    .expected(format!("open within {} s", self.limit.as_secs_f32()))
                    .found("it was still busy"));
            }
        };
        match answer {
            Some(Answer::Opened) => Ok(()),
            Some(Answer::Refused(refusal)) => Err(refusal),
            None => Err(ended(&mut child, &complaint).await),
        }
    }

    fn start(&self, library: &SealedLibrary) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().process_group(0).kill_on_drop(true);
        command.stdin(Stdio::from(library.fd().try_clone_to_owned()?)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn()
    }
}

/// Ends whatever the library started, too.
struct KillGroup(Option<Pid>);

impl Drop for KillGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // There is nothing left to kill when all of them have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// The answer, if there is one, and the beginning of what was written to standard error.
async fn listen(child: &mut Child) -> (Option<Answer>, String) {
    let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else { return (None, String::new()) };
    let mut complaint = Vec::new();
    let answer = {
        let complaints = keep_beginning(errors, &mut complaint);
        let mut complaints = std::pin::pin!(complaints);
        let mut answer = std::pin::pin!(answer(output));
        tokio::select! {
            biased;
            answer = &mut answer => {
                // Without an answer the child is ending, and what it complains of is the reason.
                if answer.is_none() { complaints.await }
                answer
            }
            () = &mut complaints => answer.await,
        }
    };
    (answer, String::from_utf8_lossy(&complaint).into_owned())
}

async fn answer(output: impl AsyncRead + Unpin) -> Option<Answer> {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let read = (&mut output).take(LINE_LIMIT as u64).read_until(b'\n', &mut line).await;
        if read.unwrap_or(0) == 0 {
            return None;
        }
        let Some(text) = line.strip_prefix(ANSWER.as_bytes()) else { continue };
        let refusal: Option<Refusal> = serde_json::from_slice(text).ok()?;
        return Some(refusal.map_or(Answer::Opened, Answer::Refused));
    }
}

/// Reads to the end, so that the child never waits for us; keeps the beginning.
async fn keep_beginning(mut errors: impl AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = errors.read(&mut chunk).await {
        let room = COMPLAINT_LIMIT.saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..read.min(room)]);
    }
}

async fn ended(child: &mut Child, complaint: &str) -> Refusal {
    let how = match child.wait().await {
        Ok(status) => how_it_ended(status),
        Err(error) => error.to_string(),
    };
    tracing::warn!(how, complaint, "a library ended the process that tried it");
    let last = complaint.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let said: String = last.chars().take(SHOWN).collect();
    let found = if said.is_empty() { how } else { format!("{how}; it said: {said}") };
    failed("Opening the library ended the process that tried it.").expected("a library that opens").found(found)
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

fn no_child(error: &io::Error) -> Refusal {
    failed("The process that tries libraries could not be started.")
        .found(error.to_string())
        .fix("Let the host start processes (memory, process limits), then rescan.")
}

/// The child: opens the library on standard input and says on standard output how that went.
///
/// # Errors
/// The answer cannot be written.
pub fn child() -> io::Result<()> {
    // A library that crashes is an answer, not something to keep a memory image of.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let refusal = open_input().err();
    let answer = serde_json::to_string(&refusal)?;
    let mut output = io::stdout().lock();
    // The library may have left a line open.
    writeln!(output, "\n{ANSWER}{answer}")?;
    output.flush()
}

fn open_input() -> Result<(), Refusal> {
    let sealed = copy_input().map_err(|error| failed("The library could not be read.").found(error.to_string()))?;
    library::open(sealed).map(drop)
}

fn copy_input() -> io::Result<SealedLibrary> {
    // Read from its beginning, wherever the parent's writing has left the offset.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let length = input.metadata()?.len();
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    std::os::unix::fs::FileExt::read_exact_at(&input, &mut bytes, 0)?;
    SealedLibrary::seal(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(script: &str, limit: Duration) -> Result<(), Refusal> {
        let arguments = ["-c", script].map(OsString::from).into();
        let prober = Prober { program: "/bin/sh".into(), arguments, limit };
        prober.try_open(&SealedLibrary::seal(b"bytes").unwrap()).await
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn an_answer_counts_whatever_else_is_written() {
        assert_eq!(run("echo noise; echo more >&2; printf 'half\\n'; echo cardinal-probe:null", LONG).await, Ok(()));
        let refusal = failed("told by the child");
        let script = format!("echo '{ANSWER}{}'", serde_json::to_string(&refusal).unwrap());
        assert_eq!(run(&script, LONG).await, Err(refusal));
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
    async fn the_child_has_no_environment_and_the_library_as_input() {
        // The shell itself sets PWD and a few more; what the host has (PATH, HOME) is not there.
        let script = "test -z \"$HOME\" && test \"$(/bin/cat /proc/self/fd/0)\" = bytes && echo cardinal-probe:null";
        assert_eq!(run(script, LONG).await, Ok(()));
    }
}
