//! Requests of a session, passed on to the protocol library, which may have to learn of the session first.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::StreamBody;
use rmcp::model::InitializeRequestParams;
use serde_json::{Value, json};

use super::{
    Answer, Mcp,
    narrowing::Narrowing,
    sessions::Session,
    transport::{Request, Response, SESSION_ID, is_plain_refusal, plain_or, prepare, request, send, session_id, text},
    visit::{Origin, Visit},
    watch,
};
use crate::call::CallHead;
use crate::http::{
    body::Body,
    error::{ApiError, ApiResult},
    reply::{Reply, WatchesItself},
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

impl Mcp {
    /// Opens a session. The client gets an id that outlives the protocol library's.
    pub(super) async fn open(
        &self,
        request: Request,
        visit: Visit,
        client: InitializeRequestParams,
    ) -> ApiResult<Answer> {
        let mut response = send(&self.stateful, request).await;
        if let Some(inner) = session_id(response.headers()).map(Arc::from) {
            let view = self.server.first_view(&visit.caller, &visit.narrowing);
            let id = self.sessions.open(&visit.caller, inner, client, view)?;
            let id = HeaderValue::try_from(id).map_err(ApiError::internal)?;
            response.headers_mut().insert(SESSION_ID, id);
        }
        Ok(Answer::Response(response))
    }

    /// Passes a request of a session on; the protocol library may have to learn of the session first.
    pub(super) async fn in_session(
        self: &Arc<Self>,
        session: &Arc<Session>,
        call: &CallHead,
        bytes: Bytes,
        visit: Visit,
    ) -> ApiResult<Response> {
        loop {
            let known = session.inner().await;
            let is_new = known.is_none();
            let inner = match known {
                Some(inner) => inner,
                None => {
                    let (mcp, session) = (Arc::clone(self), Arc::clone(session));
                    let (uri, visit) = (call.uri.clone(), visit.clone());
                    to_the_end(async move { session.build(|client| mcp.rebuild(client, &uri, visit)).await }).await?
                }
            };
            let mut headers = call.headers.clone();
            headers.insert(SESSION_ID, HeaderValue::try_from(&*inner).map_err(ApiError::internal)?);
            // Its events are numbered anew; one that answers a request has a slash in its number.
            if session.is_rebuilt() && headers.get(LAST_EVENT_ID).is_some_and(|id| !id.as_bytes().contains(&b'/')) {
                headers.remove(LAST_EVENT_ID);
            }
            let request = request(&call.method, &call.uri, headers, bytes.clone(), visit.clone());
            let response = send(&self.stateful, request).await;
            let is_lost = response.status() == StatusCode::NOT_FOUND && is_plain_refusal(&response);
            if !is_lost || is_new {
                return Ok(response);
            }
            session.forget_inner(&inner).await;
        }
    }

    /// Lets the protocol library begin a session as the client began its own; gives its id.
    async fn rebuild(&self, client: InitializeRequestParams, uri: &Uri, visit: Visit) -> ApiResult<Arc<str>> {
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

    /// The stream of a session's messages.
    pub(super) async fn stream(
        self: &Arc<Self>,
        mut call: CallHead,
        narrowing: Narrowing,
        session: Arc<Session>,
    ) -> ApiResult<Reply> {
        prepare(&mut call.headers, false);
        let visit = Visit::new(&call, call.caller()?, narrowing.clone());
        let caller = Arc::clone(&visit.caller);
        let response = self.in_session(&session, &call, Bytes::new(), visit).await?;
        if response.status() != StatusCode::OK {
            return plain_or(response).await;
        }
        let watch = Origin::new(self, &call, narrowing).watch(&caller);
        let mut reply = response.map(|body| Body::stream(StreamBody::new(watch::frames(body, session, watch))));
        reply.extensions_mut().insert(WatchesItself);
        Ok(reply)
    }
}

/// Does it in a task of its own: a client that goes away in the middle must not leave a session of the protocol library's
/// behind that nobody would end.
pub(super) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = ApiResult<T>> + Send + 'static,
) -> ApiResult<T> {
    tokio::spawn(work).await.map_err(ApiError::internal)?
}
