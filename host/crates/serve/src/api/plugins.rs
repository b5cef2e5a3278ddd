//! Plugins: their own routes below `/v1/admin/plugins/{prefix}`, and what the host says of them.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use http::{HeaderMap, Method, header};
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::App,
    http::{
        body::Body,
        reply::{self, Reply},
        request_body::{self, RequestBody},
    },
    request::Call,
    route,
    router::{self, Access, Reads, Route},
};
use cardinal_base::codes;
use cardinal_observe::{request_timing, trace};
use cardinal_plugin_host::{
    active::{Active, FindError, RouteMatch},
    call::{CallBody, CallParts, PluginReply, ReplyBody},
};

/// Plugins' own routes are below this.
const ROOT: &str = "/v1/admin/plugins/";

pub fn routes() -> Vec<Route> {
    vec![
        route!(GET "/v1/admin/plugins", Access::Authenticated, Reads::Nothing, list_for_ui).describe(|op| {
            op.named("listPlugins", "plugins", "Active plugins that the caller may read, as the Admin UI draws them")
                .replies_as(
                    200,
                    "Them.",
                    "application/json",
                    listed(&["name", "version", "title", "tabs", "frontend", "provides_kinds", "reads_kinds"]),
                );
        }),
        // Every method: the plugin's own table decides.
        route!(GET "/v1/admin/plugins/{prefix}", Access::Plugin, Reads::Nothing, call_plugin),
        route!(GET "/v1/admin/plugins/{prefix}/", Access::Plugin, Reads::Nothing, call_plugin),
        route!(GET "/v1/admin/plugins/{prefix}/{*rest}", Access::Plugin, Reads::Nothing, call_plugin),
    ]
}

pub(super) fn listed(members: &[&str]) -> Value {
    json!({"type": "object", "required": ["items"],
        "properties": {"items": {"type": "array", "items": {"type": "object", "required": members}}}})
}

/// The active plugins that the caller may read, with what the Admin UI draws of them.
async fn list_for_ui(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let caller = call.caller()?;
    wait_for_plugins(app).await;
    let snapshot = app.plugins.snapshot();
    let items: Vec<Value> = snapshot
        .active()
        .filter(|plugin| caller.holds(&format!("plugin:{}:read", plugin.manifest.name)))
        .map(|plugin| {
            let manifest = &plugin.manifest;
            json!({
                "name": manifest.name,
                "version": manifest.version.to_string(),
                "title": manifest.title.as_ref().unwrap_or(&manifest.name),
                "description": manifest.description,
                "api_prefix": manifest.api_prefix(),
                "tabs": manifest.card_tabs,
                "frontend": snapshot.frontend(&manifest.name),
                "provides_kinds": manifest.provides_kinds,
                "reads_kinds": manifest.reads_kinds,
            })
        })
        .collect();
    reply::ok(&json!({"items": items}))
}

/// A worker that was just started knows no plugins yet.
pub async fn wait_for_plugins(app: &App) {
    wait_for(app, None).await;
}

/// The same for the plugin with a prefix: others may take longer.
async fn wait_for(app: &App, prefix: Option<&str>) {
    if !app.ready.load(Ordering::Acquire) {
        app.plugins.first_look(prefix).await;
    }
}

async fn call_plugin(app: &Arc<App>, mut call: Call) -> ApiResult<Reply> {
    let stream = call.stream.take();
    if call.headers.contains_key(trace::PARENT) || call.headers.contains_key(trace::STATE) {
        call.trace.mark(&mut call.headers); // what the plugin reads there is what it should pass on
    }
    let (prefix, path) = below_root(call.uri.path());
    wait_for(app, Some(prefix)).await;
    let active = in_service(app, prefix)?;
    let found = active.find(&call.method, path).map_err(|error| match error {
        FindError::NotFound => ApiError::new(&codes::NOT_FOUND),
        FindError::MethodNotAllowed(methods) => router::method_not_allowed(methods.iter()),
    })?;
    request_timing::on_route(found.route.meter);
    call.caller()?.require(&found.route.scope)?;
    let handler = found.route.handler;
    let parts = parts(&call, stream, found, path).await?;
    Ok(answer(active.call(handler, parts).await?))
}

fn in_service(app: &App, prefix: &str) -> ApiResult<Arc<Active>> {
    let snapshot = app.plugins.current();
    if let Some(active) = snapshot.by_prefix.get(prefix) {
        return Ok(Arc::clone(active));
    }
    // Until the first walk through the folder has ended, nobody knows which prefixes there are.
    Err(if snapshot.unavailable(prefix) || !app.ready.load(Ordering::Acquire) {
        ApiError::new(&codes::PLUGIN_UNAVAILABLE).detail("The plugin is not in service.")
    } else {
        ApiError::new(&codes::NOT_FOUND)
    })
}

/// The plugin's prefix and the path below it, as it came; the root with or without its slash is `/`. A prefix is plain
/// text, so what is percent-encoded names none.
fn below_root(path: &str) -> (&str, &str) {
    let below = path.strip_prefix(ROOT).unwrap_or_default();
    match below.find('/') {
        Some(slash) => below.split_at(slash),
        None => (below, "/"),
    }
}

async fn parts<'a>(
    call: &'a Call,
    stream: Option<RequestBody>,
    found: RouteMatch<'a>,
    path: &'a str,
) -> ApiResult<CallParts<'a>> {
    if call.headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(ApiError::new(&codes::UNSUPPORTED_MEDIA_TYPE).detail("Send the body without a Content-Encoding."));
    }
    let deadline = Instant::now() + found.route.timeout;
    let body = match stream {
        Some(stream) => read_body(stream, found.route.max_body, &call.headers).await?,
        None => CallBody::Full(bytes::Bytes::new()),
    };
    let method = if call.method == Method::HEAD { &Method::GET } else { &call.method };
    Ok(CallParts {
        method: method.as_str(),
        path,
        query: call.uri.query().unwrap_or_default(),
        params: found.params,
        headers: &call.headers,
        body,
        caller: Arc::clone(call.caller()?),
        request_id: call.request_id,
        trace: Some(call.trace),
        deadline,
        peer: Some(call.peer),
        tool: None,
        progress: None,
    })
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
