//! What a plugin's reply may not say, and what keeps it from acting as a page of ours.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::http::hop_by_hop;

/// Headers that a plugin may not set, beside those of the connection: they speak for the host.
const DROPPED: [HeaderName; 8] = [
    // The host knows how long a body is; another length would break the connection.
    header::CONTENT_LENGTH,
    header::TRAILER,
    header::SET_COOKIE,
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("service-worker-allowed"),
    header::STRICT_TRANSPORT_SECURITY,
    header::WWW_AUTHENTICATE,
    header::SERVER,
];

/// Takes out what a plugin may not say and adds what keeps its replies from acting as pages of ours.
pub fn clean(headers: &mut HeaderMap) {
    // Nearly no reply has any of them: looking at the few that are there is cheaper than removing all that could be.
    let mut foreign: Vec<HeaderName> = headers.keys().filter(|name| is_dropped(name)).cloned().collect();
    if foreign.contains(&header::CONNECTION) {
        foreign.extend(hop_by_hop::nominated(headers));
    }
    for name in foreign {
        headers.remove(name);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
}

fn is_dropped(name: &HeaderName) -> bool {
    DROPPED.contains(name) || hop_by_hop::NAMES.contains(name) || name.as_str().starts_with("access-control-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_speaks_for_host_or_connection_is_taken_out() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("content-length", "7"),
            ("set-cookie", "a=b"),
            ("access-control-allow-origin", "*"),
            ("www-authenticate", "Basic"),
            ("content-security-policy", "default-src *"),
            ("content-type", "text/plain"),
            ("x-own", "kept"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        clean(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-security-policy", "content-type", "x-content-type-options", "x-own"]);
        assert_eq!(headers["content-security-policy"], "sandbox; default-src 'none'");
    }
}
