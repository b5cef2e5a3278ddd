//! Which web pages of other origins may read our answers.
//!
//! The root (`/api`, `/.well-known`) answers any origin: MCP clients in browsers need it, and
//! there is no cookie that a foreign page could ride on. The admin API answers the origin of
//! BASE_URL and those of ADMIN_CORS_ORIGINS. `Access-Control-Allow-Credentials` is never sent.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};

use super::{body::Body, reply};

const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
const ALLOWED: &str = "Authorization, Content-Type, Accept, If-Match, If-None-Match, Last-Event-ID, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, Mcp-Name, X-MCP-Tools, X-MCP-Readonly, X-MCP-Search, X-Request-Id";
const EXPOSED: &str = "WWW-Authenticate, Retry-After, RateLimit, RateLimit-Policy, ETag, Location, X-Request-Id, Mcp-Session-Id, MCP-Protocol-Version";
/// How long a browser may remember a preflight: ten minutes.
const MAX_AGE: &str = "600";

/// The rule that a path falls under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// Any origin.
    Any,
    /// The listed origins.
    Listed,
    /// No headers of ours at all: proxied replies keep their own.
    Untouched,
}

/// The rule for `path`.
pub(crate) fn rule(path: &str) -> Rule {
    let below = |root: &str| path == root || path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
    if below("/v1") {
        Rule::Listed
    } else if below("/api") || below("/.well-known/oauth-protected-resource") {
        Rule::Any
    } else {
        Rule::Untouched
    }
}

/// The origins that the admin API answers.
#[derive(Debug)]
pub struct Origins(Vec<String>);

impl Origins {
    pub fn new(base_url: &str, more: &[String]) -> Self {
        let own = std::iter::once(base_url).chain(more.iter().map(String::as_str));
        Self(own.map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect())
    }

    fn answer(&self, rule: Rule, origin: Option<&HeaderValue>) -> Option<HeaderValue> {
        match rule {
            Rule::Untouched => None,
            Rule::Any => Some(HeaderValue::from_static("*")),
            Rule::Listed => {
                let origin = origin?;
                let text = origin.to_str().ok()?.to_ascii_lowercase();
                self.0.contains(&text).then(|| origin.clone())
            }
        }
    }

    /// The answer to a preflight, which needs no credential; `None` when it isn't one.
    pub fn preflight<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let headers = request.headers();
        let is_preflight = request.method() == Method::OPTIONS
            && headers.contains_key(header::ORIGIN)
            && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let rule = rule(request.uri().path());
        if !is_preflight || rule == Rule::Untouched {
            return None;
        }
        let mut response = reply::no_content();
        let out = response.headers_mut();
        out.insert(header::VARY, HeaderValue::from_static("Origin, Access-Control-Request-Headers"));
        if let Some(origin) = self.answer(rule, headers.get(header::ORIGIN)) {
            out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            out.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
            out.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(headers));
            out.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        }
        Some(response)
    }

    /// Adds the headers to an answer.
    pub(crate) fn decorate(&self, rule: Rule, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        if rule == Rule::Listed {
            headers.append(header::VARY, HeaderValue::from_static("Origin"));
        }
        if origin.is_none() {
            return;
        }
        if let Some(origin) = self.answer(rule, origin) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        }
    }
}

/// MCP clients of the newest revision send `Mcp-Param-*` headers that can't be listed ahead.
fn allowed_headers(request: &HeaderMap) -> HeaderValue {
    let requested = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok());
    let params = requested.into_iter().flat_map(|list| list.split(',')).map(str::trim).filter(|name| {
        name.to_ascii_lowercase().starts_with("mcp-param-") && HeaderName::from_bytes(name.as_bytes()).is_ok()
    });
    let list = params.fold(ALLOWED.to_owned(), |list, name| list + ", " + name);
    HeaderValue::from_str(&list).unwrap_or(HeaderValue::from_static(ALLOWED))
}
