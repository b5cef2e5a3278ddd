//! What others leave behind. As the first process of a container, Cardinal becomes its parent: of probes of a worker
//! that was killed, of backends of a PostgreSQL. Nobody but it takes note of their end.

use std::{process, time::Duration};

use rustix::process::{Signal, WaitOptions, kill_process, waitpid};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use crate::process_stat::ProcessStat;

/// What Cardinal started itself is waited for as soon as it ends. What is dead for longer is an orphan.
const ORPHAN_AFTER: Duration = Duration::from_secs(5);
const FIRST_PROCESS: u32 = 1;

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
        dead.iter().filter(|child| still_dead.contains(child)).for_each(take_note);
    }
}

/// Those that nobody has waited for.
fn dead_children_of(parent: u32) -> Vec<ProcessStat> {
    ProcessStat::all().filter(|process| process.state == 'Z' && process.parent == parent).collect()
}

fn take_note(dead: &ProcessStat) {
    let _ = waitpid(Some(dead.pid), WaitOptions::NOHANG); // somebody else may have waited for it by now
}

/// Ends what is left of the session of a worker that is gone. Its walls keep its death from the process that starts
/// probes, which ends of its own will; one that was stopped has none.
pub(crate) fn end_session(leader: u32) {
    for process in ProcessStat::all().filter(|process| process.session == leader) {
        let _ = kill_process(process.pid, Signal::KILL); // it may have ended by now
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::{Command, Stdio};

    use rustix::process::Pid;

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
        take_note(&dead);
        assert_eq!(find(), None);
        assert!(child.wait().is_err(), "it was waited for");
    }

    #[test]
    fn what_is_left_of_a_session_ends_stopped_or_not() {
        use std::os::unix::process::ExitStatusExt as _;
        let mut child = Command::new("setsid").args(["/bin/sh", "-c", "kill -STOP $$"]).spawn().unwrap();
        while ProcessStat::from_pid(child.id()).unwrap().state != 'T' {
            std::thread::yield_now();
        }
        end_session(child.id());
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
