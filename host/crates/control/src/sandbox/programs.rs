//! Keeps this process, and code that it runs, from starting others: a child would outlive the worker, answer on its
//! sockets and hold its port. Threads are started as ever. Whoever needs a process has another one start it
//! (`plugin/probe/starter.rs`).

use std::collections::BTreeMap;

use anyhow::Context as _;
use libc::c_long;
use seccompiler::{SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq, SeccompCondition, SeccompRule};

use super::filter::{Rules, filter};

const CLONE_THREAD: u64 = libc::CLONE_THREAD as u64;
/// Beside `clone`, which also starts threads.
#[cfg(target_arch = "x86_64")]
const FORKING: [c_long; 2] = [libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKING: [c_long; 0] = [];
/// The program that would take this one's place keeps its sockets, too.
const EXECUTING: [c_long; 2] = [libc::SYS_execve, libc::SYS_execveat];

/// Restricts this thread and all that it starts, for good: a new process or program is refused with `EPERM`. `clone3`,
/// whose flags no filter sees, does not exist (`ENOSYS`); C libraries then call `clone`.
///
/// # Errors
/// The system does not filter system calls, or not on this processor.
pub fn refuse() -> anyhow::Result<()> {
    let missing = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    for program in [filter(rules()?, libc::EPERM)?, filter(missing, libc::ENOSYS)?] {
        seccompiler::apply_filter(&program).context("installing the filter for processes")?;
    }
    Ok(())
}

fn rules() -> anyhow::Result<Rules> {
    let mut rules: Rules = FORKING.into_iter().chain(EXECUTING).map(|call| (call, Vec::new())).collect();
    let no_thread = SeccompCondition::new(0, Dword, MaskedEq(CLONE_THREAD), 0)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![no_thread])?]);
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn errno(call: c_long, arguments: [usize; 3]) -> Option<i32> {
        let [a, b, c] = arguments;
        // SAFETY: pointers among the arguments are null; a call that went well would be a child, which ends at once.
        let done = unsafe { libc::syscall(call, a, b, c, 0, 0) };
        if done == 0 {
            // SAFETY: ends the child that should not be.
            unsafe { libc::_exit(0) }
        }
        (done == -1).then(|| std::io::Error::last_os_error().raw_os_error()).flatten()
    }

    #[test]
    fn threads_are_started_and_processes_are_not() {
        let restricted = std::thread::spawn(|| {
            refuse().unwrap();
            for call in FORKING {
                assert_eq!(errno(call, [0; 3]), Some(libc::EPERM), "{call}");
            }
            let shared = (libc::CLONE_VM | libc::CLONE_FILES) as usize;
            for flags in [0, libc::SIGCHLD as usize, shared, libc::CLONE_PARENT as usize] {
                assert_eq!(errno(libc::SYS_clone, [flags, 0, 0]), Some(libc::EPERM), "{flags:x}");
            }
            assert_eq!(errno(libc::SYS_clone3, [0; 3]), Some(libc::ENOSYS));
            for call in EXECUTING {
                assert_eq!(errno(call, [0; 3]), Some(libc::EPERM), "{call}");
            }
            let refused = Command::new("/bin/true").spawn().unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
            assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        });
        restricted.join().unwrap();
        assert!(Command::new("/bin/true").status().unwrap().success(), "others are free");
    }
}
