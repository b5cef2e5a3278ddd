//! What needs no credential and has no row in the table: the Admin UI's files, plugins' frontend
//! files, and the way there.

use http::{HeaderMap, HeaderValue, Method, Request, Response, header};

use crate::http::error::{ApiError, ApiResult};
use crate::http::{
    assets::{self, AssetRequest},
    body::Body,
    reply::{self, Reply},
};
use cardinal_plugin_host::registry::Registry;

const PLUGIN_FILES: &str = "/admin/assets/plugins/";

/// The answer for a page or a file, `None` when the path is none.
pub(crate) fn find<B>(plugins: &Registry, request: &Request<B>) -> Option<ApiResult<Reply>> {
    let path = request.uri().path();
    let is_page = path == "/" || path == "/admin" || path.starts_with("/admin/");
    if !is_page {
        return None;
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Some(Err(ApiError::method_not_allowed([&Method::GET].into_iter())));
    }
    if path == "/" || path == "/admin" {
        return Some(Ok(reply::redirect("/admin/")));
    }
    if let Some(file) = path.strip_prefix(PLUGIN_FILES) {
        return Some(plugin_file(plugins, file, request.headers()));
    }
    let asset_request = AssetRequest::new(path, request.headers());
    let response = assets::serve(
        asset_request.path,
        asset_request.accept_encoding,
        asset_request.if_none_match,
        asset_request.navigation,
    );
    // With a body it says itself what is missing.
    if response.status() == http::StatusCode::NOT_FOUND && response.body().is_empty() {
        return Some(Err(ApiError::not_found("page")));
    }
    Some(Ok(response.map(Body::full)))
}

/// `{name}/{content hash}/{path}`: what was hashed into memory when the plugin was loaded.
fn plugin_file(plugins: &Registry, file: &str, headers: &HeaderMap) -> ApiResult<Reply> {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = file.splitn(3, '/');
    let found = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), Some(hash), Some(path)) => plugins.snapshot().asset(name, hash, path, accepted),
        _ => None,
    };
    let asset = found.ok_or_else(|| ApiError::not_found("file"))?;
    let mut response = Response::new(Body::full(asset.bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    if let Some(coding) = asset.coding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    if asset.varies {
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // An SVG that is opened by itself is a document, on the Admin UI's origin.
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    // A tab that runs apart from the page has an origin that is none.
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    Ok(response)
}
