//! The HTTP proxy: what is none of our own paths goes to the upstream whose prefix covers it. Bodies are streamed both
//! ways; what crosses and what does not is said in `headers.rs`.

pub(crate) mod body;
pub(crate) mod headers;
pub(crate) mod stored;
pub(crate) mod table;
mod tunnel;
mod upstream;

use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header, request::Parts};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use uuid::Uuid;

use self::{
    body::{Download, Progress, Upload},
    headers::Forwarding,
    table::{Route, Table},
    tunnel::Tunnels,
    upstream::Client,
};
use crate::http::error::{ApiError, ApiResult};
use crate::http::{body::Body, path, reply::Reply, request_body::RequestBody};
use cardinal_base::{
    codes,
    config::{self, ProxyRoute},
    request_id::RequestId,
};

const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// The proxy of one host.
pub struct Proxy {
    table: ArcSwap<Table>,
    client: Client,
    timeout: Duration,
    idle: Duration,
    via: HeaderValue,
    /// Proxied pages are on the Admin UI's origin.
    shares_origin: bool,
    tunnels: Tunnels,
}

/// Where a request for an upstream comes from.
pub struct Visitor {
    pub request_id: RequestId,
    pub peer: IpAddr,
    pub trusted: bool,
    pub client: IpAddr,
    /// By which it came here: `http` or `https`.
    pub scheme: &'static str,
}

impl Proxy {
    pub fn new(config: &config::Proxy, host_id: Uuid, shares_origin: bool) -> anyhow::Result<Self> {
        let proxy = Self {
            table: ArcSwap::default(),
            client: Client::new(),
            timeout: config.timeout,
            idle: config.idle,
            // Only of this host, so that a request that comes back is known.
            via: HeaderValue::try_from(format!("1.1 cardinal-{}", host_id.simple()))?,
            shares_origin,
            tunnels: Tunnels::default(),
        };
        proxy.set_routes(&config.routes)?;
        Ok(proxy)
    }

    /// Replaces all routes at once; those that stay the same keep their counters.
    pub(crate) fn set_routes(&self, routes: &[ProxyRoute]) -> anyhow::Result<()> {
        let before = self.table.load();
        let known = |route: &ProxyRoute| before.routes().iter().find(|known| known.settings == *route).cloned();
        let routes = routes.iter().map(|route| match known(route) {
            Some(route) => Ok(route),
            None => Route::new(route.clone()).map(Arc::new),
        });
        self.table.store(Arc::new(Table::new(routes.collect::<anyhow::Result<_>>()?)));
        Ok(())
    }

    /// The routes in force with their counters, the longest prefix first.
    pub fn routes(&self) -> Arc<Table> {
        self.table.load_full()
    }

    pub(crate) fn open_tunnels(&self) -> usize {
        self.tunnels.open()
    }

    /// The route for a path that is not ours.
    pub fn find(&self, path: &str) -> Option<Arc<Route>> {
        self.table.load().find(path).cloned()
    }

    /// Waits for the upgraded connections, and closes those that are still open at `deadline`.
    pub async fn drain(&self, deadline: Instant) {
        self.tunnels.drain(deadline).await;
    }

    /// Tells the operator where proxied pages and the Admin UI can reach each other.
    pub(crate) fn warn_of_shared_origin(&self) {
        if let Some(warning) = self.shared_origin() {
            let table = self.table.load();
            let prefixes: Vec<&str> = table.routes().iter().map(|route| route.settings.prefix.as_str()).collect();
            tracing::warn!(prefixes = prefixes.join(","), "{warning}");
        }
    }

    /// The warning, where they can.
    pub(crate) fn shared_origin(&self) -> Option<String> {
        let is_so = self.shares_origin && !self.table.load().routes().is_empty();
        is_so.then(|| {
            "proxied pages share the Admin UI's origin: HTML from these routes could act as any logged-in user; set \
             PROXY_HOSTS or ADMIN_LISTEN_ADDR"
                .to_owned()
        })
    }

    /// Sends the request on and brings the answer back. Nothing of either body is gathered.
    pub async fn forward(
        &self,
        visitor: &Visitor,
        route: &Arc<Route>,
        mut request: Request<RequestBody>,
    ) -> ApiResult<Reply> {
        self.admit(&request)?;
        route.counters.requests.fetch_add(1, Ordering::Relaxed);
        let upgrade = self.upgrade(&mut request)?;
        let (parts, body) = request.into_parts();
        let (upload, progress) = self.upload(body);
        let outgoing = self.outgoing(visitor, route, parts, upload, progress.as_ref(), upgrade.as_ref())?;
        let answered = self.answer_in_time(self.client.send(outgoing), progress.as_deref()).await;
        let answer = answered.inspect_err(|error| {
            let counters = &route.counters;
            let failed =
                if error.status() == StatusCode::GATEWAY_TIMEOUT { &counters.timeouts } else { &counters.errors };
            failed.fetch_add(1, Ordering::Relaxed);
        })?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.switch(visitor, route, upgrade, answer);
        }
        Ok(self.hand_back(visitor, route, answer, progress))
    }

    /// What is turned away before an upstream hears of it.
    fn admit(&self, request: &Request<RequestBody>) -> ApiResult<()> {
        let refused = |detail| Err(ApiError::new(&codes::INVALID_REQUEST).detail(detail));
        if matches!(*request.method(), Method::TRACE | Method::CONNECT) {
            return Err(ApiError::new(&codes::METHOD_NOT_ALLOWED).header(header::ALLOW, METHODS));
        }
        if path::climbs(request.uri().path()) {
            return refused("The path has `..` segments; send it resolved.");
        }
        // hyper takes others that end in chunked; taken off here, they would be lost to the upstream.
        let mut encodings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
        let chunked = encodings.next().is_none_or(|value| value.as_bytes().eq_ignore_ascii_case(b"chunked"));
        if !chunked || encodings.next().is_some() {
            return refused("The only supported transfer coding is chunked.");
        }
        if headers::wants_service_worker(request.headers()) {
            return Err(ApiError::new(&codes::FORBIDDEN).detail("Service workers are not served through this proxy."));
        }
        let back =
            request.headers().get_all(header::VIA).iter().any(|via| contains(via.as_bytes(), self.via.as_bytes()));
        if back {
            return Err(ApiError::new(&codes::UPSTREAM_ERROR).detail("This route leads back to this host."));
        }
        Ok(())
    }

    /// What is needed to change protocols, when the client asks for it and may have it.
    fn upgrade(&self, request: &mut Request<RequestBody>) -> ApiResult<Option<Upgrade>> {
        let protocol = headers::upgrade(request.headers());
        // A body would stand between the head and the new protocol; no client sends one.
        let Some(protocol) = protocol.filter(|_| request.body().is_end_stream()) else { return Ok(None) };
        Ok(Some(Upgrade { protocol, place: self.tunnels.place()?, client: hyper::upgrade::on(request) }))
    }

    fn upload(&self, body: RequestBody) -> (Upload, Option<Arc<Progress>>) {
        let progress = (!body.is_end_stream()).then(|| Progress::new(body.waits_to_be_asked()));
        (Upload::new(body, progress.clone(), self.idle), progress)
    }

    /// The request as the upstream gets it. The client's header map is changed, not copied.
    fn outgoing(
        &self,
        visitor: &Visitor,
        route: &Route,
        mut parts: Parts,
        upload: Upload,
        progress: Option<&Arc<Progress>>,
        upgrade: Option<&Upgrade>,
    ) -> ApiResult<Request<Upload>> {
        if let Some(authority) = parts.uri.authority() {
            let host = HeaderValue::from_str(authority.as_str()).map_err(ApiError::internal)?;
            parts.headers.insert(header::HOST, host);
        }
        parts.uri = route.target(&parts.uri).map_err(ApiError::internal)?;
        let http_1_1 = parts.version == Version::HTTP_11;
        parts.version = Version::HTTP_11;
        parts.extensions = http::Extensions::new();
        headers::forward(
            &mut parts.headers,
            &Forwarding {
                request_id: &visitor.request_id,
                peer: visitor.peer,
                trusted: visitor.trusted,
                client: visitor.client,
                scheme: visitor.scheme,
                via: &self.via,
                route,
            },
        );
        frame(&mut parts, &upload, progress.is_some() && http_1_1);
        if let Some(upgrade) = upgrade {
            parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            parts.headers.insert(header::UPGRADE, upgrade.protocol.clone());
        }
        let expects = parts.headers.contains_key(header::EXPECT);
        let mut request = Request::from_parts(parts, upload);
        if let Some(progress) = progress.filter(|_| expects).cloned() {
            hyper::ext::on_informational(&mut request, move |answer| {
                if answer.status() == StatusCode::CONTINUE {
                    progress.go_on();
                }
            });
        }
        Ok(request)
    }

    /// The head of the answer. The time runs while the upstream has everything there is to have so far, not while the
    /// client is still sending.
    async fn answer_in_time(
        &self,
        answer: impl Future<Output = Result<Response<Incoming>, hyper_util::client::legacy::Error>>,
        progress: Option<&Progress>,
    ) -> ApiResult<Response<Incoming>> {
        let mut answer = std::pin::pin!(answer);
        let mut wait = self.timeout;
        loop {
            match tokio::time::timeout(wait, answer.as_mut()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => return Err(failure(error, progress)),
                Err(_) => {}
            }
            let idle = progress.map_or(self.timeout, Progress::upstream_idle);
            wait = self.timeout.saturating_sub(idle);
            if wait.is_zero() {
                let cause = anyhow::anyhow!("no answer in {:?}", self.timeout);
                return Err(ApiError::new(&codes::UPSTREAM_TIMEOUT).cause(cause));
            }
        }
    }

    fn hand_back(
        &self,
        visitor: &Visitor,
        route: &Arc<Route>,
        answer: Response<Incoming>,
        progress: Option<Arc<Progress>>,
    ) -> Reply {
        let (mut parts, body) = answer.into_parts();
        parts.version = Version::HTTP_11;
        headers::hand_back(&mut parts.headers, route);
        if self.shares_origin && headers::is_html(&parts.headers) && !route.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                prefix = route.settings.prefix,
                "this proxy route answers HTML on the Admin UI's origin: its scripts could act as any logged-in \
                 user; set PROXY_HOSTS or ADMIN_LISTEN_ADDR"
            );
        }
        if body.is_end_stream() {
            // Not an empty stream: the answer to HEAD and 304 tell the length of a body that isn't there.
            return Response::from_parts(parts, Body::empty());
        }
        let body = Download::new(body, self.idle, progress, Arc::clone(route), visitor.request_id);
        Response::from_parts(parts, Body::stream(body))
    }

    /// The upstream has changed its protocol: so does the client's connection.
    fn switch(
        &self,
        visitor: &Visitor,
        route: &Route,
        upgrade: Option<Upgrade>,
        mut answer: Response<Incoming>,
    ) -> ApiResult<Reply> {
        let protocol = answer.headers().get(header::UPGRADE).cloned();
        let requested = upgrade.zip(protocol).filter(|(upgrade, protocol)| upgrade.allows(protocol));
        let Some((upgrade, protocol)) = requested else {
            route.counters.errors.fetch_add(1, Ordering::Relaxed);
            let cause = anyhow::anyhow!("the upstream switched to a protocol that was not requested");
            return Err(ApiError::new(&codes::UPSTREAM_ERROR).cause(cause));
        };
        route.counters.tunnels.fetch_add(1, Ordering::Relaxed);
        let upstream = hyper::upgrade::on(&mut answer);
        self.tunnels.carry(upgrade.client, upstream, self.idle, upgrade.place, visitor.request_id);
        let (mut parts, _) = answer.into_parts();
        parts.version = Version::HTTP_11;
        headers::hand_back(&mut parts.headers, route);
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(header::UPGRADE, protocol);
        Ok(Response::from_parts(parts, Body::empty()))
    }
}

/// A change of protocol that the client asked for.
struct Upgrade {
    protocol: HeaderValue,
    place: tunnel::TunnelPermit,
    client: OnUpgrade,
}

impl Upgrade {
    fn allows(&self, chosen: &HeaderValue) -> bool {
        let (Ok(requested), Ok(chosen)) = (self.protocol.to_str(), chosen.to_str()) else { return false };
        requested.split(',').any(|protocol| protocol.trim().eq_ignore_ascii_case(chosen.trim()))
    }
}

/// Says anew how long the body is, from what was really read: never what the client's headers said beside it.
fn frame(parts: &mut Parts, upload: &Upload, may_expect: bool) {
    use http_body::Body as _;
    let said_empty = parts.headers.remove(header::CONTENT_LENGTH).is_some() && upload.is_end_stream();
    if let Some(length) = upload.size_hint().exact().filter(|length| *length > 0 || said_empty) {
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    } else if !upload.is_end_stream() {
        // Without it hyper sends a GET without its body.
        parts.headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if !may_expect {
        parts.headers.remove(header::EXPECT);
    }
}

/// Why there is no answer: the client's doing or the upstream's.
fn failure(error: hyper_util::client::legacy::Error, progress: Option<&Progress>) -> ApiError {
    let is = |flag: &std::sync::atomic::AtomicBool| flag.load(Ordering::Acquire);
    match progress {
        Some(progress) if is(&progress.client_silent) => ApiError::new(&codes::REQUEST_TIMEOUT),
        Some(progress) if is(&progress.client_failed) => {
            ApiError::new(&codes::INVALID_REQUEST).detail("The body ended before it was complete.")
        }
        _ => upstream::failure(error),
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
