//! One live instance of a plugin: made, called, shut down, freed.
//!
//! The instance's memory belongs to the plugin. It is given back (`destroy`) when the last thing
//! that could run its code is gone: every call, every reply stream. Whatever hangs keeps the
//! instance resident, and never harms more than that.

pub mod exports;
mod fault;
mod reply;
mod request;

use std::{
    future::Future,
    mem::MaybeUninit,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use cardinal_plugin_abi::{CtxId, Error, Fut, PluginModuleRef, Reply, door};

pub use self::{
    exports::{Export, ExportKind},
    reply::ReplyStream,
};
use super::{
    bridge::{
        self,
        scope::{self, CallNumber, CallScope, Scope},
    },
    call::{CallBody, CallFault, CallParts, PluginReply},
    context::{PluginContext, PluginIdentity, Services},
    current,
    library::Library,
    state::{Code, Refusal},
};

/// How long a plugin may take to stop what it started, once its calls are gone.
const STOP_LIMIT: Duration = Duration::from_secs(10);

static RESIDENT: AtomicUsize = AtomicUsize::new(0);

/// How many instances exist in this process, those included that hang and can't be freed.
pub fn resident() -> usize {
    RESIDENT.load(Ordering::Relaxed)
}

/// A live instance. Cheap to share; dropping it without [`shutdown`](Instance::shutdown) shuts it
/// down in the background.
pub struct Instance {
    live: Arc<Live>,
    exports: Vec<Export>,
}

impl Instance {
    /// Makes an instance: runs the author's `routes(ctx)`. Blocks, for as long as the author's code
    /// does; call it on a blocking thread.
    pub fn create(library: &Library, services: Arc<Services>, identity: PluginIdentity) -> Result<Self, Refusal> {
        let live = Live::create(library.module(), PluginContext::new(services, identity))?;
        let exports = live.exports()?;
        let live = Arc::new(live);
        let anchor: scope::Anchor = live.clone();
        live.scope.belongs_to(&anchor);
        Ok(Self { live, exports })
    }

    /// The handlers that the instance's router holds, by number.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// The number of the instance's context, which marks threads that run its code.
    pub fn ctx(&self) -> CtxId {
        self.live.seat.ctx
    }

    /// Calls and streams that are under way.
    pub fn in_flight(&self) -> usize {
        self.live.scope.leases.count()
    }

    /// The metrics that the plugin has set.
    pub fn metrics(&self) -> &bridge::metrics::Metrics {
        &self.live.scope.metrics
    }

    /// Calls handler number `handler`. Dropping the future cancels the call.
    pub fn call(&self, handler: u32, call: CallParts) -> Call {
        match self.begin(handler, call) {
            Some((future, lease)) => Call { ctx: self.ctx(), future: Some(future), lease: Some(lease) },
            None => Call { ctx: self.ctx(), future: None, lease: None },
        }
    }

    fn begin(&self, handler: u32, mut call: CallParts) -> Option<(Fut<Reply>, CallLease)> {
        let lease = Lease::take(&self.live)?;
        let seat = self.live.seat;
        let head = request::head(&call, self.live.scope.context.generation());
        let mut scope =
            CallScope::new(seat.ctx, call.caller.clone(), std::mem::take(&mut call.request_id), call.deadline);
        let body = std::mem::replace(&mut call.body, CallBody::Full(bytes::Bytes::new()));
        let full = match body {
            CallBody::Full(bytes) => Some(bytes),
            CallBody::Stream(stream, _) => {
                scope = scope.with_body(stream);
                None
            }
        };
        let lease = CallLease { number: CallNumber::give(scope)?, lease };
        let runtime = self.live.scope.context.runtime();
        let request = request::build(head, &call, full, lease.number.scope(), runtime);
        let _entered = current::enter(seat.ctx);
        // SAFETY: `seat` holds a table that was checked and the instance that its `create` gave;
        // the lease keeps it from being destroyed while the future lives.
        let future = unsafe { (seat.module.call())(seat.raw, handler, lease.number.get(), request) };
        Some((future, lease))
    }

    /// Lets nothing new begin, waits up to `grace` for what is under way, then has the plugin stop
    /// what it started and ends all its handles. The memory is freed when the last call is gone.
    pub async fn shutdown(&self, grace: Duration) {
        let leases = &self.live.scope.leases;
        leases.close();
        if tokio::time::timeout(grace, leases.idle()).await.is_err() {
            let plugin = self.live.scope.context.name();
            tracing::warn!(plugin, in_flight = leases.count(), "calls outlive the plugin's grace");
        }
        self.live.stop_once().await;
    }
}

/// Where an instance's code and state are.
#[derive(Clone, Copy)]
struct Seat {
    module: PluginModuleRef,
    raw: *const (),
    ctx: CtxId,
}

// SAFETY: the ABI says that `exports`, `call` and `shutdown` may be called from any thread, many at
// a time; `destroy` is called once, after all else (see `Live::drop`).
unsafe impl Send for Seat {}
// SAFETY: as above.
unsafe impl Sync for Seat {}

/// The instance itself; lives as long as anything that may run its code.
struct Live {
    seat: Seat,
    scope: Arc<Scope>,
    stopped: AtomicBool,
}

impl Live {
    fn create(module: PluginModuleRef, context: PluginContext) -> Result<Self, Refusal> {
        let scope = Scope::new(context);
        let ctx = scope::admit(scope.clone()).ok_or_else(|| {
            Refusal::new(Code::CreateFailed, "There are too many plugin instances in this process.")
                .fix("Restart the host: instances that hang have filled its table.")
        })?;
        let (mut raw, mut error) = (std::ptr::null(), MaybeUninit::uninit());
        let tag = {
            let _entered = current::enter(ctx);
            // SAFETY: the table was checked; both out pointers are valid for a write of their types.
            unsafe { (module.create())(bridge::host_api(), ctx, &raw mut raw, error.as_mut_ptr()) }
        };
        if tag == door::READY && !raw.is_null() {
            RESIDENT.fetch_add(1, Ordering::Relaxed);
            return Ok(Self { seat: Seat { module, raw, ctx }, scope, stopped: AtomicBool::new(false) });
        }
        scope::retire(ctx);
        let error = match tag {
            // SAFETY: the contract of `create`: FAILED and PANICKED mean that `err` was written.
            door::FAILED | door::PANICKED => unsafe { error.assume_init() },
            _ => Error::new(cardinal_plugin_abi::error::INTERNAL, format!("`create` answered the tag {tag}")),
        };
        Err(refused(tag, &error))
    }

    fn exports(&self) -> Result<Vec<Export>, Refusal> {
        let _entered = current::enter(self.seat.ctx);
        // SAFETY: `seat` holds a checked table and the live instance that its `create` gave.
        let list = unsafe { (self.seat.module.exports())(self.seat.raw) };
        exports::parse(list.get())
    }

    async fn stop_once(&self) {
        if !self.stopped.swap(true, Ordering::SeqCst) {
            stop(self.seat, &self.scope).await;
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let (seat, scope, stopped) = (self.seat, self.scope.clone(), *self.stopped.get_mut());
        let runtime = scope.context.runtime().clone();
        runtime.spawn(async move {
            if !stopped {
                stop(seat, &scope).await;
            }
            // The author's drop code may block.
            tokio::task::spawn_blocking(move || destroy(seat, &scope));
        });
    }
}

async fn stop(seat: Seat, scope: &Scope) {
    scope.stopping.cancel();
    // SAFETY: `seat` holds a checked table and a live instance; `stopped` says that this is the
    // only call.
    let future = Tagged { ctx: seat.ctx, future: Some(unsafe { (seat.module.shutdown())(seat.raw) }) };
    let plugin = scope.context.name();
    match tokio::time::timeout(STOP_LIMIT, future).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(plugin, error = %error.text(), "the plugin's shutdown failed"),
        Err(_) => tracing::warn!(plugin, "the plugin's shutdown did not end in {STOP_LIMIT:?}"),
    }
    scope::retire(seat.ctx);
    bridge::database::reclaim(seat.ctx);
    scope.context.close();
}

fn destroy(seat: Seat, scope: &Scope) {
    let _entered = current::enter(seat.ctx);
    // SAFETY: `Live` is gone, and with it every lease: no future of the instance exists any more.
    // `Live::drop` runs once, so this does.
    let tag = unsafe { (seat.module.destroy())(seat.raw) };
    if tag == door::READY {
        RESIDENT.fetch_sub(1, Ordering::Relaxed);
    } else {
        tracing::warn!(plugin = scope.context.name(), "the plugin panicked while it was freed; its memory is lost");
    }
}

fn refused(tag: u8, error: &Error) -> Refusal {
    if tag == door::PANICKED {
        Refusal::new(Code::CreatePanicked, "The plugin's `routes` function panicked.").found(error.text())
    } else {
        Refusal::new(Code::CreateFailed, "The plugin's `routes` function failed.").found(error.text())
    }
}

/// Keeps an instance from being destroyed.
pub(super) struct Lease {
    live: Arc<Live>,
}

impl Lease {
    fn take(live: &Arc<Live>) -> Option<Self> {
        live.scope.leases.take().then(|| Self { live: live.clone() })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.live.scope.leases.give_back();
    }
}

/// A lease together with a call's number: both end with the call.
struct CallLease {
    // The number ends first: doors must refuse the call before the instance may go.
    number: CallNumber,
    lease: Lease,
}

impl CallLease {
    fn ctx(&self) -> CtxId {
        self.lease.live.seat.ctx
    }
}

/// A call under way. Dropping it cancels the call.
pub struct Call {
    ctx: CtxId,
    future: Option<Fut<Reply>>,
    lease: Option<CallLease>,
}

impl Future for Call {
    type Output = Result<PluginReply, CallFault>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let _entered = current::enter(self.ctx);
        let Some(future) = self.future.as_mut() else { return Poll::Ready(Err(CallFault::Retired)) };
        let Poll::Ready(outcome) = Pin::new(future).poll(cx) else { return Poll::Pending };
        self.future = None; // what it held goes before the lease does
        let Some(lease) = self.lease.take() else { return Poll::Ready(Err(CallFault::Retired)) };
        Poll::Ready(match outcome {
            Ok(reply) => reply::check(reply, lease),
            Err(error) => Err(fault::of(&error)),
        })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let _entered = current::enter(self.ctx);
        self.future = None;
        self.lease = None;
    }
}

/// A future of the plugin, marked as such whenever it runs.
struct Tagged<T> {
    ctx: CtxId,
    future: Option<Fut<T>>,
}

impl<T> Future for Tagged<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let _entered = current::enter(self.ctx);
        match self.future.as_mut() {
            Some(future) => Pin::new(future).poll(cx),
            None => Poll::Ready(Err(Error::new(cardinal_plugin_abi::error::BAD_HANDLE, "polled after its end"))),
        }
    }
}

impl<T> Drop for Tagged<T> {
    fn drop(&mut self) {
        let _entered = current::enter(self.ctx);
        self.future = None;
    }
}
