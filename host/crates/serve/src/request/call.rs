//! A request as its handler gets it.

use std::{net::IpAddr, time::Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri, header, request::Parts};
use serde::de::DeserializeOwned;

use super::Cx;
use crate::http::error::{ApiError, ApiResult};
use crate::{
    http::{
        compression::strip_codings,
        request_body::{self, RequestBody},
    },
    router::{Found, Params, Reads},
};
use cardinal_base::{codes, input, request_id::RequestId};
use cardinal_identity::auth::caller::SharedCaller;
use cardinal_observe::trace::Trace;

/// A request that may be handled: its caller is known and its body within bounds.
pub struct Call {
    pub request_id: RequestId,
    pub trace: Trace,
    pub peer: IpAddr,
    pub started: Instant,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub params: Params,
    pub template: &'static str,
    caller: Option<SharedCaller>,
    /// What the route reads ahead.
    pub body: Bytes,
    /// What it doesn't.
    pub stream: Option<RequestBody>,
}

impl Call {
    /// Reads what the route wants read, and refuses query parameters that it does not name before that.
    pub async fn read(
        cx: &Cx<'_>,
        caller: Option<SharedCaller>,
        request: Request<RequestBody>,
        found: &Found<'_>,
    ) -> ApiResult<Self> {
        let (mut parts, incoming) = request.into_parts();
        strip_codings(&mut parts.headers);
        found.route.check_query(parts.uri.query())?;
        let (bytes, stream) = match found.route.reads {
            Reads::Nothing | Reads::Stream => (Bytes::new(), Some(incoming)),
            Reads::Json(limit) => {
                media(&parts, &["application/json"], true)?;
                (request_body::read(incoming, limit).await?, None)
            }
            Reads::MergePatch(limit) => {
                media(&parts, &["application/merge-patch+json", "application/json"], false)?;
                (request_body::read(incoming, limit).await?, None)
            }
        };
        Ok(Self {
            request_id: cx.request_id,
            trace: cx.trace,
            peer: cx.peer,
            started: cx.started,
            method: parts.method,
            uri: parts.uri,
            headers: parts.headers,
            params: found.params.clone(),
            template: found.route.path,
            caller,
            body: bytes,
            stream,
        })
    }

    /// Who calls; routes that are not public always have one.
    pub fn caller(&self) -> ApiResult<&SharedCaller> {
        self.caller.as_ref().ok_or_else(|| ApiError::new(&codes::MISSING_TOKEN))
    }

    /// The body as JSON, strictly.
    pub fn json<T: DeserializeOwned>(&self) -> ApiResult<T> {
        Ok(input::json(&self.body)?)
    }

    /// The query, strictly.
    pub fn query<T: DeserializeOwned>(&self) -> ApiResult<T> {
        Ok(input::query(self.uri.query())?)
    }

    pub fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// 415 unless the body is of one of these types and not encoded. A body without a type is taken
/// for the first one where `untyped` says so.
fn media(parts: &Parts, types: &[&str], untyped: bool) -> ApiResult<()> {
    let refused =
        || ApiError::new(&codes::UNSUPPORTED_MEDIA_TYPE).detail(format!("Send the body as {}.", types.join(" or ")));
    if parts.headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(refused());
    }
    match input::media_type(&parts.headers) {
        Some(media) if types.contains(&media.as_str()) => Ok(()),
        None if untyped => Ok(()),
        _ => Err(refused()),
    }
}
