//! How addresses, host names, origins and URLs are written in settings.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// A network such as `10.0.0.0/8`, as settings write it; a bare address is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr(IpNet);

impl Cidr {
    /// The networks of all IPv4 and of all IPv6 addresses.
    pub const EVERYTHING: [Self; 2] = [
        Self(IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0))),
        Self(IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0))),
    ];

    /// Whether the network has the address. An IPv4 address seen through an IPv6 socket (`::ffff:a.b.c.d`) counts as
    /// the IPv4 address that it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let network = network.map_err(|_| format!("{text:?} is not a network such as 10.0.0.0/8 or an address"))?;
        Ok(Self(canonical(network)))
    }
}

/// IPv4 networks in IPv6 form (`::ffff:10.0.0.0/104`) as the IPv4 networks that they are.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(wide) = network else { return network };
    let (address, prefix) = (wide.addr().to_ipv4_mapped(), wide.prefix_len().checked_sub(96));
    let mapped = address.zip(prefix).and_then(|(address, prefix)| Ipv4Net::new(address, prefix).ok());
    mapped.map_or(network, IpNet::V4)
}

impl TryFrom<String> for Cidr {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> String {
        cidr.to_string()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Whether listeners on these addresses would be in each other's way. Port 0 takes a free one.
pub(super) fn share_port(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && (one.ip() == other.ip() || is_any)
}

/// An address and port. `localhost:8080` is this machine alone, `:8080` every IPv4 address of it.
pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let in_short = || {
        let (host, port) = text.rsplit_once(':')?;
        let address = match host {
            "" => Ipv4Addr::UNSPECIFIED,
            _ if host.eq_ignore_ascii_case("localhost") => Ipv4Addr::LOCALHOST,
            _ => return None,
        };
        Some(SocketAddr::from((address, port.parse().ok()?)))
    };
    text.parse().ok().or_else(in_short).ok_or_else(|| {
        format!("{text:?} is not an address and port such as 127.0.0.1:8080, localhost:8080, :8080 or [::1]:8080")
    })
}

/// A host name or address as it stands in a `Host` header, with or without a port; lower-cased.
pub(super) fn host_name(text: &str) -> Result<String, String> {
    let bad = || format!("{text:?} is not a host name such as shop.example.com or shop.example.com:8443");
    let url = Url::parse(&format!("http://{text}")).map_err(|_| bad())?;
    let only_host = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if !only_host || url.password().is_some() || text.contains(['/', '@', '?', '#', '*', ' ']) {
        return Err(bad());
    }
    let host = url.host_str().ok_or_else(bad)?;
    // `Url` drops the scheme's default port; a `Host` header may still carry it.
    let port = text.rsplit_once(':').map(|(_, port)| port).filter(|port| port.bytes().all(|b| b.is_ascii_digit()));
    Ok(match port {
        Some(port) if !text.ends_with(']') => format!("{host}:{port}"),
        _ => host.to_owned(),
    })
}

/// Scheme and authority and nothing else, normalised as a browser writes an `Origin`.
pub(super) fn base_url(text: &str) -> Result<String, String> {
    let url = http_url(text)?;
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        return Err(format!(
            "{text:?} must have no path, query or fragment: write scheme and host only, such as https://shop.example.com"
        ));
    }
    Ok(url.origin().ascii_serialization())
}

pub(super) fn origin(text: &str) -> Result<String, String> {
    if text == "*" {
        return Err("\"*\" is not allowed here: name each origin, such as https://admin.example.com".to_owned());
    }
    base_url(text)
}

/// An http or https URL without credentials in it.
pub(super) fn http_url(text: &str) -> Result<Url, String> {
    let bad = || format!("{text:?} is not an http or https URL");
    let url = Url::parse(text).map_err(|_| bad())?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(bad());
    }
    if !url.username().is_empty() || url.password().is_some() {
        // The URL is not repeated: it holds a password.
        return Err("a user name or password in the URL is not allowed".to_owned());
    }
    Ok(url)
}

/// A collector's address, below which it takes traces, metrics and logs; without a slash at its end.
pub(super) fn collector_url(text: &str) -> Result<String, String> {
    let url = http_url(text)?;
    if url.query().is_some() || url.fragment().is_some() {
        // The URL is not repeated: some put a token there.
        return Err("it must have no query or fragment".to_owned());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// An identity provider's address: https, or http on this machine, since keys fetched in clear could be anyone's.
pub(super) fn provider_url(text: &str) -> Result<String, String> {
    let url = http_url(text)?;
    if !is_safe_provider(&url) {
        return Err(format!("{text:?} must be https (http is accepted for loopback addresses only)"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("{text:?} must have no query or fragment"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Whether what is read there can't be forged on the way.
pub fn is_safe_provider(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

/// Whether it leads to this machine itself.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        let net: Cidr = "10.1.128.0/17".parse().unwrap();
        assert!(net.contains("10.1.200.7".parse().unwrap()));
        assert!(net.contains("::ffff:10.1.200.7".parse().unwrap()));
        assert!(!net.contains("10.1.127.7".parse().unwrap()));
        assert!(!net.contains("::1".parse().unwrap()));
        let all: Cidr = "::/0".parse().unwrap();
        assert!(all.contains("2001:db8::1".parse().unwrap()));
        for text in ["192.0.2.1", "::ffff:192.0.2.1"] {
            let one: Cidr = text.parse().unwrap();
            assert!(one.contains("192.0.2.1".parse().unwrap()) && !one.contains("192.0.2.2".parse().unwrap()));
        }
        let mapped: Cidr = "::ffff:10.0.0.0/104".parse().unwrap();
        assert!(mapped.contains("10.9.9.9".parse().unwrap()) && !mapped.contains("11.0.0.1".parse().unwrap()));
        let written = |text: &str| text.parse::<Cidr>().unwrap().to_string();
        assert_eq!((written("10.1.2.3/8"), written("::1")), ("10.1.2.3/8".to_owned(), "::1/128".to_owned()));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8/8", "example.com", "::1/129", "10.0.0/8"] {
            assert!(text.parse::<Cidr>().is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn addresses_to_listen_on_have_short_forms() {
        for (text, address) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:0", "[::1]:0"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("LocalHost:1", "127.0.0.1:1"),
            (":8080", "0.0.0.0:8080"),
        ] {
            assert_eq!(socket_address(text), Ok(address.parse().unwrap()), "{text}");
        }
        for text in ["", ":", "8080", "localhost", "localhost:", "localhost:70000", ":-1", "example.com:80", "::1:80 "]
        {
            assert!(socket_address(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn host_names_keep_their_port_and_lose_their_case() {
        assert_eq!(host_name("Shop.Example.com"), Ok("shop.example.com".to_owned()));
        assert_eq!(host_name("shop.example.com:80"), Ok("shop.example.com:80".to_owned()));
        assert_eq!(host_name("[::1]:8080"), Ok("[::1]:8080".to_owned()));
        assert_eq!(host_name("[::1]"), Ok("[::1]".to_owned()));
        for text in ["http://x", "x/y", "a b", "*", "u@h", "h:port", "h:99999"] {
            assert!(host_name(text).is_err(), "{text:?} was taken");
        }
    }
}
