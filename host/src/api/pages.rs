//! What needs no credential and no table: redirects to the Admin UI.

use std::sync::Arc;

use http::{Method, Request};

use crate::{
    app::App,
    http::{
        error::ApiResult,
        reply::{self, Reply},
    },
};

/// The answer for a page or a file, `None` when the path is none.
pub fn find<B>(_app: &Arc<App>, request: &Request<B>) -> Option<ApiResult<Reply>> {
    let reading = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/" | "/admin" if reading => Some(Ok(reply::redirect("/admin/"))),
        _ => None,
    }
}
