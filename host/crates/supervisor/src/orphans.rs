//! What others leave behind. As the first process of a container, Cardinal becomes its parent: of probes of a worker
//! that was killed, of backends of a PostgreSQL. Nobody but it takes note of their end.

use std::{fs, process, time::Duration};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

/// What Cardinal started itself is waited for as soon as it ends. What is dead for longer is an orphan.
const ORPHAN_AFTER: Duration = Duration::from_secs(5);
const FIRST_PROCESS: u32 = 1;

/// A dead child that nobody has waited for.
#[derive(Debug, PartialEq, Eq)]
struct DeadChild {
    pid: Pid,
    /// A number that is given again belongs to a process that started later.
    started: u64,
}

/// Takes note of their ends, as long as the host lives.
pub(crate) async fn reap() {
    if process::id() != FIRST_PROCESS {
        return;
    }
    let Ok(mut ends) = signal(SignalKind::child()) else { return };
    while ends.recv().await.is_some() {
        let dead = dead_children_of(FIRST_PROCESS);
        if dead.is_empty() {
            continue;
        }
        sleep(ORPHAN_AFTER).await;
        let still_dead = dead_children_of(FIRST_PROCESS);
        dead.iter().filter(|child| still_dead.contains(child)).for_each(DeadChild::take_note);
    }
}

impl DeadChild {
    fn read(stat: &str, parent: u32) -> Option<Self> {
        const STARTED: usize = 19;
        let (pid, fields) = fields(stat)?;
        let is_dead = fields.first() == Some(&"Z") && fields.get(1)?.parse() == Ok(parent);
        is_dead.then_some(Self { pid, started: fields.get(STARTED)?.parse().ok()? })
    }

    fn take_note(&self) {
        let _ = waitpid(Some(self.pid), WaitOptions::NOHANG); // somebody else may have waited for it by now
    }
}

fn dead_children_of(parent: u32) -> Vec<DeadChild> {
    stats().filter_map(|stat| DeadChild::read(&stat, parent)).collect()
}

/// Ends what is left of the session of a worker that is gone. Its walls keep its death from the process that starts
/// probes, which ends of its own will; one that was stopped has none.
pub(crate) fn end_session(leader: u32) {
    const SESSION: usize = 3;
    for stat in stats() {
        if let Some((pid, fields)) = fields(&stat)
            && fields.get(SESSION).is_some_and(|session| session.parse() == Ok(leader))
        {
            let _ = kill_process(pid, Signal::KILL); // it may have ended by now
        }
    }
}

fn stats() -> impl Iterator<Item = String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok())
}

/// Of a line `pid (name) state parent ...`: the number, and what follows the name, which may hold spaces and brackets.
fn fields(stat: &str) -> Option<(Pid, Vec<&str>)> {
    let (pid, _) = stat.split_once(" (")?;
    Some((Pid::from_raw(pid.parse().ok()?)?, stat.rsplit_once(") ")?.1.split(' ').collect()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_dead_child_that_nobody_waits_for_is_found_and_goes() {
        let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let find = || dead_children_of(process::id()).into_iter().find(|dead| dead.pid == pid);
        assert_eq!(find(), None, "it lives");
        drop(child.stdin.take());
        std::io::Read::read_to_end(child.stdout.as_mut().unwrap(), &mut Vec::new()).unwrap();
        // Its output ends a moment before it does.
        let dead = std::iter::repeat_with(find).flatten().next().unwrap();
        assert_eq!(find().as_ref(), Some(&dead));
        dead.take_note();
        assert_eq!(find(), None);
        assert!(child.wait().is_err(), "it was waited for");
    }

    #[test]
    fn what_is_left_of_a_session_ends_stopped_or_not() {
        use std::os::unix::process::ExitStatusExt as _;
        let mut child = Command::new("setsid").args(["/bin/sh", "-c", "kill -STOP $$"]).spawn().unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        while !fs::read_to_string(&stat).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
        end_session(child.id());
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_name_hides_no_child() {
        let rest = "Z 7 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let read = |name: &str, parent| DeadChild::read(&format!("42 ({name}) {rest}"), parent);
        let dead = Some(DeadChild { pid: Pid::from_raw(42).unwrap(), started: 4711 });
        assert_eq!(read("a) S 1 (b", 7), dead);
        assert_eq!(read("cat", 1), None);
        assert_eq!(DeadChild::read("42 (cat) S 7 1", 7), None);
    }
}
