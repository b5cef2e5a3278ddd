//! What a plugin gives the host: the root table, a request, a reply. README.md says which function is called when, and
//! on which thread.

use abi_stable::StableAbi;

use crate::{Answer, Bytes, CtxId, Error, Fut, HostApiRef, Slice, Stream, host::CallId};

/// The root table of a plugin library.
///
/// It grows at the end only: a new field comes after `last_prefix_field` with
/// `#[sabi(missing_field(option))]`, and the attribute never moves.
///
/// **Instances.** One library may carry many instances at the same time. `instance` pointers come
/// from [`create`](Self::create), belong to the plugin, and are given back to
/// [`destroy`](Self::destroy) exactly once, after every future and stream of the instance has been dropped.
/// All functions but `create` and `destroy` may be called from any thread, many at a time.
///
/// ```
/// use cardinal_plugin_abi::{
///     Answer, Bytes, CallId, CtxId, Error, Fut, HostApiRef, PluginModule, Reply, Request, Slice,
///     abi_stable::prefix_type::PrefixTypeTrait, door, error::BAD_HANDLE,
/// };
///
/// extern "C" fn describe() -> Bytes {
///     Bytes::from_static(br#"{"name":"empty","version":"1.0.0","sdk":"","rustc":""}"#)
/// }
/// unsafe extern "C" fn create(_: HostApiRef, _: CtxId, _: Slice<'_>, out: *mut *const (), _: *mut Error) -> u8 {
///     // SAFETY: the host gives an `out` that is valid for a write.
///     unsafe { out.write(std::ptr::null()) };
///     door::READY
/// }
/// unsafe extern "C" fn exports(_: *const ()) -> Bytes {
///     Bytes::from_static(b"[]")
/// }
/// unsafe extern "C" fn call(_: *const (), _: u32, _: CallId, _: Request) -> Fut<Reply> {
///     Fut::ready(Err(Error::new(BAD_HANDLE, "there is no handler of this number")))
/// }
/// unsafe extern "C" fn shutdown(_: *const ()) -> Fut<Answer> {
///     Fut::ready(Ok(Answer::default()))
/// }
/// unsafe extern "C" fn destroy(_: *const ()) -> u8 {
///     door::READY
/// }
/// extern "C" fn get_extension(_: u32) -> *const () {
///     std::ptr::null()
/// }
///
/// let module = PluginModule { describe, create, exports, call, shutdown, destroy, get_extension };
/// let module = module.leak_into_prefix(); // static, as a root table has to be
/// assert!((module.describe())().as_text().unwrap().contains("empty"));
/// ```
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginModuleRef, prefix_fields = PluginModulePrefix)))]
#[sabi(missing_field(option))]
pub struct PluginModule {
    /// Answers static JSON: `{"name", "version", "sdk", "rustc"}`, at most 64 KiB, to be compared with the manifest.
    pub describe: extern "C" fn() -> Bytes,
    /// Makes an instance: runs the author's `routes(ctx)`, which does no I/O.
    ///
    /// `host` stays valid for ever, `about` is a record ([`crate::record::instance`]) that is lent. Writes the instance
    /// to `out` and answers [`crate::door::READY`], or writes `err` and answers `FAILED` or `PANICKED`. Called on a
    /// thread that may block, for at most 10 seconds.
    pub create: unsafe extern "C" fn(
        host: HostApiRef,
        ctx: CtxId,
        about: Slice<'_>,
        out: *mut *const (),
        err: *mut Error,
    ) -> u8,
    /// Answers a JSON array of what the instance's router holds, in the order of the handler numbers that `call` takes:
    /// `{"name", "method"?, "path"?}`; without a path it is a handler for tools and jobs alone. At most 2,000 entries
    /// and 1 MiB, names of up to 120 bytes, paths of up to 1,024.
    pub exports: unsafe extern "C" fn(instance: *const ()) -> Bytes,
    /// Calls handler number `handler`. The future owns `request`; dropping it cancels the call. After `shutdown`, and
    /// for an unknown number, it is an error.
    pub call: unsafe extern "C" fn(instance: *const (), handler: u32, call: CallId, request: Request) -> Fut<Reply>,
    /// Stops what the instance started, its tasks and its io thread, and answers 0. Called once, before `destroy`; the
    /// host waits 10 seconds.
    pub shutdown: unsafe extern "C" fn(instance: *const ()) -> Fut<Answer>,
    /// Frees the instance. Called once, after every future and stream of the instance was dropped. Answers `READY`, or
    /// `PANICKED` when its drop panicked (then it leaks).
    pub destroy: unsafe extern "C" fn(instance: *const ()) -> u8,
    /// Abilities beyond this table, by number ([`crate::extension`]); null = not there. What it points to is static.
    #[sabi(last_prefix_field)]
    pub get_extension: extern "C" fn(id: u32) -> *const (),
}

/// One call of a handler. Moved into the plugin; everything in it is freed by dropping it.
///
/// ```
/// use cardinal_plugin_abi::{Request, record::{self, attr}};
///
/// let head = record::write(&[(attr::METHOD, b"POST"), (attr::PATH, b"/prices")]);
/// let request = Request { head: head.into(), body: b"L1,990\n".to_vec().into(), ..Request::default() };
/// assert!(request.stream.is_none() && record::field(request.head.get(), attr::PATH) == b"/prices");
/// ```
#[repr(C)]
#[derive(StableAbi, Debug, Default)]
pub struct Request {
    /// A record ([`crate::record`]) of the fields in [`crate::record::attr`].
    pub head: Bytes,
    /// Pairs ([`crate::pairs`]): header names in lower case, values as they came. Never
    /// `authorization` or `cookie`.
    pub headers: Bytes,
    /// Pairs: the path's parameters, percent-decoded, in the order of the template.
    pub params: Bytes,
    /// The body, or a tool's arguments as JSON, when `stream` is none.
    pub body: Bytes,
    /// The body when it is not read ahead: that of a route which allows more than 1 MiB. It belongs to the call and
    /// fails with [`crate::error::CANCELLED`] once the call is over.
    pub stream: Stream,
}

/// What a handler answers.
///
/// ```
/// use cardinal_plugin_abi::{Reply, pairs};
///
/// let headers = pairs::write([(&b"content-type"[..], &b"text/plain"[..])]);
/// let reply = Reply { status: 200, headers: headers.into(), body: b"9.90".to_vec().into(), ..Reply::default() };
/// assert_eq!(pairs::read(reply.headers.get()).unwrap().count(), 1);
/// ```
#[repr(C)]
#[derive(StableAbi, Debug, Default)]
pub struct Reply {
    /// 200..=599; anything else is refused as `plugin-error`.
    pub status: u16,
    /// Pairs ([`crate::pairs`]): at most 100 and 64 KiB.
    pub headers: Bytes,
    /// The body when `stream` is none: at most 8 MiB.
    pub body: Bytes,
    /// The body when it is made piece by piece; dropped when the client goes away.
    pub stream: Stream,
    /// A record ([`crate::record::reply`]) for what later versions add.
    pub extra: Bytes,
}
