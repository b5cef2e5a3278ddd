//! Who really asks, when proxies that are trusted stand before this host. One answer for logs, limits, throttle and
//! audit alike.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, header};
use parking_lot::Mutex;

use cardinal_base::config::Cidr;

pub(crate) const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// A connection's end, and the client behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub client: IpAddr,
    /// The other end of the connection is a proxy whose headers are believed.
    pub trusted: bool,
}

/// Addresses that sent `X-Forwarded-For` or `Forwarded` and are not in TRUSTED_PROXIES: proxies that nobody declared,
/// or strangers who pretend. All clients of the former share one address for limits and the throttle of logins.
#[derive(Default)]
pub struct UndeclaredProxies(Mutex<Vec<IpAddr>>);

/// Addresses that are kept, and logged once each.
const UNDECLARED: usize = 8;

impl UndeclaredProxies {
    /// Looks at a request of a peer that is not trusted.
    pub(crate) fn note(&self, peer: IpAddr, headers: &HeaderMap) {
        if !headers.contains_key(X_FORWARDED_FOR) && !headers.contains_key(header::FORWARDED) {
            return;
        }
        let mut seen = self.0.lock();
        if seen.len() >= UNDECLARED || seen.contains(&peer) {
            return;
        }
        seen.push(peer);
        drop(seen);
        tracing::warn!(
            %peer,
            "a client sends X-Forwarded-For and is not in TRUSTED_PROXIES; if it is your proxy, name it there: until \
             then all clients behind it share one address"
        );
    }

    pub(crate) fn seen(&self) -> Vec<IpAddr> {
        self.0.lock().clone()
    }
}

/// The client of a request that came in from `peer`: the rightmost address that is no trusted proxy.
///
/// A proxy that writes one of the two headers may hand on the other as a stranger wrote it. Where both are there and
/// tell different clients, neither is believed.
pub(crate) fn origin(peer: IpAddr, headers: &HeaderMap, trusted: &[Cidr]) -> Origin {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    if trusted.is_empty() || !is_trusted(peer) {
        return Origin { client: peer, trusted: false };
    }
    let named_client = |hops: Option<Vec<Option<IpAddr>>>| hops.map(|hops| rightmost_stranger(peer, &hops, is_trusted));
    let client = match (named_client(forwarded(headers)), named_client(x_forwarded_for(headers))) {
        (Some(one), Some(other)) if one != other => peer,
        (Some(client), _) | (None, Some(client)) => client,
        (None, None) => peer,
    };
    Origin { client, trusted: true }
}

/// From the nearest hop outwards; what is no address ends the walk at the last one that is known.
fn rightmost_stranger(peer: IpAddr, hops: &[Option<IpAddr>], is_trusted: impl Fn(IpAddr) -> bool) -> IpAddr {
    let mut known = peer;
    for hop in hops.iter().rev() {
        match hop {
            None => return known,
            Some(address) if is_trusted(*address) => known = *address,
            Some(address) => return *address,
        }
    }
    known
}

fn x_forwarded_for(headers: &HeaderMap) -> Option<Vec<Option<IpAddr>>> {
    let mut hops = Vec::new();
    for value in headers.get_all(X_FORWARDED_FOR) {
        match value.to_str() {
            Ok(text) => hops.extend(text.split(',').map(|hop| node(hop.trim()))),
            Err(_) => hops.push(None),
        }
    }
    (!hops.is_empty()).then_some(hops)
}

/// The `for` of each element (RFC 7239); an element without one is a hop that nobody knows.
fn forwarded(headers: &HeaderMap) -> Option<Vec<Option<IpAddr>>> {
    let mut hops = Vec::new();
    for value in headers.get_all(header::FORWARDED) {
        match value.to_str().ok().filter(|text| text.bytes().filter(|byte| *byte == b'"').count() % 2 == 0) {
            Some(text) => hops.extend(outside_quotes(text, ',').map(forwarded_for)),
            None => hops.push(None),
        }
    }
    (!hops.is_empty()).then_some(hops)
}

fn forwarded_for(element: &str) -> Option<IpAddr> {
    outside_quotes(element, ';')
        .find_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            name.trim().eq_ignore_ascii_case("for").then_some(value.trim())
        })
        .and_then(|value| node(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)))
}

/// Splits where the separator does not stand in a quoted string.
fn outside_quotes(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '"';
        c == separator && !quoted
    })
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`; anything else names no address.
fn node(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn client(peer: &str, headers: &[(&str, &str)]) -> String {
        let trusted: Vec<Cidr> = ["10.0.0.0/8", "fd00::/8"].iter().map(|text| text.parse().unwrap()).collect();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        origin(peer.parse().unwrap(), &map, &trusted).client.to_string()
    }

    #[test]
    fn undeclared_proxies_are_kept_once_and_not_without_end() {
        let (undeclared, mut headers) = (UndeclaredProxies::default(), HeaderMap::new());
        let peer = |last: u8| IpAddr::from([192, 0, 2, last]);
        undeclared.note(peer(1), &headers);
        assert!(undeclared.seen().is_empty());
        headers.insert(X_FORWARDED_FOR, "198.51.100.1".parse().unwrap());
        (1..=100).for_each(|last| undeclared.note(peer(last / 2), &headers));
        assert_eq!(undeclared.seen(), (0..8).map(peer).collect::<Vec<_>>());
    }

    #[test]
    fn a_stranger_is_not_believed() {
        assert_eq!(client("192.0.2.9", &[("x-forwarded-for", "198.51.100.1")]), "192.0.2.9");
        assert_eq!(client("192.0.2.9", &[("forwarded", "for=10.0.0.1")]), "192.0.2.9");
    }

    #[test]
    fn the_rightmost_address_that_is_no_trusted_proxy_is_the_client() {
        for (value, expected) in [
            ("198.51.100.1", "198.51.100.1"),
            ("6.6.6.6, 198.51.100.1", "198.51.100.1"),
            ("6.6.6.6, 198.51.100.1, 10.1.1.1", "198.51.100.1"),
            ("198.51.100.1:4711", "198.51.100.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("::ffff:198.51.100.1", "198.51.100.1"),
            ("10.2.2.2, 10.1.1.1", "10.2.2.2"),
            ("198.51.100.1, nonsense", "10.0.0.1"),
            ("198.51.100.1, nonsense, 10.1.1.1", "10.1.1.1"),
            ("", "10.0.0.1"),
        ] {
            assert_eq!(client("10.0.0.1", &[("x-forwarded-for", value)]), expected, "{value}");
        }
        let lines = [("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "198.51.100.1")];
        assert_eq!(client("10.0.0.1", &lines), "198.51.100.1");
        assert_eq!(client("::ffff:10.0.0.1", &lines), "198.51.100.1");
    }

    #[test]
    fn forwarded_is_read_as_its_standard_says() {
        for (value, expected) in [
            ("for=198.51.100.1", "198.51.100.1"),
            ("For=\"198.51.100.1:80\";proto=https;by=10.0.0.1", "198.51.100.1"),
            ("for=\"[2001:db8::1]:80\"", "2001:db8::1"),
            ("for=6.6.6.6, for=198.51.100.1;host=\"a,b;c\", for=10.3.3.3", "198.51.100.1"),
            ("for=unknown", "10.0.0.1"),
            ("for=198.51.100.1, proto=https", "10.0.0.1"),
            ("for=198.51.100.1, for=_hidden, for=10.3.3.3", "10.3.3.3"),
            ("for=\"198.51.100.1", "10.0.0.1"),
        ] {
            assert_eq!(client("10.0.0.1", &[("forwarded", value)]), expected, "{value}");
        }
    }

    #[test]
    fn two_headers_that_disagree_are_both_not_believed() {
        let both = |x, f| client("10.0.0.1", &[("x-forwarded-for", x), ("forwarded", f)]);
        assert_eq!(both("198.51.100.1", "for=198.51.100.1"), "198.51.100.1");
        assert_eq!(both("198.51.100.1", "for=6.6.6.6"), "10.0.0.1");
    }
}
