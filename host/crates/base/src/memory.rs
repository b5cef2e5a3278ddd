//! Freed memory goes back to the system.
//!
//! mimalloc keeps what was freed for a second, and looks for what is older only while it allocates and frees: a process
//! that falls silent after a peak would keep all of it. It is built without huge pages (`no_thp`): a few small blocks
//! in each of five took 10 MiB.

use std::{
    cell::Cell,
    ffi::c_long,
    fs, io,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use libmimalloc_sys::{mi_collect, mi_option_set, mi_option_t};
use parking_lot::Mutex;
use rustix::{
    mm::{Advice, madvise},
    time::{ClockId, clock_gettime},
};
use tokio::task::{JoinSet, spawn_blocking};

/// How often freed memory is given back. One look costs microseconds when there is none.
pub const GIVE_BACK_INTERVAL: Duration = Duration::from_secs(2);

/// Gives back freed memory for as long as the process lives.
pub async fn give_back() {
    let mut every = tokio::time::interval(GIVE_BACK_INTERVAL);
    loop {
        every.tick().await;
        // SAFETY: it takes no pointer, and any thread may call it at any time.
        unsafe { mi_collect(false) };
    }
}

/// The number of mimalloc's option how long freed memory is kept, in milliseconds.
const PURGE_DELAY: mi_option_t = 15;
const PURGE_DELAY_MS: c_long = 1_000;

/// While it lives, freed memory goes back at once. A start reads and packs whole plugins: what it frees would be used
/// again meanwhile for some small thing that stays, and remain in memory with it.
pub struct AtOnce(());

impl AtOnce {
    pub fn begin() -> Self {
        set_purge_delay(0);
        Self(())
    }
}

impl Drop for AtOnce {
    fn drop(&mut self) {
        set_purge_delay(PURGE_DELAY_MS);
    }
}

fn set_purge_delay(milliseconds: c_long) {
    // SAFETY: it takes no pointer, and any thread may call it at any time.
    unsafe { mi_option_set(PURGE_DELAY, milliseconds) }
}

/// How often is looked whether the process has fallen silent.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// A process that is asked for little takes less of the processor in that time.
const SILENT_CPU: Duration = Duration::from_secs(1);
/// After a start, less work than this leaves nothing that is worth a look.
const WORTHWHILE_CPU: Duration = Duration::from_millis(500);

/// How long a thread that has given back its memory keeps from taking the turn of the next one.
const TURN: Duration = Duration::from_millis(5);

/// Gives back what a start, a load or a peak has left in memory, whenever the process has fallen silent after it. What
/// was freed for good stays with the thread that freed it: so many threads for blocking work, which read the plugins
/// and pack their files, wait as a rule.
pub async fn settle(blocking_threads: usize) {
    let (mut before, mut settled) = (Duration::ZERO, None);
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let used = cpu_time();
        let has_worked = settled.is_none_or(|settled| used.saturating_sub(settled) >= WORTHWHILE_CPU);
        if has_worked && used.saturating_sub(before) < SILENT_CPU {
            SILENCES.fetch_add(1, Ordering::Relaxed);
            wake_threads();
            collect();
            collect_each(blocking_threads).await;
            // Not waited for: a plugin may have left a lock of its allocator behind.
            drop(spawn_blocking(trim_system_heap));
            if let Err(error) = release_file_pages() {
                tracing::debug!(%error, "pages of files stay in memory");
            }
            settled = Some(used);
        }
        before = used;
    }
}

/// How often the process has fallen silent after work.
static SILENCES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// At which of them this thread has given back its memory last.
    static COLLECTED: Cell<u64> = const { Cell::new(0) };
}

/// For a runtime's threads, whenever they begin to wait: gives back what this one has freed, once each time that the
/// process has fallen silent.
pub fn collect_when_silent() {
    let silences = SILENCES.load(Ordering::Relaxed);
    if COLLECTED.replace(silences) != silences {
        collect();
    }
}

/// Gives the runtime's threads something to do, so that they begin to wait anew.
fn wake_threads() {
    const WAKE_UPS: usize = 16;
    for _ in 0..WAKE_UPS {
        tokio::spawn(tokio::task::yield_now());
    }
}

/// Has threads for blocking work give back what they have freed, one after the other as they wait.
async fn collect_each(blocking_threads: usize) {
    let mut turns = JoinSet::new();
    for _ in 0..blocking_threads {
        turns.spawn_blocking(|| {
            collect();
            thread::sleep(TURN);
        });
    }
    while turns.join_next().await.is_some() {}
}

/// Gives back what this thread has freed, and what threads have left that have ended.
fn collect() {
    // SAFETY: it takes no pointer, and any thread may call it at any time.
    unsafe { mi_collect(true) };
}

/// Gives back what plugins have freed, which use the system's allocator: glibc keeps it.
fn trim_system_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// What all threads have taken of the processor.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// Where libraries lie that are never unmapped.
static LIBRARIES: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// Notes where a library lies that is open, and that nobody ever unmaps.
pub fn stays_mapped(library: Range<usize>) {
    let mut libraries = LIBRARIES.lock();
    if !libraries.contains(&library) {
        libraries.push(library);
    }
}

/// Gives back all pages of this program and of libraries that stay but those that were written to, as the kernel does
/// when memory is short. What is still in use is mapped again from the file's cache, 64 KiB at a time.
fn release_file_pages() -> io::Result<()> {
    // Before the mappings: what is noted later may have been half mapped when they were read.
    let libraries = LIBRARIES.lock().clone();
    let maps = fs::read_to_string("/proc/self/smaps")?;
    let mappings: Vec<Mapping<'_>> = mappings(&maps).collect();
    let own = release_file_pages as fn() -> io::Result<()> as usize;
    let own = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&own));
    let own = own.ok_or_else(|| io::Error::other("the program's own mapping is not listed"))?;
    let stays = |mapping: &Mapping<'_>| {
        let is_inside = |library: &Range<usize>| library.start <= mapping.start && mapping.end <= library.end;
        mapping.file == own.file || libraries.iter().any(is_inside)
    };
    for mapping in mappings.iter().filter(|mapping| mapping.is_clean && stays(mapping)) {
        // SAFETY: the mapping is private and not writable, and none of its pages is another by relocation: they are the
        // file's, which nobody writes to. Whoever reads one again gets the same from the file. Nothing else is mapped
        // here meanwhile, since programs and these libraries are never unmapped.
        unsafe { madvise(mapping.start as *mut _, mapping.end - mapping.start, Advice::LinuxDontNeed) }?;
    }
    Ok(())
}

/// A mapping of a file.
struct Mapping<'a> {
    start: usize,
    end: usize,
    /// Device, inode and path.
    file: &'a str,
    /// Private, not writable, and without a page of its own.
    is_clean: bool,
}

fn mappings(smaps: &str) -> impl Iterator<Item = Mapping<'_>> {
    let is_head =
        |line: &&str| line.split_once(' ').is_some_and(|(range, _)| range.contains('-') && !range.ends_with(':'));
    let mut lines = smaps.lines().peekable();
    std::iter::from_fn(move || {
        let head = lines.next()?;
        let mut anonymous = None;
        while let Some(line) = lines.next_if(|line| !is_head(line)) {
            if let Some(size) = line.strip_prefix("Anonymous:") {
                anonymous = size.trim().split(' ').next().and_then(|size| size.parse::<u64>().ok());
            }
        }
        Some((head, anonymous))
    })
    .filter_map(|(head, anonymous)| {
        // Range, flags, offset; the rest names the file.
        let mut fields = head.splitn(4, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let (flags, _offset) = (fields.next()?, fields.next()?);
        Some(Mapping {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            file: fields.next()?,
            is_clean: anonymous == Some(0) && flags.ends_with('p') && !flags.contains('w'),
        })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// KiB of the program's code that are in memory.
    fn code_in_memory() -> u64 {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let program = std::env::current_exe().unwrap();
        let is_own_code = |line: &str| line.contains("r-xp") && line.ends_with(program.to_str().unwrap());
        let own = smaps.lines().position(is_own_code).unwrap();
        let rss = smaps.lines().skip(own).find_map(|line| line.strip_prefix("Rss:")).unwrap();
        rss.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        // SAFETY: as for `mi_option_set`.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), PURGE_DELAY_MS, "what mimalloc begins with");
        let at_once = AtOnce::begin();
        assert_eq!(delay(), 0);
        drop(at_once);
        assert_eq!(delay(), PURGE_DELAY_MS);
    }

    #[test]
    fn pages_of_the_program_go_and_come_back() {
        let before = code_in_memory();
        release_file_pages().unwrap();
        let after = code_in_memory();
        assert!(after < before, "{before} KiB before, {after} after");
        // Constants and code are as they were.
        assert_eq!(format!("{:?}", mappings("").count()), "0");
    }

    #[test]
    fn written_pages_and_others_files_stay() {
        let smaps = "1000-3000 r--p 00000000 fe:01 7 /bin/x\nRss: 8 kB\nAnonymous:         4 kB\nVmFlags: rd\n\
            3000-4000 r-xp 00002000 fe:01 7 /bin/x\nAnonymous:         0 kB\n\
            4000-5000 rw-p 00003000 fe:01 7 /bin/x\nAnonymous:         0 kB\n";
        let clean: Vec<_> = mappings(smaps).map(|mapping| (mapping.start, mapping.is_clean)).collect();
        assert_eq!(clean, [(0x1000, false), (0x3000, true), (0x4000, false)]);
        assert!(mappings(smaps).all(|mapping| mapping.file.ends_with("7 /bin/x")));
    }
}
