//! The system calls of a process that tries a library: those that making an instance has a use for, and no other.
//! `routes` does no I/O. What the list leaves out does not exist there (`ENOSYS`), and what would reach another process
//! of the user, or outlive the probe, is refused (`EPERM`): signals, also those that a descriptor sends (`F_SETOWN`),
//! priorities and processors of others, sockets, leases, files in memory.

use libc::{c_int, c_long};
use rustix::process::getpid;

use anyhow::Context as _;

use super::{
    filter::{Rules, allow_only, any_of, differs, each, filter, has, is, masked},
    system_calls::SOCKET_KIND,
};

/// To be sent to itself, as `abort` does, and to no other: the first argument is the process. Those that queue are not
/// among them: what waits counts for the user.
const SIGNALS: [c_long; 2] = [libc::SYS_kill, libc::SYS_tgkill];
/// Refused in words that a caller understands, as they may be made by mistake.
const REFUSED: [c_long; 17] = [
    libc::SYS_tkill,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pidfd_open,
    // By its group it is ended.
    libc::SYS_setpgid,
    libc::SYS_setsid,
    // Priorities and processors of others; its own are of no use either.
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
    libc::SYS_socket,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
];
const MEMORY: [c_long; 10] = [
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_membarrier,
    libc::SYS_getrandom,
];
const THREADS: [c_long; 14] = [
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_gettid,
    libc::SYS_getcpu,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_restart_syscall,
];
/// What it asks about itself and the machine.
const QUESTIONS: [c_long; 20] = [
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_getpriority,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_capget,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_umask,
    libc::SYS_getcwd,
    libc::SYS_prlimit64, // of itself alone
];
/// Without timers that send signals: these count for the user.
const TIME: [c_long; 9] = [
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_setitimer,
    libc::SYS_getitimer,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
];
const SIGNAL_HANDLING: [c_long; 6] = [
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
];
/// Landlock decides which files these open; the probe has none that it may write to.
const FILES: [c_long; 24] = [
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_dup,
    libc::SYS_dup3,
];
/// What a runtime is made of; nothing of it reaches another process. Buffers of sockets cannot be made larger: their
/// memory counts for nobody.
const EVENTS: [c_long; 12] = [
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_pipe2,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
];
/// The same by names of before.
#[cfg(target_arch = "x86_64")]
const OLD: [c_long; 20] = [
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_getrlimit,
    libc::SYS_getpgrp,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_time,
    libc::SYS_arch_prctl,
    libc::SYS_set_thread_area,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: [c_long; 0] = [];

/// Of `fcntl`. Whose signals a descriptor sends, leases and seals are not among them.
const DESCRIPTOR_COMMANDS: [c_int; 6] =
    [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL];
/// Of `ioctl`: whether it is a terminal, how much there is to be read, and two flags.
const DEVICE_COMMANDS: [u64; 5] = [libc::TCGETS, libc::FIONREAD, libc::FIONBIO, libc::FIOCLEX, libc::FIONCLEX];
/// Of `prctl`. The numbers of names that `libc` lacks are those of every processor.
const PROCESS_COMMANDS: [c_int; 10] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_GET_DUMPABLE,
    libc::PR_GET_PDEATHSIG,
    libc::PR_SET_PDEATHSIG, // which is refused
    libc::PR_GET_SECCOMP,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_CAPBSET_READ,
    PR_SET_VMA,
];
/// Names a mapping, as C libraries do.
const PR_SET_VMA: c_int = 0x5356_4d41;
/// How a mapping is shared, among its flags.
const MAPPING_KIND: u64 = 0xf;
const GROWS_DOWN: u64 = libc::MAP_GROWSDOWN as u64;
const OF_NO_FILE: u64 = libc::MAP_ANONYMOUS as u64;
/// Of `close_range`: a table of descriptors of the thread's own.
const CLOSE_RANGE_UNSHARE: u64 = 2;

/// Restricts this process for good. To be called while there is no other thread.
///
/// # Errors
/// The system does not filter system calls, or not on this processor.
pub(super) fn restrict() -> anyhow::Result<()> {
    for program in programs()? {
        seccompiler::apply_filter(&program).context("installing the filter for probes")?;
    }
    Ok(())
}

/// What the first refuses the second lets pass: a call that both refuse would fail as the later one has it, and the
/// later one refuses to install another.
fn programs() -> anyhow::Result<[seccompiler::BpfProgram; 2]> {
    let refused = filter(refused()?, libc::EPERM).context("making the filter for probes")?;
    Ok([refused, allow_only(allowed()?, libc::ENOSYS).context("making the second filter for probes")?])
}

fn allowed() -> anyhow::Result<Rules> {
    let groups: [&[c_long]; 10] =
        [&MEMORY, &THREADS, &QUESTIONS, &TIME, &SIGNAL_HANDLING, &FILES, &EVENTS, &OLD, &SIGNALS, &REFUSED];
    let mut rules: Rules = groups.into_iter().flatten().map(|call| (*call, Vec::new())).collect();
    let number = |command: c_int| u64::from(command.unsigned_abs());
    let one_of = |argument, known: &[u64]| any_of(each(known, |value| Ok(vec![is(argument, *value)?]))?);
    rules.insert(libc::SYS_fcntl, one_of(1, &DESCRIPTOR_COMMANDS.map(number))?);
    rules.insert(libc::SYS_ioctl, one_of(1, &DEVICE_COMMANDS)?);
    rules.insert(libc::SYS_prctl, one_of(0, &PROCESS_COMMANDS.map(number))?);
    // A thread, and no process: `programs.rs` refuses that, too. The limit of descriptors counts by the table, of which
    // threads have one together.
    let threads = vec![has(0, number(libc::CLONE_THREAD))?, has(0, number(libc::CLONE_FILES))?];
    rules.insert(libc::SYS_clone, any_of([threads])?);
    rules.insert(libc::SYS_close_range, any_of([vec![masked(2, CLOSE_RANGE_UNSHARE, 0)?]])?);
    // Datagrams of a pair can be sent to any path. Other families are loaded by the kernel for whoever asks.
    let streams = vec![is(0, number(libc::AF_UNIX))?, masked(1, SOCKET_KIND, number(libc::SOCK_STREAM))?];
    rules.insert(libc::SYS_socketpair, any_of([streams])?);
    // The limit of memory does not count what is shared, even if it is made writable later, and not what grows as
    // stacks do. A file's pages may be shared as long as they are only read.
    let private = masked(3, MAPPING_KIND | GROWS_DOWN, number(libc::MAP_PRIVATE))?;
    let of_a_file = masked(3, MAPPING_KIND | GROWS_DOWN | OF_NO_FILE, number(libc::MAP_SHARED))?;
    let read_only = masked(2, number(libc::PROT_WRITE), 0)?;
    rules.insert(libc::SYS_mmap, any_of([vec![private], vec![of_a_file, read_only]])?);
    Ok(rules)
}

fn refused() -> anyhow::Result<Rules> {
    let mut rules: Rules = REFUSED.into_iter().map(|call| (call, Vec::new())).collect();
    let own = u64::try_from(getpid().as_raw_nonzero().get())?;
    for call in SIGNALS {
        rules.insert(call, any_of([vec![differs(0, own)?]])?);
    }
    // It ends with its parent.
    let outlives = is(0, u64::from(libc::PR_SET_PDEATHSIG.unsigned_abs()))?;
    rules.insert(libc::SYS_prctl, any_of([vec![outlives]])?);
    // A probe that a command starts is in no worker's walls, where `system_calls.rs` refuses this.
    rules.insert(libc::SYS_prlimit64, any_of([vec![differs(0, 0)?]])?);
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        os::{fd::AsRawFd as _, unix::net::UnixStream},
    };

    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

    use super::*;

    fn errno(call: c_long, arguments: [i32; 3]) -> Option<i32> {
        let [a, b, c] = arguments.map(i64::from);
        // SAFETY: no argument is a pointer.
        let done = unsafe { libc::syscall(call, a, b, c) };
        (done == -1).then(|| std::io::Error::last_os_error().raw_os_error()).flatten()
    }

    fn restricted<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = std::thread::spawn(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            restrict().unwrap();
            work()
        });
        thread.join().unwrap()
    }

    #[test]
    fn a_probe_reaches_nobody_and_does_not_stay() {
        restricted(|| {
            let own = getpid().as_raw_nonzero().get();
            let parent = rustix::process::getppid().map_or(1, |pid| pid.as_raw_nonzero().get());
            assert_eq!(errno(libc::SYS_kill, [own, 0, 0]), None);
            for other in [parent, 0, -1, -own] {
                assert_eq!(errno(libc::SYS_kill, [other, 0, 0]), Some(libc::EPERM), "{other}");
            }
            assert_eq!(errno(libc::SYS_tgkill, [parent, parent, 0]), Some(libc::EPERM));
            assert_eq!(errno(libc::SYS_setpgid, [0, parent, 0]), Some(libc::EPERM));
            assert_eq!(errno(libc::SYS_socket, [libc::AF_INET, libc::SOCK_STREAM, 0]), Some(libc::EPERM));
            for call in [libc::SYS_sched_setattr, libc::SYS_sched_setaffinity] {
                assert_eq!(errno(call, [parent, 0, 0]), Some(libc::EPERM));
            }
            for signal in [0, libc::SIGURG] {
                assert_eq!(errno(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG, signal, 0]), Some(libc::EPERM));
            }
        });
    }

    #[test]
    fn no_descriptor_of_a_probe_signals_anybody() {
        restricted(|| {
            let (one, _other) = UnixStream::pair().unwrap();
            let (descriptor, parent) = (one.as_raw_fd(), rustix::process::getppid().unwrap().as_raw_nonzero().get());
            for command in [libc::F_SETOWN, F_SETSIG, F_SETOWN_EX, libc::F_SETLEASE, libc::F_NOTIFY] {
                assert_eq!(errno(libc::SYS_fcntl, [descriptor, command, parent]), Some(libc::ENOSYS), "{command}");
            }
            for request in [FIOSETOWN, SIOCSPGRP] {
                assert_eq!(errno(libc::SYS_ioctl, [descriptor, request, parent]), Some(libc::ENOSYS), "{request}");
            }
        });
    }

    /// The limit of memory counts what is a process's own, and the one of descriptors those of one table.
    #[test]
    fn nothing_is_had_beside_the_limits() {
        restricted(|| {
            let own = libc::MAP_ANONYMOUS;
            let map = |flags: c_int| {
                // SAFETY: a new mapping at a place that the system chooses; it is never used.
                let place = unsafe { libc::mmap(std::ptr::null_mut(), 1 << 20, libc::PROT_READ, flags, -1, 0) };
                place != libc::MAP_FAILED
            };
            assert!(map(libc::MAP_PRIVATE | own));
            for flags in [libc::MAP_SHARED, libc::MAP_SHARED_VALIDATE, libc::MAP_PRIVATE | libc::MAP_GROWSDOWN, 8] {
                assert!(!map(flags | own), "{flags:x}");
            }
            assert_eq!(errno(libc::SYS_close_range, [900, 901, 0]), None);
            assert_eq!(errno(libc::SYS_close_range, [900, 901, 2]), Some(libc::ENOSYS));
            assert_eq!(errno(libc::SYS_clone, [libc::CLONE_THREAD, 0, 0]), Some(libc::ENOSYS));
        });
    }

    #[test]
    fn a_probe_of_a_command_sets_nobody_elses_limits_and_loads_no_family() {
        restricted(|| {
            let parent = rustix::process::getppid().map_or(1, |pid| pid.as_raw_nonzero().get());
            assert_eq!(errno(libc::SYS_prlimit64, [parent, 7, 0]), Some(libc::EPERM));
            // Its own are its own.
            let own = getrlimit(Resource::Nofile);
            assert!(prlimit(None, Resource::Nofile, Rlimit { current: own.current, maximum: own.maximum }).is_ok());
            for family in [libc::AF_INET, libc::AF_VSOCK, libc::AF_BLUETOOTH] {
                assert_eq!(errno(libc::SYS_socketpair, [family, libc::SOCK_STREAM, 0]), Some(libc::ENOSYS));
            }
        });
    }

    const F_SETSIG: c_int = 10;
    const F_SETOWN_EX: c_int = 15;
    const FIOSETOWN: c_int = 0x8901;
    const SIOCSPGRP: c_int = 0x8902;

    #[test]
    fn what_nobody_thought_of_does_not_exist() {
        restricted(|| {
            let uncounted = [libc::SYS_setsockopt, libc::SYS_timer_create, libc::SYS_rt_sigqueueinfo];
            for call in [libc::SYS_memfd_create, libc::SYS_flock, libc::SYS_mkdirat, libc::SYS_sendmsg, 9_999]
                .into_iter()
                .chain(uncounted)
            {
                assert_eq!(errno(call, [0, 0, 0]), Some(libc::ENOSYS), "{call}");
            }
            let datagrams = std::os::unix::net::UnixDatagram::pair().unwrap_err();
            assert_eq!(datagrams.raw_os_error(), Some(libc::ENOSYS));
        });
    }

    #[test]
    fn what_runtimes_are_made_of_works() {
        restricted(|| {
            let (mut one, mut other) = UnixStream::pair().unwrap();
            one.write_all(b"x").unwrap();
            one.shutdown(std::net::Shutdown::Write).unwrap();
            let mut text = String::new();
            other.read_to_string(&mut text).unwrap();
            assert_eq!(text, "x");
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            let slept =
                runtime.block_on(async { tokio::spawn(tokio::time::sleep(std::time::Duration::from_millis(1))).await });
            assert!(slept.is_ok());
            assert!(std::fs::read_to_string("/proc/self/stat").is_ok());
            assert_eq!(std::thread::spawn(|| vec![7_u8; 1 << 22].len()).join().unwrap(), 1 << 22);
        });
    }
}
