//! The course of one call: polled where its request is while that is allowed, else on the plugin's
//! lane. It can change over between any two polls, never back.

use std::{
    mem,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use cardinal_plugin_abi::{Reply, Request};
use tokio::sync::oneshot;

use super::{
    CallLease,
    fault::{self, CallFault},
    reply::{self, Outcome},
};
use crate::{bridge::call::CallScope, lane::JoinHandle, library::raw_instance::Running};
use cardinal_control::crash::current;
use cardinal_observe::request_timing::{self, RequestTiming};

/// A call under way. Dropping it cancels the call.
pub struct Call(Stage);

enum Stage {
    /// The plugin has not seen it yet.
    Ready(Request, CallLease),
    // Dropped in this order: what runs, then what it runs on.
    Here(Running<Reply>, CallLease),
    OnPluginThread(JoinHandle<(Outcome, RequestTiming)>, Arc<CallScope>),
    /// There was no place for it, or it is over.
    Over,
}

impl Call {
    pub(super) fn new(call: Option<(Request, CallLease)>) -> Self {
        Self(call.map_or(Stage::Over, |(request, lease)| Stage::Ready(request, lease)))
    }
}

impl Future for Call {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let (mut running, lease) = match mem::replace(&mut self.0, Stage::Over) {
            Stage::Ready(request, lease) => return self.begin(request, lease, cx),
            Stage::Here(running, lease) => (running, lease),
            Stage::OnPluginThread(handle, scope) => return self.on_plugin_thread(handle, scope, cx),
            Stage::Over => return Poll::Ready(Err(CallFault::Retired)),
        };
        let polled = lease.here().map(|_polling| Pin::new(&mut running).poll(cx));
        match polled {
            Some(polled) => self.here(running, lease, polled),
            None => self.hand_over(lease, |_| running, cx),
        }
    }
}

impl Call {
    fn begin(&mut self, request: Request, lease: CallLease, cx: &mut Context<'_>) -> Poll<Outcome> {
        let started = match lease.here() {
            // One place for the handler's first lines and the first poll.
            Some(_polling) => {
                let mut running = lease.begin(request);
                let polled = Pin::new(&mut running).poll(cx);
                Ok((running, polled))
            }
            None => Err(request),
        };
        match started {
            Ok((running, polled)) => self.here(running, lease, polled),
            Err(request) => self.hand_over(lease, |lease| lease.begin(request), cx),
        }
    }

    fn here(
        &mut self,
        running: Running<Reply>,
        lease: CallLease,
        polled: Poll<Result<Reply, cardinal_plugin_abi::Error>>,
    ) -> Poll<Outcome> {
        match polled {
            Poll::Pending => {
                self.0 = Stage::Here(running, lease);
                Poll::Pending
            }
            Poll::Ready(outcome) => {
                drop(running);
                Poll::Ready(read(outcome, lease))
            }
        }
    }

    /// Sends the call to the lane, where `begin` makes what runs there.
    fn hand_over(
        &mut self,
        lease: CallLease,
        begin: impl FnOnce(&CallLease) -> Running<Reply> + Send + 'static,
        cx: &mut Context<'_>,
    ) -> Poll<Outcome> {
        let Some(spawner) = lease.spawner() else { return Poll::Ready(Err(CallFault::Retired)) };
        let scope = Arc::clone(lease.number.scope());
        let handle = spawner.send(lease.handler, |sender| work(lease, begin, sender));
        self.on_plugin_thread(handle, scope, cx)
    }

    fn on_plugin_thread(
        &mut self,
        mut handle: JoinHandle<(Outcome, RequestTiming)>,
        scope: Arc<CallScope>,
        cx: &mut Context<'_>,
    ) -> Poll<Outcome> {
        let Poll::Ready(received) = Pin::new(&mut handle).poll(cx) else {
            self.0 = Stage::OnPluginThread(handle, scope);
            return Poll::Pending;
        };
        let Ok((outcome, timing)) = received else { return Poll::Ready(Err(CallFault::Retired)) };
        request_timing::add_database(timing.database);
        Poll::Ready(outcome)
    }
}

impl Drop for Call {
    /// What the plugin left in its future may block when it is dropped.
    fn drop(&mut self) {
        match mem::replace(&mut self.0, Stage::Over) {
            Stage::Here(running, lease) => lease.drop_with(running),
            // What it has waited for so far is the request's, however the call ends there.
            Stage::OnPluginThread(handle, scope) => {
                scope.report_waits();
                drop(handle);
            }
            Stage::Ready(..) | Stage::Over => {}
        }
    }
}

/// The end of a call's handler; a streamed reply keeps the call alive.
fn read(outcome: Result<Reply, cardinal_plugin_abi::Error>, lease: CallLease) -> Outcome {
    lease.number.scope().report_waits();
    match outcome {
        Ok(reply) => reply::check(reply, lease),
        Err(error) => Err(fault::from_error(&error, || lease.lease.scope.given_errors.claim())),
    }
}

async fn work(
    lease: CallLease,
    begin: impl FnOnce(&CallLease) -> Running<Reply> + Send,
    sender: oneshot::Sender<(Outcome, RequestTiming)>,
) {
    let running = begin(&lease);
    let (outcome, timing) = request_timing::account(pin!(async {
        let outcome = running.await;
        read(outcome, lease)
    }))
    .await;
    let (outcome, pump) = reply::piped(outcome);
    if pump.is_none() {
        current::rest();
    }
    if let Err(unsent) = sender.send((outcome, timing)) {
        // The call is given up. What the plugin left in the reply runs its code when it is dropped.
        let _entered = current::enter(current::tag());
        drop(unsent);
    }
    if let Some(pump) = pump {
        pump.await;
    }
}
