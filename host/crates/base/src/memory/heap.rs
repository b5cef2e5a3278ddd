//! What the allocators keep: mimalloc, which is the program's, and the system's, which plugins use.

use std::ffi::c_long;

use libmimalloc_sys::{mi_collect, mi_option_set, mi_option_t};

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

/// How much of this thread's free memory is to go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Collection {
    /// What was freed longer ago than the purge delay.
    Expired,
    /// All, and what threads have left that have ended.
    All,
}

/// Gives back what this thread has freed.
pub(super) fn collect(collection: Collection) {
    // SAFETY: it takes no pointer, and any thread may call it at any time.
    unsafe { mi_collect(collection == Collection::All) };
}

/// Gives back what plugins have freed: glibc keeps it.
pub(super) fn trim_system_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer, and any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
