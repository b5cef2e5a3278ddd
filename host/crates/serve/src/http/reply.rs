//! Replies of the core's own endpoints.

use crate::http::error::{ApiError, ApiResult};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;

use super::body::Body;

/// One object, alone in its reply.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}Item")]
pub(crate) struct Item<T> {
    pub item: T,
}

pub(crate) type Reply = Response<Body>;

/// A mark on a reply that ends by itself when its caller may no longer read it.
#[derive(Clone, Copy)]
pub(crate) struct WatchesItself;

/// A JSON body.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> ApiResult<Reply> {
    let bytes = serde_json::to_vec(value).map_err(ApiError::internal)?;
    let mut reply = Response::new(Body::full(Bytes::from(bytes)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(reply)
}

/// 200 with a JSON body.
pub(crate) fn ok(value: &impl Serialize) -> ApiResult<Reply> {
    json(StatusCode::OK, value)
}

/// 201 with a JSON body and where the new thing lives.
pub(crate) fn created(location: &str, value: &impl Serialize) -> ApiResult<Reply> {
    located(StatusCode::CREATED, location, value)
}

/// 202 with a JSON body and where to see how far it is.
pub(crate) fn accepted(location: &str, value: &impl Serialize) -> ApiResult<Reply> {
    located(StatusCode::ACCEPTED, location, value)
}

fn located(status: StatusCode, location: &str, value: &impl Serialize) -> ApiResult<Reply> {
    let mut reply = json(status, value)?;
    let location = HeaderValue::from_str(location).map_err(ApiError::internal)?;
    reply.headers_mut().insert(header::LOCATION, location);
    Ok(reply)
}

/// 204.
pub(crate) fn no_content() -> Reply {
    status(StatusCode::NO_CONTENT)
}

/// A status without a body.
pub(crate) fn status(status: StatusCode) -> Reply {
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = status;
    reply
}

/// Plain text.
pub(crate) fn text(code: StatusCode, content_type: &'static str, text: impl Into<String>) -> Reply {
    let mut reply = Response::new(Body::full(text.into()));
    *reply.status_mut() = code;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

/// A stream of server-sent events; of HEAD, an empty one.
pub(crate) fn events(body: Body) -> Reply {
    let mut reply = Reply::new(body);
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // nginx would keep events back until there are some kilobytes of them.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    reply
}

/// 307 to another path of ours.
pub(crate) fn redirect(to: &'static str) -> Reply {
    let mut reply = status(StatusCode::TEMPORARY_REDIRECT);
    reply.headers_mut().insert(header::LOCATION, HeaderValue::from_static(to));
    reply
}
