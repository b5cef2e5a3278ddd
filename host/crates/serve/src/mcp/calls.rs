//! What is kept of every tool call: who called what, as a row of the audit log, and how long it took.

use std::{
    sync::{Arc, LazyLock},
    time::Instant,
};

use rmcp::model::{Implementation, JsonObject};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Visit, client};
use crate::audit::{Audit, AuditAction, ToolCall};
use cardinal_identity::auth::caller::CallerKind;
use cardinal_observe::{Telemetry, tools::Outcome};

/// A client that does not say what it is.
static NO_CLIENT: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("null"));

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
    client: Arc<str>,
    arguments: [u8; 32],
}

impl Calls {
    pub fn begin(&self, visit: &Visit, client: Option<&Implementation>, arguments: Option<&JsonObject>) -> CallRecord {
        CallRecord {
            calls: self.clone(),
            started: Instant::now(),
            client: client.map_or_else(|| Arc::clone(&NO_CLIENT), describe),
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
        let is_local = matches!(visit.caller.kind, CallerKind::Local { .. });
        let call = ToolCall {
            at: self.calls.audit.now(),
            caller: Arc::clone(&visit.caller),
            ip: (!is_local).then_some(visit.peer),
            request_id: visit.request_id,
            tool: tool.to_owned(),
            outcome,
            client: Arc::clone(&self.client),
            arguments: self.arguments,
            took,
        };
        self.calls.audit.called(call).await;
    }
}

/// What a client says it is, as JSON.
fn describe(info: &Implementation) -> Arc<str> {
    #[derive(Serialize)]
    struct ClientName {
        name: String,
        version: String,
    }
    let client = ClientName { name: client::shown(&info.name), version: client::shown(&info.version) };
    serde_json::to_string(&client).map_or_else(|_| Arc::clone(&NO_CLIENT), Arc::from)
}

/// SHA-256 of the arguments as the tool gets them.
fn fingerprint(visit: &Visit, arguments: Option<&JsonObject>) -> [u8; 32] {
    match (&visit.exact_arguments, arguments) {
        (Some(bytes), _) => Sha256::digest(bytes),
        (None, Some(arguments)) => Sha256::digest(serde_json::to_vec(arguments).unwrap_or_default()),
        (None, None) => Sha256::digest("{}"),
    }
    .into()
}
