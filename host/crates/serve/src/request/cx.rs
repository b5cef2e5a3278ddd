//! The state of a request while it is answered; its line of the log, its span and its metrics at the end.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use http::{HeaderName, HeaderValue, Method, Request, Response, Uri, header};

use super::span::{PluginSpan, ServerSpan};
use crate::http::error::ApiResult;
use crate::{
    app::App,
    audit,
    http::{
        body::Body, compression::Negotiation, cors, forwarded::Origin, path, problem, rate_limit, reply::Reply,
        request_body::RequestBody,
    },
    router::{self, Route, Row},
};
use cardinal_base::{
    codes,
    request_id::{self, RequestId},
};
use cardinal_identity::{auth::caller::SharedCaller, limit::rate_state::RateState};
use cardinal_observe::{
    log::{AccessLine, CLIENT_CLOSED},
    meter::Meter,
    request_timing::RequestTiming,
    trace::Trace,
};

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// What is known of a request from its first byte on.
pub(crate) struct Cx<'a> {
    app: &'a App,
    pub request_id: RequestId,
    pub trace: Trace,
    /// None where no span is sent.
    span: Option<Box<ServerSpan>>,
    pub started: Instant,
    /// The client, behind whatever proxies are trusted.
    pub peer: IpAddr,
    /// The connection comes from a proxy whose headers are believed.
    pub trusted: bool,
    /// The answer is an upstream's, whose headers are its own.
    pub relayed: bool,
    pub method: Method,
    pub uri: Uri,
    pub origin: Option<HeaderValue>,
    negotiation: Negotiation,
    /// The row of the core's table that fits.
    pub route: Option<&'a Route<App>>,
    /// The route's template, for the log and metrics; empty while none is found.
    pub template: &'static str,
    pub caller: Option<SharedCaller>,
    pub meter: Option<&'static Meter>,
    answered: bool,
    /// Of the limit that the request was counted against.
    pub rate_state: Option<RateState>,
}

impl<'a> Cx<'a> {
    pub(crate) fn begin(app: &'a App, from: Origin, request: &Request<RequestBody>) -> Self {
        app.telemetry.requests.in_flight.up();
        let started = Instant::now(); // before the span begins, or its parts might end after it
        let mut trace = Trace::from_headers(request.headers(), &mut rand::rng());
        let is_sampled = app.telemetry.spans.sample(&mut trace, || app.clock.unix());
        Self {
            app,
            trace,
            span: is_sampled.then(|| ServerSpan::begin(&app.clock, request)),
            request_id: RequestId::from_headers(request.headers()),
            started,
            peer: from.client,
            trusted: from.trusted,
            relayed: false,
            method: request.method().clone(),
            uri: request.uri().clone(),
            negotiation: Negotiation::new(request.method(), request.headers()),
            origin: request.headers().get(header::ORIGIN).cloned(),
            route: None,
            template: "",
            caller: None,
            meter: None,
            answered: false,
            rate_state: None,
        }
    }

    /// The row that fits, when there is one. A plugin's route has a meter of its own, which is found later.
    pub(crate) fn set_row(&mut self, row: Option<Row<'a, App>>) {
        if let Some((route, meter)) = row {
            (self.route, self.template, self.meter) = (Some(route), route.path, Some(meter));
        }
    }

    /// The span of what a plugin does for the request, where spans are sent.
    pub(super) fn begin_plugin_span<'s>(&'s self, plugin: &'s str) -> Option<PluginSpan<'s>> {
        let span = self.span.as_ref()?;
        span.note_plugin(plugin);
        PluginSpan::begin(&self.app.telemetry.spans, &self.app.clock, &self.trace, plugin)
    }

    /// The request leaves by this route of the proxy.
    pub(super) fn note_proxy_route(&mut self, prefix: &str) {
        if let Some(span) = &mut self.span {
            span.proxy_prefix = Some(prefix.to_owned());
        }
    }

    /// An administrative act that the caller may not do is counted in the audit log.
    pub(crate) fn note_refusal(&self, outcome: &ApiResult<Reply>) {
        let (Some(caller), Some(code)) = (&self.caller, audit::is_refusal(outcome)) else { return };
        let Some((route, act)) = self.route.and_then(|route| Some((route, route.audits?))) else { return };
        let target = router::find_object(route.path, self.uri.path());
        self.app.audit.refused(caller, self.peer, self.request_id.to_string(), act, target, code);
    }

    /// The only place that makes a failure body; one log line per request.
    pub(crate) fn finish(mut self, outcome: ApiResult<Reply>, timing: RequestTiming) -> Response<Body> {
        self.answered = true;
        let app = self.app;
        let request_id = self.request_id;
        let id = request_id.as_str();
        let (code, cause, mut response) = match outcome {
            Ok(response) => (None, None, response),
            Err(error) => {
                let (code, cause) = (error.code().to_owned(), error.cause_text());
                (Some(code), cause, problem::respond(&error, &app.base_url, id))
            }
        };
        if self.may_be_compressed() {
            app.compression.apply(&self.negotiation, &mut response);
        }
        let rule = cors::rule(self.uri.path());
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::from_str(id) {
            headers.insert(request_id::HEADER, id);
        }
        if !self.relayed {
            headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
            if rule == cors::Rule::Listed {
                headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
            }
            app.origins.decorate(rule, self.origin.as_ref(), headers);
        }
        if let Some(rate_state) = &self.rate_state {
            rate_limit::write(rate_state, headers);
        }
        let took = self.started.elapsed();
        // Of a plugin's routes alone; a plugin that has timings of its own adds them in a header beside this one.
        if timing.meter.is_some()
            && let Ok(server_timing) = HeaderValue::from_bytes(timing.server_timing(took).as_bytes())
        {
            headers.append(SERVER_TIMING, server_timing);
        }
        self.record(took, response.status().as_u16(), code.as_deref(), cause.as_deref(), &timing);
        response
    }

    /// A GET that a route of ours answered, other than MCP's. Upstreams compress by themselves, files are compressed
    /// already.
    fn may_be_compressed(&self) -> bool {
        let is_ours = !self.relayed && !self.template.is_empty() && !self.template.starts_with("/api");
        is_ours && matches!(self.method, Method::GET | Method::HEAD)
    }

    /// Counts the request, writes its line and sends its span.
    fn record(&self, took: Duration, status: u16, code: Option<&str>, cause: Option<&str>, timing: &RequestTiming) {
        let requests = &self.app.telemetry.requests;
        let meter = timing.meter.or(self.meter).unwrap_or_else(|| match self.template {
            "" => requests.unmatched(&self.method),
            template => requests.route(&self.method, template),
        });
        meter.observe(status, took, timing.plugin, timing.database);
        let path = path::for_log(self.uri.path());
        let line = AccessLine {
            request_id: self.request_id.as_str(),
            trace: &self.trace,
            peer: self.peer,
            method: self.method.as_str(),
            path: &path,
            route: if meter.is_of_a_route() { &meter.route } else { "" },
            status,
            took,
            timing,
            user: self.caller.as_ref().map(|caller| caller.username.as_str()),
            key_id: self.caller.as_ref().and_then(|caller| caller.key.as_ref()).map(|(id, _)| *id),
            code,
            cause,
            is_probe: self.route.is_some_and(|route| route.is_polled),
        };
        self.app.log.access(&line);
        self.send_span(&line);
    }

    /// Probes that go well have no span, as they have no line, unless whoever asks has begun a trace.
    fn send_span(&self, line: &AccessLine<'_>) {
        let Some(span) = &self.span else { return };
        if line.is_probe && line.status < 400 && self.trace.begins_here() {
            return;
        }
        let scheme = self.app.base_url.split_once(':').map_or("http", |(scheme, _)| scheme);
        self.app.telemetry.spans.push(span.end(line, self.template, &self.uri, scheme));
    }
}

impl Drop for Cx<'_> {
    fn drop(&mut self) {
        self.app.telemetry.requests.in_flight.down();
        if !self.answered {
            self.app.telemetry.requests.abandoned.count();
            // A panic of ours ends the connection, too, and is no fault of the client's.
            let (status, code) = if std::thread::panicking() {
                (500, codes::INTERNAL_ERROR.name)
            } else {
                (CLIENT_CLOSED, "client-closed")
            };
            self.record(self.started.elapsed(), status, Some(code), None, &RequestTiming::default());
        }
    }
}
