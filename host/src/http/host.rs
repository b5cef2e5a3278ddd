//! Which host names are served: anything else is answered 421, which ends DNS rebinding.

use std::net::IpAddr;

use http::{Request, Version, header};

use super::{
    codes,
    error::{ApiError, ApiResult},
};

/// The names, lower case; with a port only where one was configured.
#[derive(Debug)]
pub struct Hosts(Vec<String>);

impl Hosts {
    pub fn new(base_url: &str, more: &[String]) -> Self {
        let own = base_url.split_once("://").map_or(base_url, |(_, authority)| authority);
        let own = std::iter::once(name(own)).chain(more.iter().map(String::as_str));
        Self(own.map(str::to_ascii_lowercase).collect())
    }

    pub fn check<B>(&self, request: &Request<B>) -> ApiResult<()> {
        let authority = match (request.uri().authority(), request.headers().get(header::HOST)) {
            (Some(authority), _) => authority.as_str(),
            (None, Some(host)) => host.to_str().map_err(|_| ApiError::new(&codes::INVALID_REQUEST))?,
            (None, None) if request.version() < Version::HTTP_11 => return Ok(()),
            (None, None) => return Err(ApiError::new(&codes::INVALID_REQUEST).detail("The Host header is missing.")),
        };
        if request.headers().get_all(header::HOST).iter().count() > 1 {
            return Err(ApiError::new(&codes::INVALID_REQUEST).detail("There is more than one Host header."));
        }
        if self.serves(authority) { Ok(()) } else { Err(ApiError::new(&codes::MISDIRECTED_REQUEST)) }
    }

    fn serves(&self, authority: &str) -> bool {
        let host = name(authority);
        is_loopback(host)
            || self.0.iter().any(|own| own.eq_ignore_ascii_case(host) || own.eq_ignore_ascii_case(authority))
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
        let hosts = Hosts::new("https://shop.example:8443", &["10.0.0.5:8080".into(), "inner.example".into()]);
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
            assert!(hosts.serves(good), "{good}");
        }
        for bad in ["evil.example", "shop.example.evil", "10.0.0.5", "10.0.0.5:81", "", "[::2]:1", "localhost.evil"] {
            assert!(!hosts.serves(bad), "{bad}");
        }
    }
}
