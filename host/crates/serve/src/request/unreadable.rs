//! The answer to what could not be read as a request: no method, no path and no caller are known.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Method};

use super::Peer;
use crate::app::App;
use crate::http::error::ApiError;
use cardinal_base::{codes, raw_answer, request_id::RequestId};
use cardinal_observe::{log::AccessLine, request_timing::RequestTiming, trace::Trace};

/// A problem document with its head, after which the connection is closed. Written to the log and counted like others.
pub(crate) fn answer(app: &Arc<App>, peer: Peer, status: u16) -> Vec<u8> {
    let error = match status {
        414 => ApiError::new(&codes::URI_TOO_LONG),
        431 => ApiError::new(&codes::HEADERS_TOO_LARGE),
        _ => ApiError::new(&codes::INVALID_REQUEST).detail("This is not an HTTP/1.1 request."),
    };
    let nothing = HeaderMap::new();
    let (request_id, trace) = (RequestId::from_headers(&nothing), Trace::from_headers(&nothing, &mut rand::rng()));
    let (status, id) = (error.status(), request_id.as_str());
    let timing = RequestTiming::default();
    app.telemetry.requests.unmatched(&Method::TRACE).observe(
        status.as_u16(),
        Duration::ZERO,
        timing.plugin,
        timing.database,
    );
    app.log.access(&AccessLine {
        request_id: id,
        trace: &trace,
        peer: peer.ip,
        method: "-",
        path: "",
        route: "",
        status: status.as_u16(),
        took: Duration::ZERO,
        timing: &timing,
        user: None,
        key_id: None,
        code: Some(error.code()),
        cause: None,
        is_probe: false,
    });
    raw_answer::problem(status, id, &error.to_problem(&app.base_url, id))
}
