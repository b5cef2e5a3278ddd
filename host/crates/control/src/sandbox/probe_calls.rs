//! System calls that a process which tries a library has no use for: by which it would reach other processes of its
//! user, stay when it is to end, or speak to somebody. `routes` does no I/O.

use anyhow::Context as _;
use libc::c_long;
use rustix::process::{Resource, Rlimit, getpid, setrlimit};
use seccompiler::{SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::filter::{Rules, filter};

/// Seconds of a processor: more than its time limits leave it.
const MAX_CPU_SECONDS: u64 = 60;
/// To be sent to itself, as `abort` does, and to no other: the first argument is the process.
const SIGNALS: [c_long; 4] = [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo];
const ALWAYS: [c_long; 14] = [
    libc::SYS_tkill,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pidfd_open,
    // By its group it is ended.
    libc::SYS_setpgid,
    libc::SYS_setsid,
    // Priorities of others; its own are of no use either.
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setscheduler,
    libc::SYS_socket,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
];

/// Restricts this process for good. To be called while there is no other thread.
///
/// # Errors
/// The system does not filter system calls, or not on this processor.
pub fn restrict() -> anyhow::Result<()> {
    // A hard limit: the system ends it.
    let limit = Rlimit { current: Some(MAX_CPU_SECONDS), maximum: Some(MAX_CPU_SECONDS) };
    setrlimit(Resource::Cpu, limit).context("limiting the processor's time")?;
    let program = filter(rules()?, libc::EPERM).context("making the filter for probes")?;
    seccompiler::apply_filter(&program).context("installing the filter for probes")
}

fn rules() -> anyhow::Result<Rules> {
    let mut rules: Rules = ALWAYS.into_iter().map(|call| (call, Vec::new())).collect();
    let own = u64::try_from(getpid().as_raw_nonzero().get())?;
    for call in SIGNALS {
        let another = SeccompCondition::new(0, Dword, SeccompCmpOp::Ne, own)?;
        rules.insert(call, vec![SeccompRule::new(vec![another])?]);
    }
    // It ends with its parent.
    let outlives = u64::from(libc::PR_SET_PDEATHSIG.unsigned_abs());
    let outlives = SeccompCondition::new(0, Dword, SeccompCmpOp::Eq, outlives)?;
    rules.insert(libc::SYS_prctl, vec![SeccompRule::new(vec![outlives])?]);
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno(call: c_long, arguments: [i32; 3]) -> Option<i32> {
        let [a, b, c] = arguments.map(i64::from);
        // SAFETY: no argument is a pointer.
        let done = unsafe { libc::syscall(call, a, b, c) };
        (done == -1).then(|| std::io::Error::last_os_error().raw_os_error()).flatten()
    }

    #[test]
    fn a_probe_reaches_nobody_and_does_not_stay() {
        let restricted = std::thread::spawn(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            // Not `restrict`: the limit of the processor's time would be that of all tests.
            seccompiler::apply_filter(&filter(rules().unwrap(), libc::EPERM).unwrap()).unwrap();
            let own = getpid().as_raw_nonzero().get();
            let parent = rustix::process::getppid().map_or(1, |pid| pid.as_raw_nonzero().get());
            assert_eq!(errno(libc::SYS_kill, [own, 0, 0]), None);
            for other in [parent, 0, -1, -own] {
                assert_eq!(errno(libc::SYS_kill, [other, 0, 0]), Some(libc::EPERM), "{other}");
            }
            assert_eq!(errno(libc::SYS_tgkill, [parent, parent, 0]), Some(libc::EPERM));
            assert_eq!(errno(libc::SYS_setpgid, [0, parent, 0]), Some(libc::EPERM));
            assert_eq!(errno(libc::SYS_socket, [libc::AF_INET, libc::SOCK_STREAM, 0]), Some(libc::EPERM));
            for signal in [0, libc::SIGURG] {
                assert_eq!(errno(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG, signal, 0]), Some(libc::EPERM));
            }
            assert!(std::os::unix::net::UnixStream::pair().is_ok(), "runtimes have pairs");
            assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        });
        restricted.join().unwrap();
    }
}
