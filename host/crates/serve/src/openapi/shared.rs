//! What many routes have in common: problem documents, headers, how one logs in.

use serde_json::{Map, Value, json};

use cardinal_base::codes::{self, Code};

pub(super) const ABOUT: &str = "The admin API of a Cardinal host, and the routes of the plugins that it serves and that the \
caller may read.\n\nEvery call carries `Authorization: Bearer <credential>`: an API key (`mpk_...`), the token of a login, or \
a JWT of the identity provider. `x-required-scope` names the scope that a call needs. Every failure is a problem document \
(RFC 9457) with a stable `code`, explained at its `type`. Unknown query parameters and unknown JSON members are refused. \
HEAD works where GET does.";

/// Members of every problem document.
pub(super) fn schemas() -> Map<String, Value> {
    let problem = json!({
        "type": "object",
        "description": "A problem document (RFC 9457).",
        "required": ["type", "title", "status", "detail", "code", "request_id"],
        "properties": {
            "type": {"type": "string", "format": "uri", "description": "A page that explains the code."},
            "title": {"type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"type": "string", "description": "Plain words for people."},
            "code": {"type": "string", "pattern": "^[a-z0-9-]+$", "description": "Stable; what programs compare with."},
            "request_id": {"type": "string", "description": "Under which the host's log has more."},
            "errors": {
                "type": "array",
                "description": "On 422: each field that is wrong.",
                "items": {
                    "type": "object",
                    "required": ["pointer", "detail"],
                    "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
                },
            },
            "required_scope": {"type": "string", "description": "On 403 `insufficient-scope`."},
            "current_version": {"type": "integer", "description": "On 412."},
        },
    });
    Map::from_iter([("Problem".to_owned(), problem)])
}

/// One response for each status that the host fails with.
pub(super) fn responses(base_url: &str) -> Value {
    let mut responses = Map::new();
    let mut statuses: Vec<u16> = codes::ALL.iter().map(|code| code.status).collect();
    statuses.sort_unstable();
    statuses.dedup();
    for status in statuses {
        let of_it: Vec<&Code> = codes::ALL.iter().copied().filter(|code| code.status == status).collect();
        let mut response = problem(status, &of_it);
        let lines = of_it.iter().map(|code| format!("* [`{0}`]({base_url}/problems/{0}): {1}", code.name, code.title));
        response["description"] = lines.collect::<Vec<_>>().join("\n").into();
        responses.insert(name(status), response);
    }
    let mut of_a_plugin = problem(0, &[]);
    of_a_plugin["description"] = "A failure of the plugin, or of the host around it.".into();
    of_a_plugin["content"] = json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}});
    responses.insert("PluginProblem".to_owned(), of_a_plugin);
    Value::Object(responses)
}

fn name(status: u16) -> String {
    format!("Problem{status}")
}

/// A pointer to the shared response.
pub(super) fn response(status: u16) -> Value {
    if codes::ALL.iter().any(|code| code.status == status) {
        json!({"$ref": format!("#/components/responses/{}", name(status))})
    } else {
        problem(status, &[])
    }
}

/// A response with these codes alone.
pub(super) fn refusal(status: u16, codes: &[&Code]) -> Value {
    let mut response = problem(status, codes);
    let lines = codes.iter().map(|code| format!("`{}`: {}", code.name, code.title));
    response["description"] = lines.collect::<Vec<_>>().join("; ").into();
    response
}

fn problem(status: u16, codes: &[&Code]) -> Value {
    let mut headers = Map::from_iter([("X-Request-Id".to_owned(), header("X-Request-Id"))]);
    match status {
        401 => drop(headers.insert("WWW-Authenticate".to_owned(), header("WWW-Authenticate"))),
        429 | 503 => drop(headers.insert("Retry-After".to_owned(), header("Retry-After"))),
        _ => {}
    }
    let mut members = json!({"status": {"const": status}});
    if !codes.is_empty() {
        members["code"] = json!({"enum": codes.iter().map(|code| code.name).collect::<Vec<_>>()});
    }
    let schema = json!({"allOf": [{"$ref": "#/components/schemas/Problem"}, {"properties": members}]});
    json!({"description": "A failure.", "headers": headers, "content": {"application/problem+json": {"schema": schema}}})
}

pub(super) fn headers() -> Value {
    let header = |description: &str, schema: Value| json!({"description": description, "schema": schema});
    let text = || json!({"type": "string"});
    json!({
        "X-Request-Id": header("The request's id, in the host's log, too.", json!({"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"})),
        "RateLimit": header("What is left: `\"key\";r=<calls>;t=<seconds until all is there again>`.", text()),
        "RateLimit-Policy": header("The limit that the call was counted against.", text()),
        "Retry-After": header("Seconds to wait.", json!({"type": "integer", "minimum": 0})),
        "WWW-Authenticate": header("How to get in (RFC 6750).", text()),
        "Location": header("Where the new thing is.", json!({"type": "string", "format": "uri-reference"})),
        "ETag": header("Names this version, for `If-Match` and `If-None-Match`: `\"5\"`, compressed `\"5+zstd\"`, which both take alike.", text()),
    })
}

/// A pointer to a shared header.
pub(super) fn header(name: &str) -> Value {
    json!({"$ref": format!("#/components/headers/{name}")})
}

pub(super) fn on_every_reply(limited: bool) -> Vec<(&'static str, Value)> {
    let limits: &[&str] = if limited { &["RateLimit", "RateLimit-Policy"] } else { &[] };
    let names = [&["X-Request-Id"], limits].concat();
    names.into_iter().map(|name| (name, header(name))).collect()
}

pub(super) fn security() -> Value {
    json!({"bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, the token of `POST /v1/admin/auth/login`, or a JWT of the identity provider.",
    }})
}
