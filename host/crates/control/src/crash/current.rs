//! Which plugin this thread is running right now. The crash handler reads it to name the culprit, so it is a plain
//! thread-local cell: two stores a poll, no allocation, no lock. The supervisor sees the same in the shared memory, for ends
//! that no handler saw.

use std::cell::Cell;

use super::{descriptors, shm::RunningSlot};

thread_local! {
    static CURRENT: Cell<PluginTag> = const { Cell::new(PluginTag::NOBODY) };
    /// Whether the thread is the host's own. On those a plugin's address on the stack may be one of an earlier call.
    static OURS: Cell<bool> = const { Cell::new(false) };
    /// Where the supervisor sees what this thread runs.
    static SLOT: RunningSlot = RunningSlot::claim(OURS.get());
}

/// A plugin's page in the shared memory and which of its handlers runs. Small and plain: it is stored before each poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginTag(u64);

impl PluginTag {
    /// The host's own code.
    pub const NOBODY: Self = Self(0);

    /// The plugin of a page, at work for no handler.
    pub fn of_page(page: usize) -> Self {
        Self((page as u64 + 1) << 32)
    }

    /// The same plugin at work for a handler.
    #[must_use]
    pub fn handler(self, number: u32) -> Self {
        if self.page().is_none() { self } else { Self(self.0 & !u64::from(u32::MAX) | (u64::from(number) + 1)) }
    }

    pub fn page(self) -> Option<usize> {
        usize::try_from(self.0 >> 32).ok()?.checked_sub(1)
    }

    pub fn handler_number(self) -> Option<usize> {
        usize::try_from(self.0 & u64::from(u32::MAX)).ok()?.checked_sub(1)
    }

    /// This one, or `other` when it is nobody's.
    pub(super) fn or(self, other: Self) -> Self {
        if self.page().is_none() { other } else { self }
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn of_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// Whose code this thread runs.
pub fn mark() -> PluginTag {
    CURRENT.get()
}

/// Marks this thread as running code of a plugin until the mark is dropped.
#[must_use]
pub fn enter(mark: PluginTag) -> Entered {
    Entered { before: CURRENT.replace(mark), shown_before: show(mark) }
}

/// Shows the supervisor what this thread runs; gives what it showed before. A thread that is ending shows nothing.
pub(super) fn show(mark: PluginTag) -> PluginTag {
    SLOT.try_with(|slot| slot.replace(mark)).unwrap_or_default()
}

/// What this thread shows the supervisor.
pub(super) fn shown() -> PluginTag {
    SLOT.try_with(RunningSlot::shown).unwrap_or_default()
}

/// Marks this thread as a plugin's own, for as long as it lives.
pub fn belong_to(mark: PluginTag) {
    CURRENT.set(mark);
}

/// Marks this thread as the host's own, for as long as it lives.
pub fn be_ours() {
    OURS.set(true);
}

pub fn is_ours() -> bool {
    OURS.get()
}

/// See [`enter`]. Marks nest: a plugin's future may poll a host's future that polls another's.
pub struct Entered {
    before: PluginTag,
    /// Not the same on a thread that belongs to a plugin and rests.
    shown_before: PluginTag,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // While it still shows whose code has run. On the core's threads calls are looked after poll by poll.
        if !OURS.get() {
            descriptors::check_tripwires();
        }
        CURRENT.set(self.before);
        show(self.shown_before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_nest() {
        let (outer, inner) = (PluginTag::of_page(7), PluginTag::of_page(9).handler(0));
        let entered = enter(outer);
        {
            let _inner = enter(inner);
            assert_eq!(mark(), inner);
        }
        assert_eq!(mark(), outer);
        drop(entered);
        assert_eq!(mark(), PluginTag::NOBODY);
    }

    #[test]
    fn a_mark_holds_page_and_handler() {
        let page = PluginTag::of_page(3);
        assert_eq!((page.page(), page.handler_number()), (Some(3), None));
        let handler = page.handler(0).handler(5);
        assert_eq!((handler.page(), handler.handler_number()), (Some(3), Some(5)));
        assert_eq!((PluginTag::NOBODY.page(), PluginTag::NOBODY.handler(4)), (None, PluginTag::NOBODY));
    }
}
