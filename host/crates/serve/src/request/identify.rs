//! Who calls.

use std::{pin::pin, sync::Arc};

use http::{HeaderMap, HeaderValue, Request, header};

use super::{Cx, ListenerRole, Peer, deadline::in_time};
use crate::http::error::ApiResult;
use crate::{
    app::App,
    http::request_body::RequestBody,
    router::{Access, AddressLimit, Place},
};
use cardinal_identity::auth::caller::SharedCaller;

/// The caller, whose call is charged; `None` where everybody may come in, or nothing is.
pub(super) async fn caller<'a>(
    app: &Arc<App>,
    cx: &mut Cx<'a>,
    peer: Peer,
    request: &Request<RequestBody>,
    place: &ApiResult<Place<'a, App>>,
) -> ApiResult<Option<SharedCaller>> {
    match place {
        Ok(Place::Core(core)) => cx.set_row(core.row(request.method())),
        Ok(Place::Plugin(template)) => cx.template = template,
        Err(_) => {}
    }
    if let Some(route) = cx.route.filter(|route| route.access == Access::Public) {
        charge_address(app, cx, route.address_limit)?; // 429
        return Ok(None);
    }
    if cx.template.is_empty() && !is_guarded(request.uri().path()) {
        return Ok(None); // 404 or 405 for everybody
    }
    let caller = identify(app, cx, peer, request.headers()).await?; // 401, 503
    app.limits.charge(&caller.allowances, cx.started, &mut cx.rate_state)?; // 429; what is refused from here on has cost a call, too
    Ok(Some(caller))
}

fn charge_address(app: &App, cx: &mut Cx<'_>, limit: AddressLimit) -> ApiResult<()> {
    if limit == AddressLimit::Exempt {
        return Ok(());
    }
    if limit == AddressLimit::Refuses {
        app.limits.admit(cx.peer, cx.started, &mut cx.rate_state)?;
    }
    app.limits.charge_address(cx.peer, cx.started, &mut cx.rate_state);
    Ok(())
}

async fn identify(app: &App, cx: &mut Cx<'_>, peer: Peer, headers: &HeaderMap) -> ApiResult<SharedCaller> {
    if let ListenerRole::Local { uid } = peer.listener_role
        && !headers.contains_key(header::AUTHORIZATION)
    {
        let caller = in_time(app, Box::pin(app.auth.local(uid))).await?; // rare, and large
        cx.caller = Some(Arc::clone(&caller));
        return Ok(caller);
    }
    app.limits.admit(cx.peer, cx.started, &mut cx.rate_state)?; // 429 by address, before any credential is looked at
    let authorization = headers.get_all(header::AUTHORIZATION).iter().map(HeaderValue::as_bytes);
    let identified = in_time(app, pin!(app.auth.identify(authorization, cx.peer))).await;
    match &identified {
        Ok(caller) => cx.caller = Some(Arc::clone(caller)),
        // That the database is away is no failure of the client's.
        Err(error) if error.status().is_client_error() => {
            app.limits.charge_address(cx.peer, cx.started, &mut cx.rate_state);
        }
        Err(_) => {}
    }
    identified
}

/// Below these nothing is said to somebody without a credential.
fn is_guarded(path: &str) -> bool {
    path == "/v1/admin" || path.starts_with("/v1/admin/")
}
