//! `/v1/admin/openapi.json`: this API in OpenAPI 3.1, the routes of plugins that the caller may read included.
//!
//! Made once for each set of plugins and set of eyes, then sent as it is.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    call::{Call, CallHead},
    http::{
        body::Body,
        entity_tag::names_tag,
        reply::{self, Reply},
    },
    openapi::{Document, DocumentBody, Entry, Facts, Foreign, Operation, PluginOperation},
    router::Access,
};
use cardinal_base::coding::Coding;
use cardinal_plugin_host::active::Active;

pub(crate) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/admin/openapi.json", show).authenticated().describe(|op| {
        op.named("getOpenApi", "system", "The API's description")
            .notes("With the routes of the plugins that the caller may read.")
            .replies_as(200, "The document.", "application/json", serde_json::json!({"type": "object"}))
            .unless_known();
    })]
}

async fn show(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let made = document(app, &call)?;
    let accepted = call.header(header::ACCEPT_ENCODING).unwrap_or_default();
    let zipped = Coding::preferred(accepted, &[Coding::Gzip]).is_some();
    let (bytes, tag) = match zipped {
        true => (&made.gzip, format!("\"{}-gzip\"", made.hash)),
        false => (&made.plain, format!("\"{}\"", made.hash)),
    };
    let known = call.header(header::IF_NONE_MATCH).is_some_and(|tags| names_tag(tags, &tag));
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

fn document(app: &App, call: &CallHead) -> ApiResult<Arc<DocumentBody>> {
    let caller = call.caller()?;
    // Before the snapshot: what is published in between is described anew, never kept under a number that is too new.
    let change = *app.plugins.changes().borrow();
    let snapshot = app.plugins.snapshot();
    let readable: Vec<&Arc<Active>> =
        snapshot.active().filter(|plugin| caller.holds(&format!("plugin:{}:read", plugin.manifest.name))).collect();
    let names: Vec<String> = readable.iter().map(|plugin| plugin.manifest.name.clone()).collect();
    app.documents.get(change, names, || {
        let mut document = app.documents.core(|| core(app.routes.routes(), &app.base_url));
        document.add(&readable.iter().map(|plugin| foreign(plugin)).collect::<Vec<_>>());
        document
    })
}

fn core(routes: &[Route], base_url: &str) -> Document {
    let rows = routes.iter().map(|route| (facts(route), |op: &mut Operation<'_>| route.write_description(op)));
    Document::new(base_url, env!("CARGO_PKG_VERSION"), rows)
}

fn facts(route: &Route) -> Facts {
    let access = match route.access {
        Access::Public => Entry::Everybody,
        Access::Authenticated => Entry::Known,
        Access::Scope(scope) => Entry::With(scope),
        Access::PluginRead => Entry::With("plugin:{name}:read"),
    };
    let media_types = route.reads.media_types();
    let body = (!media_types.is_empty()).then_some((media_types, route.body_limit));
    Facts { method: route.method.clone(), path: route.path, access, body }
}

fn foreign(plugin: &Active) -> Foreign<'_> {
    let manifest = &plugin.manifest;
    let declared = manifest.backend.as_ref().and_then(|backend| backend.routes.as_deref()).unwrap_or_default();
    let exports = plugin.instance.exports();
    let operations = plugin.routes().into_iter().map(|route| {
        let declaration = declared
            .iter()
            .find(|declaration| declaration.method == route.method && declaration.path == route.template);
        PluginOperation {
            method: &route.method,
            path: &route.template,
            handler: exports.iter().find(|export| export.id == route.handler).map_or("", |export| &export.name),
            summary: declaration.and_then(|declaration| declaration.summary.as_deref()),
            scope: &route.scope,
            timeout_ms: u64::try_from(route.timeout.as_millis()).unwrap_or(u64::MAX),
            max_body_bytes: route.max_body,
            request_schema: declaration.and_then(|declaration| declaration.request_schema.as_ref()),
            response_schema: declaration.and_then(|declaration| declaration.response_schema.as_ref()),
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
            .filter(|route| !route.is_described())
            .map(|route| format!("{} {}", route.method, route.path))
            .collect();
        assert!(
            missing.is_empty(),
            "these routes are not in the API's description:\n  {}\nSay beside each row what it is: .describe(|op| {{ \
             op.named(\"verbNoun\", \"group\", \"One line\").ok::<Reply>(); }}) with types that derive \
             schemars::JsonSchema. All that can be said: host/crates/serve/src/openapi/operation.rs; an example: \
             host/crates/serve/src/api/views.rs; more: \"How a route is described\" in host/README.md",
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
