//! `/problems/{code}`: what an error code means, for whoever follows a problem's `type`.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use crate::{
    app::App,
    http::{
        codes::{self, Code},
        error::{ApiError, ApiResult},
        reply::{self, Reply},
    },
    request::Call,
    route,
    router::{Access, Reads, Route},
};

pub fn routes() -> Vec<Route> {
    vec![
        route!(GET "/problems", Access::Public, Reads::Nothing, list),
        route!(GET "/problems/{code}", Access::Public, Reads::Nothing, explain),
    ]
}

async fn list(_: &Arc<App>, call: Call) -> ApiResult<Reply> {
    if wants_json(&call) {
        return reply::ok(&json!({"items": codes::ALL.iter().map(|code| describe(code)).collect::<Vec<_>>()}));
    }
    let rows =
        codes::ALL.iter().map(|code| format!("<li><a href=\"/problems/{0}\">{0}</a> {1}</li>", code.name, code.title));
    Ok(page("Problems", &format!("<ul>{}</ul>", rows.collect::<String>())))
}

async fn explain(_: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let code = call.params.get("code").and_then(codes::find).ok_or_else(|| ApiError::not_found("problem"))?;
    if wants_json(&call) {
        return reply::ok(&describe(code));
    }
    let text = code.meaning.replace('&', "&amp;").replace('<', "&lt;");
    Ok(page(code.title, &format!("<p><code>{}</code>, status {}</p><p>{text}</p>", code.name, code.status)))
}

fn wants_json(call: &Call) -> bool {
    call.header(header::ACCEPT).is_some_and(|accept| accept.contains("application/json"))
}

fn describe(code: &Code) -> serde_json::Value {
    json!({"code": code.name, "status": code.status, "title": code.title, "meaning": code.meaning})
}

fn page(title: &str, body: &str) -> Reply {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title><h1>{title}</h1>{body}</html>\n"
    );
    let mut reply = reply::text(StatusCode::OK, "text/html; charset=utf-8", html);
    reply.headers_mut().insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    );
    reply
}
