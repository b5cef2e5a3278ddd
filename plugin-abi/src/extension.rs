//! What a library offers beyond its tables, by number: `get_extension` of [`crate::PluginModule`] and of
//! [`crate::HostApi`]. What such a pointer leads to is static and frozen for ever; what it lacks gets another number.

use abi_stable::StableAbi;

/// Of [`crate::PluginModule`]: leads to a [`Memory`].
pub const MEMORY: u32 = 1;

/// How much memory the code of a library holds.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Memory {
    /// The host calls it, from any thread, at any time; it neither blocks nor allocates. The answer is of all of the
    /// library's instances together.
    pub read: extern "C" fn() -> MemoryUse,
}

/// What was counted since the library was opened.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes that were asked for.
    pub allocated: u64,
    /// Bytes of these that were given back.
    pub freed: u64,
}

impl MemoryUse {
    /// Bytes that are held.
    pub const fn held(self) -> u64 {
        self.allocated.saturating_sub(self.freed)
    }
}
