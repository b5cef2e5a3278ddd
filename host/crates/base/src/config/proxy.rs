use std::{fmt, ops::RangeInclusive, time::Duration};

use http::uri::{Authority, PathAndQuery};
use serde::{Deserialize, Serialize};

use super::network;
use super::own_paths::is_own;
use super::reader::{Reader, number};

const DEFAULT_TIMEOUT_SECONDS: u64 = 30;
const DEFAULT_IDLE_SECONDS: u64 = 300;
const WAITS: RangeInclusive<u64> = 1..=86_400;

/// A path prefix and where its requests go. Built by [`ProxyRoute::parse`] only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyRoute {
    /// Begins with `/` and, but for `/` itself, does not end with one.
    pub prefix: String,
    /// Host and port of the upstream.
    pub authority: String,
    /// What stands in place of the prefix, without a slash at its end; `None` keeps the prefix.
    pub base: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Proxy {
    pub routes: Vec<ProxyRoute>,
    /// How long an upstream may take to begin its answer.
    pub timeout: Duration,
    /// How long a body or a tunnel may stand still.
    pub idle: Duration,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "HTTP proxy")]
#[group(skip)]
pub(super) struct Args {
    /// Path prefixes and where they go, e.g. /shop=http://10.0.0.7:3000,/=http://10.0.0.8; a path in the address, /
    /// too, stands in place of the prefix [default: none]
    #[arg(long, env, value_name = "ROUTES")]
    proxy_routes: Option<String>,
    /// Seconds that the server behind a route may take to begin its answer, e.g. 60 [default: 30]
    #[arg(long, env, value_name = "SECONDS")]
    proxy_timeout_seconds: Option<String>,
    /// Seconds that a proxied body or WebSocket may stand still, e.g. 3600 [default: 300]
    #[arg(long, env, value_name = "SECONDS")]
    proxy_idle_seconds: Option<String>,
}

impl Proxy {
    pub(super) fn read(args: &Args, reader: &mut Reader) -> Proxy {
        let routes: Vec<ProxyRoute> = reader.list("PROXY_ROUTES", &args.proxy_routes, route);
        for (index, route) in routes.iter().enumerate() {
            if routes[..index].iter().any(|earlier| earlier.prefix == route.prefix) {
                reader.fault("PROXY_ROUTES", format!("{:?} is listed twice", route.prefix));
            }
        }
        let mut seconds =
            |setting, raw, default| Duration::from_secs(reader.value::<u64>(setting, raw, default, number(WAITS)));
        let timeout = seconds("PROXY_TIMEOUT_SECONDS", &args.proxy_timeout_seconds, DEFAULT_TIMEOUT_SECONDS);
        let idle = seconds("PROXY_IDLE_SECONDS", &args.proxy_idle_seconds, DEFAULT_IDLE_SECONDS);
        Proxy { routes, timeout, idle }
    }
}

impl ProxyRoute {
    /// # Errors
    /// What is wrong with the prefix or the upstream's address, for whoever wrote it.
    pub fn parse(prefix: &str, upstream: &str) -> Result<ProxyRoute, String> {
        let prefix = path_prefix(prefix)?;
        let url = network::http_url(upstream)?;
        if url.scheme() != "http" {
            return Err(format!("{upstream:?}: this version speaks no TLS to upstreams; write an http address"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("{upstream:?}: the upstream must have no query or fragment"));
        }
        let host = url.host_str().unwrap_or_default();
        let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        // `Url` writes a path where none was; whether there was one decides what becomes of the prefix.
        let after_scheme = upstream.split_once("//").map_or("", |(_, rest)| rest);
        let base = after_scheme.contains('/').then(|| url.path().trim_end_matches('/').to_owned());
        let sendable = authority.parse::<Authority>().is_ok()
            && base.as_ref().is_none_or(|base| base.is_empty() || base.parse::<PathAndQuery>().is_ok());
        if !sendable {
            return Err(format!("{upstream:?} is not an address that a request can be sent to"));
        }
        Ok(ProxyRoute { prefix, authority, base })
    }

    /// The upstream's address as an operator would write it.
    pub fn upstream(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|out| match &self.base {
            None => write!(out, "http://{}", self.authority),
            Some(base) if base.is_empty() => write!(out, "http://{}/", self.authority),
            Some(base) => write!(out, "http://{}{base}", self.authority),
        })
    }
}

fn route(text: &str) -> Result<ProxyRoute, String> {
    let bad = || format!("{text:?} is not a route such as /shop=http://10.0.0.7:3000");
    let (prefix, upstream) = text.split_once('=').ok_or_else(bad)?;
    ProxyRoute::parse(prefix.trim(), upstream.trim())
}

fn path_prefix(prefix: &str) -> Result<String, String> {
    if prefix == "/" {
        return Ok(prefix.to_owned());
    }
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~!$&'()+:@".contains(&b);
    let segments = prefix.strip_prefix('/').map(|rest| rest.split('/').collect::<Vec<_>>()).unwrap_or_default();
    let well_formed = !segments.is_empty() && segments.iter().all(|segment| !matches!(*segment, "" | "." | ".."));
    if !well_formed || !prefix.bytes().all(plain) {
        return Err(format!("{prefix:?} is not a plain path prefix such as /shop"));
    }
    if is_own(prefix) {
        return Err(format!("{prefix:?} is a path of the host itself"));
    }
    Ok(prefix.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_the_address_stands_in_place_of_the_prefix() {
        for (upstream, authority, base) in [
            ("http://10.0.0.7:3000", "10.0.0.7:3000", None),
            ("http://10.0.0.7:3000/", "10.0.0.7:3000", Some("")),
            ("http://Shop.Example:80/base/", "shop.example", Some("/base")),
            ("http://[::1]:9/a/b", "[::1]:9", Some("/a/b")),
        ] {
            let route = ProxyRoute::parse("/shop/", upstream).unwrap();
            assert_eq!((route.prefix.as_str(), route.authority.as_str()), ("/shop", authority));
            assert_eq!(route.base.as_deref(), base, "{upstream}");
            assert_eq!(ProxyRoute::parse("/shop", &route.upstream().to_string()).unwrap(), route);
        }
    }

    #[test]
    fn what_cannot_be_a_route_is_refused() {
        for (prefix, upstream) in [
            ("/shop", "https://x"),
            ("/shop", "http://x/?q"),
            ("/shop", "http://u:p@x"),
            ("/shop", "x:80"),
            ("shop", "http://x"),
            ("/shop//a", "http://x"),
            ("/a;b", "http://x"),
            ("/v1", "http://x"),
            ("/Admin/x", "http://x"),
            ("/api", "http://x"),
            ("/.well-known/oauth-protected-resource/shop", "http://x"),
        ] {
            assert!(ProxyRoute::parse(prefix, upstream).is_err(), "{prefix}={upstream} was taken");
        }
        assert!(ProxyRoute::parse("/apiary", "http://x").is_ok());
    }
}
