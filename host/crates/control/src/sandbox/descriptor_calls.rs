//! Keeps the descriptors that the worker lives by, and its limit of open files, from the code that it runs: whoever
//! closes or replaces one, or sets another limit, gets `EPERM`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::RawFd;

use anyhow::Context as _;
use libc::c_long;
use seccompiler::{
    SeccompCmpArgLen::{self, Dword, Qword},
    SeccompCmpOp::{self, Eq, Ge, Lt, MaskedEq, Ne},
    SeccompCondition, SeccompRule,
};

use super::filter::{Rules, filter};

/// Of `close_range`: nothing is closed, it ends at the next `exec`.
const CLOSE_RANGE_CLOEXEC: u64 = 4;
/// Of `close_range` and `unshare`: a table of descriptors of the thread's own, where nothing is that others open.
const CLOSE_RANGE_UNSHARE: u64 = 2;
const CLONE_FILES: u64 = 0x400;
#[cfg(target_arch = "x86_64")]
const DUP2: Option<c_long> = Some(libc::SYS_dup2);
#[cfg(not(target_arch = "x86_64"))]
const DUP2: Option<c_long> = None;

/// Restricts this thread and all that it starts, for good: the descriptors of `numbers` stay what they are, and the
/// limit of open files is set by handing the system the structure at `limit`, of which only the host knows.
///
/// # Errors
/// The system does not filter system calls, or not on this processor.
pub fn restrict(numbers: Range<RawFd>, limit: Option<usize>) -> anyhow::Result<()> {
    let program = filter(rules(numbers, limit)?, libc::EPERM).context("making the filter for descriptors")?;
    seccompiler::apply_filter(&program).context("installing the filter for descriptors")
}

fn rules(numbers: Range<RawFd>, limit: Option<usize>) -> anyhow::Result<Rules> {
    let (first, end) = (u64::try_from(numbers.start)?, u64::try_from(numbers.end)?);
    let is_ours = |argument| rule(&[(argument, Dword, Ge, first), (argument, Dword, Lt, end)]);
    let mut rules = BTreeMap::from([
        (libc::SYS_close, vec![is_ours(0)?]),
        (libc::SYS_dup3, vec![is_ours(1)?]),
        (libc::SYS_shutdown, vec![is_ours(0)?]),
        (libc::SYS_close_range, close_range_rules(first, end)?),
        (libc::SYS_unshare, vec![rule(&[(0, Dword, MaskedEq(CLONE_FILES), CLONE_FILES)])?]),
        (libc::SYS_prlimit64, vec![limit_rule(limit)?]),
        (libc::SYS_setrlimit, vec![rule(&[(0, Dword, Eq, u64::from(libc::RLIMIT_NOFILE))])?]),
    ]);
    if let Some(call) = DUP2 {
        rules.insert(call, vec![is_ours(1)?]);
    }
    Ok(rules)
}

/// Closing a range that touches ours, and leaving the table that all share.
fn close_range_rules(first: u64, end: u64) -> anyhow::Result<Vec<SeccompRule>> {
    let closes = (2, Dword, MaskedEq(CLOSE_RANGE_CLOEXEC), 0);
    Ok(vec![
        rule(&[(0, Dword, Lt, end), (1, Dword, Ge, first), closes])?,
        rule(&[(2, Dword, MaskedEq(CLOSE_RANGE_UNSHARE), CLOSE_RANGE_UNSHARE)])?,
    ])
}

/// Setting the limit of open files by another structure; asking for it hands over none.
fn limit_rule(limit: Option<usize>) -> anyhow::Result<SeccompRule> {
    let mut conditions = vec![(1, Dword, Eq, u64::from(libc::RLIMIT_NOFILE)), (2, Qword, Ne, 0)];
    if let Some(limit) = limit {
        conditions.push((2, Qword, Ne, u64::try_from(limit)?));
    }
    rule(&conditions)
}

fn rule(conditions: &[(u8, SeccompCmpArgLen, SeccompCmpOp, u64)]) -> anyhow::Result<SeccompRule> {
    let condition = |(argument, length, is, value): &(u8, SeccompCmpArgLen, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, length.clone(), is.clone(), *value)
    };
    let conditions = conditions.iter().map(condition).collect::<Result<_, _>>()?;
    Ok(SeccompRule::new(conditions)?)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsRawFd as _, IntoRawFd as _};
    use std::process::Command;

    use rustix::io::{Errno, fcntl_dupfd_cloexec};
    use rustix::process::{Resource, getrlimit};

    use super::*;

    /// Numbers that no other test of this process gets.
    const NUMBERS: Range<RawFd> = 700..710;

    /// Runs `work` under the filter, with a descriptor of [`NUMBERS`] and one beyond.
    fn restricted<T: Send + 'static>(limit: Option<usize>, work: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = std::thread::spawn(move || {
            restrict(NUMBERS, limit).unwrap();
            work()
        });
        thread.join().unwrap()
    }

    fn outcome(result: c_long) -> Result<(), Errno> {
        if result == -1 { Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()) } else { Ok(()) }
    }

    #[test]
    fn a_descriptor_of_the_range_is_neither_closed_nor_replaced() {
        restricted(None, || {
            let file = File::open("/dev/null").unwrap();
            let ours = fcntl_dupfd_cloexec(&file, NUMBERS.start).unwrap().into_raw_fd();
            let beyond = fcntl_dupfd_cloexec(&file, NUMBERS.end + 50).unwrap().into_raw_fd();
            assert!(NUMBERS.contains(&ours));
            let from = file.as_raw_fd();
            // SAFETY: the numbers belong to this test, and pointers are not involved.
            unsafe {
                for (name, result) in [
                    ("close", libc::syscall(libc::SYS_close, ours)),
                    ("dup2", libc::dup2(from, ours).into()),
                    ("dup3", libc::dup3(from, ours, libc::O_CLOEXEC).into()),
                    ("shutdown", libc::shutdown(ours, libc::SHUT_RDWR).into()),
                    ("close_range", libc::syscall(libc::SYS_close_range, ours, ours, 0)),
                    ("close_range of all", libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0)),
                    ("close_range aside", libc::syscall(libc::SYS_close_range, beyond, beyond, CLOSE_RANGE_UNSHARE)),
                    ("unshare", libc::unshare(libc::CLONE_FILES).into()),
                ] {
                    assert_eq!(outcome(result), Err(Errno::PERM), "{name}");
                }
                assert!(libc::fcntl(ours, libc::F_GETFD) >= 0, "it is still open");
                assert_eq!(outcome(libc::dup2(from, beyond).into()), Ok(()));
                assert_eq!(outcome(libc::syscall(libc::SYS_close_range, beyond, beyond, 0)), Ok(()));
                assert_eq!(outcome(libc::close(beyond).into()), Err(Errno::BADF), "others are closed as ever");
            }
        });
    }

    #[test]
    fn programs_that_are_started_have_their_streams_and_pipes() {
        let script = "exec 3>&1; echo one | cat >&3; exec 3>&-; echo two >&2; ulimit -n";
        let output = restricted(None, move || Command::new("sh").args(["-c", script]).output().unwrap());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.starts_with("one\n"), "{text}");
        assert_eq!(output.stderr, b"two\n");
    }

    #[test]
    fn the_limit_of_open_files_is_set_by_known_structures_alone() {
        let now = getrlimit(Resource::Nofile);
        let same = libc::rlimit { rlim_cur: now.current.unwrap(), rlim_max: now.maximum.unwrap() };
        let (known, other): (&'static libc::rlimit, libc::rlimit) = (Box::leak(Box::new(same)), same);
        let set = |limit: &libc::rlimit| {
            // SAFETY: the pointer is valid; what it points to is the limit as it is.
            outcome(unsafe { libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, limit, 0_usize) })
        };
        restricted(Some(std::ptr::from_ref(known) as usize), move || {
            assert_eq!((set(known), set(&other)), (Ok(()), Err(Errno::PERM)));
            assert_eq!(getrlimit(Resource::Nofile), now, "asking goes on");
            // SAFETY: the pointer is valid.
            let old_way = unsafe { libc::syscall(libc::SYS_setrlimit, libc::RLIMIT_NOFILE, &raw const other) };
            assert_eq!(outcome(old_way), Err(Errno::PERM));
            // SAFETY: as above; core files are another limit.
            unsafe {
                let mut core: libc::rlimit = std::mem::zeroed();
                assert_eq!(libc::getrlimit(libc::RLIMIT_CORE, &raw mut core), 0);
                assert_eq!(libc::setrlimit(libc::RLIMIT_CORE, &raw const core), 0);
            }
        });
    }
}
