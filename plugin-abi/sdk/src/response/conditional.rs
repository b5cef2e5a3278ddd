//! `ETag` and `If-None-Match`, `Range` and `If-Range`.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;

use super::{Body, Response};
use crate::Request;

impl Response {
    /// Names the version of what is answered: the text becomes an `ETag`, in quotes.
    ///
    /// Use what changes with every change of the content: a version number, a hash. A text with a quote in it makes no
    /// usable tag.
    ///
    /// The host says `cache-control: no-store` where the reply sets none, and then a browser keeps nothing to ask
    /// about: for browsers, set `private, no-cache` (keep it, ask each time), or a `max-age`.
    ///
    /// ```
    /// use cardinal_plugin::Response;
    ///
    /// let reply = Response::text("0123456789").etag("7").header("cache-control", "private, no-cache");
    /// ```
    #[must_use]
    pub fn etag(self, version: &str) -> Self {
        self.header("etag", &format!("\"{version}\""))
    }

    /// Answers what the request makes conditional on the version, or asks a part of. Call it last.
    ///
    /// When the reply is a 200 to GET or HEAD, it becomes
    ///
    /// * `304` without a body for an `If-None-Match` that has the [`etag`](Self::etag),
    /// * `206` with the bytes of a `Range` (unless an `If-Range` names another version),
    /// * `416` for a `Range` that lies outside.
    ///
    /// A body without an `ETag` gets one of its content; a streamed one is left as it is, but for its `ETag`. Several
    /// ranges at once, and ranges in other units, get the whole body, as HTTP permits.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn manual(_ctx: PluginContext, req: Request) -> Result<Response> {
    ///     Ok(Response::bytes("application/pdf", &b"%PDF-1.7"[..]).etag("7").conditional(&req))
    /// }
    ///
    /// let manifest = r#"{ "name": "manuals", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/manual", manual));
    /// let get = |name, value| block_on(host.send(TestRequest::get("/manual").header(name, value)));
    /// assert_eq!(get("if-none-match", "\"7\"").status(), 304);
    /// let part = get("range", "bytes=0-3");
    /// assert_eq!((part.status(), part.text(), part.header("content-range")), (206, "%PDF", Some("bytes 0-3/8")));
    /// ```
    #[must_use]
    pub fn conditional(self, req: &Request) -> Self {
        self.answer(req.method(), |name| req.header(name))
    }

    fn answer<'r>(mut self, method: &http::Method, header: impl Fn(&str) -> Option<&'r str>) -> Self {
        if self.status != 200 || self.fault.is_some() || (method != http::Method::GET && method != http::Method::HEAD) {
            return self;
        }
        if self.find("etag").is_none() {
            let Body::Full(bytes) = &self.body else { return self };
            let version = digest(bytes);
            self = self.etag(&version);
        }
        let tag = self.find("etag").unwrap_or_default().to_owned();
        if header("if-none-match").is_some_and(|known| matches(known, &tag)) {
            self.body = Body::Full(Bytes::new());
            self.headers.retain(|(name, _)| name != "content-type");
            return self.status(304);
        }
        let Body::Full(bytes) = &self.body else { return self };
        let whole = bytes.clone();
        let is_meant = header("if-range").is_none_or(|known| known == tag && !tag.starts_with("W/"));
        let range = header("range").filter(|_| is_meant && method == http::Method::GET);
        let reply = self.header("accept-ranges", "bytes");
        match range.map(|range| part(range, whole.len())) {
            None | Some(Part::Whole) => reply,
            Some(Part::None) => {
                let reply = Self { body: Body::Full(Bytes::new()), ..reply };
                reply.status(416).header("content-range", &format!("bytes */{}", whole.len()))
            }
            Some(Part::Bytes(from, to)) => {
                let reply = Self { body: Body::Full(whole.slice(from..to)), ..reply };
                reply.status(206).header("content-range", &format!("bytes {from}-{}/{}", to - 1, whole.len()))
            }
        }
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).and_then(|(_, value)| value.to_str().ok())
    }
}

/// Names a content. Two that differ have the same name once in 2^64 tries; nothing but freshness rests on it.
fn digest(bytes: &[u8]) -> String {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        (seed, bytes).hash(&mut hasher);
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(0), half(1))
}

/// Whether a list of tags has this one, strong or weak, or is `*`.
fn matches(list: &str, tag: &str) -> bool {
    let plain = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    list.trim() == "*" || list.split(',').any(|known| plain(known) == plain(tag))
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Whole,
    None,
    Bytes(usize, usize),
}

/// The part of `length` bytes that a `Range` asks for.
fn part(range: &str, length: usize) -> Part {
    let Some(spec) = range.trim().strip_prefix("bytes=") else { return Part::Whole };
    let Some((from, to)) = spec.split_once('-') else { return Part::Whole };
    let (from, to) = (from.trim(), to.trim());
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<usize>().unwrap_or(usize::MAX))
    };
    match (from.is_empty(), to.is_empty(), number(from), number(to)) {
        (true, false, _, Some(last)) if last == 0 || length == 0 => Part::None,
        (true, false, _, Some(last)) => Part::Bytes(length.saturating_sub(last), length),
        (false, true, Some(from), _) if from < length => Part::Bytes(from, length),
        (false, false, Some(from), Some(to)) if from > to => Part::Whole,
        (false, false, Some(from), Some(to)) if from < length => Part::Bytes(from, to.saturating_add(1).min(length)),
        (false, true, Some(_), _) | (false, false, Some(_), Some(_)) => Part::None,
        _ => Part::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_what_http_says() {
        for (range, expected) in [
            ("bytes=0-3", Part::Bytes(0, 4)),
            ("bytes=4-", Part::Bytes(4, 10)),
            ("bytes=-3", Part::Bytes(7, 10)),
            ("bytes=-30", Part::Bytes(0, 10)),
            ("bytes=8-99999999999999999999999", Part::Bytes(8, 10)),
            ("bytes=10-", Part::None),
            ("bytes=10-11", Part::None),
            ("bytes=-0", Part::None),
            ("bytes=5-4", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("items=0-1", Part::Whole),
        ] {
            assert_eq!(part(range, 10), expected, "{range}");
        }
        assert_eq!(part("bytes=0-0", 0), Part::None);
        assert_eq!(part("bytes=-1", 0), Part::None);
    }

    fn ask(reply: Response, headers: &[(&str, &'static str)]) -> (u16, Vec<u8>, String) {
        let header = |name: &str| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
        let reply = reply.answer(&http::Method::GET, header);
        let range = reply.find("content-range").unwrap_or_default().to_owned();
        let Body::Full(bytes) = &reply.body else { panic!("a stream") };
        (reply.status, bytes.to_vec(), range)
    }

    #[test]
    fn what_is_known_is_not_sent_again_and_parts_are_sent_alone() {
        let reply = || Response::text("0123456789").etag("v1");
        for known in ["\"v1\"", "W/\"v1\"", "\"v0\", \"v1\"", "*"] {
            assert_eq!(ask(reply(), &[("if-none-match", known)]).0, 304, "{known}");
        }
        assert_eq!(ask(reply(), &[("if-none-match", "\"v2\"")]).0, 200);
        let part = ask(reply(), &[("range", "bytes=2-3")]);
        assert_eq!(part, (206, b"23".to_vec(), "bytes 2-3/10".to_owned()));
        assert_eq!(ask(reply(), &[("range", "bytes=2-3"), ("if-range", "\"v2\"")]).0, 200);
        assert_eq!(ask(reply(), &[("range", "bytes=2-3"), ("if-range", "\"v1\"")]).0, 206);
        assert_eq!(ask(reply(), &[("range", "bytes=12-")]), (416, Vec::new(), "bytes */10".to_owned()));
        assert_eq!(ask(reply().status(201), &[("if-none-match", "*")]).0, 201);
        let tag =
            |text: &str| Response::text(text).answer(&http::Method::GET, |_| None).find("etag").map(str::to_owned);
        assert!(tag("a").is_some() && tag("a") == tag("a") && tag("a") != tag("b"));
        let posted = Response::text("a").answer(&http::Method::POST, |_| Some("*"));
        assert_eq!((posted.status, posted.find("etag")), (200, None));
    }
}
