//! A failure as a problem document. What the HTTP parser refuses is made from the same value in
//! `request/unreadable.rs`.

use crate::http::error::ApiError;
use bytes::Bytes;
use http::{HeaderValue, Response, header};

use super::body::Body;

/// A failure as a problem document.
pub(crate) fn respond(error: &ApiError, base_url: &str, request_id: &str) -> Response<Body> {
    let problem = error.to_problem(base_url, request_id);
    let mut response = Response::new(Body::full(Bytes::from(problem.to_string())));
    *response.status_mut() = error.status();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in error.headers() {
        headers.append(name, value.clone());
    }
    response
}
