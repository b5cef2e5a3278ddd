//! Which plugin this thread is running right now. The crash handler reads it to name the culprit, so it is a plain
//! thread-local cell: two stores a poll, no allocation, no lock.

use std::cell::Cell;

pub use super::shown::{be_ours, is_ours};
use super::{
    descriptors,
    shown::{show, shown},
    tag::PluginTag,
};

thread_local! {
    static CURRENT: Cell<PluginTag> = const { Cell::new(PluginTag::NOBODY) };
}

/// Whose code this thread runs.
pub fn tag() -> PluginTag {
    CURRENT.get()
}

/// Marks this thread as running code of a plugin until the guard is dropped.
#[must_use]
pub fn enter(tag: PluginTag) -> TagGuard {
    TagGuard { before: CURRENT.replace(tag), shown_before: show(tag) }
}

/// Marks this thread as a plugin's own, for as long as it lives.
pub fn belong_to(tag: PluginTag) {
    CURRENT.set(tag);
}

/// Shows that no plugin's code runs here any more, though the thread is still marked: for what the host does between
/// the plugin's last line and the end of the mark. Whoever gets the plugin's answer may have anything happen next, and
/// of that this thread is not suspected. What was done to descriptors so far is still the plugin's.
pub fn rest() {
    if shown() != PluginTag::NOBODY {
        descriptors::check();
        show(PluginTag::NOBODY);
    }
}

/// See [`enter`]. Tags nest: a plugin's future may poll a host's future that polls another's.
pub struct TagGuard {
    before: PluginTag,
    /// Not the same on a thread that belongs to a plugin and rests.
    shown_before: PluginTag,
}

impl Drop for TagGuard {
    fn drop(&mut self) {
        // While it still shows whose code has run. On the core's threads calls are looked after poll by poll.
        if !is_ours() {
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
        let (outer, inner) = (PluginTag::from_page(7), PluginTag::from_page(9).handler(0));
        let entered = enter(outer);
        {
            let _inner = enter(inner);
            assert_eq!(tag(), inner);
        }
        assert_eq!(tag(), outer);
        drop(entered);
        assert_eq!(tag(), PluginTag::NOBODY);
    }
}
