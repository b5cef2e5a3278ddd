//! The name of one request: in the answer, in the log, in the audit, at the plugin.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use http::HeaderMap;
use uuid::Uuid;

/// The header, in both directions.
pub const HEADER: &str = "x-request-id";
const MAX_LENGTH: usize = 64;

/// The client's own name for its request when it is well-formed, else one of ours. Held inline: every request has one.
#[derive(Clone, Copy)]
pub struct RequestId {
    text: [u8; MAX_LENGTH],
    length: usize,
}

impl RequestId {
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut sent = headers.get_all(HEADER).iter();
        match (sent.next().and_then(|value| value.to_str().ok()), sent.next()) {
            (Some(text), None) => Self::named(text).unwrap_or_else(Self::unnamed),
            _ => Self::unnamed(),
        }
    }

    /// This very name, when it is well-formed.
    pub fn named(text: &str) -> Option<Self> {
        is_well_formed(text).then(|| Self::holding(text))
    }

    fn unnamed() -> Self {
        Self::holding(new().hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }

    pub fn as_str(&self) -> &str {
        // Only ASCII is ever put in.
        std::str::from_utf8(&self.text[..self.length]).unwrap_or_default()
    }

    /// `text` is at most [`MAX_LENGTH`] bytes of ASCII.
    fn holding(text: &str) -> Self {
        let mut id = Self { text: [0; MAX_LENGTH], length: text.len() };
        id.text[..text.len()].copy_from_slice(text.as_bytes());
        id
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A UUIDv7. `Uuid::now_v7` also counts up within a millisecond, under a lock that every request would take.
fn new() -> Uuid {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
    uuid::Builder::from_unix_timestamp_millis(millis, &rand::random()).into_uuid()
}

fn is_well_formed(text: &str) -> bool {
    (1..=MAX_LENGTH).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn id(values: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, value.parse().unwrap());
        }
        RequestId::from_headers(&headers).to_string()
    }

    #[test]
    fn a_well_formed_name_is_kept() {
        let longest = "x".repeat(64);
        for name in ["a", "client.7_a-B", longest.as_str()] {
            assert_eq!(id(&[name]), name);
        }
    }

    #[test]
    fn anything_else_is_named_by_us() {
        let too_long = "x".repeat(65);
        for names in [&[][..], &[""], &["has space"], &["semi;colon"], &[too_long.as_str()], &["one", "two"]] {
            let ours = id(names);
            assert!(Uuid::try_parse(&ours).is_ok(), "{names:?} gave {ours}");
        }
    }
}
