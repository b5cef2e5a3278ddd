//! What a plugin's reply may say in its header: what describes this one answer. A browser, a cache or a proxy obeys
//! many other names beyond the answer they came with, for the whole origin, so standard names pass by a list and not by
//! their absence from one. New standards do not begin with `x-` any more (RFC 6648): those names are free, but for the
//! ones that somebody is known to obey.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use parking_lot::RwLock;

use cardinal_base::hop_by_hop;

/// The names that pass, beside those of authors' own.
const PASSED: [HeaderName; 20] = [
    header::CONTENT_TYPE,
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
    header::CONTENT_RANGE,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    header::ETAG,
    header::LAST_MODIFIED,
    header::EXPIRES,
    header::VARY,
    header::LOCATION,
    header::RETRY_AFTER,
    header::ALLOW,
    header::ACCEPT_RANGES,
    HeaderName::from_static("deprecation"),
    HeaderName::from_static("sunset"),
    HeaderName::from_static("preference-applied"),
];

/// Beginnings of names that browsers, proxies and content networks obey.
const OBEYED: [&str; 38] = [
    "x-accel",
    "x-akamai",
    "x-amz",
    "x-azure",
    "x-cache",
    "x-cdn",
    "x-content",
    "x-csp",
    "x-dns",
    "x-download",
    "x-edge",
    "x-envoy",
    "x-fastly",
    "x-forwarded",
    "x-frame",
    "x-goog",
    "x-http",
    "x-lighttpd",
    "x-litespeed",
    "x-middleware",
    "x-ms-",
    "x-original",
    "x-permitted",
    "x-pingback",
    "x-proxy",
    "x-real",
    "x-reproxy",
    "x-request",
    "x-rewrite",
    "x-robots",
    "x-send",
    "x-source",
    "x-surrogate",
    "x-ua",
    "x-varnish",
    "x-vercel",
    "x-webkit",
    "x-xss",
];

/// Takes out what a plugin may not say and adds what keeps its replies from acting as pages of ours. Gives the names
/// that were taken out.
pub(super) fn clean(headers: &mut HeaderMap) -> Vec<HeaderName> {
    let mut foreign: Vec<HeaderName> = headers.keys().filter(|name| !passes(name)).cloned().collect();
    if foreign.contains(&header::CONNECTION) {
        foreign.extend(hop_by_hop::nominated(headers));
    }
    for name in &foreign {
        headers.remove(name);
    }
    keep_private(headers);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    // The host knows how long a body is, and says so itself: no plugin needs to hear of that.
    foreign.retain(|name| name != header::CONTENT_LENGTH);
    foreign
}

fn passes(name: &HeaderName) -> bool {
    PASSED.contains(name) || is_free(name.as_str())
}

fn is_free(name: &str) -> bool {
    name.starts_with("x-") && !OBEYED.iter().any(|obeyed| name.starts_with(obeyed))
}

/// Every reply of a plugin answers a caller who has shown a credential: no cache that others share may store it.
fn keep_private(headers: &mut HeaderMap) {
    if !headers.contains_key(header::CACHE_CONTROL) {
        return; // the host says `no-store` itself
    }
    let values = headers.get_all(header::CACHE_CONTROL).iter().map(|value| value.to_str().ok());
    let directives = values.collect::<Option<Vec<_>>>().and_then(|values| made_private(&values.join(",")));
    headers.insert(header::CACHE_CONTROL, directives.unwrap_or(HeaderValue::from_static("no-store")));
}

fn made_private(directives: &str) -> Option<HeaderValue> {
    // A quoted list of header fields has commas in it, and restricts those fields alone.
    if directives.contains('"') {
        return None;
    }
    let named = |directive: &str, name: &str| {
        directive.split('=').next().is_some_and(|found| found.trim().eq_ignore_ascii_case(name))
    };
    let taken_out = |directive: &str| ["", "public", "s-maxage", "private"].iter().any(|name| named(directive, name));
    let kept: Vec<&str> = directives.split(',').map(str::trim).filter(|directive| !taken_out(directive)).collect();
    let is_stored = !kept.iter().any(|directive| named(directive, "no-store"));
    let directives: Vec<&str> = is_stored.then_some("private").into_iter().chain(kept).collect();
    HeaderValue::from_str(&directives.join(", ")).ok()
}

/// The names that were taken out of one plugin's replies, so that each is logged once.
#[derive(Default)]
pub(super) struct DroppedHeaders(RwLock<BTreeSet<String>>);

/// A plugin that makes up names must not fill the memory.
const MAX_DROPPED_NAMES: usize = 32;

impl DroppedHeaders {
    /// Logs the names that were not logged before.
    pub(super) fn note(&self, plugin: &str, names: &[HeaderName]) {
        let is_new = |known: &BTreeSet<String>, name: &HeaderName| {
            known.len() < MAX_DROPPED_NAMES && !known.contains(name.as_str())
        };
        let known = self.0.read();
        if !names.iter().any(|name| is_new(&known, name)) {
            return;
        }
        drop(known);
        let mut known = self.0.write();
        let mut new: Vec<&str> = Vec::new();
        for name in names {
            if is_new(&known, name) {
                known.insert(name.as_str().to_owned());
                new.push(name.as_str());
            }
        }
        drop(known);
        if !new.is_empty() {
            let headers = new.join(", ");
            tracing::warn!(plugin, headers, "dropped headers of a plugin's replies that plugins may not set");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn what_describes_the_answer_passes_and_nothing_else() {
        let mut headers = map(&[
            ("connection", "close, X-Notes-Hop"),
            ("x-notes-hop", "1"),
            ("content-length", "7"),
            ("set-cookie", "a=b"),
            ("access-control-allow-origin", "*"),
            ("www-authenticate", "Basic"),
            ("content-security-policy", "default-src *"),
            ("alt-svc", "h3=\":443\""),
            ("nel", "{}"),
            ("report-to", "{}"),
            ("reporting-endpoints", "a=\"https://example.com\""),
            ("refresh", "0;url=https://example.com"),
            ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("link", "</x>; rel=preload"),
            ("x-frame-options", "ALLOWALL"),
            ("sourcemap", "/x"),
            ("content-type", "text/plain"),
            ("etag", "\"a\""),
            ("x-notes", "kept"),
            ("x-notes-total", "kept"),
            ("notes-total", "no name of a standard"),
            ("x-accel-redirect", "/secret"),
        ]);
        let dropped = clean(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        let passed =
            ["content-security-policy", "content-type", "etag", "x-content-type-options", "x-notes", "x-notes-total"];
        assert_eq!(left, passed);
        assert_eq!(headers["content-security-policy"], "sandbox; default-src 'none'");
        assert!(dropped.contains(&header::ALT_SVC) && !dropped.contains(&header::CONTENT_LENGTH), "{dropped:?}");
    }

    #[test]
    fn names_that_somebody_obeys_are_not_free() {
        for name in ["x-accel-redirect", "x-frame-options", "x-sendfile", "x-envoy-retry-on", "x-xss-protection"] {
            assert!(!is_free(name), "{name}");
        }
        assert!(is_free("x-total") && is_free("x-notes-total") && !is_free("total"));
    }

    #[test]
    fn no_shared_cache_may_store_it() {
        for (value, sent) in [
            ("public, max-age=60", "private, max-age=60"),
            ("max-age=60, S-MaxAge = 600", "private, max-age=60"),
            ("Public", "private"),
            ("private, max-age=60", "private, max-age=60"),
            ("no-store", "no-store"),
            ("public, no-store", "no-store"),
            ("no-transform", "private, no-transform"),
            ("private=\"x-a, x-b\", max-age=60", "no-store"),
            ("", "private"),
        ] {
            let mut headers = map(&[("cache-control", value)]);
            clean(&mut headers);
            assert_eq!(headers["cache-control"], sent, "{value}");
        }
        let mut two = map(&[("cache-control", "max-age=60"), ("cache-control", "public")]);
        clean(&mut two);
        assert_eq!(two.get_all("cache-control").iter().collect::<Vec<_>>(), ["private, max-age=60"]);
        let mut none = map(&[]);
        clean(&mut none);
        assert!(!none.contains_key("cache-control"), "the host says no-store itself");
    }

    #[test]
    fn names_are_logged_once_and_not_without_end() {
        let dropped = DroppedHeaders::default();
        for n in 0..100 {
            let name = HeaderName::from_bytes(format!("x-{n}").as_bytes()).ok();
            dropped.note("notes", &name.into_iter().collect::<Vec<_>>());
        }
        assert_eq!(dropped.0.read().len(), MAX_DROPPED_NAMES);
    }
}
