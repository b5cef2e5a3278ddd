//! What is kept of every tool call: who called what, as a row of the audit log, and how long it took.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rmcp::model::JsonObject;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::{Visit, tool::AnyTool};
use crate::audit::{Audit, AuditAction, ToolCall};
use cardinal_base::codes;
use cardinal_identity::auth::caller::CallerKind;
use cardinal_observe::{
    Telemetry,
    spans::{Attributes, Kind, Span},
    tools::Outcome,
    trace::Trace,
};

const METHOD: &str = "tools/call";

/// Where calls are kept.
#[derive(Clone)]
pub struct Calls {
    pub audit: Arc<Audit>,
    pub telemetry: Arc<Telemetry>,
}

/// A call under way.
#[derive(Clone)]
pub struct CallRecord {
    started: Instant,
    /// When its span began; none where spans are not sent.
    span_started: Option<OffsetDateTime>,
    client: Option<Arc<str>>,
    arguments: [u8; 32],
}

impl Calls {
    /// Whatever the tool does from here on is a part of the call's span, which is one of the request's, or else of
    /// `trace`, where its message says that it is called from.
    pub fn begin(
        &self,
        visit: &mut Visit,
        trace: Option<Trace>,
        client: Option<Arc<str>>,
        arguments: Option<&JsonObject>,
    ) -> CallRecord {
        visit.join(trace);
        let child = self.telemetry.spans.child(&visit.trace);
        visit.trace = child.unwrap_or(visit.trace);
        let span_started = child.map(|_| self.audit.now());
        CallRecord { started: Instant::now(), span_started, client, arguments: fingerprint(visit, arguments) }
    }

    /// Counts a call of what is not there for its caller. What no tool is called may be anything, a credential too, and
    /// is not kept.
    pub fn refused(&self, visit: &Visit, target: Option<&str>, code: &'static str) {
        let (id, target) = (visit.request_id.to_string(), target.map(str::to_owned));
        self.audit.refused(&visit.caller, visit.peer, id, AuditAction::CallTool, target, code);
    }

    /// Keeps how a call ended.
    pub(super) async fn end(&self, record: &CallRecord, visit: &Visit, tool: &AnyTool, outcome: Outcome) {
        let took = record.started.elapsed();
        let Telemetry { tools, spans, .. } = &*self.telemetry;
        tools.observe(tool.name(), outcome, took);
        if let Some(started) = record.span_started {
            spans.push(span(visit, tool, outcome, started, took));
        }
        let is_local = matches!(visit.caller.kind, CallerKind::Local { .. });
        let call = ToolCall {
            at: self.audit.now(),
            caller: Arc::clone(&visit.caller),
            ip: (!is_local).then_some(visit.peer),
            request_id: visit.request_id,
            tool: tool.name().to_owned(),
            outcome,
            client: record.client.clone(),
            arguments: record.arguments,
            took,
        };
        self.audit.called(call).await;
    }
}

/// Named as OpenTelemetry's conventions for MCP name it.
fn span(visit: &Visit, tool: &AnyTool, outcome: Outcome, started: OffsetDateTime, took: Duration) -> Span {
    let mut attributes = Attributes::default();
    attributes.text("mcp.method.name", METHOD);
    attributes.text("gen_ai.tool.name", tool.name());
    if let Some(plugin) = tool.plugin_name() {
        attributes.text("cardinal.plugin", plugin);
    }
    attributes.text("cardinal.outcome", outcome.name());
    let error = match outcome {
        Outcome::Error => Some("tool_error"),
        Outcome::Broken => Some(codes::INTERNAL_ERROR.name),
        _ => None,
    };
    if let Some(error) = error {
        attributes.text("error.type", error);
    }
    Span {
        trace: visit.trace,
        state: None,
        kind: if visit.has_own_trace { Kind::Server } else { Kind::Internal },
        name: format!("{METHOD} {}", tool.name()),
        started,
        took,
        attributes,
        is_error: error.is_some(),
    }
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
