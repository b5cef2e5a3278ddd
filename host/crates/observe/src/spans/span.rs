//! One span: what was done, when, as a part of which trace.

use std::time::Duration;

use http::HeaderValue;
use serde::{Serialize, Serializer};
use time::OffsetDateTime;

use crate::trace::Trace;

/// Bytes of a text in a span. Clients choose some of them.
const MAX_TEXT: usize = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part of the work within the host.
    Internal,
    /// A request that came in.
    Server,
}

/// Something that has ended.
#[derive(Clone, Debug)]
pub struct Span {
    /// Its ids.
    pub trace: Trace,
    /// The `tracestate` that came with the trace.
    pub state: Option<HeaderValue>,
    pub kind: Kind,
    pub name: String,
    pub started: OffsetDateTime,
    pub took: Duration,
    pub attributes: Attributes,
    pub is_error: bool,
}

/// What is said of a span beside its name and times.
#[derive(Clone, Debug, Default)]
pub struct Attributes(Vec<Attribute>);

/// As OTLP's `KeyValue`.
#[derive(Clone, Debug, Serialize)]
struct Attribute {
    key: &'static str,
    value: Value,
}

/// As OTLP's `AnyValue`; 64-bit numbers are strings in protobuf's JSON.
#[derive(Clone, Debug, Serialize)]
enum Value {
    #[serde(rename = "stringValue")]
    Text(String),
    #[serde(rename = "intValue", serialize_with = "as_string")]
    Int(i64),
    #[serde(rename = "doubleValue")]
    Double(f64),
}

impl Attributes {
    /// A text, of which at most [`MAX_TEXT`] bytes are kept.
    pub fn text(&mut self, key: &'static str, text: &str) {
        self.bounded_text(key, text, MAX_TEXT);
    }

    /// A text of which no more than that many bytes are kept.
    pub fn bounded_text(&mut self, key: &'static str, text: &str, limit: usize) {
        let end = text.floor_char_boundary(limit);
        self.0.push(Attribute { key, value: Value::Text(text[..end].to_owned()) });
    }

    pub fn int(&mut self, key: &'static str, number: impl Into<i64>) {
        self.0.push(Attribute { key, value: Value::Int(number.into()) });
    }

    /// A time in milliseconds, to the microsecond.
    #[allow(clippy::cast_precision_loss)] // 2^53 microseconds are 285 years
    pub fn milliseconds(&mut self, key: &'static str, time: Duration) {
        self.0.push(Attribute { key, value: Value::Double(time.as_micros() as f64 / 1e3) });
    }
}

impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

fn as_string<S: Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}
