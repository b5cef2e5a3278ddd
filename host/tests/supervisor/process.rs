//! `cardinal serve` as an operator starts it: two processes and a server that live and end together.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal};

use super::database::{CARDINAL, programs, scratch};
use super::server::{server_pid, wait_for_end};

/// A host under test; killed when it is dropped.
pub(crate) struct Host {
    pub child: Child,
    log: std::io::Lines<BufReader<ChildStderr>>,
    pub data_dir: PathBuf,
}

pub(crate) fn command(data_dir: &Path) -> Command {
    let mut command = Command::new(CARDINAL);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LOG_FORMAT", "json").env("LISTEN_ADDR", "127.0.0.1:0");
    command.arg("serve").arg("--data-dir").arg(data_dir).arg("--plugins-dir").arg(data_dir.join("plugins"));
    command.envs(programs().map(|folder| ("POSTGRES_BIN_DIR", folder)));
    command.stderr(Stdio::piped()).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

impl Host {
    fn start(name: &str) -> Self {
        Self::with(&mut command(&scratch().join(name)), scratch().join(name))
    }

    /// Returns once the worker is ready.
    pub(crate) fn with(command: &mut Command, data_dir: PathBuf) -> Self {
        let mut host = Self::starting(command, data_dir);
        host.until("the worker is ready");
        host
    }

    pub(crate) fn starting(command: &mut Command, data_dir: PathBuf) -> Self {
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, log, data_dir }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The log up to the line with these words.
    pub(crate) fn until(&mut self, words: &str) -> String {
        let mut read = Vec::new();
        for line in self.log.by_ref() {
            read.push(line.unwrap());
            if read.last().unwrap().contains(words) {
                return read.pop().unwrap();
            }
        }
        panic!("the host ended without saying {words:?}:\n{}", read.join("\n"));
    }

    fn worker(&self) -> Pid {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = std::fs::read_to_string(children).unwrap();
        let is_worker =
            |pid: &&str| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap().contains("worker");
        Pid::from_raw(children.split_whitespace().find(is_worker).unwrap().parse().unwrap()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a start that fails says, and its exit code.
pub(crate) fn failure(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn told_to_stop_it_ends_cleanly_with_its_server() {
    let mut host = Host::start("stops");
    let server = server_pid(&host.data_dir);
    host.signal(Signal::TERM);
    assert!(host.child.wait().unwrap().success());
    wait_for_end(server);
    assert!(!host.data_dir.join("pg/cluster/postmaster.pid").exists(), "the server was not shut down properly");
}

#[test]
fn killed_it_takes_worker_and_server_along() {
    let mut host = Host::start("killed-supervisor");
    let (worker, server) = (host.worker(), server_pid(&host.data_dir));
    host.child.kill().unwrap();
    host.child.wait().unwrap();
    wait_for_end(worker);
    wait_for_end(server);
    // And comes up again at once.
    let again = Host::start("killed-supervisor");
    assert_ne!(server_pid(&again.data_dir), server);
}

#[test]
fn killed_and_started_again_at_once_it_waits_for_the_old_server() {
    let mut host = Host::start("hasty");
    host.child.kill().unwrap();
    host.child.wait().unwrap();
    Host::start("hasty");
}

#[test]
fn a_worker_that_is_told_to_stop_by_a_stranger_waits_for_its_supervisor() {
    let mut host = Host::start("deaf-worker");
    let worker = host.worker();
    rustix::process::kill_process(worker, Signal::TERM).unwrap();
    rustix::process::kill_process(worker, Signal::INT).unwrap();
    host.signal(Signal::TERM);
    assert!(host.child.wait().unwrap().success());
    let rest: Vec<String> = host.log.by_ref().map(Result::unwrap).collect();
    assert!(rest.iter().any(|line| line.contains("exit status: 0") && line.contains("has drained")), "{rest:?}");
    assert!(!rest.iter().any(|line| line.contains("ended on its own")), "{rest:?}");
}

#[test]
fn a_worker_that_dies_is_named_and_started_again() {
    let mut host = Host::start("dying-worker");
    let first = host.worker();
    rustix::process::kill_process(first, Signal::KILL).unwrap();
    let line = host.until("the worker ended on its own");
    assert!(line.contains("signal: 9 (SIGKILL)"), "{line}");
    host.until("the worker is ready");
    assert_ne!(host.worker(), first);
}

#[test]
fn the_worker_knows_nothing_of_the_supervisors_environment_and_credentials() {
    let data_dir = scratch().join("reticent");
    let host = Host::with(command(&data_dir).env("ADMIN_BOOTSTRAP_PASSWORD", "correct horse"), data_dir);
    let read = |what: &str| std::fs::read(format!("/proc/{}/{what}", host.worker().as_raw_nonzero())).unwrap();
    let temp = host.data_dir.join("plugin-tmp");
    assert_eq!(String::from_utf8_lossy(&read("environ")), format!("TMPDIR={}\0", temp.display()));
    assert!(!String::from_utf8_lossy(&read("cmdline")).contains("horse"));
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", host.worker().as_raw_nonzero())).unwrap();
    let open: Vec<PathBuf> = descriptors.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
    assert!(!open.iter().any(|path| path.starts_with(&host.data_dir)), "{open:?}");
}

#[test]
fn a_second_host_is_kept_off_the_data() {
    let host = Host::start("in-use");
    let (code, message) = failure(&mut command(&host.data_dir));
    assert_eq!(code, 1);
    assert!(message.contains(&format!("process {}", host.child.id())) && message.contains("DATA_DIR"), "{message}");
}

#[test]
fn bad_settings_are_all_named_before_anything_is_made() {
    let data_dir = scratch().join("never-made");
    let (code, message) = failure(command(&data_dir).args(["--base-url", "nonsense", "--log-level", "loud"]));
    assert_eq!(code, 64);
    assert!(message.contains("BASE_URL") && message.contains("LOG_LEVEL"), "{message}");
    assert!(!data_dir.exists());
    assert_eq!(failure(command(&data_dir).arg("--no-such-flag")).0, 64);
}

#[test]
fn a_port_that_is_taken_is_told_by_its_setting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, message) = failure(command(&scratch().join("unbound")).args(["--listen-addr", &address]));
    assert_eq!(code, 1);
    assert!(message.contains(&format!("LISTEN_ADDR: cannot listen on {address}")), "{message}");
}

#[test]
fn help_shows_every_setting_and_version_is_the_workspaces() {
    let help = Command::new(CARDINAL).env_clear().args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for setting in ["LISTEN_ADDR", "--listen-addr", "PLUGIN_SETTINGS_", "POSTGRES_BIN_DIR", "Examples:"] {
        assert!(help.contains(setting), "{setting} is missing:\n{help}");
    }
    let version = Command::new(CARDINAL).env_clear().arg("version").output().unwrap();
    assert_eq!(String::from_utf8(version.stdout).unwrap(), format!("cardinal {}\n", env!("CARGO_PKG_VERSION")));
}
