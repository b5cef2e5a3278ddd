//! What a library offers beyond its tables, by number: `get_extension` of [`crate::PluginModule`] and of
//! [`crate::HostApi`]. What such a pointer leads to is static and frozen for ever; what it lacks gets another number.

use abi_stable::StableAbi;

use crate::{Answer, Bytes, CallId, CtxId, Fut, HostApiRef, Reply, Slice, Stream};

/// Of [`crate::PluginModule`]: leads to a [`Memory`].
pub const MEMORY: u32 = 1;
/// Of [`crate::HostApi`]: leads to [`Jobs`].
pub const JOBS: u32 = 3;
/// Of [`crate::HostApi`]: leads to an [`HttpClient`].
pub const HTTP_CLIENT: u32 = 8;
/// Of [`crate::HostApi`]: leads to a [`Channels`].
pub const LISTEN: u32 = 19;

/// Numbers that are kept for what was thought of before the freeze. `get_extension` answers null for each of them until
/// its table is defined here; a number means the same in both directions and never changes its meaning.
///
/// ```
/// use cardinal_plugin_abi::extension::reserved;
///
/// /// Of a library without extensions.
/// extern "C" fn get_extension(_: u32) -> *const () {
///     std::ptr::null()
/// }
/// assert!(get_extension(reserved::HEALTH).is_null());
/// ```
pub mod reserved {
    /// Events of the catalogue, handed to the plugin.
    pub const EVENTS: u32 = 2;
    /// Work at set times, beyond `backend.schedule` of the manifest.
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
}

/// How much memory the code of a library holds: the table behind [`MEMORY`]. A library that does not count has none.
///
/// ```
/// use cardinal_plugin_abi::extension::{MEMORY, Memory, MemoryUse};
///
/// extern "C" fn read() -> MemoryUse {
///     MemoryUse { allocated: 5_000, freed: 1_000 } // what the library's allocator has counted
/// }
/// static TABLE: Memory = Memory { read };
///
/// extern "C" fn get_extension(id: u32) -> *const () {
///     if id == MEMORY { (&raw const TABLE).cast() } else { std::ptr::null() }
/// }
/// assert!(!get_extension(MEMORY).is_null());
/// ```
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Memory {
    /// Reads the counts. The host calls it from any thread, at any time; it neither blocks nor allocates. The answer is
    /// for all instances of the library together.
    pub read: extern "C" fn() -> MemoryUse,
}

/// What was counted since the library was opened.
///
/// ```
/// use cardinal_plugin_abi::extension::MemoryUse;
///
/// let (before, after) = (MemoryUse { allocated: 5_000, freed: 1_000 }, MemoryUse { allocated: 9_000, freed: 5_000 });
/// assert_eq!((after.held(), after.allocated - before.allocated), (4_000, 4_000));
/// ```
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes that were allocated.
    pub allocated: u64,
    /// Bytes of these that were freed.
    pub freed: u64,
}

impl MemoryUse {
    /// Returns the bytes that are held; 0 when more was counted as freed than as allocated.
    ///
    /// ```
    /// use cardinal_plugin_abi::extension::MemoryUse;
    ///
    /// assert_eq!(MemoryUse { allocated: 5_000, freed: 1_000 }.held(), 4_000);
    /// ```
    pub const fn held(self) -> u64 {
        self.allocated.saturating_sub(self.freed)
    }
}

/// Requests to other servers, over the host's own connections: the table behind [`HTTP_CLIENT`].
///
/// The host resolves the name, refuses addresses that its operator has not opened, connects to the very address that it
/// checked, and keeps connections for the next request to the same server. It follows no redirects. 32 requests of an
/// instance are under way at once, 256 wait.
///
/// ```
/// use cardinal_plugin_abi::{CtxId, Fut, Reply, Slice, extension::HttpClient, record::{self, http_request}};
///
/// /// Asks for a page, for as long as the instance lives.
/// fn get(client: &HttpClient, ctx: CtxId, url: &str) -> Fut<Reply> {
///     let request = record::write(&[(http_request::URL, url.as_bytes())]);
///     (client.send)(ctx, 0, Slice::new(&request))
/// }
/// ```
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct HttpClient {
    /// Sends one request, a record of [`crate::record::http_request`].
    ///
    /// The future is ready when the head of the answer is there: `status` as it came, from 100 to 999, `headers`,
    /// `extra` a record of [`crate::record::http_answer`], and the body in `stream`, or none when it is empty. It fails
    /// with [`crate::error::HTTP`], or with [`crate::error::INVALID_ARGUMENT`] for a malformed request. With a `call`,
    /// request and body end with it; with 0 they end with the instance. Dropping the future, or the body before its
    /// end, closes the connection.
    pub send: extern "C" fn(ctx: CtxId, call: CallId, request: Slice<'_>) -> Fut<Reply>,
}

/// Work outside of calls, which the host keeps a record of, runs on one host at a time, shows and cancels: the table
/// behind [`JOBS`].
///
/// The handler of a job is an export named `job:<name>`, for a job of the manifest's `backend.jobs`. It runs as a call
/// whose kind ([`crate::record::attr::CALL_KIND`]) is `job`, with the arguments as its body. Its reply says how it
/// ended: 202 that it has stopped before its end because it was asked to, any other success that it is done.
///
/// ```
/// use cardinal_plugin_abi::{Bytes, CtxId, Fut, Slice, extension::Jobs, record::{self, job_start}};
///
/// /// Queues a job for the plugin itself; the answer is `{"id"}`.
/// fn start(jobs: &Jobs, ctx: CtxId, name: &str) -> Fut<Bytes> {
///     (jobs.start)(ctx, 0, Slice::new(&record::write(&[(job_start::NAME, name.as_bytes())])))
/// }
/// ```
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Jobs {
    /// Queues a job of this plugin, for the user of the call or for the plugin itself: a record of
    /// [`crate::record::job_start`]. Answers JSON: `{"id"}`. Fails with [`crate::error::NOT_FOUND`] for a name that the
    /// manifest does not declare, and with [`crate::error::UNAVAILABLE`] and the flag `RETRY` when 50 jobs of the
    /// plugin wait or run.
    pub start: extern "C" fn(ctx: CtxId, call: CallId, request: Slice<'_>) -> Fut<Bytes>,
    /// Says how far the job is whose handler the call is: a record of [`crate::record::job_report`]. The host records
    /// it every two seconds, and at [`save`](Self::save). Does nothing in any other call.
    pub report: extern "C" fn(ctx: CtxId, call: CallId, report: Slice<'_>),
    /// Does the same with a checkpoint, and is ready when all of it is recorded. Answers 1 when the job is to stop,
    /// else 0.
    pub save: extern "C" fn(ctx: CtxId, call: CallId, report: Slice<'_>) -> Fut<Answer>,
}

/// Notifications of PostgreSQL on channels of the plugin's own: the table behind [`LISTEN`].
///
/// PostgreSQL lets every role listen to every channel and notify on it. So a name is the plugin's own word for a
/// channel, and what PostgreSQL calls it ([`channel`](Self::channel)) can be told from nothing but the plugin's login.
/// Plugins on all hosts of one database share their channels.
///
/// The host listens on one connection for all of an instance's streams, one of the plugin's `limits.db_connections`. An
/// instance has 32 streams at most.
///
/// ```
/// use cardinal_plugin_abi::{CtxId, Fut, Slice, Stream, extension::Channels, record::{self, listen}};
///
/// /// Listens for as long as the instance lives.
/// fn hear(channels: &Channels, ctx: CtxId, name: &str) -> Fut<Stream> {
///     (channels.listen)(ctx, 0, Slice::new(&record::write(&[(listen::CHANNEL, name.as_bytes())])))
/// }
/// ```
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Channels {
    /// Listens to a channel, a record of [`crate::record::listen`].
    ///
    /// The future is ready when PostgreSQL listens: what is committed from then on is heard. Each piece of the stream
    /// is one record of [`crate::record::notification`]. The stream keeps 1,000 notifications, or 1 MiB of them, that
    /// were not read yet; what comes while it is full is dropped, and a gap stands in its place. A lost connection is
    /// made again, and a gap follows. With a `call` the stream ends with it; with 0 it ends when another instance takes
    /// this one's place, or it is to stop. Dropping the stream ends the listening.
    ///
    /// Fails with [`crate::error::UNSUPPORTED`] when the plugin has no database or fewer than two connections, with
    /// [`crate::error::INVALID_ARGUMENT`] for a name that is none, and with [`crate::error::UNAVAILABLE`] and the flag
    /// `RETRY` when the database does not answer within 5 seconds or the instance has too many streams.
    pub listen: extern "C" fn(ctx: CtxId, call: CallId, request: Slice<'_>) -> Fut<Stream>,
    /// Answers what PostgreSQL calls a channel of the plugin: text for `pg_notify`, of at most 63 bytes. The name has 1
    /// to 100 bytes of UTF-8. Ready at once.
    pub channel: extern "C" fn(ctx: CtxId, name: Slice<'_>) -> Fut<Bytes>,
}

impl HostApiRef {
    /// Returns the host's jobs; `None` when it has none.
    ///
    /// ```
    /// use cardinal_plugin_abi::{CallId, CtxId, HostApiRef, Slice};
    ///
    /// /// Says how far a job is; nothing on a host that has none.
    /// fn report(host: HostApiRef, ctx: CtxId, call: CallId, report: &[u8]) {
    ///     if let Some(jobs) = host.jobs() {
    ///         (jobs.report)(ctx, call, Slice::new(report));
    ///     }
    /// }
    /// ```
    pub fn jobs(self) -> Option<&'static Jobs> {
        let table = (self.get_extension())(JOBS);
        // SAFETY: the number leads to this table or to nothing, and what it leads to is static.
        unsafe { table.cast::<Jobs>().as_ref() }
    }

    /// Returns the host's HTTP client; `None` when it has none.
    ///
    /// ```
    /// use cardinal_plugin_abi::{Error, HostApiRef, error, extension::HttpClient};
    ///
    /// fn client(host: HostApiRef) -> Result<&'static HttpClient, Error> {
    ///     host.http_client().ok_or_else(|| Error::new(error::UNSUPPORTED, "this host has no HTTP client"))
    /// }
    /// ```
    pub fn http_client(self) -> Option<&'static HttpClient> {
        let table = (self.get_extension())(HTTP_CLIENT);
        // SAFETY: the number leads to this table or to nothing, and what it leads to is static.
        unsafe { table.cast::<HttpClient>().as_ref() }
    }

    /// Returns the host's notifications; `None` when it has none.
    ///
    /// ```
    /// use cardinal_plugin_abi::{Bytes, CtxId, Fut, HostApiRef, Slice};
    ///
    /// /// What PostgreSQL calls a channel, on a host that has notifications.
    /// fn channel(host: HostApiRef, ctx: CtxId, name: &str) -> Option<Fut<Bytes>> {
    ///     host.listen().map(|channels| (channels.channel)(ctx, Slice::text(name)))
    /// }
    /// ```
    pub fn listen(self) -> Option<&'static Channels> {
        let table = (self.get_extension())(LISTEN);
        // SAFETY: the number leads to this table or to nothing, and what it leads to is static.
        unsafe { table.cast::<Channels>().as_ref() }
    }
}
