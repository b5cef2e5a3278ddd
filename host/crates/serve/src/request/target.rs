//! What a request is for: a row of the core's table or a route of a plugin. Both are found, refused and called alike.

use std::{
    borrow::Cow,
    sync::{Arc, atomic::Ordering},
};

use futures_util::{TryFutureExt, future::Either};
use http::{Method, Request, header};

use super::{Cx, deadline::in_time, plugin_call::PluginCall, read, revocable};
use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::App,
    call::{Params, Reads},
    http::{path::PLUGIN_ROOT, reply::Reply, request_body::RequestBody},
    router::{self, Access, Place, Route},
};
use cardinal_base::{codes, scope::MCP_USE};
use cardinal_identity::auth::caller::SharedCaller;
use cardinal_observe::request_timing;
use cardinal_plugin_host::{
    active::{Active, RouteEntry},
    call::PathParams,
};

pub(super) enum Target<'a> {
    Core {
        route: &'a Route<App>,
        params: Params,
    },
    Plugin {
        plugin: &'a Active,
        route: &'a RouteEntry,
        params: PathParams<'a>,
        /// Below the plugin's prefix.
        path: &'a str,
    },
}

impl<'a> Target<'a> {
    /// The route for a method and path; 404, 405. `plugin` holds on to the plugin that serves it.
    pub(super) async fn find(
        app: &App,
        place: Place<'a, App>,
        method: &Method,
        path: &'a str,
        plugin: &'a mut Option<Arc<Active>>,
    ) -> ApiResult<Self> {
        match place {
            Place::Core(core) => {
                let row = core.row(method);
                let (route, _) = row.ok_or_else(|| ApiError::method_not_allowed(core.methods()))?;
                Ok(Self::Core { route, params: core.params })
            }
            Place::Plugin(_) => {
                let (prefix, path) = below_root(path);
                let plugin: &Active = plugin.insert(in_service(app, prefix).await?);
                let at = plugin.at(path).ok_or_else(|| ApiError::new(&codes::NOT_FOUND))?;
                let methods = at.routes.iter().map(|route| &route.method);
                let route = router::pick(at.routes, method, |route| &route.method)
                    .ok_or_else(|| ApiError::method_not_allowed(methods))?;
                request_timing::on_route(route.meter);
                Ok(Self::Plugin { plugin, route, params: at.params, path })
            }
        }
    }

    /// 403 for who may not.
    pub(super) fn authorize(&self, app: &App, caller: Option<&SharedCaller>) -> ApiResult<()> {
        let scope = match self {
            Self::Core { route, params } => match route.access {
                Access::Public => return Ok(()),
                Access::Authenticated => None,
                Access::Scope(scope) => Some(Cow::Borrowed(scope)),
                Access::PluginRead => Some(format!("plugin:{}:read", params.get("name").unwrap_or_default()).into()),
            },
            Self::Plugin { route, .. } => Some(Cow::Borrowed(route.scope.as_str())),
        };
        let caller = caller.ok_or_else(|| ApiError::new(&codes::MISSING_TOKEN))?;
        if scope.as_deref() != Some(MCP_USE) {
            caller.require_more_than_mcp()?;
        }
        let Some(scope) = scope else { return Ok(()) };
        Ok(caller.require(&scope).map_err(|refusal| app.auth.step_up(refusal, caller, &scope))?)
    }

    /// Whether it may go on for longer than the core works on a request: a plugin's calls have deadlines of their own,
    /// and so have streams.
    fn lasts(&self) -> bool {
        match self {
            Self::Core { route, .. } => route.reads == Reads::Stream,
            Self::Plugin { .. } => true,
        }
    }

    /// Calls the handler. What lasts ends with its caller's rights. The request is taken apart at once and not in the
    /// future, which would be larger by it.
    pub(super) fn run(
        self,
        app: &'a Arc<App>,
        cx: &'a Cx<'_>,
        caller: Option<SharedCaller>,
        request: Request<RequestBody>,
    ) -> ApiResult<impl Future<Output = ApiResult<Reply>> + Send + use<'a>> {
        let lasts = self.lasts();
        let credential = request.headers().get(header::AUTHORIZATION).filter(|_| lasts).cloned();
        let bound = caller.clone().zip(credential);
        let answer = match self {
            Self::Core { route, params } => {
                let mut call = read::head(cx, caller, request, route, params)?; // 400, 415
                Either::Left(async move {
                    read::body(&mut call, route).await?; // 413
                    let answer = (route.run)(app, call);
                    if lasts { answer.await } else { in_time(app, answer).await }
                })
            }
            Self::Plugin { plugin, route, params, path } => {
                let caller = caller.ok_or_else(|| ApiError::new(&codes::MISSING_TOKEN))?;
                Either::Right(Box::pin(PluginCall { plugin, route, params, path, caller }.run(cx, request)))
            }
        };
        Ok(answer.map_ok(move |reply| match bound {
            Some((caller, credential)) => revocable::bind(&app.auth, &caller, credential, cx.peer, reply),
            None => reply,
        }))
    }
}

async fn in_service(app: &App, prefix: &str) -> ApiResult<Arc<Active>> {
    app.wait_for_plugins(Some(prefix)).await;
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
    let below = path.strip_prefix(PLUGIN_ROOT).unwrap_or_default();
    match below.find('/') {
        Some(slash) => below.split_at(slash),
        None => (below, "/"),
    }
}
