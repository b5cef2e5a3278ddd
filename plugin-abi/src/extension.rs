//! What a library offers beyond its tables, by number: `get_extension` of [`crate::PluginModule`] and of
//! [`crate::HostApi`]. What such a pointer leads to is static and frozen for ever; what it lacks gets another number.

use abi_stable::StableAbi;

use crate::{CallId, CtxId, Fut, HostApiRef, Reply, Slice};

/// Of [`crate::PluginModule`]: leads to a [`Memory`].
pub const MEMORY: u32 = 1;
/// Of [`crate::HostApi`]: leads to an [`HttpClient`].
pub const HTTP_CLIENT: u32 = 8;

/// Numbers that are kept for what was thought of before the freeze. `get_extension` answers null for each of them until
/// its table is defined here; a number means the same in both directions and never changes its meaning.
pub mod reserved {
    /// Events of the catalogue, handed to the plugin.
    pub const EVENTS: u32 = 2;
    /// Jobs: start, progress, cancellation, going on after a restart.
    pub const JOBS: u32 = 3;
    /// Work at set times.
    pub const SCHEDULE: u32 = 4;
    /// The plugin's own check of settings before they are stored.
    pub const SETTINGS_CHECK: u32 = 5;
    /// The plugin's own word on whether it is well.
    pub const HEALTH: u32 = 6;
    /// Code that runs between two versions of the plugin's schema.
    pub const MIGRATION: u32 = 7;
    /// Large objects that the host keeps.
    pub const BLOBS: u32 = 9;
    /// Values by key that the host keeps.
    pub const KEY_VALUE: u32 = 10;
    /// The plugin's word on a card before it is written.
    pub const VALIDATORS: u32 = 11;
    /// Fields of cards that the plugin computes.
    pub const DERIVED_FIELDS: u32 = 12;
    /// Pages of the Admin UI.
    pub const ADMIN_PAGES: u32 = 13;
    /// Columns and filters of the list of cards.
    pub const LIST_COLUMNS: u32 = 14;
    /// Actions on one card or many.
    pub const CARD_ACTIONS: u32 = 15;
    /// Resources for MCP clients.
    pub const MCP_RESOURCES: u32 = 16;
    /// Prompts for MCP clients.
    pub const MCP_PROMPTS: u32 = 17;
    /// Spans below that of a call.
    pub const TRACING: u32 = 18;
    /// Notifications of PostgreSQL.
    pub const LISTEN: u32 = 19;
}

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

/// Requests to other servers, over the host's own connections.
///
/// The host resolves the name, refuses addresses that its operator has not opened, connects to the very address that it
/// checked, and keeps connections for the next request to the same server. It follows no redirects.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct HttpClient {
    /// Sends one request, a record of [`crate::record::http_request`]. Ready when the head of the answer is there:
    /// `status` as it came, from 100 to 999, `headers`, `extra` a record of [`crate::record::http_answer`], and the body
    /// in `stream`, or none when it is empty. Fails with [`crate::error::HTTP`], or with
    /// [`crate::error::INVALID_ARGUMENT`] for a request that is none. With a `call`, request and body end with it; with 0
    /// they end with the instance.
    pub send: extern "C" fn(ctx: CtxId, call: CallId, request: Slice<'_>) -> Fut<Reply>,
}

impl HostApiRef {
    /// The host's HTTP client; `None` when it has none.
    pub fn http_client(self) -> Option<&'static HttpClient> {
        let table = (self.get_extension())(HTTP_CLIENT);
        // SAFETY: the number leads to this table or to nothing, and what it leads to is static.
        unsafe { table.cast::<HttpClient>().as_ref() }
    }
}
