//! The descriptors that the host depends on, and the limit of open files. A plugin shares the process and can close or
//! change both. A filter of system calls protects those that the host cannot do without (`vital.rs`). Standard input,
//! output and error and the tripwires beside them are watched instead: when one of them is closed or replaced, the
//! descriptors of connections may have been, too, and a client could get another client's data. So the worker ends at
//! once, and the record says whose code ran meanwhile.
//!
//! They are checked whenever a plugin's code has run, and every quarter of a second for everything else.

use std::{
    collections::BTreeSet,
    io,
    os::fd::RawFd,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

use super::{ending::end_for_descriptors, opened, shm, shown, tag::PluginTag, vital};

/// How often everything is checked.
const CHECK_PAUSE: Duration = Duration::from_millis(250);
/// Two listeners full of connections, proxied ones counted twice, and the rest.
const MAX_FILES: u64 = 65_536;
/// Descriptors that only new connections get when all others are taken, and the share of a low limit that they may be.
const RESERVED: u64 = 1_024;
const RESERVED_SHARE: u64 = 8;
/// So many of them are within reach at a time, and so often it is tried while others take those.
const RESERVE_STEP: u64 = 4;
const RESERVE_ATTEMPTS: usize = 4;
const STANDARD_STREAMS: [RawFd; 3] = [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO];

static STREAMS: OnceLock<Vec<OpenDescriptor>> = OnceLock::new();
/// Those of [`vital::NUMBERS`], where no filter keeps them.
static UNGUARDED: OnceLock<Vec<OpenDescriptor>> = OnceLock::new();
static WATCHING: AtomicBool = AtomicBool::new(false);
static LIMIT: OnceLock<Limit> = OnceLock::new();
/// Held by who sets the limit.
static LIMIT_LOCK: Mutex<()> = Mutex::new(());

/// A descriptor and what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenDescriptor {
    descriptor: RawFd,
    device: u64,
    inode: u64,
    mode: u32,
}

/// The limit of open files: what all code gets, and the numbers beyond that connections get.
#[derive(Debug)]
struct Limit {
    usual: u64,
    max: u64,
    set: SystemLimit,
}

/// As the system takes it. The filter knows it by its address.
#[derive(Debug)]
#[repr(C)]
struct SystemLimit {
    current: AtomicU64,
    hard: u64,
}

impl Limit {
    fn new(hard: u64) -> Self {
        let max = hard.min(MAX_FILES);
        let usual = max - RESERVED.min(max / RESERVED_SHARE);
        Self { usual, max, set: SystemLimit { current: AtomicU64::new(usual), hard } }
    }

    /// The lowest of the reserved numbers that is free.
    fn free(&self) -> Option<u64> {
        // SAFETY: asks for flags; a number that is no descriptor is an error.
        let is_free = |number: &u64| unsafe { libc::fcntl(*number as RawFd, libc::F_GETFD) } == -1;
        (self.usual..self.max).find(is_free)
    }
}

/// Held by who calls. By the very structure: what C libraries do on the way may hand over a copy.
fn set(limit: &'static Limit, current: u64) -> io::Result<()> {
    let none = std::ptr::null_mut::<SystemLimit>();
    limit.set.current.store(current, Ordering::SeqCst);
    // SAFETY: sets a limit of this process; the structure is there for ever.
    let done = unsafe { libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &raw const limit.set, none) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks the system for as many open files as the host may need, and keeps some of them back for new connections.
pub fn raise_limit() {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(libc::RLIM_INFINITY);
    let limit = LIMIT.get_or_init(|| Limit::new(hard));
    if let Err(error) = set(limit, limit.usual) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// Where the structure lies by which the limit is set.
pub fn known_limit() -> Option<usize> {
    LIMIT.get().map(|limit| std::ptr::from_ref(&limit.set) as usize)
}

/// Whether this process had no descriptor left for it.
pub fn is_used_up(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}

/// Runs `open`, which opens one descriptor and does not wait, with a few of the reserved ones within reach. Code that
/// opens files all the time may be faster: it gets those few, and `open` runs again with others.
///
/// # Errors
/// Those of `open`.
pub fn with_reserve<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let Some(limit) = LIMIT.get() else { return open() };
    let _alone = LIMIT_LOCK.lock();
    for _ in 1..RESERVE_ATTEMPTS {
        match open_beyond(limit, &mut open) {
            Err(error) if is_used_up(&error) => {}
            opened => return opened,
        }
    }
    open_beyond(limit, &mut open)
}

fn open_beyond<T>(limit: &'static Limit, open: &mut impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let Some(number) = limit.free() else { return open() };
    let raised = set(limit, limit.max.min(number + RESERVE_STEP));
    let opened = open();
    if let Err(error) = raised.and_then(|()| set(limit, limit.usual)) {
        tracing::debug!(%error, "failed to change the limit of open files");
    }
    opened
}

/// Whether few of the reserved descriptors are left behind this one: the system gives the lowest that is free.
pub fn is_among_the_last(descriptor: RawFd) -> bool {
    let descriptor = u64::try_from(descriptor).unwrap_or_default();
    LIMIT.get().is_some_and(|limit| limit.max.saturating_sub(descriptor) < (limit.max - limit.usual) / 4)
}

/// Watches from now on. To be called when all is open that stays until [`stop_watching`]. `is_guarded`: a filter keeps
/// [`vital::NUMBERS`].
///
/// # Errors
/// The thread can't be started, or there are no descriptors for the tripwires.
pub fn watch(is_guarded: bool) -> io::Result<()> {
    vital::guard()?;
    opened::prepare();
    if shm::mine().is_none() {
        return Ok(()); // nobody would start the next worker
    }
    let unguarded = if is_guarded { Vec::new() } else { vital::NUMBERS.filter_map(stat_descriptor).collect() };
    let streams = STANDARD_STREAMS.into_iter().filter_map(stat_descriptor).collect();
    if STREAMS.set(streams).and(UNGUARDED.set(unguarded)).is_err() {
        return Err(io::Error::other("descriptors are watched already"));
    }
    WATCHING.store(true, Ordering::SeqCst);
    thread::Builder::new().name("descriptors".to_owned()).spawn(|| {
        shown::be_ours();
        let mut non_blocking = NonBlockingDescriptors::default();
        while WATCHING.load(Ordering::SeqCst) {
            check();
            end_unless(are_kept(&UNGUARDED), PluginTag::NOBODY);
            put_limit_back();
            non_blocking.restore(vital::NUMBERS);
            thread::sleep(CHECK_PAUSE);
        }
    })?;
    Ok(())
}

/// The worker closes its descriptors itself from here on.
pub fn stop_watching() {
    WATCHING.store(false, Ordering::SeqCst);
}

/// Ends the process when a standard stream or a tripwire is gone or another one.
pub fn check() {
    end_unless(are_whole(), shown::shown());
}

/// The same for the tripwires alone: for wherever a plugin's code returns.
pub fn check_tripwires() {
    end_unless(!WATCHING.load(Ordering::Relaxed) || !vital::is_tripped(), shown::shown());
}

/// Whether all watched descriptors are intact. May be asked in a signal handler.
pub(crate) fn are_whole() -> bool {
    !WATCHING.load(Ordering::Relaxed) || (!vital::is_tripped() && are_kept(&STREAMS))
}

fn are_kept(watched: &OnceLock<Vec<OpenDescriptor>>) -> bool {
    watched.get().is_none_or(|watched| watched.iter().all(|known| stat_descriptor(known.descriptor) == Some(*known)))
}

fn end_unless(intact: bool, tag: PluginTag) {
    if !intact && WATCHING.load(Ordering::SeqCst) {
        end_for_descriptors(tag);
    }
}

/// Where no filter refuses it, a plugin can have changed the limit.
fn put_limit_back() {
    let Some(limit) = LIMIT.get() else { return };
    let Some(_alone) = LIMIT_LOCK.try_lock() else { return }; // a connection is being accepted
    let found = getrlimit(Resource::Nofile).current;
    if found == Some(limit.usual) {
        return;
    }
    match set(limit, limit.usual) {
        Ok(()) => tracing::warn!(found, "the limit of open files was changed; restoring it"),
        Err(_) => end_for_descriptors(PluginTag::NOBODY),
    }
}

/// Descriptors that were seen not to block. No filter can keep that: native code reaches the same open socket by a copy
/// under another number. A listener that blocks takes a thread of the core for as long as nobody connects.
#[derive(Default)]
struct NonBlockingDescriptors(BTreeSet<RawFd>);

impl NonBlockingDescriptors {
    /// Makes those not block again that do; how many did.
    fn restore(&mut self, numbers: impl Iterator<Item = RawFd>) -> usize {
        let mut restored = 0;
        for descriptor in numbers {
            // SAFETY: asks for flags; a number that is no descriptor is an error.
            let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
            if flags == -1 {
                continue;
            }
            if flags & libc::O_NONBLOCK != 0 {
                self.0.insert(descriptor);
            } else if self.0.contains(&descriptor) {
                // SAFETY: sets flags that were asked for, and one more.
                unsafe { libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) };
                tracing::warn!(descriptor, "native code made a socket of the host block; restored it");
                restored += 1;
            }
        }
        restored
    }
}

fn stat_descriptor(descriptor: RawFd) -> Option<OpenDescriptor> {
    // SAFETY: a `stat` of zeros is one.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the out pointer is valid; a number that is no descriptor is an error.
    let result = unsafe { libc::fstat(descriptor, &raw mut found) };
    (result == 0).then_some(OpenDescriptor {
        descriptor,
        device: found.st_dev,
        inode: found.st_ino,
        mode: found.st_mode,
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_descriptor_that_was_replaced_is_another_one() {
        let (one, other) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), std::io::pipe().unwrap().0);
        let before = stat_descriptor(one.as_raw_fd()).unwrap();
        assert_eq!(stat_descriptor(one.as_raw_fd()), Some(before));
        assert_ne!(stat_descriptor(other.as_raw_fd()).map(|it| it.inode), Some(before.inode));
        assert_eq!(stat_descriptor(-1), None);
    }

    #[test]
    fn what_did_not_block_does_not_block_again() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (number, mut non_blocking) = (listener.as_raw_fd(), NonBlockingDescriptors::default());
        let accept = || listener.accept().unwrap_err().kind();
        assert_eq!(
            non_blocking.restore([number, -1].into_iter()),
            0,
            "one that blocks from the beginning is left alone"
        );
        listener.set_nonblocking(true).unwrap();
        assert_eq!(non_blocking.restore([number].into_iter()), 0);
        listener.set_nonblocking(false).unwrap();
        assert_eq!(non_blocking.restore([number].into_iter()), 1);
        assert_eq!(accept(), io::ErrorKind::WouldBlock);
        assert_eq!(non_blocking.restore([number].into_iter()), 0);
    }

    #[test]
    fn some_descriptors_are_kept_back() {
        for (hard, usual, max) in
            [(1 << 20, 64_512, 65_536), (1_024, 896, 1_024), (libc::RLIM_INFINITY, 64_512, MAX_FILES)]
        {
            let limit = Limit::new(hard);
            assert_eq!((limit.usual, limit.max, limit.set.hard), (usual, max, hard));
        }
    }
}
