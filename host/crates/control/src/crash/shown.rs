//! What a thread shows the supervisor: which plugin it runs, for ends that no handler saw, and whether it is the host's
//! own.

use std::cell::Cell;

use super::{shm::RunningSlot, tag::PluginTag};

thread_local! {
    /// Whether the thread is the host's own. On those a plugin's address on the stack may be one of an earlier call.
    static OURS: Cell<bool> = const { Cell::new(false) };
    /// Where the supervisor sees what this thread runs.
    static SLOT: RunningSlot = RunningSlot::claim(OURS.get());
}

/// Shows the supervisor what this thread runs; gives what it showed before. A thread that is ending shows nothing.
pub(super) fn show(tag: PluginTag) -> PluginTag {
    SLOT.try_with(|slot| slot.replace(tag)).unwrap_or_default()
}

/// What this thread shows the supervisor.
pub(super) fn shown() -> PluginTag {
    SLOT.try_with(RunningSlot::shown).unwrap_or_default()
}

/// Marks this thread as the host's own, for as long as it lives.
pub fn be_ours() {
    OURS.set(true);
}

pub fn is_ours() -> bool {
    OURS.get()
}
