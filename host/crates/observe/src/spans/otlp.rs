//! Spans as a collector reads them: OTLP's `ExportTraceServiceRequest` in the JSON mapping of protobuf, in which OTLP
//! writes ids in hex and enums as numbers (opentelemetry-proto, `docs/specification.md`, "JSON Protobuf Encoding").

use std::time::Duration;

use serde::{Serialize, Serializer};
use time::OffsetDateTime;

use super::span::{Attributes, Kind, Span};

/// `SPAN_KIND_INTERNAL` and `SPAN_KIND_SERVER`.
const KIND_INTERNAL: u32 = 1;
const KIND_SERVER: u32 = 2;
/// `STATUS_CODE_ERROR`; a span without a status has none.
const STATUS_ERROR: u32 = 2;
/// The lowest bits of a span's flags are those of the W3C trace flags.
const FLAG_SAMPLED: u32 = 0x001;
const FLAG_KNOWS_REMOTE: u32 = 0x100;
const FLAG_REMOTE_PARENT: u32 = 0x200;
/// What made the spans.
const SCOPE: &str = "cardinal";

/// What all spans of this process have in common.
#[derive(Clone, Debug)]
pub struct Resource {
    version: &'static str,
    attributes: Attributes,
}

impl Resource {
    /// The name of the machine is left out where it is not known.
    pub fn new(version: &'static str, instance: &str, host_name: Option<&str>) -> Self {
        let mut attributes = Attributes::default();
        attributes.text("service.name", SCOPE);
        attributes.text("service.version", version);
        attributes.text("service.instance.id", instance);
        if let Some(name) = host_name {
            attributes.text("host.name", name);
        }
        Self { version, attributes }
    }

    /// The body of a request to the collector.
    ///
    /// # Errors
    /// None that is known: every span can be written.
    pub fn encode(&self, spans: &[Span]) -> serde_json::Result<Vec<u8>> {
        let spans = spans.iter().map(SpanMessage::new).collect();
        let scope = ScopeMessage { name: SCOPE, version: self.version };
        serde_json::to_vec(&ExportRequest {
            resource_spans: [ResourceSpans {
                resource: ResourceMessage { attributes: &self.attributes },
                scope_spans: [ScopeSpans { scope, spans }],
            }],
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportRequest<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: ResourceMessage<'a>,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct ResourceMessage<'a> {
    attributes: &'a Attributes,
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: ScopeMessage,
    spans: Vec<SpanMessage<'a>>,
}

#[derive(Serialize)]
struct ScopeMessage {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpanMessage<'a> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    flags: u32,
    name: &'a str,
    kind: u32,
    #[serde(serialize_with = "nanoseconds")]
    start_time_unix_nano: OffsetDateTime,
    #[serde(serialize_with = "nanoseconds")]
    end_time_unix_nano: OffsetDateTime,
    attributes: &'a Attributes,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusMessage>,
}

#[derive(Serialize)]
struct StatusMessage {
    code: u32,
}

impl<'a> SpanMessage<'a> {
    fn new(span: &'a Span) -> Self {
        let trace = &span.trace;
        let is_remote = span.kind == Kind::Server && !trace.begins_here();
        Self {
            trace_id: text(trace.id()),
            span_id: text(trace.span()),
            trace_state: span.state.as_ref().and_then(|state| state.to_str().ok()),
            parent_span_id: trace.parent_span().map(text),
            flags: FLAG_KNOWS_REMOTE
                | if trace.is_sampled() { FLAG_SAMPLED } else { 0 }
                | if is_remote { FLAG_REMOTE_PARENT } else { 0 },
            name: &span.name,
            kind: if span.kind == Kind::Server { KIND_SERVER } else { KIND_INTERNAL },
            start_time_unix_nano: span.started,
            end_time_unix_nano: end(span.started, span.took),
            attributes: &span.attributes,
            status: span.is_error.then_some(StatusMessage { code: STATUS_ERROR }),
        }
    }
}

/// Hex digits are text.
fn text(digits: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(digits.as_ref()).into_owned()
}

fn end(started: OffsetDateTime, took: Duration) -> OffsetDateTime {
    time::Duration::try_from(took).ok().and_then(|took| started.checked_add(took)).unwrap_or(started)
}

/// `fixed64` is a string in JSON.
fn nanoseconds<S: Serializer>(at: &OffsetDateTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&at.unix_timestamp_nanos().max(0))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use rand::{SeedableRng, rngs::SmallRng};
    use serde_json::{Value, json};

    use super::*;
    use crate::trace::Trace;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn encoded(span: Span) -> Value {
        let body = Resource::new("1.2.3", "an-id", Some("a-host")).encode(&[span]).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    fn span(parent: Option<&str>, kind: Kind) -> Span {
        let mut headers = HeaderMap::new();
        if let Some(parent) = parent {
            headers.insert(crate::trace::PARENT, parent.parse().unwrap());
        }
        let mut attributes = Attributes::default();
        attributes.text("http.route", "/cards/{id}");
        attributes.int("http.response.status_code", 200_u16);
        attributes.milliseconds("cardinal.database_ms", Duration::from_micros(1_250));
        Span {
            trace: Trace::from_headers(&headers, &mut SmallRng::seed_from_u64(1)),
            state: parent.map(|_| "a=1".parse().unwrap()),
            kind,
            name: "GET /cards/{id}".to_owned(),
            started: OffsetDateTime::from_unix_timestamp_nanos(1_544_712_660_000_000_001).unwrap(),
            took: Duration::from_millis(1_500),
            attributes,
            is_error: false,
        }
    }

    #[test]
    fn a_request_is_written_as_otlp_wants_it() {
        let span = span(Some(GIVEN), Kind::Server);
        let id = text(span.trace.span());
        assert_eq!(
            encoded(span),
            json!({"resourceSpans": [{
                "resource": {"attributes": [
                    {"key": "service.name", "value": {"stringValue": "cardinal"}},
                    {"key": "service.version", "value": {"stringValue": "1.2.3"}},
                    {"key": "service.instance.id", "value": {"stringValue": "an-id"}},
                    {"key": "host.name", "value": {"stringValue": "a-host"}},
                ]},
                "scopeSpans": [{"scope": {"name": "cardinal", "version": "1.2.3"}, "spans": [{
                    "traceId": "0af7651916cd43dd8448eb211c80319c",
                    "spanId": id,
                    "traceState": "a=1",
                    "parentSpanId": "b7ad6b7169203331",
                    "flags": 0x301,
                    "name": "GET /cards/{id}",
                    "kind": 2,
                    "startTimeUnixNano": "1544712660000000001",
                    "endTimeUnixNano": "1544712661500000001",
                    "attributes": [
                        {"key": "http.route", "value": {"stringValue": "/cards/{id}"}},
                        {"key": "http.response.status_code", "value": {"intValue": "200"}},
                        {"key": "cardinal.database_ms", "value": {"doubleValue": 1.25}},
                    ],
                }]}],
            }]})
        );
    }

    #[test]
    fn what_is_not_there_is_left_out_and_a_failure_has_a_status() {
        let failed = encoded(Span { is_error: true, ..span(None, Kind::Internal) });
        let failed = &failed["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!((&failed["kind"], &failed["status"]), (&json!(1), &json!({"code": 2})));
        assert_eq!(failed["flags"], 0x100, "not sampled, and no parent elsewhere");
        assert!(failed.get("parentSpanId").is_none() && failed.get("traceState").is_none(), "{failed}");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut attributes = Attributes::default();
        attributes.bounded_text("a", "aäb", 2);
        attributes.text("b", &"x".repeat(5_000));
        let written = serde_json::to_value(&attributes).unwrap();
        assert_eq!(written[0]["value"]["stringValue"], "a");
        assert_eq!(written[1]["value"]["stringValue"].as_str().unwrap().len(), 1_024);
    }
}
