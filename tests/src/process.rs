//! Programs under test: started so that they cannot outlive the tests, stopped by condition, never by a fixed sleep.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;

/// How long anything awaited may take before the test fails: generous, since two cores may run many hosts.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
const LINES_OF_A_FAILURE: usize = 40;
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits for a condition; fails the test with `what` when it doesn't come true within a minute.
pub async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(begun.elapsed() < WAIT_TIMEOUT, "waited {WAIT_TIMEOUT:?} in vain: {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Whether `scripts/test --long` runs: then the tests that are but longer are so.
pub fn is_long_run() -> bool {
    std::env::var_os("LONG_TESTS").is_some()
}

/// Whether `plugin test` finds a browser.
pub fn has_browser() -> bool {
    ["chromium-headless-shell", "chromium"].iter().any(|name| Command::new(name).arg("--version").output().is_ok())
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Runs a program to its end beside what the test does.
pub async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// What a program printed, as JSON.
#[track_caller]
pub fn printed_json(output: &Output) -> Value {
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}{errors}"))
}

/// A file that `cargo build --workspace` made beside the running test program: the host, a plugin's library.
pub fn built(file: &str) -> PathBuf {
    let this_program = std::env::current_exe().unwrap();
    let folder = this_program.parent().unwrap();
    // Test programs stand one folder deeper than what they test.
    let folder = if folder.ends_with("deps") { folder.parent().unwrap() } else { folder };
    let path = folder.join(file);
    assert!(path.exists(), "{} is missing: run `cargo build --workspace` first", path.display());
    path
}

/// The program under test.
pub fn cardinal_program() -> PathBuf {
    std::env::var_os("CARDINAL_BIN").map_or_else(|| built("cardinal"), PathBuf::from)
}

/// Runs `cardinal` with these arguments to its end.
pub fn cardinal<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    cardinal_with(arguments, &[])
}

/// The same with these variables in its environment.
pub fn cardinal_with<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(cardinal_program());
    command.args(arguments).envs(environment.iter().copied()).stdin(Stdio::null()).output().unwrap()
}

/// What a command printed, on standard output and standard error; it must have ended with this exit code.
#[track_caller]
pub fn exited(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

/// A started program; killed when dropped, and by the kernel when the tests end without dropping it.
pub struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it with exactly the given environment; what it prints goes to the file `log`.
    pub fn start<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        path: &Path,
        arguments: &[&str],
        environment: impl IntoIterator<Item = (K, V)>,
        log: &Path,
    ) -> Program {
        Self::start_as(None, path, arguments, environment, log)
    }

    /// The same as another user of the system, which only root can.
    pub fn start_as<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        user: Option<u32>,
        path: &Path,
        arguments: &[&str],
        environment: impl IntoIterator<Item = (K, V)>,
        log: &Path,
    ) -> Program {
        let output = File::options().create(true).append(true).open(log).unwrap();
        // setpriv(1) arms the signal and becomes the program, which so needs no unsafe code here.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]);
        if let Some(user) = user {
            let user = user.to_string();
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        }
        command.arg("--").arg(path).args(arguments);
        command.env_clear().envs(environment).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        Program { child: spawn(command), log: log.to_path_buf() }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// What it printed so far.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        let what = format!("the end of process {}", self.pid());
        eventually(&what, async || self.exited()).await
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let printed = self.printed();
            let last: Vec<&str> = printed.lines().rev().take(LINES_OF_A_FAILURE).collect();
            eprintln!("--- what the program printed last ---");
            last.iter().rev().for_each(|line| eprintln!("{line}"));
        }
        if self.exited().is_none() {
            self.signal(Signal::TERM);
            let begun = Instant::now();
            while self.exited().is_none() && begun.elapsed() < WAIT_TIMEOUT {
                std::thread::sleep(POLL_INTERVAL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Spawns on a thread that lives as long as the process: the parent-death signal is tied to the thread that spawned,
/// and a test's own thread ends with the test.
fn spawn(command: Command) -> Child {
    type Order = (Command, mpsc::Sender<std::io::Result<Child>>);
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, started) = mpsc::channel();
    spawner.send((command, reply)).unwrap();
    started.recv().unwrap().expect("setpriv(1) of util-linux starts the program")
}

/// Dead processes that their parent has not waited for.
pub fn dead_children(parent: i32) -> Vec<i32> {
    parents(|is_dead| is_dead).into_iter().filter(|(_, of)| *of == parent).map(|(pid, _)| pid).collect()
}

/// Processes with their parents.
fn parents(is_wanted: impl Fn(bool) -> bool) -> Vec<(i32, i32)> {
    let entry = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // Its name may hold spaces and brackets; the parent is the second field after the last bracket.
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
        is_wanted(state == "Z").then_some((pid, parent))
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(entry).collect()
}

/// Living processes below `ancestor`, with what they were started as.
pub fn descendants(ancestor: i32) -> Vec<(i32, String)> {
    let parents = parents(|is_dead| !is_dead);
    let mut family = vec![ancestor];
    let mut next = 0;
    while next < family.len() {
        let parent_pid = family[next];
        family.extend(parents.iter().filter(|(_, parent)| *parent == parent_pid).map(|(pid, _)| *pid));
        next += 1;
    }
    family[1..].iter().map(|&pid| (pid, command_line(pid))).collect()
}

/// A process's arguments, separated by spaces; empty when it is gone.
pub fn command_line(pid: i32) -> String {
    let raw = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&raw).replace('\0', " ").trim_end().to_owned()
}

pub fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
}
