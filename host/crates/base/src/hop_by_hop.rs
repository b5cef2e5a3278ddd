//! Headers that speak for one connection and not for the message (RFC 9110, 7.6.1).

use http::{HeaderMap, HeaderName, header};

/// `Trailer` is not among them: trailers cross the proxy, and so does what announces them.
pub const NAMES: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
];

/// What `Connection` says, one by one.
pub fn connection_tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// The headers that `Connection` names: they belong to the connection, too. Words that have a meaning of their own
/// there name none, and `Host` can't be named away.
pub fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    const WORDS: [&str; 5] = ["close", "keep-alive", "upgrade", "host", ""];
    let named = |token: &&str| !WORDS.iter().any(|word| token.eq_ignore_ascii_case(word));
    connection_tokens(headers).filter(named).filter_map(|token| token.parse().ok()).collect()
}
