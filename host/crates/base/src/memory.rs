//! Freed memory goes back to the system.
//!
//! mimalloc keeps what was freed for a second, and looks for what is older only while it allocates and frees: a process
//! that falls silent after a peak would keep all of it. It is built without huge pages (`no_thp`): a few small blocks
//! in each of five took 10 MiB.

use std::time::Duration;

/// How often freed memory is given back. One look costs microseconds when there is none.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(2);

/// Gives back freed memory for as long as the process lives.
pub async fn give_back() {
    let mut every = tokio::time::interval(GIVE_BACK_EVERY);
    loop {
        every.tick().await;
        // SAFETY: it takes no pointer, and any thread may call it at any time.
        unsafe { libmimalloc_sys::mi_collect(false) };
    }
}
