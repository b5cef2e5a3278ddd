//! Which host names are served: anything else is answered 421, which ends DNS rebinding.

use std::net::IpAddr;

use http::{Request, Version, header};

use crate::http::error::{ApiError, ApiResult};
use cardinal_base::codes;

/// Whom a host name is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// BASE_URL's name, loopback, ALLOWED_HOSTS: everything that is ours.
    Own,
    /// One of PROXY_HOSTS: proxied pages and nothing of ours.
    Proxied,
}

/// The names, lower case; with a port only where one was configured.
#[derive(Debug)]
pub struct Hosts {
    own: Vec<String>,
    proxied: Vec<String>,
}

impl Hosts {
    pub fn new(base_url: &str, more: &[String], proxied: &[String]) -> Self {
        let own = base_url.split_once("://").map_or(base_url, |(_, authority)| authority);
        let own = std::iter::once(name(own)).chain(more.iter().map(String::as_str));
        let lower = |host: &str| host.to_ascii_lowercase();
        Self { own: own.map(lower).collect(), proxied: proxied.iter().map(|host| lower(host)).collect() }
    }

    /// Whether proxied pages have hosts of their own.
    pub(crate) fn set_the_proxy_apart(&self) -> bool {
        !self.proxied.is_empty()
    }

    pub fn check<B>(&self, request: &Request<B>) -> ApiResult<Site> {
        let authority = match (request.uri().authority(), request.headers().get(header::HOST)) {
            (Some(authority), _) => authority.as_str(),
            (None, Some(host)) => host.to_str().map_err(|_| ApiError::new(&codes::INVALID_REQUEST))?,
            (None, None) if request.version() < Version::HTTP_11 => return Ok(Site::Own),
            (None, None) => return Err(ApiError::new(&codes::INVALID_REQUEST).detail("The Host header is missing.")),
        };
        if request.headers().get_all(header::HOST).iter().count() > 1 {
            return Err(ApiError::new(&codes::INVALID_REQUEST).detail("There is more than one Host header."));
        }
        self.site(authority).ok_or_else(|| ApiError::new(&codes::MISDIRECTED_REQUEST))
    }

    fn site(&self, authority: &str) -> Option<Site> {
        let host = name(authority);
        // What stands behind the name is passed on to upstreams: a port, or nothing that we know.
        if !authority[host.len()..].bytes().skip(1).all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let listed = |names: &[String]| {
            names.iter().any(|own| own.eq_ignore_ascii_case(host) || own.eq_ignore_ascii_case(authority))
        };
        if listed(&self.proxied) {
            Some(Site::Proxied)
        } else if is_loopback(host) || listed(&self.own) {
            Some(Site::Own)
        } else {
            None
        }
    }
}

/// The authority without its port; an IPv6 address keeps its brackets.
fn name(authority: &str) -> &str {
    match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serves_its_own_names_and_loopback() {
        let hosts = Hosts::new(
            "https://shop.example:8443",
            &["10.0.0.5:8080".into(), "inner.example".into()],
            &["www.example".into(), "localhost:81".into()],
        );
        for good in [
            "shop.example",
            "SHOP.example:1",
            "localhost:99",
            "127.0.0.1",
            "127.9.9.9:1",
            "[::1]:8080",
            "10.0.0.5:8080",
            "inner.example:5",
        ] {
            assert_eq!(hosts.site(good), Some(Site::Own), "{good}");
        }
        for bad in ["evil.example", "shop.example.evil", "10.0.0.5", "10.0.0.5:81", "", "[::2]:1", "localhost.evil"] {
            assert_eq!(hosts.site(bad), None, "{bad}");
        }
        for bad in ["localhost:80\";for=x", "localhost:80 ", "[::1]x", "shop.example:x"] {
            assert_eq!(hosts.site(bad), None, "{bad}");
        }
        for proxied in ["www.example", "WWW.example:8080", "localhost:81"] {
            assert_eq!(hosts.site(proxied), Some(Site::Proxied), "{proxied}");
        }
    }
}
