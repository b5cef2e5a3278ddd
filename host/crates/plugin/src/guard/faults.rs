//! The last calls of a plugin that went wrong, for operators.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tracing::Level;

use super::CallContext;
use crate::breaker::BreakerReport;
use cardinal_base::schema::DateTime;
use cardinal_observe::{
    log::tail::{Source, Tail, TailEntry},
    plugins::{Cause, Fault},
};

/// Faults that are remembered.
const MAX_FAULTS: usize = 20;

/// What the guard has seen.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GuardReport {
    pub breaker: BreakerReport,
    /// Calls that went wrong, by whose fault it was.
    pub causes: BTreeMap<&'static str, u64>,
    /// The last ones, the newest first.
    pub recent_faults: Vec<RecentFault>,
}

/// A call that went wrong.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginFault")]
pub struct RecentFault {
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    pub at: OffsetDateTime,
    pub kind: &'static str,
    pub cause: &'static str,
    /// The route, or a tool's handler.
    pub handler: String,
    pub ms: u64,
    pub request_id: String,
}

/// A call that went wrong.
#[derive(Clone, Copy)]
pub(super) struct CallFailure<'f> {
    pub fault: Fault,
    pub cause: Cause,
    /// Empty when the fault says it all.
    pub reason: &'f str,
}

/// Shows the failure among the plugin's lines. The log itself has it with the request.
pub(super) fn log_fault(tail: &Tail, called: &CallContext<'_>, failure: CallFailure<'_>, took: Duration) {
    let CallFailure { fault, cause, reason } = failure;
    let message = match reason {
        "" => format!("a call failed: {}", fault.name()),
        reason => format!("a call failed: {}: {reason}", fault.name()),
    };
    let fields =
        json!({"handler": called.handler, "kind": fault.name(), "cause": cause.name(), "ms": took.as_millis() as u64});
    let Value::Object(fields) = fields else { return };
    tail.add(&TailEntry {
        at: OffsetDateTime::now_utc(),
        level: Level::ERROR,
        source: Source::Host,
        message: &message,
        fields,
        request_id: Some(called.request_id.as_str()),
        trace_id: None,
    });
}

#[derive(Default)]
pub(super) struct Recent(Mutex<VecDeque<RecentFault>>);

impl Recent {
    pub(super) fn note(&self, called: &CallContext<'_>, failure: CallFailure<'_>, took: Duration) {
        let fault = RecentFault {
            at: OffsetDateTime::now_utc(),
            kind: failure.fault.name(),
            cause: failure.cause.name(),
            handler: called.handler.to_owned(),
            ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            request_id: called.request_id.to_string(),
        };
        let mut faults = self.0.lock();
        faults.truncate(MAX_FAULTS - 1);
        faults.push_front(fault);
    }

    pub(super) fn read(&self) -> Vec<RecentFault> {
        self.0.lock().iter().cloned().collect()
    }
}
