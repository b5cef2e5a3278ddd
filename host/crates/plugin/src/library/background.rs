//! Runs a thread at idle priority: only when no other thread wants the core, and on half of the cores.
//!
//! A plugin's lane that computes without end would take a core from all others. Lowering is always
//! allowed, and a thread is never raised again: it ends instead.
//!
//! Half of the cores, because the lowest priority alone is not enough: a core that has something to
//! compute never looks for what waits at another one, so that others' threads wait there for the
//! scheduler's next tick.

use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::thread::CpuSet;

/// Of sched.h: what the thread starts does not get its policy.
#[cfg(target_os = "linux")]
const RESET_ON_FORK: libc::c_int = 0x4000_0000;

/// The kernel's number of this thread.
#[cfg(target_os = "linux")]
pub fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Elsewhere nothing is done with it.
#[cfg(not(target_os = "linux"))]
pub fn this_thread() -> i32 {
    1
}

/// How much a thread of this process has computed so far; nothing is known of one that has gone.
#[cfg(target_os = "linux")]
pub fn computed(thread: i32) -> Option<Duration> {
    // The clock of a thread, as clock_gettime(2) numbers them: CPUCLOCK_PERTHREAD and CPUCLOCK_SCHED of the kernel.
    let clock = (!thread << 3) | 6;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid during the call; the clock of a thread that is none of ours is an error.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// Elsewhere it is not known.
#[cfg(not(target_os = "linux"))]
pub fn computed(_thread: i32) -> Option<Duration> {
    None
}

/// Gives the thread of this process the lowest priority there is, on half of the cores; says nothing when it has gone.
#[cfg(target_os = "linux")]
pub fn put_back(thread: i32) {
    // SAFETY: all zeros is what SCHED_IDLE wants to see in this plain struct of integers.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // Threads that the plugin starts there are its own, and not behind.
    let policy = libc::SCHED_IDLE | RESET_ON_FORK;
    // SAFETY: the pointer is valid during the call; a number that no thread has is an error.
    if unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) } != 0 {
        let error = std::io::Error::last_os_error();
        tracing::debug!(%error, "a thread that a plugin keeps busy keeps its priority");
    }
    let (thread, half) = (rustix::process::Pid::from_raw(thread), half_of_the_cores());
    if let (Some(thread), Some(half)) = (thread, half)
        && let Err(error) = rustix::thread::sched_setaffinity(Some(thread), &half)
    {
        tracing::debug!(%error, "a thread that a plugin keeps busy keeps all cores");
    }
}

/// The last ones of those that this process may use; `None` when there are not two.
#[cfg(target_os = "linux")]
fn half_of_the_cores() -> Option<CpuSet> {
    let all = rustix::thread::sched_getaffinity(None).ok()?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect();
    let mut half = CpuSet::new();
    cores[cores.len().div_ceil(2)..].iter().for_each(|core| half.set(*core));
    (half.count() > 0).then_some(half)
}

/// Elsewhere the thread keeps its priority; lanes stay bounded in number all the same.
#[cfg(not(target_os = "linux"))]
pub fn put_back(_thread: i32) {}
