//! One instance of the plugin, and the functions through which the host comes in.
//!
//! Everything here is called by the host, through the root table ([`module`]). `plugin-abi/README.md` says on which
//! threads and in which order. Each function catches the panics of what it runs.

use std::{future::Future, sync::Arc};

use cardinal_plugin_abi::{
    self as abi, Answer, Bytes, CallId, CtxId, Fut, HostApiRef, PluginModule, PluginModuleRef, Slice,
    abi_stable::prefix_type::PrefixTypeTrait, door,
};
use futures_util::FutureExt;
use serde_json::{Value, json};

use crate::{
    Error, PluginContext, Request, Result, Router,
    context::InCall,
    core::{About, Core},
    handler::BoxedFuture,
    memory, panics,
    router::Entry,
    runtime::Threads,
    scope::Scope,
    stream::bytes_in,
};

/// What `plugin!` says of the crate that it stands in. Authors never implement it; tests that drive a plugin through
/// its table do.
#[doc(hidden)]
pub trait Plugin: Send + Sync + 'static {
    /// The bytes of manifest.json. What `create` reads of them are name, version and the names of handlers.
    const MANIFEST: &'static [u8];
    /// The author's `routes`, called once for each instance, on a thread that may block.
    ///
    /// # Errors
    /// When it made no router: the instance is refused with the error's message.
    fn routes(ctx: &PluginContext) -> Result<Router>;
}

/// Returns what the host looks up in the library, for the static that `plugin!` exports. Only that macro calls it.
#[doc(hidden)]
pub const fn entry<P: Plugin>() -> abi::Entry {
    abi::Entry::new(open::<P>)
}

unsafe extern "C" fn open<P: Plugin>(out: *mut *const (), err: *mut abi::Error) -> u8 {
    // SAFETY: the host gives an `out` and an `err` that are valid for a write.
    unsafe { door::guard(out, err, || Ok(module::<P>().into_raw())) }
}

/// Returns the root table of the plugin `P`, which is static. It is for tests that drive a plugin without loading a
/// library; `plugin!` needs no more than [`entry`].
///
/// Each call leaks a table of a few words.
#[doc(hidden)]
pub fn module<P: Plugin>() -> PluginModuleRef {
    PluginModule { describe: describe::<P>, create: create::<P>, exports, call, shutdown, destroy, get_extension }
        .leak_into_prefix()
}

/// Answers with the tables beyond the root table: [`abi::extension::MEMORY`], when something counts.
extern "C" fn get_extension(id: u32) -> *const () {
    match id {
        abi::extension::MEMORY => memory::extension().map_or(std::ptr::null(), |table| (&raw const *table).cast()),
        _ => std::ptr::null(),
    }
}

/// Says who the library is, without an instance. Empty when the manifest cannot be read.
extern "C" fn describe<P: Plugin>() -> Bytes {
    caught(|| {
        let about = About::read(P::MANIFEST).unwrap_or_default();
        let text = json!({
            "name": about.name, "version": about.version,
            "sdk": env!("CARGO_PKG_VERSION"), "rustc": env!("CARDINAL_RUSTC"),
        });
        text.to_string().into()
    })
}

/// Makes an instance. It belongs to the host as a pointer until `destroy`.
unsafe extern "C" fn create<P: Plugin>(
    host: HostApiRef,
    ctx: CtxId,
    about: Slice<'_>,
    out: *mut *const (),
    err: *mut abi::Error,
) -> u8 {
    let body = || {
        let instance = Instance::create(host, ctx, about.get(), P::MANIFEST, &P::routes, Threads::Shared);
        let instance = instance.map_err(abi::Error::from)?;
        Ok(Arc::into_raw(instance).cast::<()>())
    };
    // SAFETY: the host gives an `out` and an `err` that are valid for a write.
    unsafe { door::guard(out, err, body) }
}

/// Lists the router's entries; the place in the list is the handler's number.
unsafe extern "C" fn exports(instance: *const ()) -> Bytes {
    // SAFETY: the host gives an instance of `create` that it has not destroyed.
    let instance = unsafe { Instance::borrow(instance) };
    caught(|| instance.exports().into())
}

/// Calls a handler: runs the author's function here, up to its future.
unsafe extern "C" fn call(instance: *const (), handler: u32, call: CallId, request: abi::Request) -> Fut<abi::Reply> {
    // SAFETY: as in `exports`.
    let instance = unsafe { Instance::borrow(instance) };
    Fut::guarded(|| instance.call(handler, call, request))
}

/// Ends the tasks of the instance, and the library's io thread with its last instance. Contexts that are still held see
/// an instance that has been stopped.
unsafe extern "C" fn shutdown(instance: *const ()) -> Fut<Answer> {
    // SAFETY: as in `exports`.
    let core = unsafe { Instance::borrow(instance) }.core.clone();
    Fut::guarded(move || async move {
        core.runtime.shut_down().await;
        Ok(Answer::default())
    })
}

/// Frees the instance. Contexts that a task or a thread still holds keep the shared part of it.
unsafe extern "C" fn destroy(instance: *const ()) -> u8 {
    let gone = door::contain(|| {
        // SAFETY: `create` made the pointer with `Arc::into_raw`, and the host gives it back once.
        drop(unsafe { Arc::from_raw(instance.cast::<Instance>()) });
    });
    if gone { door::READY } else { door::PANICKED }
}

/// What a door without a place for errors answers; nothing when `body` panics.
fn caught(body: impl FnOnce() -> Bytes) -> Bytes {
    let mut bytes = Bytes::EMPTY;
    door::contain(|| bytes = body());
    bytes
}

pub(crate) struct Instance {
    pub(crate) core: Arc<Core>,
    pub(crate) entries: Vec<Entry>,
}

impl Instance {
    /// # Safety
    /// `instance` must come from `create` and live as long as the reference is used.
    unsafe fn borrow<'a>(instance: *const ()) -> &'a Self {
        // SAFETY: as promised by the caller; an instance is shared by `&` alone.
        unsafe { &*instance.cast::<Self>() }
    }

    pub(crate) fn create(
        host: HostApiRef,
        ctx: CtxId,
        about: &[u8],
        manifest: &[u8],
        routes: &dyn Fn(&PluginContext) -> Result<Router>,
        threads: Threads,
    ) -> Result<Arc<Self>> {
        let core = Arc::new(Core::new(host, ctx, About::read(manifest)?.with(about), threads));
        let context = PluginContext::for_instance(core.clone());
        let router = core.scope(0).enter(|| panics::in_routes(|| routes(&context)))?;
        let entries = router.finish(&named_handlers(manifest)).map_err(Error::internal)?;
        Ok(Arc::new(Self { core, entries }))
    }

    fn exports(&self) -> String {
        let export = |entry: &Entry| match &entry.route {
            Some((method, path)) => json!({ "name": entry.name, "method": method.as_str(), "path": path }),
            None => json!({ "name": entry.name }),
        };
        Value::from_iter(self.entries.iter().map(export)).to_string()
    }

    /// The sync part of a call: runs the handler function up to its future.
    pub(crate) fn call(
        &self,
        handler: u32,
        call: CallId,
        request: abi::Request,
    ) -> impl Future<Output = Result<abi::Reply, abi::Error>> + Send + use<> {
        let scope = self.core.call_scope(call);
        let begun = scope.and_then(|scope| Ok((self.begin(handler, call, request, &scope)?, scope)));
        match begun {
            Ok((future, scope)) => {
                let reply = scope.clone().wrap(future);
                reply
                    .map(move |reply| reply?.into_abi(scope))
                    .map(|reply| reply.map_err(abi::Error::from))
                    .left_future()
            }
            Err(error) => std::future::ready(Err(error.into())).right_future(),
        }
    }

    fn begin(&self, handler: u32, call: CallId, mut request: abi::Request, scope: &Scope) -> Result<BoxedFuture> {
        let entry = usize::try_from(handler).ok().and_then(|at| self.entries.get(at));
        let entry = entry.ok_or_else(|| Error::over("there is no handler of this number"))?;
        let head = bytes_in(std::mem::take(&mut request.head));
        let context = PluginContext::from_call(self.core.clone(), InCall::new(call, head.clone()));
        let request = Request::receive(head, request)?;
        Ok(scope.enter(|| (entry.handler)(context, request)))
    }
}

/// The handlers that a manifest names in its tools, routes and jobs.
fn named_handlers(manifest: &[u8]) -> Vec<String> {
    let manifest: Value = serde_json::from_slice(manifest).unwrap_or_default();
    let lists = [manifest.pointer("/mcp/tools"), manifest.pointer("/backend/routes")];
    let entries = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
    let handlers = entries.filter_map(|entry| entry.get("handler")?.as_str()).map(str::to_owned);
    let jobs = manifest.pointer("/backend/jobs").and_then(Value::as_array).into_iter().flatten();
    let of_job = |job: &Value| Some(format!("{}{}", crate::jobs::HANDLER_PREFIX, job.get("name")?.as_str()?));
    handlers.chain(jobs.filter_map(of_job)).collect()
}
