//! `/problems/{code}`: what an error code means, for whoever follows a problem's `type`. A page for
//! people, JSON for programs.
//!
//! A manifest has no place for a plugin's own codes, so their page names the plugins of this host
//! that have answered with the code since they were loaded, and their description. A code that
//! nobody has answered with is 404.

use std::sync::{Arc, LazyLock};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    call::{Call, CallHead},
    http::reply::{self, Reply},
};
use cardinal_base::{
    codes::{self, Code},
    input,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/problems", list).public().describe(|op| {
            op.named("listProblems", "problems", "Every error code").ok::<Problems>().replies_as(
                200,
                "",
                "text/html",
                json!({"type": "string"}),
            );
        }),
        Route::get("/problems/{code}", explain).public().describe(|op| {
            op.named("getProblem", "problems", "What an error code means")
                .param("code", "As a problem document names it.", json!({"examples": ["sku-taken"]}))
                .ok::<Explained>()
                .replies_as(200, "", "text/html", json!({"type": "string"}));
        }),
    ]
}

/// What an error code means.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "a description of what `describe` and `plugins_own` put together")]
struct Explained {
    r#type: String,
    code: String,
    /// Null for a plugin's own code.
    status: Option<u16>,
    title: String,
    when: String,
    what_to_do: String,
    /// Who answers with it, when it is not the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    plugins: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "see `Explained`")]
struct Problems {
    items: Vec<Explained>,
}

async fn list(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    if !wants_html(&call) {
        let items = codes::ALL.iter().map(|code| describe(app, code)).collect::<Vec<_>>();
        return negotiated(reply::ok(&json!({"items": items})));
    }
    let row = |code: &&Code| format!("<li><a href=\"/problems/{0}\">{0}</a>: {1}</li>", code.name, escape(code.title));
    negotiated(Ok(page("Problems", &format!("<ul>{}</ul>", codes::ALL.iter().map(row).collect::<String>()))))
}

async fn explain(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let name = call.params.get("code").unwrap_or_default();
    let explained = match codes::find(name) {
        Some(code) => describe(app, code),
        None => plugins_own(app, name).ok_or_else(|| ApiError::not_found("problem"))?,
    };
    if !wants_html(&call) {
        return negotiated(reply::ok(&explained));
    }
    let text = |member: &str| with_code(&escape(explained[member].as_str().unwrap_or_default()));
    let status = explained["status"].as_u64().map(|status| format!(", status {status}")).unwrap_or_default();
    let body = format!(
        "<p><code>{}</code>{status}</p><h2>When this happens</h2><p>{}</p><h2>What to do</h2><p>{}</p><p><a \
         href=\"/problems\">All problems</a></p>",
        text("code"),
        text("when"),
        text("what_to_do"),
    );
    negotiated(Ok(page(explained["title"].as_str().unwrap_or_default(), &body)))
}

fn describe(app: &App, code: &Code) -> Value {
    json!({
        "type": format!("{}/problems/{}", app.base_url, code.name),
        "code": code.name,
        "status": code.status,
        "title": code.title,
        "when": code.when,
        "what_to_do": code.advice,
    })
}

/// A code that is not the host's, when a plugin in service has answered with it.
fn plugins_own(app: &App, name: &str) -> Option<Value> {
    let snapshot = app.plugins.snapshot();
    let speakers: Vec<_> = snapshot.active().filter(|plugin| plugin.guard.own_codes.has(name)).collect();
    let first = speakers.first()?;
    let names: Vec<&str> = speakers.iter().map(|plugin| plugin.manifest.name.as_str()).collect();
    let about = first.manifest.description.as_deref().unwrap_or_default();
    let when = format!("This code comes from the plugin {}, not from the server itself. {about}", names.join(", "));
    Some(json!({
        "type": format!("{}/problems/{name}", app.base_url),
        "code": name,
        "status": null,
        "title": format!("A problem of the plugin {}", names.join(", ")),
        "when": when.trim_end(),
        "what_to_do": "The `detail` of the answer says what was wrong. The plugin's documentation explains the code.",
        "plugins": names,
    }))
}

/// A page goes to who asks for one by name, as browsers do; a program that takes anything gets JSON.
fn wants_html(call: &CallHead) -> bool {
    let accept = call.header(header::ACCEPT).unwrap_or_default();
    let html = input::preference(accept, &["text/html", "application/xhtml+xml"]);
    html > 0.0 && html >= input::preference(accept, &["application/json", "application/problem+json"])
}

/// What the answer depends on, for caches.
fn negotiated(answer: ApiResult<Reply>) -> ApiResult<Reply> {
    let mut reply = answer?;
    reply.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    Ok(reply)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// What stands between backticks is code. Of an odd number the last one stays.
fn with_code(escaped: &str) -> String {
    let mut html = String::new();
    let mut rest = escaped;
    while let Some((before, code, after)) =
        rest.split_once('`').and_then(|(before, rest)| rest.split_once('`').map(|(code, after)| (before, code, after)))
    {
        html += &format!("{before}<code>{code}</code>");
        rest = after;
    }
    html + rest
}

/// Light and dark as the reader's system has it.
const STYLE: &str = ":root{color-scheme:light dark}body{max-width:42rem;margin:0 auto;padding:2rem 1.25rem;\
    font:1rem/1.5 system-ui,sans-serif;overflow-wrap:break-word}h1{font-size:1.5rem;line-height:1.25}\
    h2{margin:1.5rem 0 0;font-size:1rem}p{margin:.25rem 0 1rem}ul{padding:0;list-style:none}li{margin:.5rem 0}\
    code{padding:.125em .3em;border-radius:.25em;background:light-dark(#eceef1,#262b32);font-size:.9em}\
    a{color:light-dark(#0b57a4,#8ab8f5)}";

/// Nothing but this one style, by its hash.
static SECURITY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!("default-src 'none'; style-src 'sha256-{style}'; frame-ancestors 'none'");
    // A hash in base64 is a header's text; without it the page has no style.
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"))
});

fn page(title: &str, body: &str) -> Reply {
    let title = escape(title);
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style><h1>{title}</h1>{body}</html>\n"
    );
    let mut reply = reply::text(StatusCode::OK, "text/html; charset=utf-8", html);
    reply.headers_mut().insert(header::CONTENT_SECURITY_POLICY, SECURITY.clone());
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_backticks_is_code() {
        assert_eq!(with_code("Send `A: <b>`, `c` or d."), "Send <code>A: <b></code>, <code>c</code> or d.");
        assert_eq!(with_code("one ` alone"), "one ` alone");
    }
}
