//! The walk of a request: one short way from what came in to what goes out.

mod checks;
mod cx;
mod deadline;
mod identify;
mod plugin_call;
mod read;
mod revocable;
mod span;
mod target;
mod unreadable;

use std::{net::IpAddr, pin::pin, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode};

use self::target::Target;
pub(crate) use self::{cx::Cx, unreadable::answer as unreadable};
use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::App,
    http::{body::Body, reply::Reply, request_body::RequestBody},
    proxy,
    router::AddressLimit,
};
use cardinal_base::codes;
use cardinal_observe::request_timing;

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// The other end of the connection.
    pub ip: IpAddr,
    pub listener_role: ListenerRole,
    /// Set when the connection came in on a reserved place: only probes are answered there.
    pub full: Option<Full>,
}

/// Why a connection has no place of its own: each of these has a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// All connections that its address may have.
    Address,
    /// All connections of the listener.
    Listener,
    /// The host gives no more places: it is about to stop.
    Draining,
}

impl Full {
    fn refusal(self) -> ApiError {
        match self {
            Self::Address => ApiError::new(&codes::RATE_LIMITED)
                .detail("Too many connections from this address have a request in progress.")
                .retry_after(RETRY_CONNECTING),
            Self::Listener => ApiError::new(&codes::OVERLOADED).detail("Too many requests are in progress."),
            Self::Draining => ApiError::new(&codes::DRAINING),
        }
    }
}

/// Seconds after which an address with too many connections may try again.
const RETRY_CONNECTING: u32 = 1;

/// What a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerRole {
    /// Everything.
    Whole,
    /// The public, where the admin API has a listener of its own.
    Public,
    /// The admin API and its like, without proxied pages.
    Admin,
    /// `/metrics` alone, for whoever can reach it.
    Metrics,
    /// A listener that speaks TLS, asked in clear: probes are answered, all else hears where to ask.
    InClear,
    /// The socket in `DATA_DIR`: everything but proxied pages; who it is the system has said, and the token shows that
    /// it is no plugin.
    Local { uid: u32 },
}

/// From request to response. Nothing of the body is read before the caller is known.
pub(crate) async fn serve(app: Arc<App>, peer: Peer, request: Request<RequestBody>) -> Response<Body> {
    let mut cx = Cx::begin(&app, checks::origin(&app, peer, &request), &request);
    let (outcome, timing) = request_timing::account(pin!(answer(&app, &mut cx, peer, request))).await;
    cx.note_refusal(&outcome);
    let held_for = hold(&app, &cx, peer, &outcome);
    let outcome = match held_for {
        Some(RefusalHold(time)) => outcome.map_err(|error| error.sent_after(time)),
        None => outcome,
    };
    let mut answer = cx.finish(outcome, timing);
    if let Some(held_for) = held_for {
        answer.extensions_mut().insert(held_for);
    }
    answer
}

/// How long the connection keeps an answer back before it sends it.
#[derive(Clone, Copy)]
pub(crate) struct RefusalHold(pub Duration);

/// Who asks too often without a valid credential, and at once again, would otherwise take all the time there is.
fn hold(app: &App, cx: &Cx<'_>, peer: Peer, outcome: &ApiResult<Reply>) -> Option<RefusalHold> {
    let Err(error) = outcome else { return None };
    let is_login = cx.route.is_some_and(|route| route.address_limit == AddressLimit::Counts);
    let asks_too_often =
        error.status() == StatusCode::TOO_MANY_REQUESTS || (is_login && error.code() == codes::OVERLOADED.name);
    // A reserved place is too rare to be held.
    if !asks_too_often || cx.caller.is_some() || peer.full.is_some() {
        return None;
    }
    Some(app.limits.hold_refusal(cx.peer)).filter(|time| !time.is_zero()).map(RefusalHold)
}

/// The steps between: each says no, leaves with a reply, or knows more for the next.
async fn answer<'a>(app: &'a Arc<App>, cx: &mut Cx<'a>, peer: Peer, request: Request<RequestBody>) -> ApiResult<Reply> {
    let site = checks::admit(app, peer, &request)?; // 400, 404, 414, 421, 429, 503
    if let Some(route) = checks::proxied(app, peer, site, &request)? {
        return Box::pin(relay(app, cx, peer, &route, request)).await;
    }
    if let Some(reply) = checks::open_to_all(app, &request) {
        return reply; // preflight, the Admin UI's files
    }
    let place = app.routes.find(request.uri().path()); // 404, not said yet: only the known learn what exists
    let caller = identify::caller(app, cx, peer, &request, &place).await?; // 401, 429, 503
    let mut plugin = None;
    let target = Target::find(app, place?, &cx.method, cx.uri.path(), &mut plugin).await?; // 404, 405, 503
    target.authorize(app, caller.as_ref())?; // 401, 403
    let answer = target.run(app, cx, caller, request)?; // 400, 415
    answer.await // 413, and what the handler says
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
    cx.note_proxy_route(&route.settings.prefix);
    cx.trace.inject(request.headers_mut());
    let scheme = if app.config.http.tls.is_some() { "https" } else { "http" };
    let (request_id, trusted, client) = (cx.request_id, cx.trusted, cx.peer);
    let visitor = proxy::Visitor { request_id, peer: peer.ip, trusted, client, scheme };
    let reply = app.proxy.forward(&visitor, route, request).await?;
    cx.relayed = true;
    Ok(reply)
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
