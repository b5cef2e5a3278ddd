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
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use cardinal_plugin_abi::{CtxId, Reply};

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
    library::{
        Library,
        seat::{NotMade, Running, Seat},
    },
    state::{Code, Refusal},
};
use crate::crash::{Mark, ledger};

/// How long a plugin may take to stop what it started, once its calls are gone.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A live instance. Shut it down when it is done with; dropped without, it shuts itself down.
pub struct Instance {
    seat: Arc<Seat>,
    scope: Arc<Scope>,
    exports: Vec<Export>,
    /// As every call's head says it.
    generation: String,
}

impl Instance {
    /// Makes an instance: runs the author's `routes(ctx)`. Blocks, for as long as the author's code
    /// does; call it on a blocking thread.
    pub fn create(library: &Library, services: Arc<Services>, identity: PluginIdentity) -> Result<Self, Refusal> {
        let scope = Scope::new(PluginContext::new(services, identity));
        let ctx = scope::admit(scope.clone()).ok_or_else(no_room)?;
        let made = Self::make(library, ctx, scope.clone());
        if made.is_err() {
            scope::retire(ctx);
            scope.context.close();
        }
        made
    }

    fn make(library: &Library, ctx: CtxId, scope: Arc<Scope>) -> Result<Self, Refusal> {
        let runtime = scope.context.runtime().clone();
        let seat = Seat::create(library, bridge::host_api(), (ctx, scope.context.mark()), runtime, STOP_LIMIT)
            .map_err(not_made)?;
        let exports = exports::parse(seat.exports().get())?;
        let anchor: scope::Anchor = seat.clone();
        scope.belongs_to(&anchor);
        ledger::name_handlers(seat.mark(), exports.iter().map(Export::told));
        let generation = scope.context.generation().to_string();
        Ok(Self { seat, scope, exports, generation })
    }

    /// The handlers that the instance's router holds, by number.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// The number of the instance's context, which marks threads that run its code.
    pub fn ctx(&self) -> CtxId {
        self.seat.ctx()
    }

    /// Calls and streams that are under way.
    pub fn in_flight(&self) -> usize {
        self.scope.leases.count()
    }

    /// The connections of the plugin's own pool; none when it has no database.
    pub fn pool_status(&self) -> Option<deadpool::Status> {
        self.scope.context.pool_status()
    }

    /// The metrics that the plugin has set.
    pub fn metrics(&self) -> &bridge::metrics::Metrics {
        &self.scope.metrics
    }

    /// Calls handler number `handler`. Dropping the future cancels the call.
    pub fn call(&self, handler: u32, call: CallParts<'_>) -> Call {
        Call { running: self.begin(handler, call) }
    }

    fn begin(&self, handler: u32, mut call: CallParts<'_>) -> Option<(Running<Reply>, CallLease)> {
        let lease = Lease::take(self)?;
        let head = request::head(&call, &self.generation);
        let body = std::mem::replace(&mut call.body, CallBody::Full(bytes::Bytes::new()));
        let scope = CallScope::new(self.ctx(), call.caller.clone(), (call.request_id, call.trace), call.deadline);
        let (scope, full) = match body {
            CallBody::Full(bytes) => (scope, Some(bytes)),
            CallBody::Stream(stream, _) => (scope.with_body(stream), None),
        };
        let lease =
            CallLease { number: CallNumber::give(scope)?, mark: self.seat.mark().handler(handler), _lease: lease };
        let request = request::build(head, &call, full, lease.number.scope(), self.scope.context.runtime());
        Some((self.seat.call(handler, lease.number.get(), request), lease))
    }

    /// Lets nothing new begin, waits up to `grace` for what is under way, then has the plugin stop
    /// what it started and ends all its handles. The memory is freed when the last call is gone.
    pub async fn shutdown(&self, grace: Duration) {
        let (plugin, leases) = (self.scope.context.name(), &self.scope.leases);
        leases.close();
        if tokio::time::timeout(grace, leases.idle()).await.is_err() {
            tracing::warn!(plugin, in_flight = leases.count(), "calls outlive the plugin's grace");
        }
        self.scope.stopping.cancel();
        if let Err(reason) = self.seat.stop().await {
            tracing::warn!(plugin, reason, "the plugin's shutdown failed");
        }
        self.retire();
    }

    /// Ends the doors: every handle of the plugin is refused from here on.
    fn retire(&self) {
        scope::retire(self.seat.ctx());
        bridge::database::reclaim(self.seat.ctx());
        self.scope.context.close();
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.scope.leases.close();
        self.scope.stopping.cancel();
        self.retire();
    }
}

fn no_room() -> Refusal {
    Refusal::new(Code::CreateFailed, "There are too many plugin instances in this process.")
        .fix("Restart the host: instances that hang have filled its table.")
}

fn not_made(reason: NotMade) -> Refusal {
    match reason {
        NotMade::Panicked(text) => {
            Refusal::new(Code::CreatePanicked, "The plugin's `routes` function panicked.").found(text)
        }
        NotMade::Failed(text) => Refusal::new(Code::CreateFailed, "The plugin's `routes` function failed.").found(text),
    }
}

/// Counts as work under way, and keeps the instance's memory.
struct Lease {
    scope: Arc<Scope>,
    _seat: Arc<Seat>,
}

impl Lease {
    fn take(instance: &Instance) -> Option<Self> {
        instance.scope.leases.take().then(|| Self { scope: instance.scope.clone(), _seat: instance.seat.clone() })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.scope.leases.give_back();
    }
}

/// A lease together with a call's number: both end with the call.
struct CallLease {
    // The number ends first: doors must refuse the call before the instance may go.
    number: CallNumber,
    mark: Mark,
    _lease: Lease,
}

/// A call under way. Dropping it cancels the call.
pub struct Call {
    // Dropped in this order: what runs, then what it runs on.
    running: Option<(Running<Reply>, CallLease)>,
}

impl Future for Call {
    type Output = Result<PluginReply, CallFault>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((running, _)) = self.running.as_mut() else { return Poll::Ready(Err(CallFault::Retired)) };
        let outcome = ready!(Pin::new(running).poll(cx));
        let Some((_, lease)) = self.running.take() else { return Poll::Ready(Err(CallFault::Retired)) };
        lease.number.scope().settle(); // a streamed reply keeps the call alive
        Poll::Ready(match outcome {
            Ok(reply) => reply::check(reply, lease),
            Err(error) => Err(fault::of(&error)),
        })
    }
}
