//! The descriptors that the host lives by, and the limit of open files. A plugin can close them, put others in their
//! place and change the limit, since they are the process's. Whoever goes on then serves nobody, or serves one client
//! what is another's; so the worker ends at once, and says on whose behalf the thread ran that did it.
//!
//! They are looked at after each poll on a plugin's own threads, where the plugin is known, and every quarter of a
//! second for everything else.

use std::{
    io,
    os::fd::RawFd,
    sync::{
        Mutex, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{
    current::{self, Mark},
    handler, ledger,
};

/// How often everything is looked at.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// Descriptors that are looked at; what a worker lives by are about fifteen.
const MOST_WATCHED: usize = 32;
/// Two listeners full of connections, proxied ones counted twice, and the rest.
const MOST_FILES: u64 = 65_536;
/// Descriptors that only new connections get when all others are taken, and the share of a low limit that they may be.
const RESERVED: u64 = 1_024;
const RESERVED_SHARE: u64 = 8;

static WATCHED: OnceLock<Vec<Known>> = OnceLock::new();
static WATCHING: AtomicBool = AtomicBool::new(false);
static LIMIT: Mutex<Option<Limit>> = Mutex::new(None);

/// A descriptor and what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    descriptor: RawFd,
    device: u64,
    inode: u64,
    mode: u32,
}

/// The limit of open files: what all code gets, and what connections get beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    usual: u64,
    with_reserve: u64,
    hard: Option<u64>,
}

impl Limit {
    fn new(hard: Option<u64>) -> Self {
        let with_reserve = hard.unwrap_or(MOST_FILES).min(MOST_FILES);
        let reserved = RESERVED.min(with_reserve / RESERVED_SHARE);
        Self { usual: with_reserve - reserved, with_reserve, hard }
    }

    fn set(self, current: u64) -> io::Result<()> {
        Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: self.hard })?)
    }
}

/// Asks the system for as many open files as the host may need, and keeps some of them back for new connections.
pub fn raise_limit() {
    let limit = Limit::new(getrlimit(Resource::Nofile).maximum);
    match limit.set(limit.usual) {
        Ok(()) => *LIMIT.lock().unwrap_or_else(PoisonError::into_inner) = Some(limit),
        Err(error) => tracing::debug!(%error, "the limit of open files stays as it is"),
    }
}

/// Runs `open` with the reserved descriptors within reach. It must not wait.
pub fn with_reserve<T>(open: impl FnOnce() -> T) -> T {
    let limit = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(limit) = *limit else { return open() };
    let raised = limit.set(limit.with_reserve);
    let opened = open();
    if raised.and_then(|()| limit.set(limit.usual)).is_err() {
        tracing::debug!("the limit of open files could not be changed");
    }
    opened
}

/// Whether few of the reserved descriptors are left behind this one: the system gives the lowest that is free.
pub fn is_among_the_last(descriptor: RawFd) -> bool {
    let limit = *LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let descriptor = u64::try_from(descriptor).unwrap_or_default();
    limit.is_some_and(|limit| limit.with_reserve.saturating_sub(descriptor) < (limit.with_reserve - limit.usual) / 4)
}

/// Watches from now on what is open now: standard streams, sockets and what waits for them. To be called when all of
/// those are there that stay until [`stop_watching`], and nothing else.
///
/// # Errors
/// The thread can't be started, or the system does not say what is open.
pub fn watch() -> io::Result<()> {
    if ledger::mine().is_none() {
        return Ok(()); // nobody would start the next worker
    }
    WATCHED.set(open_now()?).map_err(|_| io::Error::other("descriptors are watched already"))?;
    WATCHING.store(true, Ordering::SeqCst);
    thread::Builder::new().name("descriptors".to_owned()).spawn(|| {
        current::be_ours();
        while WATCHING.load(Ordering::SeqCst) {
            thread::sleep(LOOK_PAUSE);
            check(Mark::NOBODY);
        }
    })?;
    Ok(())
}

/// The worker closes its descriptors itself from here on.
pub fn stop_watching() {
    WATCHING.store(false, Ordering::SeqCst);
}

/// Ends the process when a descriptor is another one or gone, or the limit was lowered for good. `mark` is the plugin,
/// and its handler, whose code has just run on this thread.
pub fn check(mark: Mark) {
    if !WATCHING.load(Ordering::Relaxed) {
        return;
    }
    let is_whole =
        WATCHED.get().is_none_or(|watched| watched.iter().all(|known| look(known.descriptor) == Some(*known)));
    if (is_whole && limit_is_kept(mark)) || !WATCHING.load(Ordering::SeqCst) {
        return;
    }
    handler::end_for_descriptors(mark);
}

/// Puts the limit back that a plugin has changed; `false` when that is not allowed any more.
fn limit_is_kept(mark: Mark) -> bool {
    let limit = match LIMIT.try_lock() {
        Ok(limit) => limit,
        Err(TryLockError::Poisoned(limit)) => limit.into_inner(),
        Err(TryLockError::WouldBlock) => return true, // a connection is being accepted
    };
    let Some(limit) = *limit else { return true };
    let now = getrlimit(Resource::Nofile);
    if now.current == Some(limit.usual) && now.maximum == limit.hard {
        return true;
    }
    let is_kept = limit.set(limit.usual).is_ok();
    if is_kept {
        let plugin = ledger::mine().and_then(|ledger| ledger.page(mark)).map(|page| page.name.read());
        tracing::warn!(plugin, found = now.current, limit.usual, "the limit of open files was changed; it is put back");
    }
    is_kept
}

fn look(descriptor: RawFd) -> Option<Known> {
    // SAFETY: a `stat` of zeros is one.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the out pointer is valid; a number that is no descriptor is an error.
    let asked = unsafe { libc::fstat(descriptor, &raw mut found) };
    (asked == 0).then_some(Known { descriptor, device: found.st_dev, inode: found.st_ino, mode: found.st_mode })
}

/// What stays open: files and folders may be open for a moment only.
fn open_now() -> io::Result<Vec<Known>> {
    let mut watched = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let Some(descriptor) = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else { continue };
        let stands_for = std::fs::read_link(entry.path()).unwrap_or_default();
        let stands_for = stands_for.to_string_lossy();
        let stays = ["socket:", "pipe:", "/memfd:", "anon_inode:[eventpoll]", "anon_inode:[eventfd]"].iter();
        if descriptor <= libc::STDERR_FILENO || stays.into_iter().any(|kind| stands_for.starts_with(kind)) {
            watched.extend(look(descriptor));
        }
    }
    watched.sort_unstable_by_key(|known| known.descriptor);
    watched.truncate(MOST_WATCHED);
    Ok(watched)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_descriptor_that_was_replaced_is_another_one() {
        let (one, other) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), std::io::pipe().unwrap().0);
        let before = look(one.as_raw_fd()).unwrap();
        assert_eq!(look(one.as_raw_fd()), Some(before));
        assert_ne!(look(other.as_raw_fd()).map(|it| it.inode), Some(before.inode));
        assert!(open_now().unwrap().contains(&before));
        assert_eq!(look(-1), None);
    }

    #[test]
    fn some_descriptors_are_kept_back() {
        assert_eq!(Limit::new(Some(1 << 20)), Limit { usual: 64_512, with_reserve: 65_536, hard: Some(1 << 20) });
        assert_eq!(Limit::new(Some(1_024)), Limit { usual: 896, with_reserve: 1_024, hard: Some(1_024) });
        assert_eq!(Limit::new(None).with_reserve, MOST_FILES);
    }
}
