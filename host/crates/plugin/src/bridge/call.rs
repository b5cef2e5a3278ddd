//! What stands behind the number of a call: whom it acts for, what it has taken, and how long it waits.

use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use cardinal_plugin_abi::{CallId, CtxId, host::ConnId};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{table::Table, waits::Waits};
use crate::{fault::Fault, job::JobHandle, progress::ProgressSender};
use cardinal_base::request_id::RequestId;
use cardinal_identity::auth::caller::Caller;
use cardinal_observe::{request_timing, trace::Trace};

// Static for the same reason as the table of contexts.
static CALLS: Table<Arc<CallScope>> = Table::new();

/// A failure inside a body that is read or written piece by piece.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// A streamed request body. Its limits and time-outs are the host's, already around it.
pub type BodyStream = Pin<Box<dyn http_body::Body<Data = bytes::Bytes, Error = BodyError> + Send>>;

/// Gives a connection back by its number.
type GiveBack = fn(ConnId);

/// One call in flight.
pub struct CallScope {
    pub ctx: CtxId,
    pub caller: Arc<Caller>,
    pub request_id: RequestId,
    pub trace: Option<Trace>,
    pub deadline: Instant,
    /// For the database.
    pub(crate) waits: Waits,
    /// For the client's body.
    pub(super) body_waits: Waits,
    progress: Option<ProgressSender>,
    job: Option<Arc<JobHandle>>,
    /// A streamed request body. It stands here so that it goes with the call, whoever still holds
    /// the plugin's end of it.
    body: Mutex<Option<BodyStream>>,
    /// Database connections that it has taken and not given back, with what gives each back.
    connections: Mutex<Vec<(ConnId, GiveBack)>>,
    ended: AtomicBool,
    cancelled: OnceLock<CancellationToken>,
}

impl CallScope {
    pub(crate) fn new(
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
            body_waits: Waits::default(),
            progress: None,
            job: None,
            body: Mutex::new(None),
            connections: Mutex::default(),
            ended: AtomicBool::new(false),
            cancelled: OnceLock::new(),
        }
    }

    /// The same call, with a request body that is read as it comes.
    pub(crate) fn with_body(mut self, body: BodyStream) -> Self {
        self.body = Mutex::new(Some(body));
        self
    }

    /// The same call, with a receiver of its progress.
    pub(crate) fn with_progress(mut self, progress: Option<ProgressSender>) -> Self {
        self.progress = progress;
        self
    }

    /// The same call, as that of a job's handler.
    pub(crate) fn with_job(mut self, job: Option<Arc<JobHandle>>) -> Self {
        self.job = job;
        self
    }

    /// The job whose handler it is.
    pub(crate) const fn job(&self) -> Option<&Arc<JobHandle>> {
        self.job.as_ref()
    }

    /// Whether it is a job that is to stop.
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.stop.is_cancelled())
    }

    /// Who the call acts for, in a job with the rights that its starter has now.
    pub(crate) async fn current_caller(&self) -> Result<Arc<Caller>, Fault> {
        match &self.job {
            Some(job) => job.caller().await,
            None => Ok(Arc::clone(&self.caller)),
        }
    }

    /// Takes the plugin's progress reports; `None` when they are not read.
    pub(crate) const fn progress(&self) -> Option<&ProgressSender> {
        self.progress.as_ref()
    }

    /// Works on the request body; `None` inside when the call is over.
    pub(crate) fn with_request_body<R>(&self, work: impl FnOnce(&mut Option<BodyStream>) -> R) -> R {
        work(&mut self.body.lock())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Notes a connection that `give_back` gives back when the call ends, if nothing else does before; `false` when the
    /// call is over.
    pub(crate) fn has_taken(&self, connection: ConnId, give_back: GiveBack) -> bool {
        self.connections.lock().push((connection, give_back));
        !self.is_over() // `end` may have looked before it was there
    }

    pub(crate) fn gave_back(&self, connection: ConnId) {
        let mut connections = self.connections.lock();
        connections.retain(|(other, _)| *other != connection);
    }

    /// Cancelled when the call ends. Made only for those who ask: most calls never do.
    pub(crate) fn cancellation(&self) -> CancellationToken {
        let token = self.cancelled.get_or_init(CancellationToken::new).clone();
        if self.is_over() {
            token.cancel(); // `end` may have looked before the token was there
        }
        token
    }

    /// Puts the waits on the account of the request that is being polled.
    pub(crate) fn report_waits(&self) {
        request_timing::add_database(self.waits.take());
        request_timing::add_client(self.body_waits.take());
    }

    fn end(&self) {
        self.report_waits();
        self.ended.store(true, Ordering::SeqCst);
        if let Some(token) = self.cancelled.get() {
            token.cancel();
        }
        drop(self.with_request_body(Option::take));
        let left = std::mem::take(&mut *self.connections.lock());
        left.into_iter().for_each(|(connection, give_back)| give_back(connection));
    }
}

/// The call of a number, when it belongs to the context.
pub fn find(ctx: CtxId, call: CallId) -> Option<Arc<CallScope>> {
    CALLS.get(call).filter(|scope| scope.ctx == ctx)
}

/// A call's number, for as long as the call lives.
pub(crate) struct CallNumber {
    number: CallId,
    scope: Arc<CallScope>,
}

impl CallNumber {
    /// Gives a call its number; `None` when too many are in flight.
    pub(crate) fn give(scope: CallScope) -> Option<Self> {
        let scope = Arc::new(scope);
        Some(Self { number: CALLS.insert(scope.clone())?, scope })
    }

    pub(crate) fn get(&self) -> CallId {
        self.number
    }

    pub(crate) fn scope(&self) -> &Arc<CallScope> {
        &self.scope
    }
}

impl Drop for CallNumber {
    fn drop(&mut self) {
        CALLS.remove(self.number);
        self.scope.end();
    }
}

/// A call waits for the database until this is dropped.
pub(super) struct Waiting(Arc<CallScope>);

impl Waiting {
    /// None when the plugin itself is at work.
    pub(super) fn start(call: Option<&Arc<CallScope>>) -> Option<Self> {
        call.map(|call| {
            call.waits.begin();
            Self(Arc::clone(call))
        })
    }

    pub(super) fn call(&self) -> &Arc<CallScope> {
        &self.0
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waits.end();
    }
}
