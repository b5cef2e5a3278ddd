//! A plugin's request, read as a stranger's.

use std::time::Duration;

use bytes::Bytes;
use cardinal_plugin_abi::{
    pairs,
    record::{field, http_request},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request,
    header::{CONTENT_LENGTH, EXPECT, HOST, TRAILER, USER_AGENT},
};
use http_body_util::Full;
use url::{Position, Url};

use crate::fault::Fault;
use cardinal_base::{hop_by_hop, http_client};
use cardinal_observe::trace::{self, Trace};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes of the answer's body, when the request does not say, and at most.
const DEFAULT_MAX_BYTES: u64 = 8 << 20;
const MAX_MAX_BYTES: u64 = 1 << 30;
const MAX_URL: usize = 8 << 10;
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 32 << 10;
/// Bytes of the request's own body.
const MAX_BODY: usize = 64 << 20;

/// What the host sets itself, beside what belongs to the connection.
const OWN_HEADERS: [HeaderName; 4] = [HOST, CONTENT_LENGTH, EXPECT, TRAILER];

/// A request that may be sent, if its server is in reach.
#[derive(Debug)]
pub(super) struct HttpRequest {
    pub url: Url,
    pub request: Request<Full<Bytes>>,
    /// For all of it.
    pub timeout: Duration,
    /// Of the answer's body.
    pub max_bytes: u64,
}

impl HttpRequest {
    pub(super) fn read(record: &[u8], user_agent: HeaderValue, trace: Option<Trace>) -> Result<Self, Fault> {
        let url = url(field(record, http_request::URL)).map_err(Fault::InvalidUrl)?;
        let body = field(record, http_request::BODY);
        if body.len() > MAX_BODY {
            return Err(invalid(format!("the body has more than {MAX_BODY} bytes")));
        }
        let timeout = number(record, http_request::TIMEOUT_MS, "the time-out", as_millis(MAX_TIMEOUT))?;
        let max_bytes = number(record, http_request::MAX_BYTES, "the largest body", MAX_MAX_BYTES)?;
        let mut headers = headers(field(record, http_request::HEADERS))?;
        headers.entry(USER_AGENT).or_insert(user_agent);
        if let Some(trace) = trace.filter(|_| !headers.contains_key(trace::PARENT)) {
            trace.inject(&mut headers);
        }
        let host = HeaderValue::from_str(http_client::authority(&url)).map_err(|error| invalid(error.to_string()))?;
        headers.insert(HOST, host);
        let request = Request::builder()
            .method(method(field(record, http_request::METHOD))?)
            .uri(&url[Position::BeforePath..Position::AfterQuery])
            .body(Full::new(Bytes::copy_from_slice(body)));
        let mut request = request.map_err(|error| Fault::InvalidUrl(not_a_url(&error)))?;
        *request.headers_mut() = headers;
        Ok(Self {
            url,
            request,
            timeout: timeout.map_or(DEFAULT_TIMEOUT, Duration::from_millis),
            max_bytes: max_bytes.unwrap_or(DEFAULT_MAX_BYTES),
        })
    }
}

fn invalid(reason: impl Into<String>) -> Fault {
    Fault::Invalid(reason.into())
}

fn text<'r>(record: &'r [u8], number: u32, what: &str) -> Result<&'r str, Fault> {
    std::str::from_utf8(field(record, number)).map_err(|_| invalid(format!("{what} is not UTF-8")))
}

fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// None when the request does not say.
fn number(record: &[u8], name: u32, what: &str, max: u64) -> Result<Option<u64>, Fault> {
    match text(record, name, what)? {
        "" => Ok(None),
        digits => match digits.parse() {
            Ok(number) if number <= max => Ok(Some(number)),
            _ => Err(invalid(format!("{what} is not a number up to {max}: {digits:?}"))),
        },
    }
}

/// Or what is wrong with it, for whoever wrote it. The URL is not repeated: it may have a password in it.
fn url(text: &[u8]) -> Result<Url, String> {
    if text.len() > MAX_URL {
        return Err(format!("The URL has more than {MAX_URL} bytes."));
    }
    let text = std::str::from_utf8(text).map_err(|error| not_a_url(&error))?;
    let url = match Url::parse(text) {
        Err(url::ParseError::RelativeUrlWithoutBase) => {
            return Err("The URL must begin with https:// or http://.".into());
        }
        parsed => parsed.map_err(|error| not_a_url(&error))?,
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("The URL must begin with https:// or http://, not with {}:.", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("The URL must not have a user name or a password in it.".into());
    }
    Ok(url)
}

fn not_a_url(error: &dyn std::error::Error) -> String {
    format!("The URL is not valid: {error}.")
}

fn method(name: &[u8]) -> Result<Method, Fault> {
    if name.is_empty() {
        return Ok(Method::GET);
    }
    match Method::from_bytes(name) {
        Ok(Method::CONNECT | Method::TRACE) | Err(_) => {
            Err(invalid(format!("{:?} is not a supported method", String::from_utf8_lossy(name))))
        }
        Ok(method) => Ok(method),
    }
}

fn headers(buffer: &[u8]) -> Result<HeaderMap, Fault> {
    let pairs = pairs::read(buffer).ok_or_else(|| invalid("the headers are malformed"))?;
    if buffer.len() > MAX_HEADER_BYTES || pairs.clone().count() > MAX_HEADERS {
        return Err(invalid(format!("there are more than {MAX_HEADERS} headers, or {MAX_HEADER_BYTES} bytes of them")));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let Ok(known) = HeaderName::from_bytes(name) else {
            return Err(invalid(format!("{:?} is not a header name", String::from_utf8_lossy(name))));
        };
        // Values may be credentials: they are not repeated.
        let Ok(value) = HeaderValue::from_bytes(value) else {
            return Err(invalid(format!("the header {known} has a line break or a control character in it")));
        };
        if OWN_HEADERS.contains(&known) || hop_by_hop::NAMES.contains(&known) {
            return Err(invalid(format!("the header {known} is set by the host")));
        }
        headers.append(known, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: HeaderValue = HeaderValue::from_static("shop/1.0.0 cardinal/1.0.0");

    fn read(fields: &[(u32, &[u8])]) -> Result<HttpRequest, String> {
        let record = cardinal_plugin_abi::record::write(fields);
        HttpRequest::read(&record, AGENT, None).map_err(|fault| format!("{fault:?}"))
    }

    fn with_header(name: &str, value: &str) -> Result<HttpRequest, String> {
        let headers = pairs::write([(name.as_bytes(), value.as_bytes())]);
        read(&[(http_request::URL, b"http://a.example/"), (http_request::HEADERS, &headers)])
    }

    #[test]
    fn a_url_is_enough_and_what_it_says_goes_where_it_belongs() {
        let read = read(&[(http_request::URL, b"http://A.example:81/p q?x=1#part")]).unwrap();
        assert_eq!((read.request.method(), read.request.uri().to_string().as_str()), (&Method::GET, "/p%20q?x=1"));
        assert_eq!(read.request.headers()[HOST], "a.example:81");
        assert_eq!(read.request.headers()[USER_AGENT], AGENT);
        assert_eq!((read.timeout, read.max_bytes), (DEFAULT_TIMEOUT, DEFAULT_MAX_BYTES));
        assert_eq!(with_header("User-Agent", "mine").unwrap().request.headers()[USER_AGENT], "mine");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for url in ["", "a.example", "file:///etc/passwd", "ftp://a.example/", "http://", "https://u:p@a.example/"] {
            let refused = read(&[(http_request::URL, url.as_bytes())]).unwrap_err();
            assert!(refused.starts_with("InvalidUrl") && !refused.contains("u:p"), "{url}: {refused}");
        }
        let long = format!("https://a.example/{}", "x".repeat(MAX_URL));
        for url in [long.as_bytes(), b"https://a.example/\xff"] {
            assert!(read(&[(http_request::URL, url)]).unwrap_err().starts_with("InvalidUrl"));
        }
        for (name, value) in [
            ("host", "b.example"),
            ("Content-Length", "5"),
            ("transfer-encoding", "chunked"),
            ("connection", "x"),
            ("upgrade", "websocket"),
            ("x", "a\r\nhost: b.example"),
            ("x\r\ny", "z"),
            ("", "x"),
        ] {
            assert!(with_header(name, value).is_err(), "{name}: {value}");
        }
        let url: (u32, &[u8]) = (http_request::URL, b"http://a.example/");
        for other in [
            (http_request::METHOD, &b"CONNECT"[..]),
            (http_request::METHOD, b"GET / HTTP/1.1\r\nx:"),
            (http_request::TIMEOUT_MS, b"-1"),
            (http_request::TIMEOUT_MS, b"600001"),
            (http_request::MAX_BYTES, b"many"),
            (http_request::HEADERS, b"\xff\xff"),
        ] {
            assert!(read(&[url, other]).is_err(), "{other:?}");
        }
    }
}
