//! What the host gives a plugin: the table of its functions, and the numbers and answers in it.

use abi_stable::StableAbi;

use crate::{Bytes, Fut, Slice, Stream};

/// The number of a plugin instance's context. The host gives it at `create` and refuses it after the instance's
/// retirement. Like every number here but a statement's it is random and a secret of its holder.
///
/// ```
/// use cardinal_plugin_abi::{Bytes, CtxId, HostApiRef};
///
/// fn settings(host: HostApiRef, ctx: CtxId) -> Bytes {
///     (host.settings())(ctx)
/// }
/// ```
pub type CtxId = u64;
/// The number of a call in flight, refused once the call is over; 0 means no call (the plugin itself is at work).
///
/// ```
/// use cardinal_plugin_abi::CallId;
///
/// const NO_CALL: CallId = 0; // the plugin itself is at work
/// ```
pub type CallId = u64;
/// The number of a database connection that is checked out, refused once it was given back.
///
/// ```
/// use cardinal_plugin_abi::{CtxId, HostApiRef, host::ConnId};
///
/// fn give_back(host: HostApiRef, ctx: CtxId, conn: ConnId) {
///     (host.db_release())(ctx, conn);
/// }
/// ```
pub type ConnId = u64;
/// The number of a prepared statement. It counts the statements of one connection and means nothing on another.
///
/// ```
/// use cardinal_plugin_abi::{Answer, CtxId, Fut, HostApiRef, Slice, host::{ConnId, StmtId}};
///
/// /// Runs a statement of this connection that takes no parameters.
/// fn run(host: HostApiRef, ctx: CtxId, conn: ConnId, statement: StmtId) -> Fut<Answer> {
///     (host.db_execute())(ctx, conn, statement, Slice::default())
/// }
/// ```
pub type StmtId = u64;

/// A UUID. (A struct: C has no way to pass an array by value.)
///
/// ```
/// use cardinal_plugin_abi::host::Id;
///
/// let id = Id::from(0x0190_d3a0_0000_7000_8000_0000_0000_0001_u128.to_be_bytes());
/// assert_eq!(id.bytes[..2], [0x01, 0x90]);
/// ```
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    /// The 16 bytes, in network order.
    pub bytes: [u8; 16],
}

impl From<[u8; 16]> for Id {
    fn from(bytes: [u8; 16]) -> Self {
        Self { bytes }
    }
}

/// What a host function answers when it is a number, with room to grow.
///
/// ```
/// use cardinal_plugin_abi::Answer;
///
/// let changed_rows = Answer::from(3);
/// assert!(changed_rows.number == 3 && changed_rows.extra.get().is_empty());
/// ```
#[repr(C)]
#[derive(StableAbi, Debug, Default)]
pub struct Answer {
    /// The number; the function says what it counts.
    pub number: u64,
    /// A record ([`crate::record`]) for what later versions add; empty today.
    pub extra: Bytes,
}

impl From<u64> for Answer {
    fn from(number: u64) -> Self {
        Self { number, extra: Bytes::EMPTY }
    }
}

/// Numbers that [`HostApi::cancelled`] answers. A reader treats one that it does not know like the others: it stops.
///
/// ```
/// use cardinal_plugin_abi::host::cancel;
///
/// /// Whether the work may be begun again at once.
/// fn goes_on_elsewhere(reason: u64) -> bool {
///     matches!(reason, cancel::STOPPING | cancel::JOB)
/// }
/// assert!(goes_on_elsewhere(cancel::STOPPING) && !goes_on_elsewhere(cancel::DEADLINE));
/// ```
pub mod cancel {
    /// The call is over: its reply was sent, or its client has gone.
    pub const CALL_ENDED: u64 = 1;
    /// The deadline of the call has passed.
    pub const DEADLINE: u64 = 2;
    /// The plugin is to stop.
    pub const STOPPING: u64 = 3;
    /// The job is to stop at its next checkpoint: somebody has cancelled it, or its plugin or its host is being
    /// replaced.
    pub const JOB: u64 = 4;
}

/// The host's functions.
///
/// * `call` is the call that the plugin works for, whose rights count; 0 when the plugin itself is at work, as its
///   service user. Nobody can be named by an argument.
/// * `extra` is a record ([`crate::record`]) of what later versions add; empty today, and unknown numbers are ignored.
/// * They take numbers that the host looks up and refuses ([`crate::error::BAD_HANDLE`]) when the
///   context is retired, the call is over or the connection was given back, and on a thread that the host knows to run
///   another plugin; never pointers.
/// * Every one may be called from any thread, with or without an async runtime, also after the
///   plugin's shutdown. None blocks.
/// * What a future stands for runs on the host's runtime from the moment that it is made (its
///   first poll only fetches the outcome); dropping it cancels the work.
/// * [`Slice`] arguments are read before the function returns; the futures don't borrow them.
/// * JSON is UTF-8; a result's JSON may gain fields.
///
/// The table grows at the end only, as [`crate::PluginModule`] does.
///
/// ```
/// use cardinal_plugin_abi::{Bytes, CallId, CtxId, Fut, HostApiRef, Slice, host::Id};
///
/// /// Reads a card, and leaves a line in the log. Plugins see the table by its reference.
/// fn read(host: HostApiRef, ctx: CtxId, call: CallId, card: Id) -> Fut<Bytes> {
///     (host.log())(ctx, call, 4, Slice::text("reading a card"), Slice::default(), Slice::default());
///     (host.read_card())(ctx, call, card)
/// }
/// ```
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = HostApiRef, prefix_fields = HostApiPrefix)))]
#[sabi(missing_field(option))]
pub struct HostApi {
    /// Writes a log line under the plugin's name. `level`: 1 error, 2 warn, 3 info, 4 debug, 5 trace, and any other
    /// number counts as trace. `fields`: a JSON object or nothing. The message is cut after 8 KiB, the fields after 16
    /// KiB; lines over 500 or 1 MiB a second are dropped.
    pub log:
        extern "C" fn(ctx: CtxId, call: CallId, level: u32, message: Slice<'_>, fields: Slice<'_>, extra: Slice<'_>),
    /// Changes a metric. `kind`: 1 counter (add `value`), 2 gauge (set), 3 histogram (observe). `labels`: a JSON object
    /// of strings or nothing. The host drops and counts what is out of bounds: unknown kinds, more than 500 series.
    pub metric: extern "C" fn(
        ctx: CtxId,
        call: CallId,
        kind: u32,
        name: Slice<'_>,
        value: f64,
        labels: Slice<'_>,
        extra: Slice<'_>,
    ),
    /// Answers the operator's settings over the defaults of the manifest: a JSON object, the same for as long as the
    /// instance lives.
    pub settings: extern "C" fn(ctx: CtxId) -> Bytes,
    /// Answers the plugin's own service user: `{"id", "name", "kind": "plugin"}`.
    pub service_user: extern "C" fn(ctx: CtxId) -> Fut<Bytes>,
    /// Is ready when the call is cancelled or past its deadline, when its job is to stop, or when the plugin retires;
    /// with call 0, when the plugin retires. Answers one of [`cancel`]; at once for a call that is over.
    pub cancelled: extern "C" fn(ctx: CtxId, call: CallId) -> Fut<Answer>,

    /// The card as JSON: `{"id", "title", "sku", "status", "attributes", "version", "created_at",
    /// "updated_at"}`.
    pub read_card: extern "C" fn(ctx: CtxId, call: CallId, card: Id) -> Fut<Bytes>,
    /// A page of cards. `query`: the list's parameters as a JSON object (`limit`, `cursor`, `sort`,
    /// `q`, `status`, `kind`, `plugin`, ...); answers `{"items", "next_cursor", ...}`.
    pub list_cards: extern "C" fn(ctx: CtxId, call: CallId, query: Slice<'_>) -> Fut<Bytes>,
    /// A page of what happened to cards: `query` is `{"after"?, "limit"?, "wait_ms"?}`, answers `{"items": [{"id",
    /// "type", "at", "card_id"?, "version"?, "actor"?, ...}], "cursor", "restart"}`. `after` is the `cursor` of the
    /// page before; without one, or with one that is not kept any more, `restart` is true, there are no items, and the
    /// reader looks at all cards before it goes on. With `wait_ms` the first item is waited for.
    pub card_events: extern "C" fn(ctx: CtxId, call: CallId, query: Slice<'_>) -> Fut<Bytes>,
    /// Writes one source of a card; answers the card's new version. `data` is JSON.
    pub enrich_card: extern "C" fn(
        ctx: CtxId,
        call: CallId,
        card: Id,
        source_key: Slice<'_>,
        kind: Slice<'_>,
        data: Slice<'_>,
    ) -> Fut<Answer>,
    /// Removes one of the plugin's own sources of a card; answers the card's new version.
    pub remove_source: extern "C" fn(ctx: CtxId, call: CallId, card: Id, source_key: Slice<'_>) -> Fut<Answer>,

    /// Checks a connection of the plugin's own pool out and answers its number. One that a call takes goes back when
    /// the call ends. When none becomes free within 2 seconds, it fails with [`crate::error::UNAVAILABLE`] and the flag
    /// `RETRY`.
    pub db_connect: extern "C" fn(ctx: CtxId, call: CallId) -> Fut<Answer>,
    /// Gives a connection back: it is cleaned (open transaction, role, settings, LISTEN, locks) before anybody else
    /// gets it, or closed when something is still running on it.
    pub db_release: extern "C" fn(ctx: CtxId, conn: ConnId),
    /// Prepares `sql` (cached per connection); answers JSON: `{"statement": number, "params":
    /// [type], "columns": [{"name", "type": type}]}` where a type is `{"oid", "name", "schema",
    /// "kind": "simple" | "enum" | "pseudo" | {"array": type} | {"range": type} | {"multirange":
    /// type} | {"domain": type} | {"composite": [{"name", "type"}]}}`, an enum with `"variants"`.
    pub db_prepare: extern "C" fn(ctx: CtxId, conn: ConnId, sql: Slice<'_>) -> Fut<Bytes>,
    /// Runs a statement; the stream gives its rows in batches ([`crate::values`]) of up to 256 rows or 64 KiB. Dropping
    /// the stream early cancels the statement at the server.
    pub db_query: extern "C" fn(ctx: CtxId, conn: ConnId, statement: StmtId, params: Slice<'_>) -> Fut<Stream>,
    /// Runs a statement; answers how many rows it changed.
    pub db_execute: extern "C" fn(ctx: CtxId, conn: ConnId, statement: StmtId, params: Slice<'_>) -> Fut<Answer>,
    /// Runs statements without parameters, in one go (`BEGIN`, `COMMIT` too), within 60 seconds; answers 0.
    pub db_batch: extern "C" fn(ctx: CtxId, conn: ConnId, sql: Slice<'_>) -> Fut<Answer>,
    /// Runs `COPY ... FROM STDIN`, fed from `data`, and answers the number of rows. The host pulls `data` on a thread
    /// of the plugin's and drops it there.
    pub db_copy_in: extern "C" fn(ctx: CtxId, conn: ConnId, sql: Slice<'_>, data: Stream) -> Fut<Answer>,
    /// Runs `COPY ... TO STDOUT` and answers its data as a stream.
    pub db_copy_out: extern "C" fn(ctx: CtxId, conn: ConnId, sql: Slice<'_>) -> Fut<Stream>,
    /// For authors with a driver of their own: `{"host", "port", "dbname", "user", "password",
    /// "options"}` of the plugin's run-time role. Do not log it.
    pub connect_options: extern "C" fn(ctx: CtxId) -> Fut<Bytes>,

    /// Tells the host that the current thread was started by the plugin; called at its beginning. A crash of the thread
    /// is attributed to the plugin from here on, a stack overflow too. Calls on the host's own threads do nothing.
    pub register_thread: extern "C" fn(ctx: CtxId),

    /// Says how far a call is: `done` of `total`, which is unknown when it is not above 0 or not a number, and a few
    /// words in UTF-8, cut after 1 KiB. Reaches the client of a tool call that has asked for it; does nothing
    /// otherwise.
    pub progress: extern "C" fn(ctx: CtxId, call: CallId, done: f64, total: f64, text: Slice<'_>),

    /// Answers abilities beyond this table, by number ([`crate::extension`]); null for one that is not there. What it
    /// points to is static.
    #[sabi(last_prefix_field)]
    pub get_extension: extern "C" fn(id: u32) -> *const (),
}
