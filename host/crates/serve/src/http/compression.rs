//! Answers compressed on their way out, in the content coding that the request prefers.
//!
//! What is compressed: answers to GET that went well, of a type that shrinks, of 1 KiB or more. What is not, and why:
//!
//! * Answers to any other method. All that show a key or a token once (a login, a new or rotated key) are answers to
//!   POST: their length must not depend on how much of a caller's input the secret repeats (BREACH).
//! * MCP, for the same reason: a tool's result holds a model's arguments beside whatever the tool knows.
//! * What has a Content-Encoding, or `Cache-Control: no-transform`, by which a plugin keeps an answer as it is.
//! * Parts (206, Content-Range), answers to Range, and answers with a digest: these mean the bytes as they are.
//!
//! The Admin UI's files and plugins' files come in their codings from `assets` and the registry, compressed once.

mod body;
mod tags;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body::Body as _;
use tokio::sync::Semaphore;

use self::body::CompressedBody;
pub(crate) use self::tags::strip_codings;
use super::{body::Body, reply::Reply};
use cardinal_base::coding::{self, Coding, MIN_COMPRESSED_BYTES, encoder::Encoder, shrinks};

/// Up to this length a body is compressed in one go, a third of a millisecond at most; a longer one piece by piece.
const MAX_WHOLE_BODY: usize = 128 << 10;
/// Bodies that are compressed piece by piece at a time: each holds up to 0.3 MiB until it ends, and event streams last
/// for hours. Others go out as they are.
const STREAMS: usize = 200;
/// An answer with a digest describes its bytes as they are.
const DIGESTS: [HeaderName; 3] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
];

/// Compresses the answers of a host.
pub struct Compression {
    streams: Arc<Semaphore>,
}

impl Default for Compression {
    fn default() -> Self {
        Self { streams: Arc::new(Semaphore::new(STREAMS)) }
    }
}

/// What of a request decides how its answer is sent.
#[derive(Default)]
pub struct Negotiation {
    accept_encoding: Option<HeaderValue>,
    if_none_match: Option<HeaderValue>,
}

impl Negotiation {
    pub(crate) fn new(method: &Method, headers: &HeaderMap) -> Self {
        // Programs mostly ask for nothing, and this is looked at for every request.
        let Some(accepted) = coding::accept_encoding(headers) else { return Self::default() };
        if !matches!(*method, Method::GET | Method::HEAD) || headers.contains_key(header::RANGE) {
            return Self::default();
        }
        Self { accept_encoding: Some(accepted), if_none_match: headers.get(header::IF_NONE_MATCH).cloned() }
    }

    fn coding(&self) -> Option<Coding> {
        Coding::preferred(self.accept_encoding.as_ref()?.to_str().ok()?, &Coding::ON_THE_FLY)
    }
}

impl Compression {
    /// Compresses the answer to a GET or HEAD where that is allowed, pays, and was asked for.
    pub fn apply(&self, negotiation: &Negotiation, reply: &mut Reply) {
        if reply.status() == StatusCode::NOT_MODIFIED {
            if let Some(coding) = negotiation.coding() {
                tags::answer_as_known(reply.headers_mut(), negotiation.if_none_match.as_ref(), coding);
            }
            return;
        }
        if !may_be_compressed(reply) {
            return;
        }
        // For caches, also where this client gets it as it is.
        vary_by_coding(reply.headers_mut());
        let Some(coding) = negotiation.coding() else { return };
        let Some(body) = self.compressed(reply, coding) else { return };
        *reply.body_mut() = body;
        let headers = reply.headers_mut();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        headers.remove(header::CONTENT_LENGTH);
        headers.remove(header::ACCEPT_RANGES);
        tags::append_coding(headers, coding);
    }

    /// The body in this coding; `None` when it is better sent as it is, which it then still can be.
    fn compressed(&self, reply: &mut Reply, coding: Coding) -> Option<Body> {
        if let Body::Full(Some(bytes)) = reply.body()
            && bytes.len() <= MAX_WHOLE_BODY
        {
            let shorter = Encoder::whole(coding, bytes).ok().filter(|short| short.len() < bytes.len())?;
            return Some(Body::full(Bytes::from(shorter)));
        }
        let permit = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        let encoder = Encoder::new(coding).ok()?;
        let body = std::mem::replace(reply.body_mut(), Body::empty());
        Some(Body::stream(CompressedBody::new(body, encoder, permit)))
    }
}

/// Cheap questions first: most answers are short.
fn may_be_compressed(reply: &Reply) -> bool {
    if reply.body().size_hint().upper().is_some_and(|length| length < MIN_COMPRESSED_BYTES) {
        return false;
    }
    let (status, headers) = (reply.status(), reply.headers());
    let is_whole = status.is_success() && status != StatusCode::PARTIAL_CONTENT;
    is_whole
        && headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(shrinks)
        && !headers.contains_key(header::CONTENT_ENCODING)
        && !headers.contains_key(header::CONTENT_RANGE)
        && !names(headers, header::CACHE_CONTROL, "no-transform")
        && !DIGESTS.iter().any(|name| headers.contains_key(name))
}

fn vary_by_coding(headers: &mut HeaderMap) {
    if !names(headers, header::VARY, "accept-encoding") {
        headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

fn names(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let mut values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| value.to_ascii_lowercase().contains(word))
}

#[cfg(test)]
mod tests;
