//! What is looked at before anybody is asked who they are, and what leaves the walk there.

use std::sync::Arc;

use http::Request;

use super::{ListenerRole, Peer};
use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::App,
    http::{
        forwarded::{self, Origin},
        host::Site,
        path,
        reply::Reply,
        request_body::RequestBody,
    },
    pages,
    proxy::table,
};
use cardinal_base::{codes, config::own_paths::is_own};

/// Who sends it, behind whatever proxies are trusted.
pub(super) fn origin(app: &App, peer: Peer, request: &Request<RequestBody>) -> Origin {
    if let ListenerRole::Local { .. } = peer.listener_role {
        // No proxy stands before it, whatever the headers say.
        return Origin { client: peer.ip, trusted: false };
    }
    let origin = forwarded::origin(peer.ip, request.headers(), &app.config.http.trusted_proxies);
    if !origin.trusted {
        app.undeclared_proxies.note(peer.ip, request.headers());
    }
    origin
}

/// Refuses what no route is for: another spelling of a path, another's host name, and what a reserved place or a
/// listener does not serve.
pub(super) fn admit(app: &App, peer: Peer, request: &Request<RequestBody>) -> ApiResult<Site> {
    path::check(request.uri())?;
    let path = request.uri().path();
    if let Some(full) = peer.full
        && !app.routes.is_exempt(path)
    {
        return Err(full.refusal());
    }
    if peer.listener_role == ListenerRole::InClear && !app.routes.is_exempt(path) {
        let detail = "This port speaks HTTPS: ask the same address with https:// in place of http://.";
        return Err(ApiError::new(&codes::INVALID_REQUEST).detail(detail));
    }
    if peer.listener_role == ListenerRole::Public && path::is_private(path) {
        return Err(ApiError::new(&codes::NOT_FOUND));
    }
    app.hosts.check(request)
}

/// The proxy's route for a path that is not ours.
pub(super) fn proxied(
    app: &App,
    peer: Peer,
    site: Site,
    request: &Request<RequestBody>,
) -> ApiResult<Option<Arc<table::Route>>> {
    let path = request.uri().path();
    if !is_own(path)
        && proxies(app, peer.listener_role, site)
        && let Some(route) = app.proxy.find(path)
    {
        return Ok(Some(route));
    }
    // Where the Admin UI isn't, nothing leads there.
    if site == Site::Proxied || (peer.listener_role == ListenerRole::Public && path == "/") {
        return Err(ApiError::new(&codes::NOT_FOUND));
    }
    Ok(None)
}

/// What needs no credential and no row of the table.
pub(super) fn open_to_all(app: &App, request: &Request<RequestBody>) -> Option<ApiResult<Reply>> {
    app.origins.preflight(request).map(Ok).or_else(|| pages::find(&app.plugins, request))
}

/// Whether this listener and host name serve proxied pages: not where they would share ours with the Admin UI though
/// they were given their own.
fn proxies(app: &App, listener_role: ListenerRole, site: Site) -> bool {
    !matches!(listener_role, ListenerRole::Admin | ListenerRole::Local { .. })
        && (site == Site::Proxied || !app.hosts.set_the_proxy_apart())
}
