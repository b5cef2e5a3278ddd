//! The MCP endpoint: rmcp behind our own walk. Who calls is known before a message is read; what
//! a caller's scopes don't cover does not exist for it.

mod core_tools;
mod plugin_tools;
mod server;
mod sessions;

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use self::{server::Server, sessions::Owners};
use crate::{
    audit::Audit,
    auth::caller::SharedCaller,
    catalogue::Catalogue,
    http::{
        body::Body,
        codes,
        error::{ApiError, ApiResult},
        exact, input,
        reply::{self, Reply},
        request_body,
        request_id::RequestId,
    },
    observe::{spent::Elsewhere, trace::Trace},
    plugin::registry::Registry,
    request::Call,
};

/// Bytes of one message.
const MESSAGE_LIMIT: usize = 1 << 20;
/// An idle session ends after this long; each holds some 55 kB.
const SESSION_IDLE: Duration = Duration::from_secs(300);
/// Where a message of the newest revision says which revision it is of.
const REVISION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const SESSION_HEADER: &str = "mcp-session-id";

/// What a tool call must know of its request; travels in the request's extensions.
#[derive(Clone)]
pub struct Visit {
    pub caller: SharedCaller,
    pub request_id: RequestId,
    pub trace: Trace,
    pub peer: std::net::IpAddr,
    /// Of a tool call whose numbers the protocol library would round: what the plugin gets instead.
    pub exact_arguments: Option<Bytes>,
    /// Tools run in tasks of the protocol library; what they spend belongs to the request.
    pub spent: Elsewhere,
}

type Transport = StreamableHttpService<Server, LocalSessionManager>;

/// The endpoint.
pub struct Mcp {
    /// For clients that open a session, and for the newest revision, which has none.
    sessions: Transport,
    /// For a message by itself: a script that calls one tool needs no handshake.
    single: Transport,
    owners: Owners,
}

impl Mcp {
    pub fn new(
        registry: Arc<Registry>,
        catalogue: Arc<Catalogue>,
        audit: Arc<Audit>,
        stop: &CancellationToken,
    ) -> Self {
        let server = Server::new(registry, catalogue, audit, stop.child_token());
        let sessions = transport(server.clone(), true, stop);
        let single = transport(server, false, stop);
        Self { sessions, single, owners: Owners::default() }
    }

    /// Answers a request of a caller who may speak MCP.
    pub async fn answer(&self, mut call: Call) -> ApiResult<Reply> {
        let caller = Arc::clone(call.caller()?);
        let session = call.headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if session.as_deref().is_some_and(|id| !self.owners.belongs(id, &caller)) {
            return Err(ApiError::not_found("session")); // a stranger's session is as good as none
        }
        let message = match call.stream.take() {
            Some(stream) if call.method == Method::POST => request_body::read(stream, MESSAGE_LIMIT).await?,
            _ => Bytes::new(),
        };
        let first = match call.method {
            Method::POST => match Message::read(&message) {
                Ok(message) => message,
                Err(refusal) => return Ok(*refusal),
            },
            _ => Message::default(),
        };
        let initializes = first.method == "initialize";
        if initializes && !self.owners.has_room(&caller) {
            return Err(ApiError::new(&codes::OVERLOADED).detail("There are too many open MCP sessions."));
        }
        let spent = Elsewhere::default();
        let visit = Visit {
            caller: Arc::clone(&caller),
            request_id: call.request_id,
            trace: call.trace,
            peer: call.peer,
            exact_arguments: first.exact_arguments,
            spent: spent.clone(),
        };
        let by_itself = call.method == Method::POST && session.is_none() && !initializes && !first.is_modern;
        let transport = if by_itself { &self.single } else { &self.sessions };
        let mut response = pass_on(transport, &call, message, visit).await;
        spent.take_over();
        if call.method == Method::DELETE && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT; // clients take 202 for a failure
            session.iter().for_each(|id| self.owners.forget(id));
        }
        if let Some(code) = refusal(&response) {
            return Err(ApiError::new(code).detail(text(response).await));
        }
        let opened = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
        if let (true, Some(id)) = (initializes, opened) {
            self.owners.open(id, &caller);
        }
        Ok(response.map(Body::stream))
    }

    /// Ends sessions that nobody has used for long; called every minute.
    pub fn sweep(&self) {
        self.owners.sweep(SESSION_IDLE * 2);
    }
}

fn transport(server: Server, sessions: bool, stop: &CancellationToken) -> Transport {
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = Some(SESSION_IDLE);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(sessions)
        .with_json_response(true)
        // The walk has checked Host already, by BASE_URL and ALLOWED_HOSTS.
        .with_allowed_hosts(Vec::<String>::new())
        .with_max_request_body_bytes(MESSAGE_LIMIT)
        .with_cancellation_token(stop.child_token());
    StreamableHttpService::new(move || Ok(server.clone()), Arc::new(manager), config)
}

async fn pass_on(
    transport: &Transport,
    call: &Call,
    message: Bytes,
    visit: Visit,
) -> http::Response<BoxBody<Bytes, Infallible>> {
    let mut request = Request::new(Full::new(message));
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = call.uri.clone();
    *request.headers_mut() = call.headers.clone();
    request.headers_mut().remove(header::AUTHORIZATION);
    request.extensions_mut().insert(visit);
    let answered: Result<_, Infallible> = transport.clone().call(request).await;
    match answered {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// What rmcp refuses in plain words, where no message was read that a JSON-RPC error could answer.
fn refusal<B>(response: &http::Response<B>) -> Option<&'static codes::Code> {
    let plain =
        response.headers().get(header::CONTENT_TYPE).is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"));
    let code = match response.status() {
        StatusCode::BAD_REQUEST => &codes::INVALID_REQUEST,
        StatusCode::NOT_FOUND => &codes::NOT_FOUND,
        StatusCode::NOT_ACCEPTABLE => &codes::NOT_ACCEPTABLE,
        StatusCode::CONFLICT => &codes::CONFLICT,
        _ => return None,
    };
    plain.then_some(code)
}

/// Its words, which are short.
async fn text(response: http::Response<BoxBody<Bytes, Infallible>>) -> String {
    match response.into_body().collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Err(never) => match never {},
    }
}

/// What must be known of a message before rmcp reads it.
#[derive(Default)]
struct Message {
    method: String,
    /// Of a revision without sessions: it says itself which.
    is_modern: bool,
    exact_arguments: Option<Bytes>,
}

/// The arguments of a tool call, as they were sent.
#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow)]
    params: ToolParams<'a>,
}

#[derive(Deserialize)]
struct ToolParams<'a> {
    #[serde(borrow)]
    arguments: &'a RawValue,
}

/// Arguments with a number that a `Value` changes. Each member is there once, as in the copy that is validated.
fn exact_arguments(bytes: &[u8]) -> Option<Bytes> {
    let arguments = serde_json::from_slice::<ToolCall<'_>>(bytes).ok()?.params.arguments.get();
    exact::first_inexact(arguments)?;
    exact::without_duplicates(arguments).map(Bytes::from)
}

impl Message {
    /// rmcp would answer what is no message with 415 and plain text.
    fn read(bytes: &[u8]) -> Result<Self, Box<Reply>> {
        let refused = |code, text| Box::new(rpc_error(code, text));
        let value = serde_json::from_slice::<Value>(bytes).map_err(|_| match input::is_json(bytes) {
            false => refused(-32700, "Parse error: the body is not JSON"),
            true => refused(
                -32602,
                "Invalid params: a number is beyond the range of a double, or values are nested too deeply",
            ),
        })?;
        if value.is_array() {
            return Err(refused(-32600, "Invalid request: batches are not supported"));
        }
        if value.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(refused(-32600, "Invalid request: not a JSON-RPC 2.0 message"));
        }
        let method = match value.get("method") {
            None => String::new(),
            Some(Value::String(method)) => method.clone(),
            Some(_) => return Err(refused(-32600, "Invalid request: the method is not a string")),
        };
        let is_modern = value
            .pointer("/params/_meta")
            .and_then(Value::as_object)
            .is_some_and(|meta| meta.contains_key(REVISION_KEY));
        let exact_arguments = if method == "tools/call" { exact_arguments(bytes) } else { None };
        Ok(Self { method, is_modern, exact_arguments })
    }
}

fn rpc_error(code: i32, message: &str) -> Reply {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    let mut reply = reply::text(StatusCode::BAD_REQUEST, "application/json", body.to_string());
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
