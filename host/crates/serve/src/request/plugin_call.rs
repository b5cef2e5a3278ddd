//! A call of a plugin's route: the request as plugins get it, and their reply.

use http::{HeaderMap, Method, Request, header};
use http_body_util::{BodyExt, Limited};

use super::Cx;
use crate::http::error::{ApiError, ApiResult};
use crate::http::{
    body::Body,
    compression::strip_codings,
    reply::Reply,
    request_body::{self, RequestBody},
};
use cardinal_base::codes;
use cardinal_identity::auth::caller::SharedCaller;
use cardinal_observe::trace;
use cardinal_plugin_host::{
    active::{Active, RouteEntry},
    call::{CallBody, CallParts, Deadline, PathParams, PluginReply, ReplyBody},
};

/// What is called, and by whom.
pub(super) struct PluginCall<'a> {
    pub plugin: &'a Active,
    pub route: &'a RouteEntry,
    pub params: PathParams<'a>,
    /// Below the plugin's prefix.
    pub path: &'a str,
    pub caller: SharedCaller,
}

impl PluginCall<'_> {
    pub(super) async fn run(self, cx: &Cx<'_>, request: Request<RequestBody>) -> ApiResult<Reply> {
        let (head, body) = request.into_parts();
        let mut headers = head.headers;
        strip_codings(&mut headers);
        if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(
                ApiError::new(&codes::UNSUPPORTED_MEDIA_TYPE).detail("Send the body without a Content-Encoding.")
            );
        }
        let body = read_body(body, self.route.max_body, &headers).await?;
        let deadline = Deadline::after(self.route.timeout); // how long a client takes to send is not the plugin's fault
        let span = cx.begin_plugin_span(&self.plugin.manifest.name);
        let trace = span.as_ref().map_or(cx.trace, |span| span.trace);
        if headers.contains_key(trace::PARENT) || headers.contains_key(trace::STATE) {
            trace.inject(&mut headers); // what the plugin reads there is what it should pass on
        }
        let method = if head.method == Method::HEAD { &Method::GET } else { &head.method };
        let parts = CallParts {
            method: method.as_str(),
            path: self.path,
            query: head.uri.query().unwrap_or_default(),
            params: self.params,
            body,
            headers: &headers,
            caller: self.caller,
            request_id: cx.request_id,
            trace: Some(trace),
            deadline,
            peer: Some(cx.peer),
            tool: None,
            progress: None,
            job: None,
        };
        let reply = self.plugin.call(self.route.handler, parts).await.map_err(ApiError::from);
        if let Some(span) = span {
            span.end(&reply);
        }
        reply.map(answer)
    }
}

/// A body up to this many bytes is read before the handler runs; a longer one is passed on as it comes.
const READ_AHEAD: usize = 1 << 20;

async fn read_body(stream: RequestBody, limit: usize, headers: &HeaderMap) -> ApiResult<CallBody> {
    if limit <= READ_AHEAD {
        return request_body::read(stream, limit).await.map(CallBody::Full);
    }
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    if length.is_some_and(|length: u64| length > limit as u64) {
        return Err(ApiError::new(&codes::PAYLOAD_TOO_LARGE).detail(format!("The body is over {limit} bytes.")));
    }
    let bounded = Limited::new(stream, limit).map_err(Into::into);
    Ok(CallBody::Stream(Box::pin(bounded), length))
}

fn answer(plugin: PluginReply) -> Reply {
    let body = match plugin.body {
        ReplyBody::Full(bytes) => Body::full(bytes),
        ReplyBody::Stream(stream) => Body::stream(stream),
    };
    let mut reply = http::Response::new(body);
    *reply.status_mut() = plugin.status;
    *reply.headers_mut() = plugin.headers;
    reply
}
