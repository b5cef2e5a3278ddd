//! The end of a process that cannot go on, and why. It may run in a signal handler, as `handler` says.

use std::{ffi::c_int, sync::atomic::Ordering};

use super::{
    shm::{self, CrashShm, flags},
    tag::PluginTag,
};

/// The status of a worker that ended itself because its descriptors were changed or taken.
const DESCRIPTORS_LOST: c_int = 71;

/// The status of one that ended itself because a library did not finish opening.
const LOADER_HELD: c_int = 72;

/// Ends the process because descriptors that it lives by were changed. This thread runs code of `tag`.
pub(super) fn end_for_descriptors(tag: PluginTag) {
    let Some(shm) = shm::mine() else { return };
    end(shm, who_changed_descriptors(shm, tag), flags::DESCRIPTORS, DESCRIPTORS_LOST);
}

/// Ends the process because plugins have taken all descriptors, those kept back for new connections, too. `tag` is the
/// one that did it, where that is known. Returns where ends are not recorded: in tests.
pub fn end_for_taken_descriptors(tag: PluginTag) {
    let Some(shm) = shm::mine() else { return };
    end(shm, tag, flags::DESCRIPTORS, DESCRIPTORS_LOST);
}

/// Ends the process because a library of `tag` that is being opened holds the system's loader, for which other threads
/// wait: each that runs a plugin's code for the first time, and whatever opens another library. Returns where ends are
/// not recorded: in tests.
pub fn end_for_opening(tag: PluginTag) {
    let Some(shm) = shm::mine() else { return };
    end(shm, tag, flags::OPENING, LOADER_HELD);
}

fn end(shm: &CrashShm, culprit: PluginTag, flag: u32, status: c_int) -> ! {
    let end = &shm.end;
    if end.state.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
        end.flags.store(flag, Ordering::Relaxed);
        end.tag.store(culprit.bits(), Ordering::Relaxed);
        end.state.store(2, Ordering::SeqCst);
    }
    // SAFETY: ends the process at once. What `exit` would run first may use descriptors that are somebody else's, or
    // wait for the loader.
    unsafe { libc::_exit(status) }
}

/// All code of plugins is followed by a look at the descriptors, so it was code that runs still: of this thread, or of
/// another where this one runs none. When several plugins run it is not known whose it was.
pub(super) fn who_changed_descriptors(shm: &CrashShm, tag: PluginTag) -> PluginTag {
    match shm.only_running() {
        Some(only) if tag.page().is_none() || only.page() == tag.page() => tag.or(only),
        _ => PluginTag::NOBODY,
    }
}
