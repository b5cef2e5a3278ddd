//! What stands around every call of a plugin: a bounded number at a time, a deadline, a breaker, and
//! a plain answer for every way to fail. A call that goes wrong costs no other call.

mod clean;
mod faults;

use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};

use parking_lot::RwLock;

pub(crate) use self::faults::GuardReport;
use self::{
    clean::{DroppedHeaders, clean},
    faults::{CallFailure, Recent},
};
use super::{
    breaker::{Breaker, Pass},
    call::{CallFault, Deadline, PluginReply},
};
use crate::error::CallError;
use cardinal_base::{codes, config::BreakerMode, request_id::RequestId};
use cardinal_observe::{
    log::tail::Tail,
    plugins::{Cause, Fault, PluginMeter},
    request_timing::{self, WaitTimes},
    shard::Counter,
};

/// Seconds after which a caller may try again when the plugin is busy.
const BUSY_RETRY: u32 = 1;
/// The guard of one plugin.
pub struct Guard {
    name: String,
    limit: usize,
    pub meter: Arc<PluginMeter>,
    tail: Option<Arc<Tail>>,
    pub counters: Counters,
    pub breaker: Breaker,
    pub own_codes: OwnCodes,
    recent: Recent,
    dropped_headers: DroppedHeaders,
}

/// What a call is known by.
#[derive(Clone, Copy)]
pub(crate) struct CallContext<'a> {
    /// `GET /items`, or the name of a tool's handler.
    pub handler: &'a str,
    pub request_id: RequestId,
    /// Calls and reply streams that are under way already.
    pub in_flight: usize,
    pub deadline: Deadline,
}

/// Error codes that are not the host's and that this plugin has answered with.
#[derive(Default)]
pub struct OwnCodes(RwLock<BTreeSet<String>>);

/// A plugin that makes up a code per answer must not fill the memory.
const MAX_OWN_CODES: usize = 64;

impl OwnCodes {
    pub fn has(&self, code: &str) -> bool {
        self.0.read().contains(code)
    }

    fn note(&self, code: &str) {
        if codes::find(code).is_some() || self.has(code) {
            return;
        }
        let mut known = self.0.write();
        if known.len() < MAX_OWN_CODES {
            known.insert(code.to_owned());
        }
    }
}

/// What has happened to the calls of this generation.
#[derive(Default)]
pub struct Counters {
    pub calls: Counter,
    pub errors: Counter,
    pub panics: Counter,
    pub timeouts: Counter,
    pub refused: Counter,
    /// Of those that went wrong, by whose fault it was.
    pub causes: [Counter; Cause::ALL.len()],
}

impl Guard {
    /// `tail` is where those read along who look into the plugin.
    pub(crate) fn new(
        name: &str,
        limit: u32,
        breaking: BreakerMode,
        meter: Arc<PluginMeter>,
        tail: Option<Arc<Tail>>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            meter,
            tail,
            counters: Counters::default(),
            breaker: Breaker::new(name, breaking),
            own_codes: OwnCodes::default(),
            recent: Recent::default(),
            dropped_headers: DroppedHeaders::default(),
        }
    }

    /// Runs a call until its deadline; past it the call's future is dropped. `stuck` answers whether the plugin's
    /// threads are all held: a client that gives up then was failed by the plugin.
    pub(crate) async fn run<F>(
        &self,
        called: CallContext<'_>,
        stuck: StuckCheck<'_>,
        call: impl FnOnce() -> F,
    ) -> Result<PluginReply, CallError>
    where
        F: Future<Output = Result<PluginReply, CallFault>>,
    {
        self.counters.calls.count();
        let admitted = self.admit(called.in_flight, stuck)?;
        let waited_before = request_timing::waits();
        let outcome = tokio::time::timeout_at(called.deadline.at().into(), call()).await;
        let took = called.deadline.elapsed();
        // A handler that waits for its end hears of it at the deadline, and answers before the timer is looked at.
        let in_time = outcome.ok().filter(|_| took < called.deadline.timeout());
        self.meter.called(took);
        // The call has put its waits on the request's account by now.
        let waited = request_timing::waits() - waited_before;
        request_timing::add_plugin(took.saturating_sub(waited.database));
        match in_time {
            Some(Ok(mut reply)) => {
                admitted.well();
                self.clean(&mut reply);
                Ok(reply)
            }
            Some(Err(fault)) => Err(self.fault(admitted, &called, fault, took)),
            None => {
                // A call that mostly waited for others was not slow by itself.
                let cause = match waited {
                    WaitTimes { client, .. } if client * 2 > took => Cause::Client,
                    WaitTimes { database, .. } if database * 2 > took => Cause::Database,
                    _ => Cause::Plugin,
                };
                self.note(admitted, &called, CallFailure { fault: Fault::Timeout, cause, reason: "" }, took);
                let (name, handler, ms) = (&self.name, called.handler, took.as_millis());
                let reason = format!("the plugin {name} reached its deadline in {handler} after {ms} ms");
                Err(if cause == Cause::Client { CallError::SlowClient(reason) } else { CallError::Timeout(reason) })
            }
        }
    }

    fn clean(&self, reply: &mut PluginReply) {
        let dropped = clean(&mut reply.headers);
        if !dropped.is_empty() {
            self.dropped_headers.note(&self.name, &dropped);
        }
    }

    /// Lines that the plugin has written, and those that were dropped.
    pub(crate) fn log_lines(&self) -> (u64, u64) {
        self.tail.as_ref().map(|tail| tail.counts()).unwrap_or_default()
    }

    /// What operators see.
    pub(crate) fn report(&self) -> GuardReport {
        GuardReport {
            breaker: self.breaker.report(),
            causes: Cause::ALL
                .into_iter()
                .map(|cause| (cause.name(), self.counters.causes[cause as usize].read()))
                .collect(),
            recent_faults: self.recent.read(),
        }
    }

    fn admit<'g>(&'g self, in_flight: usize, stuck: StuckCheck<'g>) -> Result<AdmittedCall<'g>, CallError> {
        if in_flight >= self.limit {
            self.refused();
            let detail = format!("The plugin `{}` is busy.", self.name);
            return Err(CallError::Unavailable { detail, retry_after: Some(BUSY_RETRY) });
        }
        match self.breaker.admit() {
            Ok(pass) => Ok(AdmittedCall { guard: self, pass: Some(pass), stuck }),
            Err(seconds) => {
                self.refused();
                let detail = format!("The plugin `{}` failed too often and gets no calls for a while.", self.name);
                Err(CallError::Unavailable { detail, retry_after: Some(seconds) })
            }
        }
    }

    fn fault(
        &self,
        admitted: AdmittedCall<'_>,
        called: &CallContext<'_>,
        fault: CallFault,
        took: Duration,
    ) -> CallError {
        let name = &self.name;
        match fault {
            CallFault::Panicked { message } => {
                self.note(
                    admitted,
                    called,
                    CallFailure { fault: Fault::Panic, cause: Cause::Plugin, reason: &message },
                    took,
                );
                CallError::Panicked(format!("the plugin {name} panicked: {message}"))
            }
            CallFault::BadReply { reason } => {
                self.note(
                    admitted,
                    called,
                    CallFailure { fault: Fault::BadReply, cause: Cause::Plugin, reason: &reason },
                    took,
                );
                CallError::BadReply(format!("the reply of the plugin {name} cannot be sent: {reason}"))
            }
            CallFault::Retired => {
                self.refused();
                CallError::Unavailable { detail: format!("The plugin `{name}` is being replaced."), retry_after: None }
            }
            CallFault::Error(error) => {
                match error.cause {
                    _ if error.status < 500 => admitted.well(),
                    None => self.refused(),
                    Some(cause) => {
                        let fault = if error.status == 504 { Fault::Timeout } else { Fault::Error };
                        self.note(admitted, called, CallFailure { fault, cause, reason: &error.log_text() }, took);
                    }
                }
                self.own_codes.note(&error.code);
                CallError::Own { plugin: name.clone(), error }
            }
        }
    }

    /// Counts a failure by kind and fault, and logs it.
    fn note(&self, admitted: AdmittedCall<'_>, called: &CallContext<'_>, failure: CallFailure<'_>, took: Duration) {
        let (counters, CallFailure { fault, cause, .. }) = (&self.counters, failure);
        match fault {
            Fault::Panic => counters.panics.count(),
            Fault::Timeout => counters.timeouts.count(),
            Fault::Error | Fault::BadReply | Fault::Refused => counters.errors.count(),
        }
        counters.causes[cause as usize].count();
        self.meter.failed(fault);
        self.meter.caused(cause);
        self.recent.note(called, failure, took);
        if let Some(tail) = &self.tail {
            faults::log_fault(tail, called, failure, took);
        }
        if cause == Cause::Plugin {
            admitted.wrong();
        } else {
            admitted.well();
        }
    }

    fn calls_let_in(&self) -> u64 {
        self.counters.calls.read().saturating_sub(self.counters.refused.read())
    }

    fn refused(&self) {
        self.counters.refused.count();
        self.meter.failed(Fault::Refused);
    }
}

/// Whether the plugin's threads are all held.
pub(crate) type StuckCheck<'a> = &'a (dyn Fn() -> bool + Sync);

/// A call that was let in. DroppedHeaders without an outcome it has shown nothing, unless the plugin is stuck.
struct AdmittedCall<'g> {
    guard: &'g Guard,
    pass: Option<Pass>,
    stuck: StuckCheck<'g>,
}

impl AdmittedCall<'_> {
    fn well(mut self) {
        if let Some(pass) = self.pass.take() {
            self.guard.breaker.well(pass);
        }
    }

    fn wrong(mut self) {
        if let Some(pass) = self.pass.take() {
            self.guard.breaker.wrong(pass, self.guard.calls_let_in());
        }
    }
}

impl Drop for AdmittedCall<'_> {
    fn drop(&mut self) {
        let Some(pass) = self.pass.take() else { return };
        if (self.stuck)() {
            self.guard.breaker.wrong(pass, self.guard.calls_let_in());
        } else {
            self.guard.breaker.gone(pass);
        }
    }
}
