//! `/v1/admin/proxy-routes`: where paths that are not ours go. What `PROXY_ROUTES` says comes first and is read-only;
//! the rest is set here, stored in the database, and reaches every host within seconds.

use std::sync::Arc;

use http::{StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, Json, NoQuery, if_match, names_version, with_etag},
    http::reply::{self, Reply},
};
use cardinal_base::{codes, config::ProxyRoute};
use cardinal_store::proxy_routes::{ProxyRouteRow, ProxyRoutesRecord};

/// Routes that can be set: the table is searched from its beginning for every proxied request.
const MAX_ROUTES: usize = 200;
const TEXT_LIMIT: usize = 2_000;
/// Bytes of all routes together.
const BODY: usize = 512 * 1024;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/proxy-routes", show).scope("proxy:read").describe(|op| {
            op.named("getProxyRoutes", "proxy", "The routes of the HTTP proxy").ok::<Routes>().unless_known();
        }),
        Route::put("/v1/admin/proxy-routes", replace)
            .scope("proxy:write")
            .body_limit(BODY)
            .audits(AuditAction::SetProxyRoutes)
            .describe(|op| {
                op.named("setProxyRoutes", "proxy", "Set the proxy routes beside those of PROXY_ROUTES")
                    .if_match()
                    .ok::<Routes>()
                    .etag();
            }),
    ]
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProxyRoutes")]
struct Routes {
    /// Those of `PROXY_ROUTES` first.
    items: Vec<ProxyRouteView>,
    /// Of the routes that are set here; also in `ETag`.
    version: i64,
    /// What an operator should look at.
    warnings: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProxyRoute")]
struct ProxyRouteView {
    prefix: String,
    upstream: String,
    /// It stands in `PROXY_ROUTES` and is changed there.
    read_only: bool,
    /// `PROXY_ROUTES` of this host has its prefix, too, and that one counts.
    shadowed: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewRoutes {
    /// In the place of all that were set before.
    #[schemars(length(max = 200))]
    items: Vec<NewRoute>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewRoute {
    /// A path such as `/shop`; it covers what is below it.
    #[schemars(length(min = 1, max = 2000))]
    prefix: String,
    /// An http address; a path in it stands in the place of the prefix.
    #[schemars(length(min = 1, max = 2000))]
    upstream: String,
    /// Entries of `PROXY_ROUTES` may be sent back as they were read, and stay what they are.
    #[serde(default)]
    read_only: bool,
    /// As it was read; means nothing here.
    #[serde(default)]
    #[allow(dead_code, reason = "so that what was read can be sent back")]
    shadowed: bool,
}

async fn show(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let stored = app.proxy_routes.read(&app.pools.core, &app.proxy).await?;
    if call.header(header::IF_NONE_MATCH).is_some_and(|tags| names_version(tags, stored.version)) {
        return with_etag(reply::status(StatusCode::NOT_MODIFIED), stored.version);
    }
    shown(app, &stored)
}

async fn replace(app: &Arc<App>, call: Call<NoQuery, Json<NewRoutes>>) -> ApiResult<Reply> {
    let precondition = if_match(&call)?;
    let NewRoutes { items } = call.body()?;
    let lines = checked(items, &app.config.proxy.routes)?;
    let actor = call.caller()?.actor();
    let (before, stored) = app.proxy_routes.replace(&app.pools.core, &app.proxy, lines, &precondition, &actor).await?;
    let detail = json!({"version": stored.version, "before": before.lines, "now": stored.lines});
    app.audit.done(&call, None, Some(detail)).await;
    app.proxy.warn_of_shared_origin();
    shown(app, &stored)
}

fn shown(app: &App, stored: &ProxyRoutesRecord) -> ApiResult<Reply> {
    let settings = &app.config.proxy.routes;
    let fixed = settings.iter().map(|route| ProxyRouteView {
        prefix: route.prefix.clone(),
        upstream: route.upstream().to_string(),
        read_only: true,
        shadowed: false,
    });
    let set = stored.lines.iter().map(|line| ProxyRouteView {
        shadowed: settings.iter().any(|route| route.prefix == line.prefix),
        prefix: line.prefix.clone(),
        upstream: line.upstream.clone(),
        read_only: false,
    });
    let warnings = app.proxy.shared_origin().into_iter().collect();
    let body = Routes { items: fixed.chain(set).collect(), version: stored.version, warnings };
    with_etag(reply::ok(&body)?, stored.version)
}

/// The routes to store, in the spelling that they have in force, or all that is wrong with them.
fn checked(items: Vec<NewRoute>, settings: &[ProxyRoute]) -> ApiResult<Vec<ProxyRouteRow>> {
    if items.len() > MAX_ROUTES + settings.len() {
        return Err(ApiError::invalid("/items", format!("At most {MAX_ROUTES}.")));
    }
    let mut lines: Vec<ProxyRouteRow> = Vec::with_capacity(items.len());
    let mut faults: Vec<(String, String)> = Vec::new();
    for (i, item) in items.into_iter().enumerate() {
        let route = match parsed(&item) {
            Ok(route) => route,
            Err((member, detail)) => {
                faults.push((format!("/items/{i}/{member}"), detail));
                continue;
            }
        };
        let prefix = route.prefix.clone();
        let fixed = settings.iter().find(|known| known.prefix == prefix);
        let fault = match fixed {
            Some(known) if item.read_only && *known == route => continue,
            Some(_) => format!("{prefix:?} is set in PROXY_ROUTES, and can only be changed there."),
            None if item.read_only => format!("{prefix:?} is not set in PROXY_ROUTES."),
            None if lines.iter().any(|line| line.prefix == prefix) => format!("{prefix:?} is listed twice."),
            None => {
                lines.push(ProxyRouteRow { prefix, upstream: route.upstream().to_string() });
                continue;
            }
        };
        faults.push((format!("/items/{i}/prefix"), fault));
    }
    if lines.len() > MAX_ROUTES {
        faults.push(("/items".into(), format!("At most {MAX_ROUTES}.")));
    }
    if faults.is_empty() {
        return Ok(lines);
    }
    let error = ApiError::new(&codes::VALIDATION_FAILED);
    Err(faults.into_iter().fold(error, |error, (pointer, detail)| error.field(pointer, detail)))
}

/// The route as `PROXY_ROUTES` would read it, or the member that is wrong.
fn parsed(item: &NewRoute) -> Result<ProxyRoute, (&'static str, String)> {
    const SOME_UPSTREAM: &str = "http://upstream";
    for (member, text) in [("prefix", &item.prefix), ("upstream", &item.upstream)] {
        if text.len() > TEXT_LIMIT {
            return Err((member, format!("At most {TEXT_LIMIT} bytes.")));
        }
    }
    if let Err(detail) = ProxyRoute::parse(&item.prefix, SOME_UPSTREAM) {
        return Err(("prefix", sentence(&detail)));
    }
    ProxyRoute::parse(&item.prefix, &item.upstream).map_err(|detail| ("upstream", sentence(&detail)))
}

fn sentence(text: &str) -> String {
    format!("{text}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(items: serde_json::Value) -> Result<Vec<String>, Vec<String>> {
        let settings = [ProxyRoute::parse("/fixed", "http://up:1").unwrap()];
        let items: NewRoutes = serde_json::from_value(json!({ "items": items })).unwrap();
        match checked(items.items, &settings) {
            Ok(lines) => Ok(lines.into_iter().map(|line| format!("{}={}", line.prefix, line.upstream)).collect()),
            Err(error) => Err(error.fields().iter().map(|field| field.0.clone()).collect()),
        }
    }

    #[test]
    fn what_was_read_can_be_sent_back() {
        let items = json!([
            {"prefix": "/fixed", "upstream": "http://up:1", "read_only": true, "shadowed": false},
            {"prefix": "/shop/", "upstream": "http://UP:80/base/"},
        ]);
        assert_eq!(check(items).unwrap(), ["/shop=http://up/base"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let items = json!([
            {"prefix": "/fixed", "upstream": "http://up:2"},
            {"prefix": "/v1", "upstream": "http://up"},
            {"prefix": "/a", "upstream": "https://up"},
            {"prefix": "/b", "upstream": "http://up"},
            {"prefix": "/b/", "upstream": "http://up"},
            {"prefix": "/c", "upstream": "http://up", "read_only": true},
        ]);
        let wrong = ["/items/0/prefix", "/items/1/prefix", "/items/2/upstream", "/items/4/prefix", "/items/5/prefix"];
        assert_eq!(check(items).unwrap_err(), wrong);
    }
}
