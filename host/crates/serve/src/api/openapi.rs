//! `/v1/admin/openapi.json`: this API in OpenAPI 3.1, the routes of plugins that the caller may read included.
//!
//! Made once for each set of plugins and set of eyes, then sent as it is.

use std::{
    collections::HashMap,
    io::Write as _,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::App,
    http::{
        assets,
        body::Body,
        reply::{self, Reply},
    },
    openapi::{Document, Entry, Facts, Foreign, PluginOperation},
    request::Call,
    route,
    router::{Access, Reads, Route},
};
use cardinal_base::{coding::Coding, hex::hex};
use cardinal_plugin_host::active::Active;

/// Documents that are kept: callers differ by the plugins that they may read.
const KEPT: usize = 32;

pub fn routes() -> Vec<Route> {
    vec![route!(GET "/v1/admin/openapi.json", Access::Authenticated, Reads::Nothing, show).describe(|op| {
        op.named("getOpenApi", "system", "This description")
            .notes("With the routes of the plugins that the caller may read.")
            .replies_as(200, "The document.", "application/json", serde_json::json!({"type": "object"}))
            .unless_known();
    })]
}

/// The documents of this host.
#[derive(Default)]
pub struct Descriptions {
    core: OnceLock<Document>,
    made: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Of the plugins that they describe.
    change: u64,
    by_plugins: HashMap<Vec<String>, Arc<Made>>,
}

/// A document, ready to be sent.
struct Made {
    plain: Bytes,
    gzip: Bytes,
    hash: String,
}

async fn show(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let made = document(app, &call)?;
    let accepted = call.header(header::ACCEPT_ENCODING).unwrap_or_default();
    let zipped = Coding::preferred(accepted, &[Coding::Gzip]).is_some();
    let (bytes, tag) = match zipped {
        true => (&made.gzip, format!("\"{}-gzip\"", made.hash)),
        false => (&made.plain, format!("\"{}\"", made.hash)),
    };
    let known = call.header(header::IF_NONE_MATCH).is_some_and(|tags| assets::names_tag(tags, &tag));
    let mut reply = reply::status(if known { StatusCode::NOT_MODIFIED } else { StatusCode::OK });
    let headers = reply.headers_mut();
    headers.insert(header::ETAG, HeaderValue::try_from(tag).map_err(ApiError::internal)?);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Authorization"));
    if known {
        return Ok(reply);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if zipped {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    *reply.body_mut() = Body::full(bytes.clone());
    Ok(reply)
}

fn document(app: &App, call: &Call) -> ApiResult<Arc<Made>> {
    let caller = call.caller()?;
    // Before the snapshot: what is published in between is described anew, never kept under a number that is too new.
    let change = *app.plugins.changes().borrow();
    let snapshot = app.plugins.snapshot();
    let readable: Vec<&Arc<Active>> =
        snapshot.active().filter(|plugin| caller.holds(&format!("plugin:{}:read", plugin.manifest.name))).collect();
    let names: Vec<String> = readable.iter().map(|plugin| plugin.manifest.name.clone()).collect();
    let kept = || app.descriptions.made.lock().unwrap_or_else(PoisonError::into_inner);
    {
        let kept = kept();
        if kept.change == change
            && let Some(made) = kept.by_plugins.get(&names)
        {
            return Ok(Arc::clone(made));
        }
    }
    let mut document = app.descriptions.core.get_or_init(|| core(app.routes.routes(), &app.base_url)).clone();
    document.add(&readable.iter().map(|plugin| foreign(plugin)).collect::<Vec<_>>());
    let made = Arc::new(Made::new(document)?);
    let mut kept = kept();
    if kept.change != change || kept.by_plugins.len() >= KEPT {
        kept.change = change;
        kept.by_plugins.clear();
    }
    kept.by_plugins.insert(names, Arc::clone(&made));
    Ok(made)
}

impl Made {
    fn new(document: Document) -> ApiResult<Self> {
        let plain = serde_json::to_vec(&document.into_value()).map_err(ApiError::internal)?;
        let mut zip = GzEncoder::new(Vec::new(), Compression::default());
        zip.write_all(&plain).map_err(ApiError::internal)?;
        let gzip = zip.finish().map_err(ApiError::internal)?;
        let hash = hex(&Sha256::digest(&plain)[..16]);
        Ok(Self { plain: plain.into(), gzip: gzip.into(), hash })
    }
}

fn core(routes: &[Route], base_url: &str) -> Document {
    let rows = routes.iter().filter_map(|route| Some((facts(route)?, route.told?)));
    Document::new(base_url, env!("CARGO_PKG_VERSION"), rows)
}

/// `None`: the row stands for what plugins serve.
fn facts(route: &Route) -> Option<Facts> {
    let access = match route.access {
        Access::Public => Entry::Everybody,
        Access::Authenticated => Entry::Known,
        Access::Scope(scope) => Entry::With(scope),
        Access::Plugin => return None,
    };
    let body = match route.reads {
        Reads::Json(limit) => Some((&["application/json"][..], limit)),
        Reads::MergePatch(limit) => Some((&["application/merge-patch+json", "application/json"][..], limit)),
        _ => None,
    };
    Some(Facts { method: route.method.clone(), path: route.path, access, body })
}

fn foreign(plugin: &Active) -> Foreign<'_> {
    let manifest = &plugin.manifest;
    let declared = manifest.backend.as_ref().and_then(|backend| backend.routes.as_deref()).unwrap_or_default();
    let exports = plugin.instance.exports();
    let operations = plugin.routes().into_iter().map(|route| {
        let told = declared.iter().find(|told| told.method == route.method && told.path == route.template);
        PluginOperation {
            method: &route.method,
            path: &route.template,
            handler: exports.iter().find(|export| export.id == route.handler).map_or("", |export| &export.name),
            summary: told.and_then(|told| told.summary.as_deref()),
            scope: &route.scope,
            timeout_ms: u64::try_from(route.timeout.as_millis()).unwrap_or(u64::MAX),
            max_body_bytes: route.max_body,
            request_schema: told.and_then(|told| told.request_schema.as_ref()),
            response_schema: told.and_then(|told| told.response_schema.as_ref()),
        }
    });
    Foreign {
        name: &manifest.name,
        title: manifest.display_title(),
        description: manifest.description.as_deref(),
        prefix: manifest.api_prefix().unwrap_or(&manifest.name),
        operations: operations.collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn described() -> Value {
        core(&crate::api::routes(), "http://host.example").into_value()
    }

    /// A route that nobody can find is half a route.
    #[test]
    fn every_route_of_the_table_is_described() {
        let routes = crate::api::routes();
        let missing: Vec<String> = routes
            .iter()
            .filter(|route| route.access != Access::Plugin && route.told.is_none())
            .map(|route| format!("{} {}", route.method, route.path))
            .collect();
        assert!(
            missing.is_empty(),
            "these routes are not in the API's description:\n  {}\nSay beside each row what it is: \
             route!(...).told(|op| {{ op.named(\"verbNoun\", \"group\", \"One line\").query::<Query>().reads::<Body>().ok::<Reply>(); }}) \
             with types that derive schemars::JsonSchema. All that can be said: host/crates/serve/src/openapi/operation.rs; \
             an example: host/crates/serve/src/api/views.rs; more: \"How a route is described\" in host/README.md",
            missing.join("\n  ")
        );
    }

    #[test]
    fn operations_have_names_of_their_own_and_words() {
        let document = described();
        let mut ids: Vec<&str> = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(!id.is_empty() && !ids.contains(&id), "{method} {path}: the operation id {id:?} is taken");
                let plain =
                    id.chars().all(|c| c.is_ascii_alphanumeric()) && id.starts_with(|c: char| c.is_ascii_lowercase());
                assert!(plain, "{method} {path}: {id} is not written likeThis");
                assert!(!operation["summary"].as_str().unwrap().is_empty(), "{method} {path} has no summary");
                assert_ne!(operation["tags"][0], "", "{method} {path} has no group");
                let good = operation["responses"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .any(|status| status.starts_with(['1', '2', '3']));
                assert!(good, "{method} {path}: what does it answer when all is well?");
                ids.push(id);
            }
        }
    }

    #[test]
    fn every_pointer_of_the_document_leads_somewhere() {
        fn pointers(part: &Value, found: &mut Vec<String>) {
            match part {
                Value::Array(items) => items.iter().for_each(|item| pointers(item, found)),
                Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    members.values().for_each(|value| pointers(value, found));
                }
                _ => {}
            }
        }
        let document = described();
        let mut found = Vec::new();
        pointers(&document, &mut found);
        assert!(found.len() > 100);
        for pointer in found {
            assert!(document.pointer(pointer.trim_start_matches('#')).is_some(), "{pointer}");
        }
    }
}
