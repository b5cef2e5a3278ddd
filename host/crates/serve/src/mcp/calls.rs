//! What is kept of every tool call: who called what, as a row of the audit log, and how long it took.

use std::{sync::Arc, time::Instant};

use rmcp::model::{Implementation, JsonObject};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Visit, client};
use crate::audit::{Audit, AuditAction};
use cardinal_base::hex::hex;
use cardinal_identity::auth::caller::CallerKind;
use cardinal_observe::{Telemetry, tools::Outcome};

/// Where calls are kept.
#[derive(Clone)]
pub struct Calls {
    pub audit: Arc<Audit>,
    pub telemetry: Arc<Telemetry>,
}

/// A call under way.
#[derive(Clone)]
pub struct CallRecord {
    calls: Calls,
    started: Instant,
    client: Value,
    arguments: String,
}

impl Calls {
    pub fn begin(&self, visit: &Visit, client: Option<&Implementation>, arguments: Option<&JsonObject>) -> CallRecord {
        CallRecord {
            calls: self.clone(),
            started: Instant::now(),
            client: client.map_or(Value::Null, described),
            arguments: fingerprint(visit, arguments),
        }
    }

    /// Counts a call of what is not there for its caller. What no tool is called may be anything, a credential too, and is
    /// not kept.
    pub fn refused(&self, visit: &Visit, target: Option<&str>, code: &'static str) {
        let (id, target) = (visit.request_id.to_string(), target.map(str::to_owned));
        self.audit.refused(&visit.caller, visit.peer, id, AuditAction::CallTool, target, code);
    }
}

impl CallRecord {
    /// Keeps how it ended.
    pub async fn end(&self, visit: &Visit, tool: &str, outcome: Outcome) {
        let took = self.started.elapsed();
        self.calls.telemetry.tools.observe(tool, outcome, took);
        let detail = json!({
            "client": self.client,
            "arguments_sha256": self.arguments,
            "result": outcome.name(),
            "ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        let column = match outcome {
            Outcome::Ok => "ok",
            Outcome::Unconfirmed | Outcome::RateLimited => "refused",
            _ => "failed",
        };
        let is_local = matches!(visit.caller.kind, CallerKind::Local { .. });
        let (actor, ip) = (visit.caller.actor(), (!is_local).then_some(visit.peer));
        self.calls.audit.called(actor, ip, visit.request_id.to_string(), tool.to_owned(), column, detail).await;
    }
}

fn described(info: &Implementation) -> Value {
    json!({"name": client::shown(&info.name), "version": client::shown(&info.version)})
}

/// SHA-256 of the arguments as the tool gets them.
fn fingerprint(visit: &Visit, arguments: Option<&JsonObject>) -> String {
    let digest = match (&visit.exact_arguments, arguments) {
        (Some(bytes), _) => Sha256::digest(bytes),
        (None, Some(arguments)) => Sha256::digest(serde_json::to_vec(arguments).unwrap_or_default()),
        (None, None) => Sha256::digest("{}"),
    };
    hex(&digest)
}
