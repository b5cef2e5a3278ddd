//! A request as its row wants it read.

use bytes::Bytes;
use http::{Request, header, request::Parts};

use super::Cx;
use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::App,
    call::{CallHead, NoBody, Params, Reads},
    http::{
        compression::strip_codings,
        request_body::{self, RequestBody},
    },
    router::Route,
};
use cardinal_base::{codes, input};
use cardinal_identity::auth::caller::SharedCaller;

/// The call without its body; 400 for a query parameter that the row does not name, 415 for a body of another type.
pub(super) fn head(
    cx: &Cx<'_>,
    caller: Option<SharedCaller>,
    request: Request<RequestBody>,
    route: &Route<App>,
    params: Params,
) -> ApiResult<CallHead> {
    let (mut parts, incoming) = request.into_parts();
    strip_codings(&mut parts.headers);
    route.query.check(parts.uri.query())?;
    if is_read_ahead(route.reads) {
        media(&parts, route.reads)?;
    }
    Ok(CallHead {
        request_id: cx.request_id,
        trace: cx.trace,
        peer: cx.peer,
        started: cx.started,
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        params,
        audits: route.audits,
        caller,
        bytes: Bytes::new(),
        stream: incoming,
    })
}

/// Reads the body ahead where the row wants that, or none may be sent; 413.
pub(super) async fn body(call: &mut CallHead, route: &Route<App>) -> ApiResult<()> {
    let takes_none = route.reads == Reads::Nothing && !call.method.is_safe();
    if takes_none || is_read_ahead(route.reads) {
        let stream = std::mem::replace(&mut call.stream, RequestBody::none());
        call.bytes = request_body::read(stream, route.body_limit).await?;
    }
    if takes_none { NoBody::check(&call.bytes) } else { Ok(()) }
}

fn is_read_ahead(reads: Reads) -> bool {
    matches!(reads, Reads::Json | Reads::MergePatch)
}

/// 415 unless the body is of a type that is read and not encoded. A body without a type is taken for JSON; a merge
/// patch must say what it is.
fn media(parts: &Parts, reads: Reads) -> ApiResult<()> {
    let types = reads.media_types();
    let refused =
        || ApiError::new(&codes::UNSUPPORTED_MEDIA_TYPE).detail(format!("Send the body as {}.", types.join(" or ")));
    if parts.headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let detail = "Send the body without Content-Encoding.";
        return Err(ApiError::new(&codes::UNSUPPORTED_MEDIA_TYPE).detail(detail));
    }
    match input::media_type(&parts.headers) {
        Some(media) if types.contains(&media.as_str()) => Ok(()),
        None if reads == Reads::Json => Ok(()),
        _ => Err(refused()),
    }
}
