//! Puts a thread behind all others: it runs only where nobody else wants to.
//!
//! A plugin's lane that computes without end would take a core from everybody. Lowering is always
//! allowed, and a thread is never raised again: it ends instead.

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

/// Gives the thread of this process the lowest priority there is; says nothing when it has gone.
#[cfg(target_os = "linux")]
pub fn put_back(thread: i32) {
    // SAFETY: all zeros is what SCHED_IDLE wants to see in this plain struct of integers.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid during the call; a number that no thread has is an error.
    if unsafe { libc::sched_setscheduler(thread, libc::SCHED_IDLE, &raw const parameters) } != 0 {
        let error = std::io::Error::last_os_error();
        tracing::debug!(%error, "a thread that a plugin keeps busy keeps its priority");
    }
}

/// Elsewhere the thread keeps its priority; lanes stay bounded in number all the same.
#[cfg(not(target_os = "linux"))]
pub fn put_back(_thread: i32) {}
