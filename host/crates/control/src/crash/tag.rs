//! The number by which shared memory, threads and the crash handler name a plugin and its handler.

/// A plugin's page in the shared memory and which of its handlers runs. Small and plain: it is stored before each poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginTag(u64);

impl PluginTag {
    /// The host's own code.
    pub const NOBODY: Self = Self(0);

    /// The plugin of a page, at work for no handler.
    pub fn from_page(page: usize) -> Self {
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

    pub(crate) fn handler_number(self) -> Option<usize> {
        usize::try_from(self.0 & u64::from(u32::MAX)).ok()?.checked_sub(1)
    }

    /// This one, or `other` when it is nobody's.
    pub(super) fn or(self, other: Self) -> Self {
        if self.page().is_none() { other } else { self }
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_holds_page_and_handler() {
        let page = PluginTag::from_page(3);
        assert_eq!((page.page(), page.handler_number()), (Some(3), None));
        let handler = page.handler(0).handler(5);
        assert_eq!((handler.page(), handler.handler_number()), (Some(3), Some(5)));
        assert_eq!((PluginTag::NOBODY.page(), PluginTag::NOBODY.handler(4)), (None, PluginTag::NOBODY));
    }
}
