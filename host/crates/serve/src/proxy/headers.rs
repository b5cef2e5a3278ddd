//! Which headers cross the proxy, in both directions. Pure; the map is changed in place.

use std::{fmt::Write as _, net::IpAddr};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::table::Route;
use crate::http::forwarded::X_FORWARDED_FOR;
use cardinal_base::{
    hop_by_hop,
    request_id::{self, RequestId},
};

const X_FORWARDED_PROTO: &str = "x-forwarded-proto";
const X_FORWARDED_HOST: &str = "x-forwarded-host";
const X_FORWARDED_PREFIX: &str = "x-forwarded-prefix";
/// Of these, what a trusted proxy said is kept.
const FROM_TRUSTED: [&str; 4] = ["forwarded", X_FORWARDED_FOR, X_FORWARDED_PROTO, X_FORWARDED_HOST];
/// CGI programs take it for the proxy that they should use themselves.
const HTTPOXY: &str = "proxy";
const SERVICE_WORKER: &str = "service-worker";
const SERVICE_WORKER_ALLOWED: &str = "service-worker-allowed";
/// How our own bearers begin.
const OWN_BEARERS: [&[u8]; 2] = [b"mpk_", b"mps_"];
/// Protocols that carry HTTP itself: within them requests would pass by unseen.
const HTTP_ITSELF: [&str; 4] = ["h2c", "h2", "http", "tls"];

/// The script of a service worker is asked for, which would take over an origin's pages.
pub(crate) fn wants_service_worker(headers: &HeaderMap) -> bool {
    headers.get(SERVICE_WORKER).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"script"))
}

/// The protocol that the client wants to change to, when it is one that may be tunnelled.
pub(crate) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let has_upgrade = hop_by_hop::connection_tokens(headers).any(|token| token.eq_ignore_ascii_case("upgrade"));
    let wanted = headers.get(header::UPGRADE)?;
    let carries_http = |protocol: &str| {
        let name = protocol.split('/').next().unwrap_or_default().trim();
        HTTP_ITSELF.iter().any(|own| name.eq_ignore_ascii_case(own))
    };
    let alone = headers.get_all(header::UPGRADE).iter().count() == 1;
    (has_upgrade && alone && !wanted.to_str().ok()?.split(',').any(carries_http)).then(|| wanted.clone())
}

/// What the forwarding headers say to the upstream.
pub(crate) struct Forwarding<'a> {
    pub request_id: &'a RequestId,
    /// The other end of the connection, and whether its own account of the way so far is believed.
    pub peer: IpAddr,
    pub trusted: bool,
    pub client: IpAddr,
    /// By which the request came here.
    pub scheme: &'static str,
    pub via: &'a HeaderValue,
    pub route: &'a Route,
}

/// From the headers of a client to those for its upstream.
pub(crate) fn forward(headers: &mut HeaderMap, way: &Forwarding<'_>) {
    let trailers = headers.get_all(header::TE).iter().filter_map(|value| value.to_str().ok());
    let trailers =
        trailers.flat_map(|value| value.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("trailers"));
    drop_hop_by_hop(headers);
    headers.remove(HTTPOXY);
    drop_claims(headers, way.trusted);
    if names_own_bearer(headers) {
        headers.remove(header::AUTHORIZATION);
    }
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
    }
    let host = headers.entry(header::HOST).or_insert_with(|| way.route.host.clone()).clone();
    set_forwarded(headers, way, &host);
    if let Ok(id) = HeaderValue::from_str(way.request_id.as_str()) {
        headers.insert(request_id::HEADER, id);
    }
    headers.append(header::VIA, way.via.clone());
}

/// From the headers of an upstream to those for its client.
pub(crate) fn hand_back(headers: &mut HeaderMap, route: &Route) {
    let encoded = headers.contains_key(header::TRANSFER_ENCODING);
    drop_hop_by_hop(headers);
    if encoded {
        headers.remove(header::CONTENT_LENGTH);
    }
    headers.remove(SERVICE_WORKER_ALLOWED);
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        let seen = headers.get(&name).and_then(|value| value.to_str().ok()).and_then(|value| route.location(value));
        if let Some(seen) = seen.and_then(|seen| HeaderValue::try_from(seen).ok()) {
            headers.insert(name, seen);
        }
    }
}

/// What may not come as a trailer either, where some servers take it for a header.
pub(crate) fn clean_trailers(trailers: &mut HeaderMap) {
    drop_hop_by_hop(trailers);
    drop_claims(trailers, false);
    for name in [header::AUTHORIZATION, header::HOST, header::CONTENT_LENGTH, header::VIA] {
        trailers.remove(name);
    }
    for name in [HTTPOXY, SERVICE_WORKER_ALLOWED, request_id::HEADER] {
        trailers.remove(name);
    }
}

pub(crate) fn is_html(headers: &HeaderMap) -> bool {
    let html = |value: &[u8]| value.get(..9).is_some_and(|start| start.eq_ignore_ascii_case(b"text/html"));
    headers.get(header::CONTENT_TYPE).is_some_and(|value| html(value.as_bytes()))
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    for name in hop_by_hop::nominated(headers) {
        headers.remove(name);
    }
    for name in &hop_by_hop::NAMES {
        headers.remove(name);
    }
}

/// Drops what only a trusted proxy may say. `_` counts as `-`: CGI and its heirs can't tell them apart.
fn drop_claims(headers: &mut HeaderMap, trusted: bool) {
    let is_claim = |name: &HeaderName| {
        let name = name.as_str();
        let begins = |start: &str| name.get(..start.len()).is_some_and(|begin| same_name(begin, start));
        let claim = begins("x-forwarded-") || same_name(name, "forwarded") || same_name(name, "x-real-ip");
        claim && !(trusted && FROM_TRUSTED.contains(&name))
    };
    if headers.keys().any(is_claim) {
        let claims: Vec<HeaderName> = headers.keys().filter(|name| is_claim(name)).cloned().collect();
        for name in claims {
            headers.remove(name);
        }
    }
}

fn same_name(name: &str, expected: &str) -> bool {
    name.len() == expected.len() && name.bytes().zip(expected.bytes()).all(|(a, b)| a == b || (a == b'_' && b == b'-'))
}

fn set_forwarded(headers: &mut HeaderMap, way: &Forwarding<'_>, host: &HeaderValue) {
    let joined_value = |name: &str, headers: &HeaderMap| joined(headers.get_all(name).iter());
    let (mut addresses, mut account) = (joined_value(X_FORWARDED_FOR, headers), joined_value("forwarded", headers));
    if addresses.is_some() && account.is_some() && way.client == way.peer {
        // They contradict each other, so that neither was believed: see `crates/serve/src/http/forwarded.rs`.
        (addresses, account) = (None, None);
    }
    let before = (way.client != way.peer).then_some(way.client);
    let mut chain = addresses.or_else(|| before.map(|client| client.to_string())).unwrap_or_default();
    let mut account = account.or_else(|| before.map(|client| format!("for={}", node(client)))).unwrap_or_default();
    for text in [&mut chain, &mut account] {
        if !text.is_empty() {
            text.push_str(", ");
        }
    }
    // Writing to a String never fails.
    let _ = write!(chain, "{}", way.peer);
    let (from, host_name) = (node(way.peer), host.to_str().unwrap_or_default());
    let _ = write!(account, "for={from};host=\"{host_name}\";proto={}", way.scheme);
    for (name, text) in [(HeaderName::from_static(X_FORWARDED_FOR), chain), (header::FORWARDED, account)] {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    }
    keep_one_or(headers, X_FORWARDED_PROTO, || HeaderValue::from_static(way.scheme));
    keep_one_or(headers, X_FORWARDED_HOST, || host.clone());
    if let Some(prefix) = &way.route.replaced_prefix {
        headers.insert(X_FORWARDED_PREFIX, prefix.clone());
    }
}

/// Several lines of one header as one, which is all that many servers look at.
fn joined<'v>(values: impl Iterator<Item = &'v HeaderValue>) -> Option<String> {
    values.filter_map(|value| value.to_str().ok()).map(str::to_owned).reduce(|all, more| format!("{all}, {more}"))
}

/// Only a trusted proxy's own is still there.
fn keep_one_or(headers: &mut HeaderMap, name: &'static str, ours: impl FnOnce() -> HeaderValue) {
    if headers.get_all(name).iter().count() != 1 {
        headers.insert(name, ours());
    }
}

/// An address as RFC 7239 writes it.
fn node(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("\"[{v6}]\""),
    }
}

/// Whether a credential of ours stands in `Authorization`, as a bearer or however else it was put there.
fn names_own_bearer(headers: &HeaderMap) -> bool {
    headers.get_all(header::AUTHORIZATION).iter().any(|value| {
        let value = value.as_bytes();
        if contains_own_bearer(value) {
            return true;
        }
        let basic =
            value.get(..6).filter(|scheme| scheme.eq_ignore_ascii_case(b"basic ")).map(|_| value[6..].trim_ascii());
        basic.and_then(|pair| BASE64.decode(pair).ok()).is_some_and(|pair| contains_own_bearer(&pair))
    })
}

/// At the beginning of a word: within somebody else's token the same letters are chance.
fn contains_own_bearer(text: &[u8]) -> bool {
    text.windows(4).enumerate().any(|(at, four)| {
        let word_before = at > 0 && (text[at - 1].is_ascii_alphanumeric() || b"-._~+/".contains(&text[at - 1]));
        !word_before && OWN_BEARERS.contains(&four)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use cardinal_base::config::ProxyRoute;

    fn map(lines: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        map
    }

    /// What an upstream sees of these headers, when they come from 192.0.2.1 or, trusted, from 10.0.0.1.
    fn forwarded(lines: &[(&str, &str)], client_by_trusted: Option<&str>) -> HeaderMap {
        let mut headers = map(lines);
        let route = Route::new(ProxyRoute::parse("/shop", "http://up:81/").unwrap()).unwrap();
        let way = Forwarding {
            request_id: &RequestId::from_headers(&map(&[("x-request-id", "r1")])),
            peer: if client_by_trusted.is_some() { "10.0.0.1" } else { "192.0.2.1" }.parse().unwrap(),
            trusted: client_by_trusted.is_some(),
            client: client_by_trusted.unwrap_or("192.0.2.1").parse().unwrap(),
            scheme: "http",
            via: &HeaderValue::from_static("1.1 us"),
            route: &route,
        };
        forward(&mut headers, &way);
        headers
    }

    fn lines(headers: &HeaderMap, name: &str) -> Vec<String> {
        headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn what_speaks_for_the_connection_stays_behind() {
        let seen = forwarded(
            &[
                ("host", "shop.example"),
                ("connection", "close, X-Hop"),
                ("connection", "x-other, host"),
                ("x-hop", "1"),
                ("x-other", "1"),
                ("keep-alive", "timeout=5"),
                ("proxy-authorization", "Bearer mpk_x"),
                ("te", "gzip, trailers"),
                ("transfer-encoding", "chunked"),
                ("upgrade", "h2c"),
                ("http2-settings", "AAMAAABkAAQCAAAAAAIAAAAA"),
                ("proxy", "http://evil"),
                ("cookie", "a=b"),
                ("x-kept", "1"),
            ],
            None,
        );
        let mut names: Vec<&str> = seen.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "connection",
                "cookie",
                "forwarded",
                "host",
                "te",
                "via",
                "x-forwarded-for",
                "x-forwarded-host",
                "x-forwarded-prefix",
                "x-forwarded-proto",
                "x-kept",
                "x-request-id"
            ]
        );
        assert_eq!((lines(&seen, "te"), lines(&seen, "connection")), (vec!["trailers".into()], vec!["te".into()]));
    }

    #[test]
    fn a_strangers_account_of_the_way_is_dropped() {
        let seen = forwarded(
            &[
                ("host", "shop.example:81"),
                ("x-forwarded-for", "6.6.6.6"),
                ("x_forwarded_for", "6.6.6.6"),
                ("forwarded", "for=6.6.6.6"),
                ("x-forwarded-proto", "https"),
                ("x-forwarded-host", "evil"),
                ("x-forwarded-port", "443"),
                ("x-forwarded-prefix", "/evil"),
                ("x-real-ip", "6.6.6.6"),
            ],
            None,
        );
        assert_eq!(lines(&seen, "x-forwarded-for"), ["192.0.2.1"]);
        assert_eq!(lines(&seen, "forwarded"), ["for=192.0.2.1;host=\"shop.example:81\";proto=http"]);
        assert_eq!(lines(&seen, "x-forwarded-proto"), ["http"]);
        assert_eq!(lines(&seen, "x-forwarded-host"), ["shop.example:81"]);
        assert_eq!(lines(&seen, "x-forwarded-prefix"), ["/shop"]);
        assert_eq!(lines(&seen, "host"), ["shop.example:81"]);
        for gone in ["x_forwarded_for", "x-forwarded-port", "x-real-ip"] {
            assert_eq!(lines(&seen, gone), Vec::<String>::new(), "{gone}");
        }
    }

    #[test]
    fn a_trusted_proxys_account_is_continued() {
        let both = [
            ("host", "inner"),
            ("x-forwarded-for", "6.6.6.6"),
            ("x-forwarded-for", "198.51.100.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "shop.example"),
        ];
        let seen = forwarded(&both, Some("198.51.100.1"));
        assert_eq!(lines(&seen, "x-forwarded-for"), ["6.6.6.6, 198.51.100.1, 10.0.0.1"]);
        assert_eq!(lines(&seen, "forwarded"), ["for=198.51.100.1, for=10.0.0.1;host=\"inner\";proto=http"]);
        assert_eq!(lines(&seen, "x-forwarded-proto"), ["https"]);
        assert_eq!(lines(&seen, "x-forwarded-host"), ["shop.example"]);
        let seen = forwarded(&[("host", "inner"), ("forwarded", "for=\"[2001:db8::1]\"")], Some("2001:db8::1"));
        assert_eq!(lines(&seen, "x-forwarded-for"), ["2001:db8::1, 10.0.0.1"]);
        assert_eq!(lines(&seen, "forwarded"), ["for=\"[2001:db8::1]\", for=10.0.0.1;host=\"inner\";proto=http"]);
        let contradicting = [("host", "inner"), ("x-forwarded-for", "6.6.6.6"), ("forwarded", "for=7.7.7.7")];
        assert_eq!(lines(&forwarded(&contradicting, Some("10.0.0.1")), "x-forwarded-for"), ["10.0.0.1"]);
    }

    #[test]
    fn our_own_bearers_stay_here_and_others_pass() {
        for ours in [
            "Bearer mpk_abc",
            "bearer   mps_abc",
            "mpk_abc",
            "Token token=\"mps_abc\"",
            "Basic dXNlcjptcGtfYWJj",
            "Basic bXBrX2FiYzo=",
        ] {
            let seen = forwarded(&[("authorization", ours), ("cookie", "a=b")], None);
            assert!(!seen.contains_key("authorization") && seen.contains_key("cookie"), "{ours}");
        }
        for theirs in ["Bearer eyJh.xmpk_y.z", "Bearer abc-mps_x", "Basic dXNlcjpwYXNz", "Basic !"] {
            assert_eq!(lines(&forwarded(&[("authorization", theirs)], None), "authorization"), [theirs]);
        }
    }

    #[test]
    fn protocols_that_carry_http_are_not_tunnelled() {
        let upgrade_to = |protocol| upgrade(&map(&[("connection", "keep-alive, Upgrade"), ("upgrade", protocol)]));
        assert!(upgrade_to("websocket").is_some() && upgrade_to("IRC/6.9").is_some());
        for refused in ["h2c", "H2C", "websocket, h2c", "TLS/1.0", "HTTP/2.0", "h2"] {
            assert!(upgrade_to(refused).is_none(), "{refused}");
        }
        assert!(upgrade(&map(&[("upgrade", "websocket")])).is_none());
    }

    #[test]
    fn an_answer_keeps_what_is_its_own() {
        let mut headers = map(&[
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("content-length", "7"),
            ("service-worker-allowed", "/"),
            ("location", "http://up:81/login"),
            ("set-cookie", "a=b"),
            ("set-cookie", "c=d"),
            ("strict-transport-security", "max-age=1"),
            ("access-control-allow-origin", "*"),
            ("cache-control", "public"),
        ]);
        hand_back(&mut headers, &Route::new(ProxyRoute::parse("/shop", "http://up:81/").unwrap()).unwrap());
        assert_eq!(lines(&headers, "location"), ["/shop/login"]);
        assert_eq!(lines(&headers, "set-cookie"), ["a=b", "c=d"]);
        assert_eq!(headers.len(), 6, "{headers:?}");
    }
}
