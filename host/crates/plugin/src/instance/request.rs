//! A call's parts, laid out for the plugin. This is the hot path: one buffer for the head, one for
//! the headers when there are any, and no copy of the body.

use std::{
    io::{Cursor, Write},
    sync::Arc,
};

use cardinal_plugin_abi::{Bytes, Request, Stream, pairs, record, record::attr};
use http::{HeaderMap, HeaderName, header};
use tokio::runtime::Handle;

use crate::{
    bridge::{call::CallScope, streams::RequestBody},
    call::{CallBody, CallParts},
};

/// Headers of a request that no plugin sees: the credential, and what belongs to the connection.
const WITHHELD: [HeaderName; 10] = [
    header::AUTHORIZATION,
    header::HOST,
    header::CONNECTION,
    header::COOKIE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

/// The fields that a plugin may read by number.
pub(super) fn head(call: &CallParts<'_>, generation: &str) -> Bytes {
    let caller = &*call.caller;
    let mut user_id = [0; uuid::fmt::Hyphenated::LENGTH];
    let user_id = caller.user_id.as_hyphenated().encode_lower(&mut user_id);
    let left = call.deadline.left().as_millis();
    let (mut deadline, mut peer, mut length) = (Text::new(), Text::new(), Text::new());
    let parent = call.trace.map(|trace| trace.parent());
    let announced = match &call.body {
        CallBody::Stream(_, announced) => *announced,
        CallBody::Full(_) => None,
    };
    let job_id = call.job.as_ref().map(|job| job.handle.id.to_string()).unwrap_or_default();
    let checkpoint = call.job.as_ref().and_then(|job| job.checkpoint.as_deref()).unwrap_or_default();
    let fields = [
        (attr::METHOD, call.method.as_bytes()),
        (attr::PATH, call.path.as_bytes()),
        (attr::QUERY, call.query.as_bytes()),
        (attr::USER_ID, user_id.as_bytes()),
        (attr::USER_KIND, caller.kind.name().as_bytes()),
        (attr::USER_NAME, caller.username.as_bytes()),
        (attr::SCOPES, caller.scopes.as_text().as_bytes()),
        (attr::AUTH_METHOD, caller.auth_method().as_bytes()),
        (attr::REQUEST_ID, call.request_id.as_str().as_bytes()),
        (attr::TRACE_PARENT, parent.as_ref().map(AsRef::as_ref).unwrap_or_default()),
        (attr::DEADLINE_MS, deadline.show(format_args!("{left}"))),
        (attr::PEER, call.peer.map(|ip| peer.show(format_args!("{ip}"))).unwrap_or_default()),
        (attr::GENERATION, generation.as_bytes()),
        (attr::CALL_KIND, kind(call).as_bytes()),
        (attr::CONTENT_LENGTH, announced.map(|n| length.show(format_args!("{n}"))).unwrap_or_default()),
        (attr::TOOL, call.tool.unwrap_or_default().as_bytes()),
        (attr::LOCALE, locale(call.headers).as_bytes()),
        (attr::JOB, job_id.as_bytes()),
        (attr::CHECKPOINT, checkpoint.as_bytes()),
    ];
    Bytes::from_vec(record::write(&fields))
}

fn kind(call: &CallParts<'_>) -> &'static str {
    match (call.tool, &call.job) {
        (Some(_), _) => "tool",
        (None, Some(_)) => "job",
        (None, None) => "route",
    }
}

/// The longest language tag that is passed on; real ones have a dozen characters.
const LOCALE_LIMIT: usize = 35;

/// The tag that `Accept-Language` prefers, the first of several alike; empty without one.
fn locale(headers: &HeaderMap) -> &str {
    let accepted = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut best = ("", 0.0);
    for entry in accepted.split(',') {
        let (tag, weight) = entry.split_once(';').unwrap_or((entry, "q=1"));
        let tag = tag.trim();
        let weight: f32 = weight.trim().strip_prefix("q=").and_then(|q| q.parse().ok()).unwrap_or(0.0);
        let is_tag = (1..=LOCALE_LIMIT).contains(&tag.len())
            && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if is_tag && weight > best.1 {
            best = (tag, weight);
        }
    }
    best.0
}

/// The request whose head is `head`. `full` is the body, or else the call's scope holds it.
pub(super) fn build(
    head: Bytes,
    call: &CallParts<'_>,
    full: Option<bytes::Bytes>,
    scope: &Arc<CallScope>,
    runtime: &Handle,
) -> Request {
    let shown = call.headers.iter().filter(|(name, _)| !WITHHELD.contains(name));
    let shown: Vec<_> = shown.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())).collect();
    let headers = pairs::write(shown);
    let params = pairs::write(call.params.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    let (body, stream) = match full {
        Some(bytes) if bytes.is_empty() => (Bytes::EMPTY, Stream::NONE),
        Some(bytes) => (Bytes::from_owner(bytes), Stream::NONE),
        None => (Bytes::EMPTY, Stream::new(RequestBody::new(scope.clone(), runtime.clone()))),
    };
    Request { head, headers: Bytes::from_vec(headers), params: Bytes::from_vec(params), body, stream }
}

/// A number or an address as text, without an allocation.
struct Text {
    buffer: [u8; 48],
}

impl Text {
    const fn new() -> Self {
        Self { buffer: [0; 48] }
    }

    fn show(&mut self, value: std::fmt::Arguments<'_>) -> &[u8] {
        let mut out = Cursor::new(&mut self.buffer[..]);
        // Nothing that is shown here is longer than 48; a cut one would read as cut, not break.
        let _ = out.write_fmt(value);
        let written = out.position() as usize;
        &self.buffer[..written]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_the_one_that_is_preferred() {
        for (accepted, expected) in [
            ("de-AT,de;q=0.9,en;q=0.5", "de-AT"),
            ("en;q=0.5, fr ;q=0.8", "fr"),
            ("*, it;q=0.1", "it"),
            ("de;q=0, en;q=x", ""),
            ("", ""),
            ("../../etc", ""),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_LANGUAGE, accepted.parse().unwrap())]);
            assert_eq!(locale(&headers), expected, "{accepted}");
        }
        assert_eq!(locale(&HeaderMap::new()), "");
        let long = HeaderMap::from_iter([(header::ACCEPT_LANGUAGE, "a".repeat(36).parse().unwrap())]);
        assert_eq!(locale(&long), "");
    }
}
