//! The spans of a request: its own, and that of a plugin's part of it.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use http::{HeaderValue, Method, Request, Uri, header, uri::Authority};
use time::OffsetDateTime;

use crate::http::{error::ApiResult, request_body::RequestBody};
use cardinal_base::clock::Clock;
use cardinal_observe::{
    log::{AccessLine, CLIENT_CLOSED},
    spans::{Attributes, Kind, Span, Spans},
    trace::{self, Trace},
};
use cardinal_plugin_host::call::PluginReply;

/// Bytes of a `User-Agent` that are kept.
const MAX_USER_AGENT: usize = 256;
/// Bytes that are kept of a method that is none of the known.
const MAX_METHOD: usize = 32;
/// Methods that the conventions know by name; any other is `_OTHER` in a span.
const METHODS: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
    Method::CONNECT,
    Method::TRACE,
];

/// What the span of a request has beyond the request's line in the log. Headers are shared with the request, not
/// copied.
pub(super) struct ServerSpan {
    started: OffsetDateTime,
    state: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
    host: Option<HeaderValue>,
    /// The plugin that answers.
    plugin: OnceLock<String>,
    /// Of the proxy route whose upstream answers.
    pub(super) proxy_prefix: Option<String>,
}

impl ServerSpan {
    pub(super) fn begin(clock: &Clock, request: &Request<RequestBody>) -> Box<Self> {
        let headers = request.headers();
        Box::new(Self {
            started: clock.now(),
            state: trace::state(headers),
            user_agent: headers.get(header::USER_AGENT).cloned(),
            host: headers.get(header::HOST).cloned(),
            plugin: OnceLock::new(),
            proxy_prefix: None,
        })
    }

    pub(super) fn note_plugin(&self, plugin: &str) {
        self.plugin.get_or_init(|| plugin.to_owned());
    }

    /// The span as a collector gets it. Nothing of the query, the headers' values or the body is in it but the client's
    /// name for itself and the host that it asked for.
    pub(super) fn end(&self, line: &AccessLine<'_>, template: &str, uri: &Uri, scheme: &str) -> Span {
        let known = METHODS.iter().any(|method| method == line.method);
        let mut attributes = Attributes::default();
        attributes.text("http.request.method", if known { line.method } else { "_OTHER" });
        if !known {
            attributes.bounded_text("http.request.method_original", line.method, MAX_METHOD);
        }
        attributes.text("url.path", line.path);
        attributes.text("url.scheme", scheme);
        if !line.route.is_empty() {
            attributes.text("http.route", line.route);
        }
        self.describe_client(&mut attributes, line, uri);
        describe_outcome(&mut attributes, line);
        attributes.text("cardinal.request_id", line.request_id);
        for (key, value) in
            [("cardinal.plugin", self.plugin.get()), ("cardinal.proxy_prefix", self.proxy_prefix.as_ref())]
        {
            if let Some(value) = value {
                attributes.text(key, value);
            }
        }
        let method = if known { line.method } else { "HTTP" };
        let target = if line.route.is_empty() { template } else { line.route };
        Span {
            trace: *line.trace,
            state: self.state.clone(),
            kind: Kind::Server,
            name: if target.is_empty() { method.to_owned() } else { format!("{method} {target}") },
            started: self.started,
            took: line.took,
            attributes,
            is_error: line.status >= 500,
        }
    }

    fn describe_client(&self, attributes: &mut Attributes, line: &AccessLine<'_>, uri: &Uri) {
        attributes.text("client.address", &line.peer.to_string());
        if let Some(agent) = self.user_agent.as_ref().and_then(|agent| agent.to_str().ok()) {
            attributes.bounded_text("user_agent.original", agent, MAX_USER_AGENT);
        }
        let named = || Authority::try_from(self.host.as_ref()?.as_bytes()).ok();
        if let Some(server) = uri.authority().cloned().or_else(named) {
            attributes.text("server.address", server.host());
            if let Some(port) = server.port_u16() {
                attributes.int("server.port", port);
            }
        }
    }
}

fn describe_outcome(attributes: &mut Attributes, line: &AccessLine<'_>) {
    // Who went away was sent no status.
    if line.status != CLIENT_CLOSED {
        attributes.int("http.response.status_code", line.status);
    }
    if line.status >= 500 {
        attributes.text("error.type", &line.status.to_string());
    }
    if let Some(code) = line.code {
        attributes.text("cardinal.problem_code", code);
    }
    for (key, time) in [("cardinal.database_ms", line.timing.database), ("cardinal.plugin_ms", line.timing.plugin)] {
        if !time.is_zero() {
            attributes.milliseconds(key, time);
        }
    }
}

/// The part of a request that a plugin answers. One that is dropped before its end is sent all the same: its client has
/// gone away.
pub(super) struct PluginSpan<'a> {
    spans: &'a Spans,
    plugin: &'a str,
    /// What the plugin passes on, so that whatever it calls is a part of this one.
    pub(super) trace: Trace,
    started_at: OffsetDateTime,
    started: Instant,
    outcome: Option<Outcome>,
}

/// How the plugin's part ended, when it did.
struct Outcome {
    status: u16,
    code: Option<String>,
}

impl<'a> PluginSpan<'a> {
    /// None where the request's span is not sent.
    pub(super) fn begin(spans: &'a Spans, clock: &Clock, request: &Trace, plugin: &'a str) -> Option<Self> {
        let trace = spans.child(request)?;
        Some(Self { spans, plugin, trace, started_at: clock.now(), started: Instant::now(), outcome: None })
    }

    pub(super) fn end(mut self, reply: &ApiResult<PluginReply>) {
        self.outcome = Some(match reply {
            Ok(reply) => Outcome { status: reply.status.as_u16(), code: None },
            Err(error) => Outcome { status: error.status().as_u16(), code: Some(error.code().to_owned()) },
        });
    }

    fn span(&self, took: Duration) -> Span {
        let mut attributes = Attributes::default();
        attributes.text("cardinal.plugin", self.plugin);
        let mut is_error = false;
        if let Some(Outcome { status, code }) = &self.outcome {
            attributes.int("http.response.status_code", *status);
            is_error = *status >= 500;
            if is_error {
                attributes.text("error.type", &status.to_string());
            }
            if let Some(code) = code {
                attributes.text("cardinal.problem_code", code);
            }
        }
        Span {
            trace: self.trace,
            state: None,
            kind: Kind::Internal,
            name: format!("plugin {}", self.plugin),
            started: self.started_at,
            took,
            attributes,
            is_error,
        }
    }
}

impl Drop for PluginSpan<'_> {
    fn drop(&mut self) {
        self.spans.push(self.span(self.started.elapsed()));
    }
}
