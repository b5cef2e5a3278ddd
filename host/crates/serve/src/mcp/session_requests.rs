//! Requests of a session. The protocol library has sessions of its own, which cost much; it gets one when a call needs
//! it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::StreamBody;
use rmcp::model::InitializeRequestParams;
use serde_json::{Value, json};

use super::{
    Answer, Mcp, SessionAnswer, TOOL_CALL, by_itself, confirmation, heartbeat,
    message::Message,
    narrowing::Narrowing,
    sessions::Session,
    transport::{
        Request, Response, SESSION_ID, is_plain_refusal, plain_or, prepare, request, result, send, session_id,
        takes_events, text,
    },
    visit::{Origin, Visit},
    watch,
};
use crate::call::CallHead;
use crate::http::{
    body::Body,
    error::{ApiError, ApiResult},
    reply::{self, Reply, WatchesItself},
};
use cardinal_base::codes;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

impl Mcp {
    /// Opens a session. What it is made of stands in its id, so the protocol library answers and keeps nothing.
    pub(super) async fn open(
        &self,
        request: Request,
        visit: Visit,
        client: InitializeRequestParams,
    ) -> ApiResult<Answer> {
        let (mut response, is_open) = result(send(&self.single, request).await).await;
        if is_open {
            let view = self.server.first_view(&visit.caller, &visit.narrowing);
            let id = self.sessions.open(&visit.caller, client, view)?;
            let id = HeaderValue::try_from(id).map_err(ApiError::internal)?;
            response.headers_mut().insert(SESSION_ID, id);
        }
        Ok(Answer::Response(response))
    }

    /// Answers a message of a session. A call may last, report, ask and be cancelled by a later message: for that the
    /// protocol library needs a session of its own. All else it answers by itself.
    pub(super) async fn respond_in_session(
        self: &Arc<Self>,
        session: Arc<Session>,
        call: &CallHead,
        message: &Message,
        bytes: Bytes,
        mut visit: Visit,
    ) -> ApiResult<Answer> {
        visit.session = Some(Arc::clone(&session));
        if message.method == TOOL_CALL && message.wants_answer() {
            let Some(id) = session.begin_call(message.id()).map(Arc::new) else {
                return Ok(Answer::Reply(message.id_in_use()));
            };
            let (frames, questions) = confirmation::frames();
            (visit.frames, visit.call_id) = (Some(frames), Some(Arc::clone(&id)));
            let (response, inner) = self.call_in_session(&session, call, bytes, visit).await?;
            if is_plain_refusal(&response) {
                return Ok(Answer::Response(response));
            }
            return Ok(Answer::OfSession(Box::new(SessionAnswer { response, session, inner, id, questions })));
        }
        if message.wants_answer() {
            return Ok(by_itself(&self.single, call, message, bytes, visit).await);
        }
        // One that is about a call, or about nothing.
        match session.inner().await {
            Some(inner) => Ok(Answer::Response(self.pass_to(&inner, call, bytes, visit).await?)),
            None => Ok(Answer::Reply(reply::status(StatusCode::ACCEPTED))),
        }
    }

    /// Passes a call on, and gives the id of the protocol library's session, which lasts as long as somebody holds it.
    async fn call_in_session(
        self: &Arc<Self>,
        session: &Arc<Session>,
        call: &CallHead,
        bytes: Bytes,
        visit: Visit,
    ) -> ApiResult<(Response, Arc<str>)> {
        loop {
            let known = session.inner().await;
            let is_new = known.is_none();
            let inner = match known {
                Some(inner) => inner,
                None => {
                    let (mcp, session) = (Arc::clone(self), Arc::clone(session));
                    // The protocol library may keep what comes with `initialize` for as long as its session.
                    let (uri, visit) = (call.uri.clone(), Visit { call_id: None, frames: None, ..visit.clone() });
                    let build = async move {
                        let inner = session.build(|client| mcp.build(client, &uri, visit)).await;
                        mcp.sessions.library_sessions.note(&session);
                        inner
                    };
                    to_the_end(build).await?
                }
            };
            let response = self.pass_to(&inner, call, bytes.clone(), visit.clone()).await?;
            let is_lost = response.status() == StatusCode::NOT_FOUND && is_plain_refusal(&response);
            if !is_lost || is_new {
                return Ok((response, inner));
            }
            session.forget_inner(&inner).await;
        }
    }

    async fn pass_to(&self, inner: &str, call: &CallHead, bytes: Bytes, visit: Visit) -> ApiResult<Response> {
        let mut headers = call.headers.clone();
        headers.insert(SESSION_ID, HeaderValue::try_from(inner).map_err(ApiError::internal)?);
        Ok(send(&self.stateful, request(&call.method, &call.uri, headers, bytes, visit)).await)
    }

    /// Lets the protocol library begin a session as the client began its own; gives its id.
    async fn build(&self, client: InitializeRequestParams, uri: &Uri, visit: Visit) -> ApiResult<Arc<str>> {
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client});
        let opened = self.post_of_ours(uri, None, &initialize, visit.clone()).await?;
        let inner: Arc<str> = session_id(opened.headers())
            .map(Arc::from)
            .ok_or_else(|| ApiError::internal(anyhow::anyhow!("an MCP session has no id")))?;
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post_of_ours(uri, Some(&inner), &begun, visit).await?;
        Ok(inner)
    }

    async fn post_of_ours(&self, uri: &Uri, id: Option<&str>, message: &Value, visit: Visit) -> ApiResult<Response> {
        let mut headers = HeaderMap::new();
        prepare(&mut headers, true);
        headers.insert(header::HOST, HeaderValue::from_static("localhost")); // the protocol library wants one, any
        if let Some(id) = id {
            headers.insert(SESSION_ID, HeaderValue::try_from(id).map_err(ApiError::internal)?);
        }
        let request = request(&Method::POST, uri, headers, message.to_string().into(), visit);
        let response = send(&self.stateful, request).await;
        if !response.status().is_success() {
            return Err(ApiError::internal(anyhow::anyhow!("no MCP session: {}", text(response).await)));
        }
        Ok(response)
    }

    /// The stream of a session's messages: our news, or the rest of a call's answer that its client lost on the way.
    pub(super) async fn stream(
        self: &Arc<Self>,
        mut call: CallHead,
        narrowing: Narrowing,
        session: Arc<Session>,
    ) -> ApiResult<Reply> {
        let origin = Origin::new(self, &call, narrowing.clone());
        let visit = Visit::new(&call, call.caller()?, narrowing);
        let watch = origin.watch(&visit.caller);
        if !takes_events(&call.headers) {
            return Err(ApiError::new(&codes::NOT_ACCEPTABLE).detail("The stream is text/event-stream."));
        }
        let inner = session.inner().await.filter(|_| resumes_call(&call.headers));
        let body = match &inner {
            Some(inner) => {
                prepare(&mut call.headers, false);
                let response = self.pass_to(inner, &call, Bytes::new(), visit).await?;
                if response.status() != StatusCode::OK {
                    return plain_or(response).await;
                }
                response.into_body()
            }
            None => heartbeat::beats(),
        };
        let mut reply = reply::events(Body::stream(StreamBody::new(watch::frames(body, inner, session, watch))));
        reply.extensions_mut().insert(WatchesItself);
        Ok(reply)
    }
}

/// Whether the client asks for what came after an event of a call: its number has a slash.
fn resumes_call(headers: &HeaderMap) -> bool {
    headers.get(LAST_EVENT_ID).is_some_and(|id| id.as_bytes().contains(&b'/'))
}

/// Does it in a task of its own: a client that goes away in the middle must not leave a session of the protocol
/// library's behind that nobody would end.
async fn to_the_end<T: Send + 'static>(work: impl Future<Output = ApiResult<T>> + Send + 'static) -> ApiResult<T> {
    tokio::spawn(work).await.map_err(ApiError::internal)?
}
