//! For whom the code on this thread is running just now: the instance, the call, and the runtime that its tokio types
//! find.
//!
//! A scope is entered around every poll and every drop of an author's code, because the host may poll one future on
//! different threads and poll futures of several calls on one thread. The panic hook, the log bridge and `println!`
//! read it.

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use cardinal_plugin_abi::{CallId, CtxId};
use tokio::runtime::Handle;

/// The instance and the call that code runs for; zeros outside of any.
#[derive(Clone, Copy, Default)]
pub(crate) struct Origin {
    pub(crate) ctx: CtxId,
    pub(crate) call: CallId,
}

thread_local! {
    static CURRENT: Cell<Origin> = const { Cell::new(Origin { ctx: 0, call: 0 }) };
}

/// Entered around every poll and every drop of an author's code.
#[derive(Clone, Default)]
pub(crate) struct Scope {
    pub(crate) ctx: CtxId,
    pub(crate) call: CallId,
    pub(crate) runtime: Option<Handle>,
}

impl Scope {
    /// Runs `body` inside: the panic hook knows for whom, and tokio finds the plugin's runtime.
    pub(crate) fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        let _inside = OriginGuard { before: CURRENT.replace(Origin { ctx: self.ctx, call: self.call }) };
        let _runtime = self.runtime.as_ref().map(Handle::enter);
        body()
    }

    /// Of the code on this thread.
    pub(crate) fn current() -> Origin {
        CURRENT.get()
    }

    /// A future (boxed already: it must be `Unpin`) that is polled and dropped inside.
    pub(crate) fn wrap<F: Future + Unpin>(self, future: F) -> Scoped<F> {
        Scoped { scope: self, future: Some(future) }
    }
}

/// Puts back what was current, also when `body` panics.
struct OriginGuard {
    before: Origin,
}

impl Drop for OriginGuard {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// See [`Scope::wrap`].
pub(crate) struct Scoped<F> {
    scope: Scope,
    /// `None` once it has ended: what it held is dropped inside the scope, too.
    future: Option<F>,
}

impl<F: Future + Unpin> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { scope, future } = self.get_mut();
        scope.enter(|| {
            let Some(running) = future.as_mut() else { return Poll::Pending };
            let outcome = Pin::new(running).poll(cx);
            if outcome.is_ready() {
                *future = None;
            }
            outcome
        })
    }
}

impl<F> Drop for Scoped<F> {
    fn drop(&mut self) {
        let future = self.future.take();
        self.scope.enter(|| drop(future));
    }
}
