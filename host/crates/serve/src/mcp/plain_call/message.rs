//! What a message has to be for the short way.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Uri, header, uri::Authority};
use rmcp::model::{JsonObject, ProtocolVersion, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::mcp::{
    TOOL_CALL, client,
    server::knows_links,
    transport::{SESSION_ID, is_json},
};
use cardinal_base::exact;
use cardinal_observe::trace::Trace;

const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// How a name begins in its header when it is not written as it is.
const ENCODED: &str = "=?base64?";
/// Objects and lists in one message: fewer than the levels that JSON may be nested in.
const NESTED_LIMIT: usize = 100;

/// A tool call that its message says all of.
pub(in crate::mcp) struct PlainCall {
    pub id: RequestId,
    pub name: String,
    pub arguments: JsonObject,
    /// The arguments as the tool gets them and the audit log compares them by.
    pub written: Bytes,
    /// What the client says it is, as the audit log keeps it.
    pub client: Option<Arc<str>>,
    /// The place in its own trace that the client calls from.
    pub trace: Option<Trace>,
    /// Of the revision without sessions.
    pub is_modern: bool,
    /// Of a revision that knows links to resources.
    pub takes_links: bool,
}

/// A member that is not listed may mean anything; a member that is there twice, too.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta", default)]
    meta: Meta<'a>,
}

/// A token for progress is left out: such a call reports.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    revision: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
    client: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    traceparent: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "tracestate")]
    _tracestate: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "baggage")]
    _baggage: Option<Cow<'a, str>>,
}

impl PlainCall {
    pub(in crate::mcp) fn read(uri: &Uri, headers: &HeaderMap, message: &[u8]) -> Option<Self> {
        if message.iter().filter(|byte| matches!(byte, b'{' | b'[')).count() > NESTED_LIMIT {
            return None;
        }
        let Envelope { jsonrpc, id, method, params } = serde_json::from_slice(message).ok()?;
        if jsonrpc != "2.0" || method != TOOL_CALL || !has_host(uri, headers) {
            return None;
        }
        if headers.contains_key(SESSION_ID) || headers.get(header::CONTENT_TYPE).is_some_and(|kind| !is_json(kind)) {
            return None;
        }
        let Params { name, arguments, meta } = params;
        let trace = meta.traceparent.as_deref().and_then(|text| Trace::from_parent(text.as_bytes()));
        let (client, is_modern, takes_links) = match &meta.revision {
            Some(revision) if *revision == ProtocolVersion::V_2026_07_28.as_str() => {
                let names_itself = only(headers, &REVISION)? == revision
                    && only(headers, &METHOD)? == TOOL_CALL
                    && only(headers, &NAME)? == name
                    && !name.starts_with(ENCODED);
                (meta.client(names_itself)?, true, true)
            }
            None if meta.client.is_none() && meta.capabilities.is_none() => (None, false, takes_links(headers)?),
            _ => return None,
        };
        let (arguments, written) = match arguments {
            Some(arguments) => exactly(arguments.get())?,
            None => (JsonObject::new(), Bytes::from_static(b"{}")),
        };
        let id = request_id(id.get())?;
        Some(Self { id, name, arguments, written, client, trace, is_modern, takes_links })
    }
}

impl Meta<'_> {
    /// Who calls, of a message of the newest revision; it has to tell its capabilities.
    fn client(self, names_itself: bool) -> Option<Option<Arc<str>>> {
        let capabilities = self.capabilities.filter(|_| names_itself)?.get();
        if !client::are_capabilities(capabilities) {
            return None;
        }
        match self.client {
            Some(client) => client::read(client.get()).map(Some),
            None => Some(None),
        }
    }
}

/// Arguments whose numbers all keep every digit in a `Value`, and how they are written.
fn exactly(text: &str) -> Option<(JsonObject, Bytes)> {
    let arguments: JsonObject = serde_json::from_str(text).ok()?;
    if arguments.is_empty() {
        return Some((arguments, Bytes::from_static(b"{}")));
    }
    if exact::first_inexact(text).is_some() {
        return None;
    }
    let written = serde_json::to_vec(&arguments).ok()?;
    Some((arguments, written.into()))
}

/// A text or an integer of 64 bits.
fn request_id(text: &str) -> Option<RequestId> {
    if text.starts_with('"') {
        return serde_json::from_str::<String>(text).ok().map(|id| RequestId::String(id.into()));
    }
    serde_json::from_str(text).ok().map(RequestId::Number)
}

/// The value of a header that is there once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether a message by itself, of an older revision, may get links to resources.
fn takes_links(headers: &HeaderMap) -> Option<bool> {
    if !headers.contains_key(REVISION) {
        return Some(false);
    }
    let revision = only(headers, &REVISION)?;
    let is_old = |known: &&ProtocolVersion| known.as_str() < ProtocolVersion::V_2026_07_28.as_str();
    let known = ProtocolVersion::KNOWN_VERSIONS.iter().filter(is_old).find(|known| known.as_str() == revision)?;
    Some(knows_links(known))
}

fn has_host(uri: &Uri, headers: &HeaderMap) -> bool {
    match headers.get(header::HOST) {
        Some(host) => Authority::try_from(host.as_bytes()).is_ok(),
        None => uri.authority().is_some(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PLAIN: &str =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"b":[1],"a":2}}}"#;
    const MODERN: &str = r#"{"jsonrpc":"2.0","id":"i","method":"tools/call","params":{"name":"x","_meta":{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},
        "io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}}"#;

    fn read(headers: &[(&'static str, &'static str)], message: &str) -> Option<PlainCall> {
        let pairs = headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        let headers = HeaderMap::from_iter(pairs.chain([(header::HOST, "localhost".parse().unwrap())]));
        PlainCall::read(&Uri::from_static("/api"), &headers, message.as_bytes())
    }

    const NAMED: [(&str, &str); 3] =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "x")];

    #[test]
    fn a_call_that_says_all_is_plain() {
        let call = read(&[], PLAIN).unwrap();
        assert_eq!((&*call.written, call.is_modern, call.takes_links), (&br#"{"a":2,"b":[1]}"#[..], false, false));
        assert!(read(&[("mcp-protocol-version", "2025-06-18")], PLAIN).unwrap().takes_links);
        let call = read(&NAMED, MODERN).unwrap();
        assert!(call.is_modern && call.takes_links && &*call.client.unwrap() == r#"{"name":"c","version":"1"}"#);
        assert_eq!((&*call.written, call.id), (&b"{}"[..], RequestId::String("i".into())));
    }

    #[test]
    fn every_other_message_is_left_out() {
        for (part, other) in [
            ("\"2.0\"", "\"1.0\""),
            ("\"id\":1", "\"id\":1.0"),
            ("\"id\":1", "\"id\":null"),
            ("\"id\":1,", ""),
            ("\"id\":1,", "\"id\":1,\"id\":1,"),
            ("\"id\":1,", "\"id\":1,\"aside\":1,"),
            ("tools/call", "tools/list"),
            ("\"name\":\"x\"", "\"name\":\"x\",\"name\":\"y\""),
            ("\"name\":\"x\"", "\"name\":\"x\",\"requestState\":\"s\""),
            ("\"name\":\"x\"", "\"name\":\"x\",\"_meta\":{\"progressToken\":1}"),
            ("\"name\":\"x\"", "\"name\":\"x\",\"_meta\":null"),
            ("\"a\":2", "\"a\":18446744073709551616.25"),
            ("\"a\":2", "\"a\":1e400"),
            ("{\"b\":[1],\"a\":2}", "[]"),
            ("{\"b\":[1],\"a\":2}", "\"{}\""),
        ] {
            let message = PLAIN.replacen(part, other, 1);
            assert!(message != PLAIN && read(&[], &message).is_none(), "{message}");
        }
        let nested = PLAIN.replace("[1]", &format!("{}1{}", "[".repeat(NESTED_LIMIT), "]".repeat(NESTED_LIMIT)));
        assert!(read(&[], &nested).is_none());
        for headers in [
            &[("mcp-session-id", "s")][..],
            &[("content-type", "text/plain")],
            &[("mcp-protocol-version", "2026-07-28")],
            &[("mcp-protocol-version", "1999-01-01")],
        ] {
            assert!(read(headers, PLAIN).is_none(), "{headers:?}");
        }
    }

    #[test]
    fn the_newest_revision_names_itself_in_its_headers_too() {
        for (at, other) in [(0, "2025-11-25"), (1, "tools/list"), (2, "y"), (2, "=?base64?eA==?=")] {
            let mut headers = NAMED;
            headers[at].1 = other;
            assert!(read(&headers, MODERN).is_none(), "{headers:?}");
            headers[at] = ("x-other", other);
            assert!(read(&headers, MODERN).is_none(), "{headers:?}");
        }
        assert!(
            read(&NAMED, &MODERN.replace("clientCapabilities\":{}", "clientCapabilities\":{\"roots\":7}")).is_none()
        );
        assert!(read(&NAMED, &MODERN.replace("\"version\":\"1\"", "\"version\":1")).is_none());
        assert!(read(&NAMED, PLAIN).is_none());
    }
}
