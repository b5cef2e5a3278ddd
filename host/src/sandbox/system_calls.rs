//! System calls that a worker has no use for, and by which it reaches what Landlock does not guard: shared memory of
//! PostgreSQL (System V), limits and memory of other processes of its user, modes of files that it cannot open.
//!
//! Not here: priorities (`sched_setscheduler` and its like). The worker sets those of its own threads by number, and a
//! filter cannot tell whose thread a number is. A worker of the same user can slow PostgreSQL down by them.

use std::collections::BTreeMap;

use anyhow::Context as _;
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

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
/// By a path, also one that Landlock lets nobody open. A file that is open can be given another mode.
const MODES_BY_PATH: [c_long; 3] = [libc::SYS_fchmodat, FCHMODAT2, libc::SYS_fchownat];
/// Linux 6.6; the number is the same everywhere.
const FCHMODAT2: c_long = 452;
/// An access control list is an attribute, and as good as a mode.
const ATTRIBUTES: [c_long; 4] = [libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr, SETXATTRAT];
/// Linux 6.13; the number is the same everywhere.
const SETXATTRAT: c_long = 463;
#[cfg(target_arch = "x86_64")]
const OLD_MODES_BY_PATH: [c_long; 3] = [libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown];
#[cfg(not(target_arch = "x86_64"))]
const OLD_MODES_BY_PATH: [c_long; 0] = [];
/// A ring does what the other calls do, past this filter.
const RINGS: [c_long; 3] = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
/// x86-64 kernels may know every call by a second number, with this bit.
#[cfg(target_arch = "x86_64")]
const SECOND_NUMBER: Option<c_long> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const SECOND_NUMBER: Option<c_long> = None;
/// Set-user-ID, set-group-ID, and writing by group and others: a file of the keeper's user stays that user's.
const GIVING_AWAY: [u64; 4] = [0o4000, 0o2000, 0o020, 0o002];

/// Restricts this thread and all that it starts, for good: these calls fail with `EPERM`.
///
/// # Errors
/// The system does not filter system calls, or not on this processor.
pub fn restrict() -> anyhow::Result<()> {
    let program = program().context("making the filter")?;
    seccompiler::apply_filter(&program).context("putting the filter in force")
}

fn program() -> anyhow::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let errno = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    Ok(SeccompFilter::new(rules()?, SeccompAction::Allow, errno, arch)?.try_into()?)
}

fn rules() -> anyhow::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let modes = MODES_BY_PATH.into_iter().chain(OLD_MODES_BY_PATH).chain(ATTRIBUTES);
    let always = SHARED_WITH_THE_USER.into_iter().chain(INTO_OTHERS).chain(RINGS).chain(modes);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = always.map(|call| (call, Vec::new())).collect();
    let is_another = SeccompCondition::new(0, Dword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![is_another])?]);
    let gives_away = GIVING_AWAY.map(|bit| {
        let condition = SeccompCondition::new(1, Dword, SeccompCmpOp::MaskedEq(bit), bit)?;
        SeccompRule::new(vec![condition])
    });
    rules.insert(libc::SYS_fchmod, gives_away.into_iter().collect::<Result<_, _>>()?);
    if let Some(bit) = SECOND_NUMBER {
        let second: Vec<_> = rules.iter().map(|(call, rules)| (call | bit, rules.clone())).collect();
        rules.extend(second);
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

    use super::*;

    fn in_a_restricted_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = std::thread::spawn(|| {
            restrict().unwrap();
            work()
        });
        thread.join().unwrap()
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
}
