//! System calls that a worker has no use for, and by which it reaches what Landlock does not guard: shared memory of
//! PostgreSQL (System V), limits and memory of other processes of its user, modes and times of files that it cannot
//! open, files that keep their owner's rights, rare parts of the kernel.
//!
//! Calls by the 32-bit table (`int 0x80`) end the process: no program of this one makes them. Those of the x32 table
//! are refused.
//!
//! Not here: priorities (`sched_setscheduler` and its like). The worker sets those of its own threads by number, and a
//! filter cannot tell whose thread a number is. A worker of the same user can slow PostgreSQL down by them.

use anyhow::Context as _;
use libc::{c_int, c_long};
use seccompiler::{BpfProgram, SeccompCmpArgLen::Qword, SeccompCmpOp, SeccompCondition, sock_filter};

use super::filter::{Rules, any_of, differs, each, filter, has, is, masked};

/// PostgreSQL holds a small segment by which it finds out whether an older server of its folder still lives, and
/// keyrings are a user's.
const SHARED_WITH_THE_USER: [c_long; 14] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];
/// Landlock forbids them too, where there is one, and `process_vm_readv` is left to it alone: by that the crash handler
/// reads this process's own memory.
const INTO_OTHERS: [c_long; 4] =
    [libc::SYS_ptrace, libc::SYS_process_vm_writev, libc::SYS_pidfd_getfd, libc::SYS_process_madvise];
/// For administrators, or rarely used and often broken. Most need a capability that no worker has; namespaces of a
/// user's own give it.
const RARE: [c_long; 24] = [
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_kcmp,
    libc::SYS_acct,
];
/// By a path, also one that Landlock lets nobody open. A file that is open can be given another mode.
const MODES_BY_PATH: [c_long; 3] = [libc::SYS_fchmodat, FCHMODAT2, libc::SYS_fchownat];
/// Linux 6.6; the number is the same everywhere.
const FCHMODAT2: c_long = 452;
/// An access control list is an attribute, and as good as a mode.
const ATTRIBUTES: [c_long; 9] = [
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
];
/// Linux 6.13; the numbers are the same everywhere.
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
/// Linux 6.17.
const FILE_SETATTR: c_long = 469;
/// Modes and times by a path, by their old names.
#[cfg(target_arch = "x86_64")]
const OLD_BY_PATH: [c_long; 6] =
    [libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const OLD_BY_PATH: [c_long; 0] = [];
/// A ring does what the other calls do, past this filter.
const RINGS: [c_long; 3] = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
/// They take what a filter would have to see (flags, a mode) from memory, where it cannot look. Whoever is told that
/// the system has no such call makes the older one.
const WITHOUT_ARGUMENTS: [c_long; 2] = [libc::SYS_openat2, libc::SYS_clone3];
/// Set-user-ID and set-group-ID: a file of the worker's user stays that user's for whoever starts it.
const SPECIAL_BITS: [u64; 2] = [0o4000, 0o2000];
/// These, and writing by group and others.
const GIVING_AWAY: [u64; 4] = [0o4000, 0o2000, 0o020, 0o002];
/// Calls that make something with a mode, and which argument that is.
const MAKING: [(c_long, u8); 2] = [(libc::SYS_mknodat, 2), (libc::SYS_mkdirat, 2)];
#[cfg(target_arch = "x86_64")]
const OLD_MAKING: [(c_long, u8); 3] = [(libc::SYS_creat, 1), (libc::SYS_mknod, 1), (libc::SYS_mkdir, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OLD_MAKING: [(c_long, u8); 0] = [];
/// Calls that may make a file, and which argument the flags are; the mode is the next one, and random without a flag.
#[cfg(target_arch = "x86_64")]
const OPENING: [(c_long, u8); 2] = [(libc::SYS_openat, 2), (libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OPENING: [(c_long, u8); 1] = [(libc::SYS_openat, 2)];
/// `O_CREAT`, and the bit that `O_TMPFILE` has of its own.
const MAKING_FLAGS: [u64; 2] = [libc::O_CREAT as u64, (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64];
/// Kinds of sockets that a program has a use for: `AF_UNIX`, `AF_INET`, `AF_INET6` and, for the C library,
/// `AF_NETLINK`.
const FAMILIES: [c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// Of a socket, among its flags.
pub(super) const SOCKET_KIND: u64 = 0xf;
const CLONE_INTO_NEW_USERS: u64 = libc::CLONE_NEWUSER as u64;
/// `kill` of this number reaches every process of the user.
const EVERYBODY: u64 = u32::MAX as u64;

/// Restricts this thread and all that it starts, for good: these calls fail with `EPERM`, two with `ENOSYS`. Without
/// `unix_sockets` no socket can be made that connects to one that has a path; pairs can.
///
/// # Errors
/// The system does not filter system calls, or not on this processor.
pub fn restrict(unix_sockets: bool) -> anyhow::Result<()> {
    let missing = WITHOUT_ARGUMENTS.into_iter().map(|call| (call, Vec::new())).collect();
    let filters = [
        filter(rules(unix_sockets)?, libc::EPERM).context("making the filter")?,
        filter(missing, libc::ENOSYS).context("making the second filter")?,
        second_table(),
    ];
    filters.iter().try_for_each(|program| seccompiler::apply_filter(program)).context("installing the filter")
}

/// x86-64 kernels may know every call by a second number, x32's, which has this bit, and some by a third.
const X32_BIT: u32 = 0x4000_0000;

/// Refuses all numbers with [`X32_BIT`]; elsewhere no call has it.
fn second_table() -> BpfProgram {
    let step = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    let number = 0; // of the call, in `seccomp_data`
    vec![
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, number),
        step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, X32_BIT),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

fn rules(unix_sockets: bool) -> anyhow::Result<Rules> {
    let modes = MODES_BY_PATH.into_iter().chain(OLD_BY_PATH).chain(ATTRIBUTES);
    let always = SHARED_WITH_THE_USER.into_iter().chain(INTO_OTHERS).chain(RINGS).chain(RARE).chain(modes);
    let mut rules: Rules = always.map(|call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_prlimit64, any_of([vec![differs(0, 0)?]])?);
    rules.insert(libc::SYS_fchmod, any_of(each(GIVING_AWAY, |bit| Ok(vec![has(1, bit)?]))?)?);
    // Without a path it is an open file's time.
    rules.insert(libc::SYS_utimensat, any_of([vec![SeccompCondition::new(1, Qword, SeccompCmpOp::Ne, 0)?]])?);
    for (call, mode) in MAKING.into_iter().chain(OLD_MAKING) {
        rules.insert(call, any_of(each(SPECIAL_BITS, |bit| Ok(vec![has(mode, bit)?]))?)?);
    }
    let made = MAKING_FLAGS.iter().flat_map(|flag| SPECIAL_BITS.map(|bit| (*flag, bit)));
    for (call, flags) in OPENING {
        rules.insert(
            call,
            any_of(each(made.clone(), |(flag, bit)| Ok(vec![has(flags, flag)?, has(flags + 1, bit)?]))?)?,
        );
    }
    let families = FAMILIES.into_iter().filter(|family| unix_sockets || *family != libc::AF_UNIX);
    let others = each(families, |family| differs(0, u64::from(family.unsigned_abs())))?;
    rules.insert(libc::SYS_socket, any_of([others])?);
    if !unix_sockets {
        // A datagram of a pair can be sent to any path.
        let datagrams = masked(1, SOCKET_KIND, u64::from(libc::SOCK_DGRAM.unsigned_abs()))?;
        rules.insert(libc::SYS_socketpair, any_of([vec![datagrams]])?);
    }
    rules.insert(libc::SYS_clone, any_of([vec![has(0, CLONE_INTO_NEW_USERS)?]])?);
    rules.insert(libc::SYS_kill, any_of([vec![is(0, EVERYBODY)?]])?);
    // The worker stays closed to others, and ends with the supervisor.
    let opens = vec![is(0, u64::from(libc::PR_SET_DUMPABLE.unsigned_abs()))?, differs(1, 0)?];
    let outlives = vec![is(0, u64::from(libc::PR_SET_PDEATHSIG.unsigned_abs()))?, is(1, 0)?];
    rules.insert(libc::SYS_prctl, any_of([opens, outlives])?);
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

    use super::*;

    fn in_a_restricted_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = std::thread::spawn(|| {
            // The system asks for this where the worker has given up its rights, which tests need not have.
            rustix::thread::set_no_new_privs(true).unwrap();
            restrict(true).unwrap();
            work()
        });
        thread.join().unwrap()
    }

    /// The error of a call with these arguments; nothing when it went well.
    fn errno(call: c_long, arguments: [usize; 4]) -> Option<i32> {
        let [a, b, c, d] = arguments;
        // SAFETY: the callers' pointers are texts with an end, or none.
        let done = unsafe { libc::syscall(call, a, b, c, d) };
        (done == -1).then(|| std::io::Error::last_os_error().raw_os_error()).flatten()
    }

    #[test]
    fn limits_of_others_are_refused_and_ones_own_are_not() {
        in_a_restricted_thread(|| {
            let own = getrlimit(Resource::Nofile);
            let same = || Rlimit { current: own.current, maximum: own.maximum };
            assert!(prlimit(None, Resource::Nofile, same()).is_ok());
            let parent = rustix::process::getppid().unwrap_or(Pid::INIT);
            assert_eq!(prlimit(Some(parent), Resource::Nofile, same()).unwrap_err(), rustix::io::Errno::PERM);
        });
    }

    #[test]
    fn a_mode_is_changed_by_an_open_file_alone_and_never_given_away() {
        let file = tempfile::NamedTempFile::new().unwrap();
        in_a_restricted_thread(move || {
            let mode = std::fs::Permissions::from_mode;
            assert!(std::fs::set_permissions(file.path(), mode(0o600)).is_err());
            assert!(file.as_file().set_permissions(mode(0o644)).is_ok());
            for given in [0o666, 0o664, 0o4700, 0o2700] {
                assert!(file.as_file().set_permissions(mode(given)).is_err(), "{given:o}");
            }
            let flags = rustix::fs::XattrFlags::empty();
            let refused = rustix::fs::setxattr(file.path(), "user.cardinal", b"x", flags).unwrap_err();
            assert_eq!(refused, rustix::io::Errno::PERM);
        });
    }

    #[test]
    fn no_ring_goes_past_the_filter() {
        let made = in_a_restricted_thread(|| {
            // SAFETY: the parameters are zeros of the size that the call reads and writes.
            let made = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, [0_u8; 120].as_mut_ptr()) };
            (made, std::io::Error::last_os_error().raw_os_error())
        });
        assert_eq!(made, (-1, Some(libc::EPERM)));
    }

    #[test]
    fn shared_memory_of_the_user_is_out_of_reach() {
        let attached = in_a_restricted_thread(|| {
            // SAFETY: no address is given, and what would be attached is never read.
            unsafe { libc::shmat(0, std::ptr::null(), libc::SHM_RDONLY) as isize }
        });
        assert_eq!(attached, -1);
    }

    #[test]
    fn nothing_is_made_that_keeps_its_owners_rights() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| std::ffi::CString::new(folder.path().join(name).to_str().unwrap()).unwrap();
        let paths = ["a", "b", "c", "d", "e"].map(path);
        let here = std::ffi::CString::new(folder.path().to_str().unwrap()).unwrap();
        in_a_restricted_thread(move || {
            let at = libc::AT_FDCWD as usize;
            let [file, old_file, node, dir, plain] = paths.each_ref().map(|path| path.as_ptr() as usize);
            let (making, temporary) =
                ((libc::O_CREAT | libc::O_RDWR) as usize, (libc::O_TMPFILE | libc::O_RDWR) as usize);
            for special in [0o4755, 0o2755, 0o6777] {
                assert_eq!(errno(libc::SYS_openat, [at, file, making, special]), Some(libc::EPERM), "{special:o}");
                let made = errno(libc::SYS_openat, [at, here.as_ptr() as usize, temporary, special]);
                assert_eq!(made, Some(libc::EPERM), "{special:o}");
                let node_mode = special | libc::S_IFREG as usize;
                assert_eq!(errno(libc::SYS_mknodat, [at, node, node_mode, 0]), Some(libc::EPERM), "{special:o}");
                assert_eq!(errno(libc::SYS_mkdirat, [at, dir, special, 0]), Some(libc::EPERM), "{special:o}");
                #[cfg(target_arch = "x86_64")]
                for (call, second, third) in [
                    (libc::SYS_open, making, special),
                    (libc::SYS_creat, special, 0),
                    (libc::SYS_mknod, node_mode, 0),
                    (libc::SYS_mkdir, special, 0),
                ] {
                    assert_eq!(errno(call, [old_file, second, third, 0]), Some(libc::EPERM), "{call} {special:o}");
                }
            }
            // A mode that is not asked for does not count.
            assert_eq!(errno(libc::SYS_openat, [at, here.as_ptr() as usize, libc::O_RDONLY as usize, 0o4755]), None);
            assert_eq!(errno(libc::SYS_openat, [at, plain, making, 0o644]), None);
            assert_eq!(errno(libc::SYS_openat2, [at, plain, 0, 0]), Some(libc::ENOSYS));
            assert_eq!(errno(libc::SYS_utimensat, [at, plain, 0, 0]), Some(libc::EPERM));
            let _ = old_file;
            let own = std::fs::File::open(plain_path(&paths[4])).unwrap();
            own.set_modified(std::time::UNIX_EPOCH).unwrap();
        });
    }

    fn plain_path(path: &std::ffi::CStr) -> &std::path::Path {
        std::path::Path::new(path.to_str().unwrap())
    }

    #[test]
    fn rare_calls_other_tables_and_odd_sockets_are_refused() {
        in_a_restricted_thread(|| {
            for call in RARE {
                assert_eq!(errno(call, [0; 4]), Some(libc::EPERM), "{call}");
            }
            #[cfg(target_arch = "x86_64")]
            assert_eq!(errno(libc::SYS_getpid | c_long::from(X32_BIT), [0; 4]), Some(libc::EPERM));
            for family in [libc::AF_VSOCK, libc::AF_ALG, libc::AF_PACKET, libc::AF_BLUETOOTH] {
                let args = [family.unsigned_abs() as usize, libc::SOCK_STREAM as usize, 0, 0];
                assert_eq!(errno(libc::SYS_socket, args), Some(libc::EPERM), "{family}");
            }
            std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            std::os::unix::net::UnixStream::pair().unwrap();
            std::os::unix::net::UnixDatagram::unbound().unwrap();
            assert_eq!(errno(libc::SYS_kill, [usize::MAX, 0, 0, 0]), Some(libc::EPERM));
            assert_eq!(errno(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, 1, 0, 0]), Some(libc::EPERM));
            assert_eq!(errno(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, 0, 0, 0]), Some(libc::EPERM));
            // Threads and programs are started all the same.
            std::thread::spawn(|| {}).join().unwrap();
            assert!(std::process::Command::new("/bin/true").status().unwrap().success());
        });
    }

    #[test]
    fn without_unix_sockets_pairs_can_be_made_alone() {
        let made = std::thread::spawn(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            restrict(false).unwrap();
            let made = std::os::unix::net::UnixDatagram::unbound().map(drop).map_err(|error| error.raw_os_error());
            (made, std::os::unix::net::UnixStream::pair().is_ok())
        });
        assert_eq!(made.join().unwrap(), (Err(Some(libc::EPERM)), true));
    }
}
