//! Tool calls by the short way. Most calls need nothing of the protocol library: there is no session, no progress to
//! report, nobody to ask. Such a call is read once and runs in the task of its request, through the same dispatcher,
//! and its client gets the same bytes. What is not surely such a call goes to the protocol library, which has an answer
//! for everything: each check here leaves out, none refuses.

mod message;

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc};

use bytes::Bytes;
use futures_util::FutureExt;
use http::StatusCode;
use rmcp::model::{CallToolResult, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult};

pub(super) use self::message::PlainCall;

use super::{
    Mcp, Visit,
    calls::{CallRecord, Calls},
    exact_content,
    heartbeat::{self, TimedAnswer},
    narrowing::Narrowing,
    run::{broke_down, fit_whole_numbers},
    server::Server,
    tool::{AnyTool, Found},
    transport::{JsonAnswer, reads_events},
};
use crate::{call::CallHead, http::reply::Reply};
use cardinal_observe::tools::Outcome;

/// Bytes of most answers.
const EXPECTED_LENGTH: usize = 512;

impl Mcp {
    /// The answer to a call that goes the short way; none for every other message.
    pub(super) async fn answer_plainly(
        self: &Arc<Self>,
        call: &CallHead,
        message: &[u8],
        narrowing: &Result<Narrowing, String>,
    ) -> Option<Reply> {
        let plain = PlainCall::read(&call.uri, &call.headers, message)?;
        let reads_events = reads_events(&call.headers)?;
        let mut visit = Visit::new(call, call.caller().ok()?, narrowing.as_ref().ok()?.clone());
        visit.reads_events = reads_events;
        visit.takes_links = plain.takes_links;
        visit.exact_arguments = Some(plain.written.clone());
        let tool = self.server.find_plain(&plain, &visit)?;
        let mcp = Arc::clone(self);
        let work = Box::pin(async move { run(&mcp.server, plain, tool, visit).await });
        if !reads_events {
            return Some(work.await.reply());
        }
        Some(match heartbeat::answer(work).await {
            TimedAnswer::AtOnce(answer) => answer.reply(),
            TimedAnswer::OnStream(reply) => reply,
        })
    }
}

impl Server {
    /// The tool that a call by the short way runs: one that is there, and that nobody has to confirm.
    fn find_plain(&self, call: &PlainCall, visit: &Visit) -> Option<AnyTool> {
        let Found::Tool(tool) = self.find(&call.name, visit) else { return None };
        let repeats_arguments = call.is_modern && self.tools().get(&call.name).is_some_and(|tool| tool.has_headers);
        (!repeats_arguments && !tool.is_confirmed(&call.arguments)).then_some(tool)
    }
}

async fn run(server: &Server, mut call: PlainCall, tool: AnyTool, mut visit: Visit) -> JsonAnswer {
    let calls = &server.services.calls;
    fit_whole_numbers(&tool, &mut call.arguments, &mut visit);
    let record = calls.begin(&mut visit, call.trace, call.client.take(), Some(&call.arguments));
    let mut call_under_way = OpenCall { calls, record, visit, tool, has_ended: false };
    let OpenCall { visit, tool, .. } = &call_under_way;
    // A handler that panics must neither take the connection with it nor leave no record.
    let ran = {
        let running = pin!(server.run_unasked(tool, visit, call.arguments));
        AssertUnwindSafe(running).catch_unwind().await
    };
    let (result, outcome) = match ran {
        Ok((result, outcome)) => (Ok(result), outcome),
        Err(_) => {
            tracing::error!(tool = tool.name(), request_id = %visit.request_id, "a tool call panicked in the host");
            (Err(broke_down()), Outcome::Broken)
        }
    };
    call_under_way.end(outcome).await;
    response(call.id, result, call.is_modern)
}

/// The JSON-RPC answer, as the protocol library writes it.
fn response(id: RequestId, result: Result<CallToolResult, ErrorData>, is_modern: bool) -> JsonAnswer {
    let mut object = None;
    let message: ServerJsonRpcMessage = match result {
        Ok(mut result) => {
            object = result.structured_content.as_mut().and_then(exact_content::take);
            let mut result = ServerResult::CallToolResult(result);
            if !is_modern {
                result.strip_result_type_for_legacy_peer();
            }
            JsonRpcMessage::response(result, id)
        }
        Err(error) => JsonRpcMessage::error(error, Some(id)),
    };
    let mut bytes = Vec::with_capacity(EXPECTED_LENGTH);
    match serde_json::to_writer(&mut bytes, &message) {
        Ok(()) => {
            let body = match object {
                Some(object) => exact_content::put_back(bytes, &object).into(),
                None => bytes.into(),
            };
            JsonAnswer { status: StatusCode::OK, body }
        }
        Err(error) => {
            tracing::error!(%error, "failed to write the answer to a tool call");
            JsonAnswer { status: StatusCode::INTERNAL_SERVER_ERROR, body: Bytes::new() }
        }
    }
}

/// A call from its beginning to its record. One whose client goes away is dropped before its end, and recorded then.
struct OpenCall<'s> {
    calls: &'s Calls,
    record: CallRecord,
    visit: Visit,
    tool: AnyTool,
    has_ended: bool,
}

impl OpenCall<'_> {
    async fn end(&mut self, outcome: Outcome) {
        self.has_ended = true; // the record is made before it first waits
        self.calls.end(&self.record, &self.visit, &self.tool, outcome).await;
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // Without a runtime the host is at its end.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (calls, record) = (self.calls.clone(), self.record.clone());
        let (visit, tool) = (self.visit.clone(), self.tool.clone());
        runtime.spawn(async move { calls.end(&record, &visit, &tool, Outcome::Cancelled).await });
    }
}
