//! One live instance of a plugin: made, called, shut down, freed.
//!
//! The instance's memory belongs to the plugin. It is given back (`destroy`) when the last thing
//! that could run its code is gone: every call, every reply stream. Whatever hangs keeps the
//! instance resident, and never harms more than that.

pub mod call;
mod call_future;
mod deadline;
mod fault;
mod reply;
mod request;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use cardinal_plugin_abi::{CtxId, Reply, Request};

use self::call::{CallBody, CallParts};
pub use self::{
    call_future::Call,
    reply::{BODY_LIMIT, ReplyStream},
};
use super::{
    bridge::{
        self,
        call::{CallNumber, CallScope},
        scope::{self, Scope},
    },
    context::{PluginContext, PluginIdentity, Services},
    exports::{self, Export},
    lane::{NO_HANDLER, Relief, Spawner},
    library::{
        Library, about,
        raw_instance::{RawInstance, Running},
    },
    placement::{Placement, PlacementReport},
    watchdog::PollGuard,
};
use cardinal_control::crash::{PluginTag, current, shm};
use cardinal_package::refusal::{Code, Refusal};

/// How long a plugin may take to stop what it started, once its calls are gone.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A live instance. Shut it down when it is done with; dropped without, it shuts itself down.
pub struct Instance {
    raw: Arc<RawInstance>,
    scope: Arc<Scope>,
    exports: Vec<Export>,
    library: Library,
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
        let raw = {
            let tag = scope.context.tag();
            let about = about::record(scope.context.generation());
            RawInstance::create(library, bridge::host_api(), ctx, tag, &about, runtime, STOP_LIMIT)
                .map_err(Refusal::from)?
        };
        let exports = exports::parse(raw.exports().get())?;
        let anchor: scope::Anchor = raw.clone();
        scope.belongs_to(&anchor);
        shm::name_handlers(raw.tag(), exports.iter().map(Export::describe));
        scope.runs_at(placement(&scope, ctx, &exports));
        let generation = scope.context.generation().to_string();
        Ok(Self { raw, scope, exports, library: library.clone(), generation })
    }

    /// The handlers that the instance's router holds, by number.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// The number of the instance's context, which marks threads that run its code.
    pub fn ctx(&self) -> CtxId {
        self.raw.ctx()
    }

    /// What marks threads that run its code.
    pub fn tag(&self) -> PluginTag {
        self.raw.tag()
    }

    /// Calls and streams that are under way.
    pub fn in_flight(&self) -> usize {
        self.scope.leases.count()
    }

    /// Tells of the instance without keeping it.
    pub fn observer(&self) -> InstanceObserver {
        InstanceObserver { raw: Arc::downgrade(&self.raw), scope: Arc::downgrade(&self.scope) }
    }

    /// The connections of the plugin's own pool; none when it has no database.
    pub fn pool_status(&self) -> Option<deadpool::Status> {
        self.scope.context.pool_status()
    }

    /// The library that it is an instance of.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The metrics that the plugin has set.
    pub fn metrics(&self) -> &bridge::metrics::Metrics {
        &self.scope.metrics
    }

    /// The requests that the plugin has made to other servers.
    pub fn http(&self) -> &bridge::exchanges::HttpExchanges {
        &self.scope.http
    }

    /// Notifications that the plugin was too slow to take.
    pub fn notifications_dropped(&self) -> u64 {
        self.scope.listeners.dropped.read()
    }

    /// Calls handler number `handler`. Dropping the future cancels the call.
    pub fn call(&self, handler: u32, call: CallParts<'_>) -> Call {
        Call::new(self.begin(handler, call))
    }

    fn begin(&self, handler: u32, mut call: CallParts<'_>) -> Option<(Request, CallLease)> {
        let lease = InstanceLease::take(self)?;
        let head = request::head(&call, &self.generation);
        let body = std::mem::replace(&mut call.body, CallBody::Full(bytes::Bytes::new()));
        let scope = CallScope::new(self.ctx(), call.caller.clone(), call.request_id, call.trace, call.deadline.at());
        let scope = scope.with_progress(call.progress.take()).with_job(call.job.as_ref().map(|job| job.handle.clone()));
        let (scope, full) = match body {
            CallBody::Full(bytes) => (scope, Some(bytes)),
            CallBody::Stream(stream, _) => (scope.with_body(stream), None),
        };
        let tag = self.raw.tag().handler(handler);
        let lease = CallLease { number: CallNumber::give(scope)?, tag, lease, handler };
        let request = request::build(head, &call, full, lease.number.scope(), self.scope.context.runtime());
        Some((request, lease))
    }

    /// Says that another generation has taken its place: what it holds beyond its calls is given back.
    pub fn drain(&self) {
        self.scope.listeners.end();
        self.scope.context.drain();
    }

    /// Lets nothing new begin, waits up to `grace` for what is under way, then has the plugin stop
    /// what it started and ends all its handles. The memory is freed when the last call is gone.
    pub async fn shutdown(&self, grace: Duration) {
        let (plugin, leases) = (self.scope.context.name(), &self.scope.leases);
        leases.close();
        self.scope.listeners.end(); // replies that are made of notifications end by themselves
        if tokio::time::timeout(grace, leases.idle()).await.is_err() {
            tracing::warn!(plugin, in_flight = leases.count(), "calls outlived the plugin's grace period");
        }
        self.scope.stopping.cancel();
        if let Err(reason) = self.stop().await {
            tracing::warn!(plugin, reason, "the plugin's shutdown failed");
        }
        self.retire();
    }

    /// On the plugin's own threads: what it started may block when it is ended.
    async fn stop(&self) -> Result<(), String> {
        let Some(placement) = self.scope.placement() else { return Ok(()) };
        let raw = self.raw.clone();
        let stopped = placement.threads().spawner().send(NO_HANDLER, move |sender| async move {
            let _ = sender.send(raw.stop().await);
        });
        match tokio::time::timeout(STOP_LIMIT, stopped).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("it was aborted".to_owned()),
            Err(_) => Err(format!("its threads are blocked: it did not begin to stop in {STOP_LIMIT:?}")),
        }
    }

    /// The route or name that a handler is known by.
    pub(crate) fn handler_name(&self, handler: u32) -> &str {
        self.scope.placement().map_or("", |placement| placement.name(handler))
    }

    /// Whether all threads of its own are held by polls that do not return.
    pub(crate) fn is_stuck(&self) -> bool {
        self.scope.placement().is_some_and(|placement| placement.threads().is_stuck())
    }

    /// Gives it more threads when all are held by calls that were given up.
    pub(crate) fn relieve(&self) -> Relief {
        self.scope.placement().map_or(Relief::NotNeeded, Placement::relieve)
    }

    /// Where the calls run, and what has blocked a thread.
    pub fn placement(&self) -> Option<PlacementReport> {
        self.scope.placement().map(Placement::report)
    }

    /// Ends the doors: every handle of the plugin is refused from here on.
    fn retire(&self) {
        scope::retire(self.raw.ctx());
        self.scope.listeners.end();
        bridge::database::reclaim(self.raw.ctx());
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

/// Tells of an instance, also when it is over.
pub struct InstanceObserver {
    raw: Weak<RawInstance>,
    scope: Weak<Scope>,
}

impl InstanceObserver {
    /// Whether its memory is given back, or just being.
    pub(crate) fn is_freed(&self) -> bool {
        self.raw.strong_count() == 0
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.scope.upgrade().map_or(0, |scope| scope.leases.count())
    }

    /// Threads of its lane.
    pub(crate) fn threads(&self) -> usize {
        self.scope.upgrade().and_then(|scope| Some(scope.placement()?.threads().count())).unwrap_or(0)
    }
}

fn placement(scope: &Scope, ctx: CtxId, exports: &[Export]) -> Placement {
    let context = &scope.context;
    let handlers = exports.iter().map(Export::describe);
    let (watchdog, runtime) = (context.watchdog().clone(), context.runtime().clone());
    Placement::new(context.name(), ctx, context.tag(), handlers, context.execution(), watchdog, runtime)
}

fn no_room() -> Refusal {
    Refusal::new(Code::CreateFailed, "There are too many plugin instances in this process.")
        .fix("Restart the host: instances that hang have filled its table.")
}

/// Counts as work under way, and keeps the instance's memory.
struct InstanceLease {
    scope: Arc<Scope>,
    raw: Arc<RawInstance>,
}

impl InstanceLease {
    fn take(instance: &Instance) -> Option<Self> {
        instance.scope.leases.take().then(|| Self { scope: instance.scope.clone(), raw: instance.raw.clone() })
    }
}

impl Drop for InstanceLease {
    fn drop(&mut self) {
        self.scope.leases.give_back();
    }
}

/// A lease together with a call's number: both end with the call.
struct CallLease {
    // The number ends first: doors must refuse the call before the instance may go.
    number: CallNumber,
    tag: PluginTag,
    lease: InstanceLease,
    handler: u32,
}

impl CallLease {
    /// A place on this thread for one poll; `None`: the lane is the place.
    fn here(&self) -> Option<PollGuard<'_>> {
        self.lease.scope.placement()?.here(self.handler)
    }

    /// Runs the handler up to its future.
    fn begin(&self, request: Request) -> Running<Reply> {
        self.lease.raw.call(self.handler, self.number.get(), request)
    }

    /// The instance's own threads.
    fn spawner(&self) -> Option<Spawner> {
        Some(self.lease.scope.placement()?.threads().spawner())
    }

    /// Drops what is the plugin's, and this after it: here if there is a place, else on the lane.
    fn drop_with(self, left: impl Send + 'static) {
        let left = match self.here() {
            Some(_polling) => {
                let _entered = current::enter(self.tag);
                return drop(left);
            }
            None => left,
        };
        if let Some(spawner) = self.spawner() {
            let handler = self.handler;
            spawner.spawn_drop(handler, (left, self));
        }
    }
}
