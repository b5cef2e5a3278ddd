//! The walk of a request: one short way from what came in to what goes out.

mod call;
mod credential;
mod cx;
mod revocable;
mod unreadable;

use std::{net::IpAddr, pin::pin, sync::Arc, time::Duration};

use http::{HeaderMap, Request, Response, StatusCode, header};

pub use self::{
    call::Call,
    credential::{Credential, RECHECK_RIGHTS},
    cx::Cx,
    revocable::WatchesItself,
    unreadable::answer as unreadable,
};
use crate::http::error::{ApiError, ApiResult};
use crate::{
    api,
    app::App,
    http::{
        body::Body,
        forwarded::{self, Origin},
        host::Site,
        path,
        reply::Reply,
        request_body::RequestBody,
    },
    proxy,
    router::{Access, Found, Reads},
};
use cardinal_base::{codes, config::own_paths::is_own};
use cardinal_identity::auth::caller::SharedCaller;
use cardinal_observe::request_timing;

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The other end of the connection.
    pub ip: IpAddr,
    pub door: ListenerRole,
    /// Set when the connection came in on a reserved place: only probes are answered there.
    pub full: Option<Full>,
}

/// Why a connection has no place of its own: each of these has a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// All connections that its address may have.
    Address,
    /// All connections of the listener.
    Listener,
}

impl Full {
    fn refusal(self) -> ApiError {
        match self {
            Self::Address => ApiError::new(&codes::RATE_LIMITED)
                .detail("Too many connections of this address have a request under way.")
                .retry_after(RETRY_CONNECTING),
            Self::Listener => ApiError::new(&codes::OVERLOADED).detail("Too many requests are under way."),
        }
    }
}

/// Seconds after which an address with too many connections may try again.
const RETRY_CONNECTING: u32 = 1;

/// What a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerRole {
    /// Everything.
    Whole,
    /// The public, where the admin API has a listener of its own.
    Public,
    /// The admin API and its like, without proxied pages.
    Admin,
    /// `/metrics` alone, for whoever can reach it.
    Metrics,
    /// The socket in `DATA_DIR`: everything but proxied pages; who it is the system has said, and the token shows that it is no plugin.
    Local { uid: u32 },
}

/// Longer than this no endpoint of the core works on one request.
const CORE_ANSWER: Duration = Duration::from_secs(30);
/// How often a request that takes long looks whether the database answers at all.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// From request to response. Nothing of the body is read before the caller is known.
pub async fn serve(app: Arc<App>, peer: Peer, request: Request<RequestBody>) -> Response<Body> {
    let origin = match peer.door {
        // No proxy stands before it, whatever the headers say.
        ListenerRole::Local { .. } => Origin { client: peer.ip, trusted: false },
        _ => {
            let origin = forwarded::origin(peer.ip, request.headers(), &app.config.http.trusted_proxies);
            if !origin.trusted {
                app.undeclared_proxies.note(peer.ip, request.headers());
            }
            origin
        }
    };
    let mut cx = Cx::begin(&app, origin, &request);
    let (outcome, spent) = request_timing::account(pin!(answer(&app, &mut cx, peer, request))).await;
    cx.note_refusal(&outcome);
    let held_for = hold(&app, &cx, peer, &outcome);
    let outcome = match held_for {
        Some(HeldFor(time)) => outcome.map_err(|error| error.sent_after(time)),
        None => outcome,
    };
    let mut answer = cx.finish(outcome, spent);
    if let Some(held_for) = held_for {
        answer.extensions_mut().insert(held_for);
    }
    answer
}

/// How long the connection keeps an answer back before it sends it.
#[derive(Clone, Copy)]
pub struct HeldFor(pub Duration);

/// Who asks too often without a valid credential, and at once again, would otherwise take all the time there is.
fn hold(app: &App, cx: &Cx<'_>, peer: Peer, outcome: &ApiResult<Reply>) -> Option<HeldFor> {
    let Err(error) = outcome else { return None };
    let is_login = cx.template == api::auth::LOGIN;
    let asks_too_often =
        error.status() == StatusCode::TOO_MANY_REQUESTS || (is_login && error.code() == codes::OVERLOADED.name);
    // A reserved place is too rare to be held.
    if !asks_too_often || cx.caller.is_some() || peer.full.is_some() {
        return None;
    }
    Some(app.limits.hold_refusal(cx.peer)).filter(|time| !time.is_zero()).map(HeldFor)
}

async fn answer(app: &Arc<App>, cx: &mut Cx<'_>, peer: Peer, request: Request<RequestBody>) -> ApiResult<Reply> {
    path::check(request.uri())?;
    if let Some(full) = peer.full
        && !api::health::is_probe(request.uri().path())
    {
        return Err(full.refusal());
    }
    if peer.door == ListenerRole::Public && path::is_private(request.uri().path()) {
        return Err(ApiError::new(&codes::NOT_FOUND));
    }
    let site = app.hosts.check(&request)?;
    if !is_own(request.uri().path())
        && proxies(app, peer.door, site)
        && let Some(route) = app.proxy.find(request.uri().path())
    {
        return Box::pin(relay(app, cx, peer, &route, request)).await;
    }
    // Where the Admin UI isn't, nothing leads there.
    if site == Site::Proxied || (peer.door == ListenerRole::Public && request.uri().path() == "/") {
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
            if !api::health::is_probe(found.route.path) {
                // A login is slowed down by rules of its own (`crates/identity/src/auth/throttle.rs`), which know who comes back.
                if found.route.path != api::auth::LOGIN {
                    app.limits.admit(cx.peer, cx.started, &mut cx.standing)?; // 429
                }
                app.limits.charge_address(cx.peer, cx.started, &mut cx.standing);
            }
            return run(app, cx, None, request, found).await;
        }
    } else if !is_guarded(request.uri().path()) {
        return found.and(Err(ApiError::new(&codes::NOT_FOUND)));
    }
    let caller = identify(app, cx, peer, request.headers()).await?; // 401, 503; before 404: only the known learn what exists
    app.limits.charge(&caller.allowances, cx.started, &mut cx.standing)?; // 429; what is refused from here on has cost a call, too
    let found = found?; // 404, 405
    if !api::mcp::is_endpoint(found.route.path) {
        caller.require_more_than_mcp()?; // 403
    }
    if let Access::Scope(scope) = found.route.access {
        caller.require(scope).map_err(|refusal| app.auth.step_up(refusal, &caller, scope))?; // 403
    }
    let is_bound = found.route.access == Access::Plugin || api::mcp::is_endpoint(found.route.path);
    let credential = request.headers().get(header::AUTHORIZATION).filter(|_| is_bound).cloned();
    let reply = run(app, cx, Some(Arc::clone(&caller)), request, &found).await?;
    Ok(match credential {
        Some(credential) => revocable::bind(app, &caller, credential, cx.peer, reply),
        None => reply,
    })
}

/// Whether this listener and host name serve proxied pages: not where they would share ours with the Admin UI though
/// they were given their own.
fn proxies(app: &App, door: ListenerRole, site: Site) -> bool {
    !matches!(door, ListenerRole::Admin | ListenerRole::Local { .. })
        && (site == Site::Proxied || !app.hosts.set_the_proxy_apart())
}

async fn relay(
    app: &App,
    cx: &mut Cx<'_>,
    peer: Peer,
    route: &Arc<proxy::table::Route>,
    mut request: Request<RequestBody>,
) -> ApiResult<Reply> {
    cx.template = "(proxy)";
    cx.meter = Some(app.telemetry.requests.proxied(request.method()));
    cx.trace.mark(request.headers_mut());
    let visitor = proxy::Visitor { request_id: cx.request_id, peer: peer.ip, trusted: cx.trusted, client: cx.peer };
    let reply = app.proxy.forward(&visitor, route, request).await?;
    cx.relayed = true;
    Ok(reply)
}

async fn identify(app: &App, cx: &mut Cx<'_>, peer: Peer, headers: &HeaderMap) -> ApiResult<SharedCaller> {
    if let ListenerRole::Local { uid } = peer.door
        && !headers.contains_key(header::AUTHORIZATION)
    {
        let caller = in_time(app, Box::pin(app.auth.local(uid))).await?; // rare, and large
        cx.caller = Some(Arc::clone(&caller));
        return Ok(caller);
    }
    app.limits.admit(cx.peer, cx.started, &mut cx.standing)?; // 429 by address, before any credential is looked at
    let identified = in_time(app, app.auth.identify(headers, cx.peer)).await;
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
    request: Request<RequestBody>,
    found: &Found<'_>,
) -> ApiResult<Reply> {
    let call = Call::read(cx, caller, request, found).await?; // 400, 413, 415
    let answer = (found.route.handler)(app, call);
    // A plugin's calls, by route or by tool, have deadlines of their own, and so has a body that streams in.
    let own_deadline = found.route.access == Access::Plugin || found.route.reads == Reads::Stream;
    if own_deadline || api::mcp::is_endpoint(found.route.path) {
        return answer.await;
    }
    in_time(app, answer).await
}

/// The core's own endpoints wait for nothing but the database. One that is stopped, not gone, answers nothing and
/// closes nothing, so a connection alone never shows it.
async fn in_time<T, E: Into<ApiError>>(app: &App, work: impl Future<Output = Result<T, E>>) -> ApiResult<T> {
    let (mut work, mut left) = (pin!(work), CORE_ANSWER);
    loop {
        match tokio::time::timeout(LOOK_EVERY, work.as_mut()).await {
            Ok(outcome) => return outcome.map_err(Into::into),
            Err(_) => left = left.saturating_sub(LOOK_EVERY),
        }
        if left.is_zero() || app.pools.core.is_given_up() {
            let waited = CORE_ANSWER - left;
            let cause = anyhow::anyhow!("the database gave no answer in {waited:?}");
            return Err(ApiError::new(&codes::DATABASE_UNAVAILABLE).cause(cause));
        }
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
