//! What stands behind the numbers that a plugin holds: its context and its calls.

use std::{
    any::Any,
    collections::BTreeSet,
    pin::Pin,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Instant,
};

use cardinal_plugin_abi::{CallId, CtxId, host::ConnId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{database, http::HttpExchanges, metrics::Metrics, table::Table, waits::Waits};
use crate::{context::PluginContext, fault::Fault, job::JobHandle, placement::Placement, progress::ProgressSender};
use cardinal_base::request_id::RequestId;
use cardinal_control::crash::{
    PluginTag, current,
    shm::{self, CLOSED, InFlight},
};
use cardinal_identity::auth::caller::Caller;
use cardinal_observe::{request_timing, trace::Trace};

// A door is a plain C function: all that it gets is a number, so the tables must be static.
static CONTEXTS: Table<Arc<Scope>> = Table::new();
static CALLS: Table<Arc<CallScope>> = Table::new();

/// A failure inside a body that is read or written piece by piece.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// A streamed request body. Its limits and time-outs are the host's, already around it.
pub type BodyStream = Pin<Box<dyn http_body::Body<Data = bytes::Bytes, Error = BodyError> + Send>>;

/// One live plugin instance, seen from its doors.
pub struct Scope {
    pub context: PluginContext,
    pub metrics: Metrics,
    pub http: Arc<HttpExchanges>,
    pub leases: Leases,
    pub given: GivenErrors,
    /// Cancelled when the instance is to stop.
    pub stopping: CancellationToken,
    instance: OnceLock<Weak<dyn Any + Send + Sync>>,
    placement: OnceLock<Placement>,
}

/// Keeps an instance from being destroyed, whatever type it has.
pub type Anchor = Arc<dyn Any + Send + Sync>;

impl Scope {
    pub fn new(context: PluginContext) -> Arc<Self> {
        Arc::new(Self {
            leases: Leases { state: InFlight::from_tag(context.mark()), idle: Notify::new() },
            http: Arc::new(HttpExchanges::new(context.http_client(), context.reach())),
            context,
            given: GivenErrors::default(),
            metrics: Metrics::default(),
            stopping: CancellationToken::new(),
            instance: OnceLock::new(),
            placement: OnceLock::new(),
        })
    }

    /// Says what the context belongs to, once it exists.
    pub fn belongs_to(&self, instance: &Anchor) {
        let _ = self.instance.set(Arc::downgrade(instance));
    }

    /// Says where the instance's handlers run, once they are known.
    pub fn runs_at(&self, placement: Placement) {
        let _ = self.placement.set(placement);
    }

    /// Where the instance's handlers run; `None` before it exists.
    pub fn placement(&self) -> Option<&Placement> {
        self.placement.get()
    }

    /// Keeps the instance alive; `None` before it exists and after it is gone.
    pub fn anchor(&self) -> Option<Anchor> {
        self.instance.get()?.upgrade()
    }
}

/// Gives a context its number; `None` when the table is full.
pub fn admit(scope: Arc<Scope>) -> Option<CtxId> {
    CONTEXTS.insert(scope)
}

/// The live context of a number, for the plugin whose code this thread runs. Another plugin's number is refused like one
/// that was never given: the number alone opens nothing on a thread that is known to be another's.
pub fn context(ctx: CtxId) -> Option<Arc<Scope>> {
    CONTEXTS.get(ctx).filter(|scope| may_ask(current::mark(), scope))
}

fn may_ask(asking: PluginTag, scope: &Scope) -> bool {
    // The host's own threads, and those that a plugin has started and not registered, belong to none.
    if asking.page().is_none() || shm::is_same_plugin(asking, scope.context.mark()) {
        return true;
    }
    note_foreign(asking, scope.context.name());
    false
}

/// Logs once for each plugin that it uses numbers of another.
fn note_foreign(asking: PluginTag, owner: &str) {
    static NOTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let plugin = shm::plugin_name(asking).unwrap_or_default();
    if NOTED.lock().insert(plugin.clone()) {
        tracing::error!(plugin, owner, "a plugin used the context number of another plugin and was refused");
    }
}

/// Ends a context's number: its doors answer `BAD_HANDLE` from here on.
pub fn retire(ctx: CtxId) {
    CONTEXTS.remove(ctx);
}

/// One call in flight.
pub struct CallScope {
    pub ctx: CtxId,
    pub caller: Arc<Caller>,
    pub request_id: RequestId,
    pub trace: Option<Trace>,
    pub deadline: Instant,
    pub waits: Waits,
    progress: Option<ProgressSender>,
    job: Option<Arc<JobHandle>>,
    /// A streamed request body. It stands here so that it goes with the call, whoever still holds
    /// the plugin's end of it.
    body: Mutex<Option<BodyStream>>,
    /// Database connections that it has taken and not given back.
    connections: Mutex<Vec<ConnId>>,
    ended: AtomicBool,
    cancelled: OnceLock<CancellationToken>,
}

impl CallScope {
    pub fn new(
        ctx: CtxId,
        caller: Arc<Caller>,
        request_id: RequestId,
        trace: Option<Trace>,
        deadline: Instant,
    ) -> Self {
        Self {
            ctx,
            caller,
            request_id,
            trace,
            deadline,
            waits: Waits::default(),
            progress: None,
            job: None,
            body: Mutex::new(None),
            connections: Mutex::default(),
            ended: AtomicBool::new(false),
            cancelled: OnceLock::new(),
        }
    }

    /// The same call, with a request body that is read as it comes.
    pub fn with_body(mut self, body: BodyStream) -> Self {
        self.body = Mutex::new(Some(body));
        self
    }

    /// The same call, with a receiver of its progress.
    pub fn with_progress(mut self, progress: Option<ProgressSender>) -> Self {
        self.progress = progress;
        self
    }

    /// The same call, as that of a job's handler.
    pub fn with_job(mut self, job: Option<Arc<JobHandle>>) -> Self {
        self.job = job;
        self
    }

    /// The job whose handler it is.
    pub const fn job(&self) -> Option<&Arc<JobHandle>> {
        self.job.as_ref()
    }

    /// Whether it is a job that is to stop.
    pub fn is_asked_to_stop(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.stop.is_cancelled())
    }

    /// Who the call acts for, in a job with the rights that its starter has now.
    pub async fn current_caller(&self) -> Result<Arc<Caller>, Fault> {
        match &self.job {
            Some(job) => job.caller().await,
            None => Ok(Arc::clone(&self.caller)),
        }
    }

    /// Takes the plugin's progress reports; `None` when they are not read.
    pub const fn progress(&self) -> Option<&ProgressSender> {
        self.progress.as_ref()
    }

    /// Works on the request body; `None` inside when the call is over.
    pub fn with_request_body<R>(&self, work: impl FnOnce(&mut Option<BodyStream>) -> R) -> R {
        work(&mut self.body.lock())
    }

    pub fn is_over(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Notes a connection that goes back when the call ends, if nothing else gives it back before; `false` when the call
    /// is over.
    pub fn has_taken(&self, connection: ConnId) -> bool {
        self.connections.lock().push(connection);
        !self.is_over() // `end` may have looked before it was there
    }

    pub fn gave_back(&self, connection: ConnId) {
        let mut connections = self.connections.lock();
        connections.retain(|other| *other != connection);
    }

    /// Cancelled when the call ends. Made only for those who ask: most calls never do.
    pub fn cancellation(&self) -> CancellationToken {
        let token = self.cancelled.get_or_init(CancellationToken::new).clone();
        if self.is_over() {
            token.cancel(); // `end` may have looked before the token was there
        }
        token
    }

    /// Puts the waits for the database on the account of the request that is being polled.
    pub fn settle(&self) {
        request_timing::add_database(self.waits.take());
    }

    fn end(&self) {
        self.settle();
        self.ended.store(true, Ordering::SeqCst);
        if let Some(token) = self.cancelled.get() {
            token.cancel();
        }
        drop(self.with_request_body(Option::take));
        let left = std::mem::take(&mut *self.connections.lock());
        left.into_iter().for_each(database::give_back);
    }
}

/// The call of a number, when it belongs to the context.
pub fn call(ctx: CtxId, call: CallId) -> Option<Arc<CallScope>> {
    CALLS.get(call).filter(|scope| scope.ctx == ctx)
}

/// A call's number, for as long as the call lives.
pub struct CallNumber {
    number: CallId,
    scope: Arc<CallScope>,
}

impl CallNumber {
    /// Gives a call its number; `None` when too many are in flight.
    pub fn give(scope: CallScope) -> Option<Self> {
        let scope = Arc::new(scope);
        Some(Self { number: CALLS.insert(scope.clone())?, scope })
    }

    pub fn get(&self) -> CallId {
        self.number
    }

    pub fn scope(&self) -> &Arc<CallScope> {
        &self.scope
    }
}

impl Drop for CallNumber {
    fn drop(&mut self) {
        CALLS.remove(self.number);
        self.scope.end();
    }
}

/// How many errors for which the host or the database is to blame were given to an instance and not claimed yet. A plugin
/// that claims one that it was never given is to blame itself.
#[derive(Default)]
pub struct GivenErrors(AtomicU32);

/// Errors that an instance does not pass on are not saved up beyond this.
const GIVEN_LIMIT: u32 = 1_024;

impl GivenErrors {
    pub fn add(&self) {
        let more = |given: u32| (given < GIVEN_LIMIT).then_some(given + 1);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more); // at its limit it stays
    }

    /// Whether there was one to claim.
    pub fn claim(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |given| given.checked_sub(1)).is_ok()
    }
}

/// Counts what still runs code of an instance: calls, reply streams, streams lent to the host.
/// `destroy` waits for all of it; once closed, nothing new begins.
pub struct Leases {
    state: InFlight,
    idle: Notify,
}

impl Leases {
    /// Takes one; `false` when closed.
    pub fn take(&self) -> bool {
        if self.state.fetch_add(1, Ordering::SeqCst) & CLOSED == 0 {
            return true;
        }
        self.give_back();
        false
    }

    pub fn give_back(&self) {
        if self.state.fetch_sub(1, Ordering::SeqCst) == CLOSED | 1 {
            self.idle.notify_waiters();
        }
    }

    /// Lets nothing new begin.
    pub fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::SeqCst);
    }

    pub fn count(&self) -> usize {
        self.state.load(Ordering::SeqCst) & !CLOSED
    }

    /// Ready when nothing is out any more. Call [`close`](Self::close) first.
    pub async fn idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            idle.as_mut().enable(); // before the count is read, or the last one could slip between
            if self.count() == 0 {
                return;
            }
            idle.await;
        }
    }
}
