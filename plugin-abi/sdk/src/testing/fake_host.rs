//! A host: it answers what a test has laid down, and keeps a journal. Under [`TestHost`](super::TestHost), and under
//! the SDK's own tests of the border.
//!
//! The functions of its table are those of the plugin API. They find their host by the number of the context, so that
//! hosts of tests that run side by side do not meet.

#![doc(hidden)]

mod cards;
mod database;
mod events;
mod jobs;
mod notifications;
mod servers;
mod table;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::Future,
    pin::Pin,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use cardinal_plugin_abi::{self as abi, Answer, Bytes, CallId, CtxId, Error, Fut, error as codes, host::cancel};
use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use uuid::Uuid;

pub use self::table::api;
pub(super) use self::{database::Database, jobs::JobRecord};
use self::{events::Events, notifications::Listener, servers::Servers};
use super::{LogLine, MetricLine, StartedJob, rules::Rules};
use crate::User;

/// What one plugin has to do with.
#[derive(Default)]
pub struct FakeHost {
    /// The number of the first instance's context.
    pub ctx: CtxId,
    /// The plugin's lines, panics included.
    pub log: Mutex<Vec<LogLine>>,
    /// The changes of metrics.
    pub metrics: Mutex<Vec<MetricLine>>,
    /// What happened, in order, in words.
    pub journal: Mutex<Vec<String>>,
    /// What `settings` answers: a JSON object.
    pub settings: Mutex<String>,
    /// The context is retired: everything is refused.
    pub retired: Mutex<bool>,
    /// Calls that are cancelled.
    pub cancelled: Mutex<HashSet<CallId>>,
    /// Instances that are to stop.
    pub(super) stopping: Mutex<HashSet<CtxId>>,
    /// What `db_prepare` answers, by SQL.
    pub statements: Mutex<HashMap<String, String>>,
    /// What `db_query` streams, taken by the next query.
    pub rows: Mutex<Vec<Result<Bytes, Error>>>,
    /// SQL (or `read_card`) that does not end until `finish` or its drop.
    pub holding: Mutex<HashSet<String>>,
    /// Errors by SQL.
    pub failing: Mutex<HashMap<String, Error>>,
    pub cards: Mutex<BTreeMap<Uuid, Value>>,
    pub(super) events: Mutex<Events>,
    /// Who makes the calls that are under way.
    pub(super) callers: Mutex<HashMap<CallId, User>>,
    /// The jobs among these calls.
    pub(super) jobs: Mutex<HashMap<CallId, Arc<JobRecord>>>,
    /// What the plugin has started.
    pub(super) started_jobs: Mutex<Vec<StartedJob>>,
    /// What the manifest permits; without it nothing is checked.
    pub(super) rules: Option<Rules>,
    /// Without one, statements are answered with what `statements` and `rows` hold.
    pub(super) database: Option<Database>,
    pub(super) listeners: Mutex<Vec<Listener>>,
    pub(super) held: Mutex<Vec<Arc<PendingCall>>>,
    /// What other servers answer.
    pub(super) servers: Mutex<Option<Servers>>,
}

/// Something that has been asked and not answered.
#[derive(Default)]
pub(super) struct PendingCall {
    what: String,
    done: Mutex<bool>,
    wakers: Mutex<Vec<Waker>>,
}

static HOSTS: LazyLock<RwLock<HashMap<CtxId, Arc<FakeHost>>>> = LazyLock::new(RwLock::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Locks, whether a thread has panicked with the lock or not: a test that fails must not fail others.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeHost {
    /// Makes a host without a manifest, which checks nothing.
    pub fn new() -> Arc<Self> {
        Self::default().register()
    }

    /// Gives it its number, by which the functions of the table find it.
    pub(super) fn register(self) -> Arc<Self> {
        let ctx = number();
        let host = Arc::new(Self { ctx, ..self });
        hosts_mut().insert(ctx, host.clone());
        host
    }

    /// A number for one more instance of the same plugin.
    pub(super) fn another_context(self: &Arc<Self>) -> CtxId {
        let ctx = number();
        hosts_mut().insert(ctx, self.clone());
        ctx
    }

    /// What a host does when a plugin is gone: its numbers mean nothing any more.
    pub(super) fn unregister(&self, ctx: CtxId) {
        hosts_mut().remove(&ctx);
        self.end_listeners(ctx);
    }

    /// Adds a line to the journal.
    pub fn note(&self, what: impl Into<String>) {
        lock(&self.journal).push(what.into());
    }

    pub fn journal(&self) -> Vec<String> {
        lock(&self.journal).clone()
    }

    /// Lets the host not answer this until [`finish`](Self::finish).
    pub fn hold(&self, what: &str) {
        lock(&self.holding).insert(what.to_owned());
    }

    /// Lets what is held end, and wakes whoever has ever asked for it, more than once.
    pub fn finish(&self, what: &str) {
        lock(&self.holding).remove(what);
        let held: Vec<_> = lock(&self.held).iter().filter(|held| held.what == what).cloned().collect();
        for held in held {
            *lock(&held.done) = true;
            let wakers = lock(&held.wakers).clone();
            wakers.iter().for_each(Waker::wake_by_ref);
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Lets an instance know that it is to stop, as a host does just before it stops it.
    pub fn stop(&self, ctx: CtxId) {
        self.end_listeners(ctx);
        lock(&self.stopping).insert(ctx);
        self.finish(&stop_of(ctx));
    }

    /// Ready when the instance is to stop.
    pub(super) fn until_stop(self: &Arc<Self>, ctx: CtxId) -> Fut<Answer> {
        let what = stop_of(ctx);
        self.hold(&what);
        let answer = self.ask(&what, || cancel::STOPPING.into());
        // Looked at behind the hold: whichever of this and `stop` comes second sees the other.
        if lock(&self.stopping).contains(&ctx) {
            self.finish(&what);
        }
        answer
    }

    /// Waits until something that is held has been asked for.
    pub fn until_asked(&self, what: &str) {
        while !lock(&self.held).iter().any(|held| held.what == what && !lock(&held.wakers).is_empty()) {
            std::thread::yield_now();
        }
    }

    /// Waits until the journal has this line, on the thread that asks.
    pub fn until_journal(&self, what: &str) {
        while !lock(&self.journal).iter().any(|line| line == what) {
            std::thread::yield_now();
        }
    }

    /// Answers with `answer`, once the test does not hold `what`, unless the test has an error for it.
    pub(super) fn ask<T: Send + 'static>(self: &Arc<Self>, what: &str, answer: impl FnOnce() -> T) -> Fut<T> {
        self.ask_fallible(what, || Ok(answer()))
    }

    /// The same for what the host itself may refuse.
    pub(super) fn ask_fallible<T: Send + 'static>(
        self: &Arc<Self>,
        what: &str,
        answer: impl FnOnce() -> Result<T, Error>,
    ) -> Fut<T> {
        let outcome = self.permit(what).and_then(|()| answer());
        if !lock(&self.holding).contains(what) {
            return Fut::ready(outcome);
        }
        let held = Arc::new(PendingCall { what: what.to_owned(), ..PendingCall::default() });
        lock(&self.held).push(held.clone());
        Fut::new(PendingAnswer { host: self.clone(), held, outcome: Some(outcome) })
    }
}

impl FakeHost {
    /// Whether nothing was laid down against it.
    pub(super) fn permit(&self, what: &str) -> Result<(), Error> {
        if *lock(&self.retired) {
            return Err(Error::new(codes::BAD_HANDLE, "retired"));
        }
        lock(&self.failing).get(what).map_or(Ok(()), |error| Err(copy(error)))
    }
}

fn copy(error: &Error) -> Error {
    let details = Bytes::from(error.details.get().to_vec());
    Error { code: error.code, flags: error.flags, message: error.text().into(), details }
}

/// Ends when the test says so; keeps every waker it ever saw.
struct PendingAnswer<T> {
    host: Arc<FakeHost>,
    held: Arc<PendingCall>,
    outcome: Option<Result<T, Error>>,
}

impl<T> Unpin for PendingAnswer<T> {}

impl<T> Future for PendingAnswer<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        lock(&self.held.wakers).push(cx.waker().clone());
        if !*lock(&self.held.done) {
            return Poll::Pending;
        }
        self.outcome.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> Drop for PendingAnswer<T> {
    fn drop(&mut self) {
        if self.outcome.is_some() {
            self.host.note(format!("cancelled {}", self.held.what));
        }
    }
}

/// The host of a context; one that refuses everything when the plugin is gone.
pub(super) fn host(ctx: CtxId) -> Arc<FakeHost> {
    let found = HOSTS.read().unwrap_or_else(PoisonError::into_inner).get(&ctx).cloned();
    found.unwrap_or_else(|| Arc::new(FakeHost { retired: Mutex::new(true), ..FakeHost::default() }))
}

fn stop_of(ctx: CtxId) -> String {
    format!("stop of {ctx}")
}

fn hosts_mut() -> std::sync::RwLockWriteGuard<'static, HashMap<CtxId, Arc<FakeHost>>> {
    HOSTS.write().unwrap_or_else(PoisonError::into_inner)
}

/// A number that nobody else has: of a context, a call, a connection.
pub(super) fn number() -> u64 {
    NEXT.fetch_add(1, Ordering::SeqCst)
}

pub(super) fn now() -> String {
    OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default()
}

/// A request as the host makes it.
pub fn request(fields: &[(u32, &str)], body: &str) -> abi::Request {
    let fields: Vec<_> = fields.iter().map(|(number, value)| (*number, value.as_bytes())).collect();
    abi::Request { head: abi::record::write(&fields).into(), body: body.to_owned().into(), ..abi::Request::default() }
}
