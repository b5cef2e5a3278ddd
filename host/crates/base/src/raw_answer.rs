//! A problem document as all that is written to a connection which no HTTP server serves.

use http::StatusCode;
use serde_json::Value;

pub fn problem(status: StatusCode, request_id: &str, problem: &Value) -> Vec<u8> {
    let body = problem.to_string();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\ncache-control: no-store\r\n\
         x-request-id: {request_id}\r\nx-content-type-options: nosniff\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
