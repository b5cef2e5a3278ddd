//! Requests as the protocol library takes them, and what it answers.

use std::{convert::Infallible, future::ready, sync::Arc};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody, combinators::BoxBody};
use rmcp::{
    model::ProtocolVersion,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use tower_service::Service;

use super::{MESSAGE_LIMIT, Visit, exact_content, server::Server};
use crate::call::CallHead;
use crate::http::error::{ApiError, ApiResult};
use crate::http::{body::Body, reply::Reply};
use cardinal_base::{codes, input};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const JSON: &str = "application/json";
/// Under which names a client may take JSON.
const JSON_TYPES: &[&str] = &[JSON, "application/*", "*/*"];
pub(super) const EVENTS: &str = "text/event-stream";
/// Under which names a client may take events.
const EVENT_TYPES: &[&str] = &[EVENTS, "text/*", "*/*"];
const ALL_TYPES: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Of an answer, with those that the walk adds.
const EXPECTED_HEADERS: usize = 12;

pub(super) type Transport = StreamableHttpService<Server, LocalSessionManager>;
pub(super) type Request = http::Request<Full<Bytes>>;
pub(super) type Response = http::Response<BoxBody<Bytes, Infallible>>;

/// An answer in JSON that is written already.
pub(super) struct JsonAnswer {
    pub status: StatusCode,
    pub body: Bytes,
}

impl JsonAnswer {
    fn with<B>(self, body: impl FnOnce(Bytes) -> B) -> http::Response<B> {
        let mut response = http::Response::new(body(self.body));
        *response.status_mut() = self.status;
        response.headers_mut().reserve(EXPECTED_HEADERS);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        response
    }

    pub(super) fn reply(self) -> Reply {
        self.with(Body::full)
    }
}

impl From<JsonAnswer> for Response {
    fn from(answer: JsonAnswer) -> Self {
        answer.with(|body| Full::new(body).boxed())
    }
}

/// The protocol library gets no token to stop by: it would cut off what is under way, and the streams that wait for
/// news end by themselves.
pub(super) fn transport(server: Server, manager: Arc<LocalSessionManager>, sessions: bool) -> Transport {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(sessions)
        .with_json_response(true)
        // The walk has checked Host already, by BASE_URL and ALLOWED_HOSTS.
        .with_allowed_hosts(Vec::<String>::new())
        .with_max_request_body_bytes(MESSAGE_LIMIT);
    StreamableHttpService::new(move || Ok(server.clone()), manager, config)
}

pub(super) fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID).and_then(|id| id.to_str().ok())
}

/// Whether it is the media type of JSON.
pub(super) fn is_json(content_type: &HeaderValue) -> bool {
    let text = content_type.to_str().unwrap_or_default();
    text.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(JSON))
}

/// Whether it is a stream of events.
pub(super) fn is_stream<B>(response: &http::Response<B>) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENTS.as_bytes()))
}

/// For a message without a session that is answered in JSON: whether its client reads events, too. None where it does
/// not take JSON.
pub(super) fn reads_events(headers: &HeaderMap) -> Option<bool> {
    // What the official SDKs send, nearly all that comes.
    if headers.get_all(header::ACCEPT).iter().eq([ALL_TYPES]) {
        return Some(true);
    }
    let accept = accepted(headers);
    (accept.is_empty() || takes(&accept, JSON_TYPES)).then(|| takes(&accept, &[EVENTS]))
}

/// Widens what a client accepts to what the protocol library wants to see named in full, where the client does take it:
/// many name nothing or `*/*`. Who takes JSON alone gets it, but in a session, where every answer is a stream of
/// events.
pub(super) fn prepare(headers: &mut HeaderMap, gets_json: bool) {
    headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static(JSON));
    let accept = accepted(headers);
    let takes_json = takes(&accept, JSON_TYPES);
    let takes_events = takes(&accept, EVENT_TYPES);
    if accept.is_empty() || (takes_json && (takes_events || gets_json)) {
        headers.insert(header::ACCEPT, ALL_TYPES);
    } else if takes_events {
        headers.insert(header::ACCEPT, HeaderValue::from_static(EVENTS));
    }
}

/// Whether the client names streams of events among what it takes, and so can read one: a script that takes anything
/// expects JSON.
pub(super) fn names_events(headers: &HeaderMap) -> bool {
    takes(&accepted(headers), &[EVENTS])
}

/// Whether the client of a GET takes a stream of events.
pub(super) fn takes_events(headers: &HeaderMap) -> bool {
    let accept = accepted(headers);
    accept.is_empty() || takes(&accept, EVENT_TYPES)
}

fn takes(accept: &str, types: &[&str]) -> bool {
    input::preference(accept, types) > 0.0
}

fn accepted(headers: &HeaderMap) -> String {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accept.collect::<Vec<_>>().join(",")
}

pub(super) async fn pass_on(transport: &Transport, call: &CallHead, message: Bytes, visit: Visit) -> Response {
    send(transport, request(&call.method, &call.uri, call.headers.clone(), message, visit)).await
}

pub(super) fn request(method: &Method, uri: &Uri, mut headers: HeaderMap, message: Bytes, visit: Visit) -> Request {
    headers.remove(header::AUTHORIZATION);
    let mut request = Request::new(Full::new(message));
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri.clone();
    *request.headers_mut() = headers;
    request.extensions_mut().insert(visit);
    request
}

pub(super) async fn send(transport: &Transport, request: Request) -> Response {
    let answered: Result<_, Infallible> = transport.clone().call(request).await;
    match answered {
        Ok(response) => response.map(|body| body.map_frame(exact_content::restore).boxed()),
        Err(never) => match never {},
    }
}

/// Bytes. An event without data is shorter.
const MAX_EMPTY_EVENT: usize = 256;

/// Events as a client reads them that has asked for this revision. The one without data, which names the place from
/// where a broken stream goes on, came with 2025-11-25: to older clients it is a broken message.
pub(super) fn events_for(revision: &str, events: BoxBody<Bytes, Infallible>) -> BoxBody<Bytes, Infallible> {
    let old = ProtocolVersion::KNOWN_VERSIONS.iter().filter(|known| **known < ProtocolVersion::V_2025_11_25);
    if !old.map(ProtocolVersion::as_str).any(|old| old == revision) {
        return events;
    }
    let frames = BodyStream::new(events).filter(|frame| ready(!matches!(frame, Ok(frame) if is_empty_event(frame))));
    BodyExt::boxed(StreamBody::new(frames))
}

fn is_empty_event(frame: &Frame<Bytes>) -> bool {
    let Some(event) = frame.data_ref().filter(|event| event.len() < MAX_EMPTY_EVENT) else { return false };
    let mut data = event.split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"data:")).peekable();
    data.peek().is_some() && data.all(|line| line.trim_ascii().is_empty())
}

/// The response with the length of its body, where that is JSON: it is there already.
pub(super) async fn whole(response: Response) -> Reply {
    if !response.headers().get(header::CONTENT_TYPE).is_some_and(is_json) {
        return response.map(Body::stream);
    }
    let (head, body) = response.into_parts();
    Reply::from_parts(head, Body::full(collect(body).await))
}

/// The response, which is JSON and there already, and whether it gives a result rather than an error.
pub(super) async fn result(response: Response) -> (Response, bool) {
    #[derive(serde::Deserialize)]
    struct Answer {
        result: Option<serde::de::IgnoredAny>,
    }
    let (head, body) = response.into_parts();
    let bytes = collect(body).await;
    let is_result = serde_json::from_slice::<Answer>(&bytes).is_ok_and(|answer| answer.result.is_some());
    (Response::from_parts(head, Full::new(bytes).boxed()), is_result)
}

/// Whether the protocol library refuses in plain words.
pub(super) fn is_plain_refusal<B>(response: &http::Response<B>) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    response.status().is_client_error() && kind.is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"))
}

/// The response; a problem document where no message was read that a JSON-RPC error could answer.
pub(super) async fn plain_or(response: Response) -> ApiResult<Reply> {
    if !is_plain_refusal(&response) {
        return Ok(response.map(Body::stream));
    }
    let code = match response.status() {
        // A client of the newest revision, which has neither streams nor sessions.
        StatusCode::METHOD_NOT_ALLOWED => return Err(ApiError::method_not_allowed([Method::POST].iter())),
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => &codes::INVALID_REQUEST,
        StatusCode::NOT_FOUND => &codes::NOT_FOUND,
        StatusCode::NOT_ACCEPTABLE => &codes::NOT_ACCEPTABLE,
        StatusCode::CONFLICT => &codes::CONFLICT,
        _ => return Ok(response.map(Body::stream)),
    };
    Err(ApiError::new(code).detail(text(response).await))
}

/// Its words, which are short.
pub(super) async fn text(response: Response) -> String {
    String::from_utf8_lossy(&collect(response.into_body()).await).into_owned()
}

async fn collect(body: BoxBody<Bytes, Infallible>) -> Bytes {
    match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(never) => match never {},
    }
}
