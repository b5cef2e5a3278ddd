//! Freed memory goes back to the system.
//!
//! mimalloc keeps what was freed for a second, and looks for what is older only while it allocates and frees: a process
//! that falls silent after a peak would keep all of it. It is built without huge pages (`no_thp`): a few small blocks
//! in each of five took 10 MiB.

mod file_pages;
mod heap;

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use tokio::task::{JoinSet, spawn_blocking};

use self::heap::{Collection, collect};
pub use self::{file_pages::stays_mapped, heap::AtOnce};

/// How often freed memory is given back. One look costs microseconds when there is none.
pub const GIVE_BACK_INTERVAL: Duration = Duration::from_secs(2);
/// How often is looked whether the process has fallen silent.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// A process that is asked for little takes less of the processor in that time.
const SILENT_CPU: Duration = Duration::from_secs(1);
/// After a start, less work than this leaves nothing that is worth a look.
const WORTHWHILE_CPU: Duration = Duration::from_millis(500);
/// How long a thread that has given back its memory keeps from taking the turn of the next one.
const TURN: Duration = Duration::from_millis(5);
/// Tasks that do nothing, of which each of the runtime's threads gets some.
const WAKE_UPS: usize = 16;

/// How often the process has fallen silent after work.
static SILENCES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// At which of them this thread has given back its memory last.
    static COLLECTED: Cell<u64> = const { Cell::new(0) };
}

/// Gives back freed memory for as long as the process lives.
pub async fn give_back() {
    let mut every = tokio::time::interval(GIVE_BACK_INTERVAL);
    loop {
        every.tick().await;
        collect(Collection::Expired);
    }
}

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
            collect_everywhere(blocking_threads).await;
            settled = Some(used);
        }
        before = used;
    }
}

async fn collect_everywhere(blocking_threads: usize) {
    SILENCES.fetch_add(1, Ordering::Relaxed);
    wake_threads();
    collect(Collection::All);
    collect_each(blocking_threads).await;
    // Not waited for: a plugin may have left a lock of its allocator behind.
    drop(spawn_blocking(heap::trim_system_heap));
    if let Err(error) = file_pages::release() {
        tracing::debug!(%error, "pages of files stay in memory");
    }
}

/// For a runtime's threads, whenever they begin to wait: gives back what this one has freed, once each time that the
/// process has fallen silent.
pub fn collect_when_silent() {
    let silences = SILENCES.load(Ordering::Relaxed);
    if COLLECTED.replace(silences) != silences {
        collect(Collection::All);
    }
}

/// Gives the runtime's threads something to do, so that they begin to wait anew.
fn wake_threads() {
    for _ in 0..WAKE_UPS {
        tokio::spawn(tokio::task::yield_now());
    }
}

/// Has threads for blocking work give back what they have freed, one after the other as they wait.
async fn collect_each(blocking_threads: usize) {
    let mut turns = JoinSet::new();
    for _ in 0..blocking_threads {
        turns.spawn_blocking(|| {
            collect(Collection::All);
            thread::sleep(TURN);
        });
    }
    while turns.join_next().await.is_some() {}
}

/// What all threads have taken of the processor.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}
