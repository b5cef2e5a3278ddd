//! What stands behind the number of a plugin's context.

use std::{
    any::Any,
    collections::BTreeSet,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use cardinal_plugin_abi::CtxId;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{exchanges::HttpExchanges, metrics::Metrics, table::Table};
use crate::{context::PluginContext, listen::Listeners, placement::Placement};
use cardinal_control::crash::{
    PluginTag, current,
    shm::{self, CLOSED, InFlight},
};

// A host function is a plain C function: all that it gets is a number, so the table must be static.
static CONTEXTS: Table<Arc<Scope>> = Table::new();

/// One live plugin instance, seen from the host functions.
pub struct Scope {
    pub context: PluginContext,
    pub metrics: Metrics,
    pub http: Arc<HttpExchanges>,
    pub listeners: Arc<Listeners>,
    pub leases: Leases,
    pub given_errors: GivenErrors,
    /// Cancelled when the instance is to stop.
    pub stopping: CancellationToken,
    instance: OnceLock<Weak<dyn Any + Send + Sync>>,
    placement: OnceLock<Placement>,
}

/// Keeps an instance from being destroyed, whatever type it has.
pub(crate) type Anchor = Arc<dyn Any + Send + Sync>;

impl Scope {
    pub fn new(context: PluginContext) -> Arc<Self> {
        Arc::new(Self {
            leases: Leases { state: InFlight::from_tag(context.tag()), idle: Notify::new() },
            http: Arc::new(HttpExchanges::new(context.http_client(), context.reach())),
            listeners: context.listeners(),
            context,
            given_errors: GivenErrors::default(),
            metrics: Metrics::default(),
            stopping: CancellationToken::new(),
            instance: OnceLock::new(),
            placement: OnceLock::new(),
        })
    }

    /// Says what the context belongs to, once it exists.
    pub(crate) fn belongs_to(&self, instance: &Anchor) {
        let _ = self.instance.set(Arc::downgrade(instance));
    }

    /// Says where the instance's handlers run, once they are known.
    pub(crate) fn runs_at(&self, placement: Placement) {
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

/// The live context of a number, for the plugin whose code this thread runs. Another plugin's number is refused like
/// one that was never given: the number alone opens nothing on a thread that is known to be another's.
pub fn context(ctx: CtxId) -> Option<Arc<Scope>> {
    CONTEXTS.get(ctx).filter(|scope| may_ask(current::tag(), scope))
}

fn may_ask(asking: PluginTag, scope: &Scope) -> bool {
    // The host's own threads, and those that a plugin has started and not registered, belong to none.
    if asking.page().is_none() || shm::is_same_plugin(asking, scope.context.tag()) {
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
pub(crate) fn retire(ctx: CtxId) {
    CONTEXTS.remove(ctx);
}

/// How many errors for which the host or the database is to blame were given to an instance and not claimed yet. A
/// plugin that claims one that it was never given is to blame itself.
#[derive(Default)]
pub struct GivenErrors(AtomicU32);

/// Errors that an instance does not pass on are not saved up beyond this.
const GIVEN_LIMIT: u32 = 1_024;

impl GivenErrors {
    pub(crate) fn add(&self) {
        let more = |given: u32| (given < GIVEN_LIMIT).then_some(given + 1);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more); // at its limit it stays
    }

    /// Whether there was one to claim.
    pub(crate) fn claim(&self) -> bool {
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
    pub(crate) fn take(&self) -> bool {
        if self.state.fetch_add(1, Ordering::SeqCst) & CLOSED == 0 {
            return true;
        }
        self.give_back();
        false
    }

    pub(crate) fn give_back(&self) {
        if self.state.fetch_sub(1, Ordering::SeqCst) == CLOSED | 1 {
            self.idle.notify_waiters();
        }
    }

    /// Lets nothing new begin.
    pub(crate) fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::SeqCst);
    }

    pub(crate) fn count(&self) -> usize {
        self.state.load(Ordering::SeqCst) & !CLOSED
    }

    /// Ready when nothing is out any more. Call [`close`](Self::close) first.
    pub(crate) async fn idle(&self) {
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
