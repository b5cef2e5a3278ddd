//! The walk of a request: one short way from what came in to what goes out.

use std::{
    future::poll_fn,
    net::IpAddr,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header, request::Parts};
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use crate::{
    api,
    app::App,
    audit::{self, Act},
    auth::caller::SharedCaller,
    http::{
        body::{self, Body},
        codes, cors,
        error::{ApiError, ApiResult},
        forwarded::{self, Origin},
        host::Site,
        input, path,
        reply::Reply,
        request_id::{self, RequestId},
    },
    limit::standing::Standing,
    observe::{log::AccessLine, meter::Meter, spent::Spent, trace::Trace},
    proxy,
    router::{self, Access, Found, Params, Reads},
};

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The other end of the connection.
    pub ip: IpAddr,
    pub door: Door,
}

/// What a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Everything.
    Whole,
    /// The public, where the admin API has a listener of its own.
    Public,
    /// The admin API and its like, without proxied pages.
    Admin,
    /// `/metrics` alone, for whoever can reach it.
    Metrics,
}

/// Longer than this no endpoint of the core works on one request.
const CORE_ANSWER: Duration = Duration::from_secs(20);

/// From request to response. Nothing of the body is read before the caller is known.
pub async fn serve(app: Arc<App>, peer: Peer, request: Request<Incoming>) -> Response<Body> {
    let origin = forwarded::origin(peer.ip, request.headers(), &app.config.http.trusted_proxies);
    let mut cx = Cx::begin(&app, origin, &request);
    let mut spent = Spent::default();
    let outcome = {
        let mut work = pin!(answer(&app, &mut cx, peer, request));
        poll_fn(|task| spent.during(|| work.as_mut().poll(task))).await
    };
    cx.note_refusal(&outcome);
    cx.finish(outcome, spent.closed())
}

async fn answer(app: &Arc<App>, cx: &mut Cx<'_>, peer: Peer, request: Request<Incoming>) -> ApiResult<Reply> {
    path::check(request.uri())?;
    if peer.door == Door::Public && path::is_private(request.uri().path()) {
        return Err(ApiError::new(&codes::NOT_FOUND));
    }
    let site = app.hosts.check(&request)?;
    if !path::is_own(request.uri().path())
        && proxies(app, peer.door, site)
        && let Some(route) = app.proxy.find(request.uri().path())
    {
        return Box::pin(relay(app, cx, peer, &route, request)).await;
    }
    // Where the Admin UI isn't, nothing leads there.
    if site == Site::Proxied || (peer.door == Door::Public && request.uri().path() == "/") {
        return Err(ApiError::new(&codes::NOT_FOUND));
    }
    if let Some(preflight) = app.origins.preflight(&request) {
        return Ok(preflight);
    }
    if let Some(file) = api::pages::find(app, &request) {
        return file;
    }
    let found = app.routes.find(request.method(), request.uri().path());
    if let Ok(found) = &found {
        cx.template = found.route.path;
        // A plugin's route has a meter of its own, which the registry finds.
        cx.meter = (found.route.access != Access::Plugin).then_some(found.meter);
        if found.route.access == Access::Public {
            if !api::health::is_probe(found.route) {
                app.limits.admit(cx.peer, cx.started, &mut cx.standing)?; // 429
                app.limits.charge_address(cx.peer, cx.started, &mut cx.standing);
            }
            return run(app, cx, None, request, found).await;
        }
    } else if !is_guarded(request.uri().path()) {
        return found.and(Err(ApiError::new(&codes::NOT_FOUND)));
    }
    app.limits.admit(cx.peer, cx.started, &mut cx.standing)?; // 429 by address, before any credential is looked at
    let caller = identify(app, cx, request.headers()).await?; // 401, 503; before 404: only the known learn what exists
    app.limits.charge(&caller, cx.started, &mut cx.standing)?; // 429; what is refused from here on has cost a call, too
    let found = found?; // 404, 405
    if let Access::Scope(scope) = found.route.access {
        caller.require(scope).map_err(|refusal| app.auth.step_up(refusal, &caller, scope))?; // 403
    }
    run(app, cx, Some(caller), request, &found).await
}

/// Whether this listener and host name serve proxied pages: not where they would share ours with the Admin UI though
/// they were given their own.
fn proxies(app: &App, door: Door, site: Site) -> bool {
    door != Door::Admin && (site == Site::Proxied || !app.hosts.set_the_proxy_apart())
}

async fn relay(
    app: &App,
    cx: &mut Cx<'_>,
    peer: Peer,
    route: &Arc<proxy::table::Route>,
    mut request: Request<Incoming>,
) -> ApiResult<Reply> {
    cx.template = "(proxy)";
    cx.meter = Some(app.telemetry.requests.proxied(request.method()));
    cx.trace.mark(request.headers_mut());
    let visitor = proxy::Visitor { request_id: cx.request_id, peer: peer.ip, trusted: cx.trusted, client: cx.peer };
    let reply = app.proxy.forward(&visitor, route, request).await?;
    cx.relayed = true;
    Ok(reply)
}

async fn identify(app: &App, cx: &mut Cx<'_>, headers: &HeaderMap) -> ApiResult<SharedCaller> {
    let identified = in_time(app.auth.identify(headers, cx.peer)).await;
    match &identified {
        Ok(caller) => cx.caller = Some(Arc::clone(caller)),
        // That the database is away is no failure of the client's.
        Err(error) if error.status().is_client_error() => {
            app.limits.charge_address(cx.peer, cx.started, &mut cx.standing);
        }
        Err(_) => {}
    }
    identified
}

/// Below these nothing is said to somebody without a credential.
fn is_guarded(path: &str) -> bool {
    path == "/v1/admin" || path.starts_with("/v1/admin/")
}

async fn run(
    app: &Arc<App>,
    cx: &Cx<'_>,
    caller: Option<SharedCaller>,
    request: Request<Incoming>,
    found: &Found<'_>,
) -> ApiResult<Reply> {
    let call = Call::read(cx, caller, request, found).await?; // 400, 413, 415
    let answer = (found.route.handler)(app, call);
    // A plugin's calls, by route or by tool, have deadlines of their own.
    if found.route.access == Access::Plugin || found.route.path.starts_with("/api") {
        return answer.await;
    }
    in_time(answer).await
}

/// The core's own endpoints wait for nothing but the database. One that is stopped, not gone, answers nothing and
/// closes nothing, so a connection alone never shows it.
async fn in_time<T>(work: impl Future<Output = ApiResult<T>>) -> ApiResult<T> {
    match tokio::time::timeout(CORE_ANSWER, work).await {
        Ok(outcome) => outcome,
        Err(_) => {
            Err(ApiError::new(&codes::DATABASE_UNAVAILABLE).cause(anyhow::anyhow!("no answer in {CORE_ANSWER:?}")))
        }
    }
}

/// What is known of a request from its first byte on.
pub struct Cx<'a> {
    app: &'a App,
    pub request_id: RequestId,
    pub trace: Trace,
    pub started: Instant,
    /// The client, behind whatever proxies are trusted.
    pub peer: IpAddr,
    /// The connection comes from a proxy whose headers are believed.
    trusted: bool,
    /// The answer is an upstream's, whose headers are its own.
    relayed: bool,
    pub method: Method,
    pub uri: Uri,
    pub origin: Option<HeaderValue>,
    /// The route's template, for the log and metrics; empty while none is found.
    pub template: &'static str,
    pub caller: Option<SharedCaller>,
    meter: Option<&'static Meter>,
    answered: bool,
    /// Of the limit that the request was counted against.
    pub standing: Option<Standing>,
}

impl<'a> Cx<'a> {
    fn begin(app: &'a App, from: Origin, request: &Request<Incoming>) -> Self {
        app.telemetry.requests.in_flight.up();
        Self {
            app,
            trace: Trace::of(request.headers(), &mut rand::rng()),
            request_id: RequestId::of(request.headers()),
            started: Instant::now(),
            peer: from.client,
            trusted: from.trusted,
            relayed: false,
            method: request.method().clone(),
            uri: request.uri().clone(),
            origin: request.headers().get(header::ORIGIN).cloned(),
            template: "",
            caller: None,
            meter: None,
            answered: false,
            standing: None,
        }
    }

    /// An administrative act that the caller may not do is counted in the audit log.
    fn note_refusal(&self, outcome: &ApiResult<Reply>) {
        let (Some(caller), Some(code)) = (&self.caller, audit::is_refusal(outcome)) else { return };
        let Some(act) = Act::of_route(&self.method, self.template) else { return };
        let target = router::object_of(self.template, self.uri.path());
        self.app.audit.refused(caller, self.peer, self.request_id.to_string(), act, target, code);
    }

    /// The only place that makes a failure body; one log line per request.
    fn finish(mut self, outcome: ApiResult<Reply>, spent: Spent) -> Response<Body> {
        self.answered = true;
        let app = self.app;
        let request_id = self.request_id;
        let id = request_id.as_str();
        let (code, cause, mut response) = match outcome {
            Ok(response) => (None, None, response),
            Err(error) => {
                let (code, cause) = (error.code().to_owned(), error.cause_text());
                (Some(code), cause, error.into_response(&app.base_url, id))
            }
        };
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
        if let Some(standing) = &self.standing {
            standing.write(headers);
        }
        self.tell(response.status().as_u16(), code.as_deref(), cause.as_deref(), &spent);
        response
    }

    /// Counts the request and writes its line.
    fn tell(&self, status: u16, code: Option<&str>, cause: Option<&str>, spent: &Spent) {
        let took = self.started.elapsed();
        let requests = &self.app.telemetry.requests;
        let meter = spent.meter.or(self.meter).unwrap_or_else(|| match self.template {
            "" => requests.unmatched(&self.method),
            template => requests.route(&self.method, template),
        });
        meter.observe(status, took, spent);
        self.app.log.access(&AccessLine {
            request_id: self.request_id.as_str(),
            trace: &self.trace,
            peer: self.peer,
            method: self.method.as_str(),
            path: &path::for_log(self.uri.path()),
            route: if meter.is_of_a_route() { &meter.route } else { "" },
            status,
            took,
            spent,
            user: self.caller.as_ref().map(|caller| caller.username.as_str()),
            key_id: self.caller.as_ref().and_then(|caller| caller.key.as_ref()).map(|(id, _)| *id),
            code,
            cause,
            is_probe: api::is_probe(self.template),
        });
    }
}

/// What the log calls the outcome when the client has gone away before there was one, as nginx does.
const CLIENT_CLOSED: u16 = 499;

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
            self.tell(status, Some(code), None, &Spent::default());
        }
    }
}

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
    pub stream: Option<Incoming>,
}

impl Call {
    async fn read(
        cx: &Cx<'_>,
        caller: Option<SharedCaller>,
        request: Request<Incoming>,
        found: &Found<'_>,
    ) -> ApiResult<Self> {
        let (parts, incoming) = request.into_parts();
        let (bytes, stream) = match found.route.reads {
            Reads::Nothing => (Bytes::new(), Some(incoming)),
            Reads::Json(limit) => {
                media(&parts, &["application/json"], true)?;
                (body::read(incoming, limit).await?, None)
            }
            Reads::MergePatch(limit) => {
                media(&parts, &["application/merge-patch+json", "application/json"], false)?;
                (body::read(incoming, limit).await?, None)
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
        input::json(&self.body)
    }

    /// The query, strictly.
    pub fn query<T: DeserializeOwned>(&self) -> ApiResult<T> {
        input::query(self.uri.query())
    }

    /// Refuses any query parameter.
    pub fn no_query(&self) -> ApiResult<()> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}
        self.query::<Nothing>().map(|_| ())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, C, F>(_: impl Fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// hyper moves the future of each request once as a whole; what is rarely needed is boxed to keep it small.
    #[test]
    fn the_future_of_a_request_is_small() {
        let size = size_of_future(serve);
        assert!(size <= 3_072, "{size} bytes");
    }
}
