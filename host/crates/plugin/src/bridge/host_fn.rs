//! How a host function works: look up, begin on the host's runtime, hand a completion back.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use cardinal_plugin_abi::{
    CallId, CtxId, Error, Fut, Slice,
    door::payload_message,
    error::{self, flags},
};
use tokio::task::{JoinError, JoinHandle};

use super::{
    call::{self, CallScope},
    fault,
    scope::{self, Scope},
};
use crate::fault::Fault;

/// Begins the work of a host function. `start` runs at once, on the plugin's thread, and reads all that the
/// plugin lends; the future that it makes runs on the host's runtime.
pub(super) fn begin<T, F>(ctx: CtxId, start: impl FnOnce(&Arc<Scope>) -> Result<F, Fault>) -> Fut<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Fault>> + Send + 'static,
{
    begin_with(ctx, start, |outcome| outcome)
}

/// As [`begin`]; the plugin gets what `deliver` makes of the outcome. An outcome that the plugin
/// never fetched is dropped as it was: a guard in it does its work.
pub(super) fn begin_with<R, T, F>(
    ctx: CtxId,
    start: impl FnOnce(&Arc<Scope>) -> Result<F, Fault>,
    deliver: fn(R) -> T,
) -> Fut<T>
where
    R: Send + 'static,
    T: Send + 'static,
    F: Future<Output = Result<R, Fault>> + Send + 'static,
{
    let started = contained(ctx, || {
        let scope = live(ctx)?;
        let work = start(&scope)?;
        let task = scope.context.runtime().spawn(async move { work.await.map_err(|fault| report(ctx, fault)) });
        Ok(Fut::new(HostTask { task, deliver }))
    });
    started.unwrap_or_else(|error| Fut::ready(Err(error)))
}

/// The live context of a number.
pub(super) fn live(ctx: CtxId) -> Result<Arc<Scope>, Fault> {
    scope::context(ctx).ok_or_else(|| Fault::Gone("the plugin is retired".to_owned()))
}

/// The call that a host function is called for; `None` when the plugin itself is at work.
pub(super) fn find_call(ctx: CtxId, call: CallId) -> Result<Option<Arc<CallScope>>, Fault> {
    if call == 0 {
        return Ok(None);
    }
    call::find(ctx, call).map(Some).ok_or_else(|| Fault::Gone("the call is over".to_owned()))
}

/// Text that a plugin lends.
pub(super) fn text(slice: Slice<'_>, what: &str) -> Result<String, Fault> {
    let text = slice.as_text().ok_or_else(|| Fault::Invalid(format!("{what} is not UTF-8")))?;
    Ok(text.to_owned())
}

/// SQL that a plugin lends; the protocol ends it with a NUL.
pub(super) fn sql(slice: Slice<'_>) -> Result<String, Fault> {
    let text = text(slice, "the SQL")?;
    if text.contains('\0') { Err(Fault::Invalid("the SQL has a NUL in it".to_owned())) } else { Ok(text) }
}

/// Runs the synchronous part of a host function: a panic of ours is the plugin's error, not its end.
pub(super) fn contained<T>(ctx: CtxId, body: impl FnOnce() -> Result<T, Fault>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(outcome) => outcome.map_err(|fault| report(ctx, fault)),
        Err(payload) => Err(panicked(payload_message(payload))),
    }
}

/// The error for the plugin; the cause goes to the log, under the plugin's name.
pub(super) fn report(ctx: CtxId, fault: Fault) -> Error {
    let scope = scope::context(ctx);
    let error = fault::to_error(scope.as_ref().map_or("", |scope| scope.context.name()), fault);
    if let Some(scope) =
        scope.filter(|_| matches!(error.code, error::INTERNAL | error::DATABASE | error::UNAVAILABLE | error::HTTP))
    {
        scope.given_errors.add();
    }
    Error { flags: error.flags | flags::HOST, ..error }
}

fn panicked(message: String) -> Error {
    tracing::error!(message, "a host function panicked");
    Error::new(error::INTERNAL, "the host function failed")
}

/// Work that runs on the host's runtime. The task's handle is the completion: it can be polled on
/// any thread. Dropping it cancels the work.
struct HostTask<R, T> {
    task: JoinHandle<Result<R, Error>>,
    deliver: fn(R) -> T,
}

impl<R, T> Future for HostTask<R, T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.task).poll(cx));
        Poll::Ready(outcome.unwrap_or_else(|error| Err(cut_short(error))).map(self.deliver))
    }
}

fn cut_short(error: JoinError) -> Error {
    match error.try_into_panic() {
        Ok(payload) => panicked(payload_message(payload)),
        Err(_) => Error::new(error::CANCELLED, "the host is stopping"),
    }
}

impl<R, T> Drop for HostTask<R, T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
