//! A request as the tools see it: who calls, by which connection, and what its answer may be.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    Mcp,
    narrowing::Narrowing,
    sessions::{CallId, Session},
    watch::Watch,
};
use crate::audit::{Audit, AuditAction};
use crate::call::{CallHead, Credential};
use crate::http::error::ApiResult;
use cardinal_base::request_id::RequestId;
use cardinal_identity::auth::caller::SharedCaller;
use cardinal_observe::{request_timing::DetachedTiming, trace::Trace};
use cardinal_plugin_host::progress::ProgressSender;

/// What a tool call must know of its request; travels in the request's extensions.
#[derive(Clone)]
pub struct Visit {
    pub caller: SharedCaller,
    pub request_id: RequestId,
    pub trace: Trace,
    /// The message names a trace, and the request none.
    pub has_own_trace: bool,
    pub peer: std::net::IpAddr,
    /// The arguments as the tool gets them, where they are written already: of a call by the short way, and of one
    /// whose numbers the protocol library would round.
    pub exact_arguments: Option<Bytes>,
    /// Tools run in tasks of the protocol library; what they spend belongs to the request.
    pub timing: DetachedTiming,
    pub session: Option<Arc<Session>>,
    /// Of a call of a session: kept for as long as the call runs, even after its client has left.
    pub(super) call_id: Option<Arc<CallId>>,
    /// The answer may be a stream of events.
    pub reads_events: bool,
    /// The client's revision knows links to resources.
    pub takes_links: bool,
    /// What the connection has of its caller's tools. The caller's scopes are narrowed already.
    pub narrowing: Narrowing,
    /// Where a plugin says how far a tool call is, when its client wants to know.
    pub progress: Option<ProgressSender>,
    /// Of what may last: a request that stays open for news, and a tool call, which may wait for a person.
    pub(super) origin: Option<Arc<Origin>>,
    /// Where requests to the client of a session go, between the events of the answer.
    pub(super) frames: Option<mpsc::Sender<Bytes>>,
}

impl Visit {
    pub(super) fn new(call: &CallHead, caller: &SharedCaller, narrowing: Narrowing) -> Self {
        Self {
            caller: narrowing.caller(caller).into_owned(),
            request_id: call.request_id,
            trace: call.trace,
            has_own_trace: false,
            peer: call.peer,
            exact_arguments: None,
            timing: DetachedTiming::default(),
            session: None,
            call_id: None,
            reads_events: false,
            takes_links: false,
            narrowing,
            progress: None,
            origin: None,
            frames: None,
        }
    }

    /// Makes what follows a part of the trace that a message names. One that the request itself names comes first: the
    /// request is a part of the same, or the client mixes two up.
    pub(super) fn join(&mut self, trace: Option<Trace>) {
        if self.trace.begins_here()
            && let Some(trace) = trace
        {
            (self.trace, self.has_own_trace) = (trace, true);
        }
    }

    /// Records what its caller did.
    pub(super) async fn record(&self, audit: &Audit, act: AuditAction, target: Option<String>, detail: Option<Value>) {
        let request_id = self.request_id.to_string();
        audit.done_by(self.caller.actor(), Some(self.peer), request_id, act, target, detail).await;
    }

    /// The same where no plugin reports to.
    pub(super) fn unheard(self) -> Self {
        Self { progress: None, ..self }
    }
}

/// What shows once more who calls.
pub(super) struct Origin {
    mcp: Arc<Mcp>,
    credential: Credential,
    narrowing: Narrowing,
}

impl Origin {
    pub(super) fn new(mcp: &Arc<Mcp>, call: &CallHead, narrowing: Narrowing) -> Self {
        Self { mcp: Arc::clone(mcp), credential: Credential::from_call(call), narrowing }
    }

    /// Who calls by now, and what it may do.
    pub(super) async fn identify(&self) -> ApiResult<SharedCaller> {
        let caller = self.credential.identify(&self.mcp.auth).await?;
        Ok(self.narrowing.caller(&caller).into_owned())
    }

    pub(super) fn watch(&self, caller: &SharedCaller) -> Watch {
        let (mcp, credential) = (Arc::clone(&self.mcp), self.credential.clone());
        Watch::new(mcp, credential, Arc::clone(caller), self.narrowing.clone())
    }
}
