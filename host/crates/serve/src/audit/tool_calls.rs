//! Tool calls on their way into the audit log. Each has its row, and there are many: a call leaves behind what its row
//! is made of, and rows that come together are made and written together.

use std::{collections::VecDeque, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::value::RawValue;
use time::OffsetDateTime;

use super::{AuditAction, raw};
use cardinal_base::request_id::RequestId;
use cardinal_database::pool::Pool;
use cardinal_identity::auth::caller::SharedCaller;
use cardinal_observe::tools::Outcome;
use cardinal_store::audit::{self, CallDetail, Detail, Entry};

/// Tool calls that wait to be written; a further one waits until some of them are.
const WAITING_CALLS: usize = 5_000;
/// Tool calls that are written in one transaction.
const MAX_BATCH: usize = 500;

/// A tool call that is over.
#[derive(Clone)]
pub struct ToolCall {
    pub at: OffsetDateTime,
    pub caller: SharedCaller,
    /// None at the host's own socket.
    pub ip: Option<IpAddr>,
    pub request_id: RequestId,
    pub tool: String,
    pub outcome: Outcome,
    /// What the client says it is: a JSON object.
    pub client: Option<Arc<str>>,
    /// SHA-256 of the arguments as the tool got them.
    pub arguments: [u8; 32],
    pub took: Duration,
}

#[derive(Default)]
pub(super) struct ToolCalls {
    waiting: Mutex<VecDeque<ToolCall>>,
    /// Held by who writes them: at a stop, whoever comes last waits for what another has taken.
    writing: tokio::sync::Mutex<()>,
}

impl ToolCalls {
    /// Whether there is room for more.
    pub(super) fn push(&self, call: ToolCall) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.push_back(call);
        waiting.len() < WAITING_CALLS
    }

    /// Waits until a few of those that wait are written, by whomever.
    pub(super) async fn make_room(&self, pool: &Pool) {
        let _writing = self.writing.lock().await;
        let is_full = self.waiting.lock().len() >= WAITING_CALLS;
        if is_full {
            self.write_oldest(pool).await;
        }
    }

    /// All that wait now. Between two transactions calls that wait for room have their turn.
    pub(super) async fn write(&self, pool: &Pool) {
        let waiting = self.waiting.lock().len();
        for _ in 0..=waiting / MAX_BATCH {
            let _writing = self.writing.lock().await;
            self.write_oldest(pool).await;
        }
    }

    /// In one transaction, while `writing` is held.
    async fn write_oldest(&self, pool: &Pool) {
        let calls: Vec<ToolCall> = {
            let mut waiting = self.waiting.lock();
            let count = waiting.len().min(MAX_BATCH);
            waiting.drain(..count).collect()
        };
        if calls.is_empty() {
            return;
        }
        let rows = entries(calls);
        let written = match rows.as_slice() {
            [row] => audit::add(pool, row).await,
            rows => audit::add_all(pool, rows).await,
        };
        if let Err(error) = written {
            let count = rows.len();
            tracing::error!(count, ?error, "failed to write tool calls to the audit log; they follow");
            rows.iter().for_each(|entry| tracing::error!(?entry, "a tool call that the audit log lacks"));
        }
    }
}

/// Their rows. Most calls that come together are of few callers.
fn entries(calls: Vec<ToolCall>) -> Vec<Entry> {
    let mut latest: Option<(SharedCaller, Arc<RawValue>)> = None;
    let entry = |call: ToolCall| {
        let known = latest.take().filter(|(caller, _)| Arc::ptr_eq(caller, &call.caller));
        let (_, actor) = latest.insert(known.unwrap_or_else(|| (Arc::clone(&call.caller), raw(&call.caller.actor()))));
        call.entry(Arc::clone(actor))
    };
    calls.into_iter().map(entry).collect()
}

impl ToolCall {
    fn entry(self, actor: Arc<RawValue>) -> Entry {
        let detail = CallDetail {
            client: self.client,
            arguments: self.arguments,
            result: self.outcome.name(),
            ms: i64::try_from(self.took.as_millis()).unwrap_or(i64::MAX),
        };
        let outcome = match self.outcome {
            Outcome::Ok => "ok",
            Outcome::Unconfirmed | Outcome::RateLimited => "refused",
            _ => "failed",
        };
        Entry {
            actor,
            action: AuditAction::CallTool.name(),
            target: Some(self.tool),
            outcome,
            ip: self.ip,
            request_id: self.request_id.to_string(),
            detail: Some(Detail::Call(detail)),
            count: 1,
            first_at: None,
            at: self.at,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::Value;
    use uuid::Uuid;

    use super::*;
    use cardinal_base::scope::ScopeSet;
    use cardinal_identity::auth::caller::Caller;

    #[test]
    fn rows_of_calls_that_come_together_name_each_callers_own() {
        let callers =
            ["a", "b\"\u{1}"].map(|name| Arc::new(Caller::new(Uuid::nil(), name, ScopeSet::lenient([""; 0]))));
        let call = |caller: &SharedCaller, outcome| ToolCall {
            at: OffsetDateTime::UNIX_EPOCH,
            caller: Arc::clone(caller),
            ip: None,
            request_id: RequestId::named("r").unwrap(),
            tool: "t".to_owned(),
            outcome,
            client: Some(Arc::from(r#"{"name":"c"}"#)),
            arguments: [0xa0; 32],
            took: Duration::from_micros(2_900),
        };
        let [a, b] = &callers;
        let rows = entries(vec![
            call(a, Outcome::Ok),
            call(a, Outcome::Broken),
            call(b, Outcome::RateLimited),
            call(a, Outcome::Ok),
        ]);
        let actors: Vec<Value> = rows.iter().map(|row| serde_json::from_str(row.actor.get()).unwrap()).collect();
        let names: Vec<&str> = actors.iter().map(|actor| actor["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "a", "b\"\u{1}", "a"]);
        assert!(Arc::ptr_eq(&rows[0].actor, &rows[1].actor));
        assert_eq!(rows.iter().map(|row| row.outcome).collect::<Vec<_>>(), ["ok", "failed", "refused", "ok"]);
        let Some(Detail::Call(detail)) = &rows[1].detail else { panic!("{:?}", rows[1]) };
        assert_eq!((detail.client.as_deref(), detail.arguments), (Some(r#"{"name":"c"}"#), [0xa0; 32]));
        assert_eq!((detail.result, detail.ms), ("broken", 2));
    }
}
