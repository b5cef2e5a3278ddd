//! The MCP endpoint: rmcp behind our own walk. Who calls is known before a message is read; what
//! a caller's scopes don't cover does not exist for it.

mod batch;
mod calls;
mod card_resource;
mod client;
pub(crate) mod confirmation;
mod core_tools;
mod exact_content;
mod exports;
mod heartbeat;
mod list_view;
mod message;
mod narrowing;
mod plain_call;
mod plugin_tools;
mod prompts;
mod resources;
mod run;
mod server;
mod session_requests;
mod sessions;
mod tool;
mod tool_list;
mod tool_search;
mod transport;
mod visit;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use self::{calls::Calls, core_tools::Cards, exports::Exports, server::Services, visit::Visit};

use self::{
    heartbeat::TimedAnswer,
    list_view::View,
    message::Message,
    narrowing::Narrowing,
    server::Server,
    sessions::{CallId, Session, Sessions, essence},
    transport::{
        Response, SESSION_ID, Transport, events_for, is_plain_refusal, names_events, pass_on, plain_or, prepare,
        request, send, session_id, text, transport, whole,
    },
    visit::Origin,
};
use crate::http::error::{ApiError, ApiResult};
use crate::{
    call::CallHead,
    http::{
        body::Body,
        reply::{self, Reply, WatchesItself},
        request_body::{self, RequestBody},
    },
};
use cardinal_base::{codes, seal::SealingKey};
use cardinal_identity::{
    auth::{
        Auth,
        caller::{Caller, insufficient},
    },
    error::AuthError,
};

/// Bytes of one message.
const MESSAGE_LIMIT: usize = 1 << 20;
const TOOL_CALL: &str = "tools/call";
/// Whoever sends these is to hear that it is narrowed to a tool that is not there.
const LISTING: &[&str] = &["initialize", "server/discover", "tools/list"];

/// The endpoint.
pub struct Mcp {
    /// For tool calls of sessions. It has sessions of its own, which we alone begin, name and end.
    stateful: Transport,
    /// For a message by itself: all others of a session, those of a script that calls one tool without a handshake, and
    /// those of the newest revision, which has no sessions.
    single: Transport,
    sessions: Sessions,
    server: Server,
    auth: Arc<Auth>,
}

impl Mcp {
    pub fn new(services: Services, auth: Arc<Auth>, key: SealingKey, stop: &CancellationToken) -> Self {
        let server = Server::new(services, stop.child_token());
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = None; // `Sessions` ends them
        let manager = Arc::new(manager);
        Self {
            stateful: transport(server.clone(), Arc::clone(&manager), true),
            single: transport(server.clone(), Arc::default(), false),
            sessions: Sessions::new(key, manager),
            server,
            auth,
        }
    }

    /// Answers a request of a caller who may speak MCP.
    pub async fn answer(self: &Arc<Self>, mut call: CallHead, body: RequestBody) -> ApiResult<Reply> {
        let caller = Arc::clone(call.caller()?);
        let narrowing = Narrowing::read(&call.uri, &call.headers);
        let session = match session_id(&call.headers) {
            Some(id) if call.method == Method::GET => Some(self.sessions.find_for_stream(id, &caller)?),
            Some(id) if call.method != Method::POST => {
                // A stranger's session is as good as none.
                Some(self.sessions.find(id, &caller).ok_or_else(|| ApiError::not_found("session"))?)
            }
            _ => None,
        };
        match (call.method.clone(), session) {
            (Method::POST, _) => self.post(&mut call, body, narrowing).await,
            (Method::GET, Some(session)) => {
                let narrowing = narrowing.map_err(|wrong| ApiError::new(&codes::INVALID_REQUEST).detail(wrong))?;
                Box::pin(self.stream(call, narrowing, session)).await
            }
            (Method::HEAD, Some(_)) => Ok(reply::text(StatusCode::OK, "text/event-stream", "")),
            (Method::DELETE, Some(session)) => {
                self.sessions.end(&session);
                Ok(reply::no_content())
            }
            _ => {
                if call.method == Method::HEAD {
                    call.method = Method::GET;
                }
                prepare(&mut call.headers, false);
                let visit = Visit::new(&call, &caller, Narrowing::default());
                Box::pin(async { plain_or(pass_on(&self.stateful, &call, Bytes::new(), visit).await).await }).await
            }
        }
    }

    async fn post(
        self: &Arc<Self>,
        call: &mut CallHead,
        body: RequestBody,
        narrowing: Result<Narrowing, String>,
    ) -> ApiResult<Reply> {
        let bytes = request_body::read(body, MESSAGE_LIMIT).await?;
        match batch::messages(&bytes) {
            Some(messages) => Box::pin(self.answer_batch(call, messages, &narrowing)).await,
            None => self.answer_message(call, bytes, narrowing).await,
        }
    }

    async fn answer_message(
        self: &Arc<Self>,
        call: &mut CallHead,
        bytes: Bytes,
        narrowing: Result<Narrowing, String>,
    ) -> ApiResult<Reply> {
        match self.answer_plainly(call, &bytes, &narrowing).await {
            Some(answer) => Ok(answer),
            // On the heap: a call by the short way has no use for the room.
            None => Box::pin(self.answer_by_library(call, bytes, narrowing)).await,
        }
    }

    async fn answer_by_library(
        self: &Arc<Self>,
        call: &mut CallHead,
        bytes: Bytes,
        narrowing: Result<Narrowing, String>,
    ) -> ApiResult<Reply> {
        let mut message = match Message::read(&bytes) {
            Ok(message) => message,
            Err(refusal) => return Ok(*refusal),
        };
        let narrowing = match narrowing {
            Ok(narrowing) => narrowing,
            Err(wrong) => return Ok(message.invalid(StatusCode::BAD_REQUEST, &wrong)),
        };
        if LISTING.contains(&&*message.method)
            && let Some(wrong) = self.server.unknown_names(call.caller()?, &narrowing)
        {
            return Ok(message.invalid_params(&wrong));
        }
        if message.method == "initialize" {
            if message.is_modern {
                return Ok(message.no_such_method());
            }
            call.headers.remove(SESSION_ID); // a client that has lost its session may still name it
        }
        if message.method.is_empty()
            && let Some(answer) = confirmation::Reply::read(&bytes)
        {
            return self.take_reply(call, &message, &answer).await;
        }
        let gets_json = session_id(&call.headers).is_none() || message.method != TOOL_CALL;
        let names_events = names_events(&call.headers);
        prepare(&mut call.headers, gets_json);
        let mut visit = Visit::new(call, call.caller()?, narrowing);
        visit.reads_events = names_events || !gets_json;
        visit.exact_arguments = message.exact_arguments.take();
        if let Some(refusal) = self.step_up(call.caller()?, &message, &visit) {
            return Ok(refusal);
        }
        let listens = message.method == "subscriptions/listen";
        if listens || message.method == TOOL_CALL {
            visit.origin = Some(Arc::new(Origin::new(self, call, visit.narrowing.clone())));
        }
        let timing = visit.timing.clone();
        let response = self.respond(call, &message, bytes, visit).await;
        timing.take_over();
        Ok(reply_to(&message, response?, listens).await)
    }

    /// Leads an OAuth client to a token for a tool that its own does not cover. For everybody else, and beyond what the
    /// operator lets tokens do, there is no such tool.
    fn step_up(&self, caller: &Caller, message: &Message, visit: &Visit) -> Option<Reply> {
        let name = message.tool.as_deref()?;
        let scope = self.server.missing_scope(name, visit)?;
        if !self.auth.can_step_up(caller, &scope) {
            return None;
        }
        let AuthError::InsufficientScope { challenge, .. } = self.auth.step_up(insufficient(&scope), caller, &scope)
        else {
            return None;
        };
        self.server.refused(visit, name);
        Some(message.insufficient_scope(name, &scope, &challenge))
    }

    async fn respond(
        self: &Arc<Self>,
        call: &CallHead,
        message: &Message,
        bytes: Bytes,
        visit: Visit,
    ) -> ApiResult<Answer> {
        if let Some(client) = &message.client
            && !message.is_modern
        {
            let Some(client) = essence(client.clone()) else {
                return Ok(Answer::Reply(message.too_many_capabilities()));
            };
            let request = request(&call.method, &call.uri, call.headers.clone(), bytes, visit.clone());
            return self.open(request, visit, client).await;
        }
        if message.is_modern {
            return Ok(by_itself(&self.single, call, message, bytes, visit).await);
        }
        let Some(id) = session_id(&call.headers) else {
            return Ok(by_itself(&self.single, call, message, bytes, visit).await);
        };
        match self.sessions.find(id, &visit.caller) {
            Some(session) => self.respond_in_session(session, call, message, bytes, visit).await,
            None => Ok(Answer::Reply(message.session_not_found())),
        }
    }

    /// Takes a session's answer to a question of ours.
    async fn take_reply(
        self: &Arc<Self>,
        call: &CallHead,
        message: &Message,
        answer: &confirmation::Reply,
    ) -> ApiResult<Reply> {
        let caller = call.caller()?;
        let session = session_id(&call.headers).and_then(|id| self.sessions.find(id, caller));
        let Some(session) = session else { return Ok(message.session_not_found()) };
        let from = (session.id(), Some(session.client_name()));
        if self.server.confirmations().take_reply(caller, from, call, answer).await? {
            return Ok(reply::status(StatusCode::ACCEPTED));
        }
        Ok(message.invalid(StatusCode::BAD_REQUEST, "no such question waits for this session"))
    }

    /// What the lists that `caller` sees look like.
    fn view(&self, caller: &Caller, narrowing: &Narrowing) -> View {
        self.server.view(caller, narrowing)
    }

    /// Takes out of memory what nobody has used for long; called every few seconds.
    pub fn sweep(&self) {
        self.sessions.sweep();
    }
}

/// What the client of a message gets; `listens`: its answer lasts, and is watched.
async fn reply_to(message: &Message, answer: Answer, listens: bool) -> Reply {
    match answer {
        Answer::Reply(reply) => reply,
        Answer::Response(response) if is_plain_refusal(&response) => {
            message.refused(response.status(), &text(response).await)
        }
        Answer::Response(response) => {
            let mut reply = whole(response).await;
            if listens && message.is_modern {
                reply.extensions_mut().insert(WatchesItself);
            }
            reply
        }
        Answer::OfSession(answer) => answer.reply(),
    }
}

/// Passes on a message without a session. The answer is JSON, so a call that takes long needs another sign of life.
async fn by_itself(transport: &Transport, call: &CallHead, message: &Message, bytes: Bytes, visit: Visit) -> Answer {
    if message.method != TOOL_CALL || !visit.reads_events {
        return Answer::Response(pass_on(transport, call, bytes, visit).await);
    }
    let request = request(&call.method, &call.uri, call.headers.clone(), bytes, visit);
    let transport = transport.clone();
    match heartbeat::answer(Box::pin(async move { send(&transport, request).await })).await {
        TimedAnswer::AtOnce(response) => Answer::Response(response),
        TimedAnswer::OnStream(reply) => Answer::Reply(reply),
    }
}

enum Answer {
    Response(Response),
    OfSession(Box<SessionAnswer>),
    Reply(Reply),
}

/// The answer to a call of a session.
struct SessionAnswer {
    response: Response,
    session: Arc<Session>,
    /// The protocol library's session.
    inner: Arc<str>,
    id: Arc<CallId>,
    /// To the client; they may come before the answer.
    questions: mpsc::Receiver<Bytes>,
}

impl SessionAnswer {
    fn reply(self) -> Reply {
        let held = (self.session.begin_use(), self.inner, self.id);
        self.response.map(|body| {
            let body = events_for(self.session.revision(), body);
            let frames = BodyExt::boxed(StreamBody::new(confirmation::frames_between(body, self.questions)));
            // Held until the last byte is sent: what is under way keeps both sessions in memory.
            Body::stream(frames.map_frame(move |frame| {
                let _held = &held;
                frame
            }))
        })
    }
}
