//! How a caller stands, and the two headers that say so (draft-ietf-httpapi-ratelimit-headers).

use http::{HeaderMap, HeaderName, HeaderValue};

use super::gcra::Limit;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Key,
    User,
    Address,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::User => "user",
            Self::Address => "address",
        }
    }
}

/// A limit in force, with the header that describes it: made once, cloned for each answer.
#[derive(Clone, Debug)]
pub struct Policy {
    pub kind: Kind,
    pub limit: Limit,
    described: HeaderValue,
}

impl Policy {
    pub fn new(kind: Kind, limit: Limit) -> Self {
        // The draft has no word for a burst; parameters of one's own carry a prefix.
        let text = format!(r#""{}";q={};w=60;cardinal-burst={}"#, kind.name(), limit.per_minute, limit.burst);
        Self { kind, limit, described: HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("")) }
    }
}

/// Where a caller stands after its call.
#[derive(Clone, Debug)]
pub struct RateState {
    pub policy: Policy,
    /// Calls that would be let through now.
    pub remaining: u64,
    /// Nanoseconds until the whole burst is there again.
    pub refill: u64,
}

impl RateState {
    /// Writes `RateLimit-Policy` and `RateLimit`.
    pub fn write(&self, headers: &mut HeaderMap) {
        let mut line = HeaderText { bytes: [0; 64], length: 0 };
        line.text("\"").text(self.policy.kind.name()).text("\";r=").number(self.remaining);
        line.text(";t=").number(seconds(self.refill));
        if let Ok(value) = HeaderValue::from_bytes(line.written()) {
            headers.insert(POLICY, self.policy.described.clone());
            headers.insert(LIMIT, value);
        }
    }
}

/// Whole seconds, rounded up: whoever waits that long has waited long enough.
pub fn seconds(nanos: u64) -> u64 {
    nanos.div_ceil(1_000_000_000)
}

/// A short line on the stack: a name and two numbers of 20 digits fit.
struct HeaderText {
    bytes: [u8; 64],
    length: usize,
}

impl HeaderText {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    fn text(&mut self, text: &str) -> &mut Self {
        text.bytes().for_each(|byte| self.push(byte));
        self
    }

    fn number(&mut self, number: u64) -> &mut Self {
        let mut place = 1;
        while number / place >= 10 {
            place *= 10;
        }
        while place > 0 {
            self.push(b'0' + (number / place % 10) as u8);
            place /= 10;
        }
        self
    }

    fn written(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(remaining: u64, refill: u64) -> (String, String) {
        let policy = Policy::new(Kind::Address, Limit::new(1200, 600));
        let mut headers = HeaderMap::new();
        RateState { policy, remaining, refill }.write(&mut headers);
        let text = |name: HeaderName| headers[name].to_str().unwrap().to_owned();
        (text(POLICY), text(LIMIT))
    }

    #[test]
    fn the_headers_are_structured_fields_of_the_draft() {
        let (policy, limit) = written(599, 1);
        assert_eq!(policy, r#""address";q=1200;w=60;cardinal-burst=600"#);
        assert_eq!(limit, r#""address";r=599;t=1"#);
        assert_eq!(written(0, 0).1, r#""address";r=0;t=0"#);
        assert_eq!(written(10, 2_000_000_001).1, r#""address";r=10;t=3"#);
    }

    #[test]
    fn the_longest_line_is_whole() {
        let longest = format!(r#""address";r={};t={}"#, u64::MAX, seconds(u64::MAX));
        assert_eq!(written(u64::MAX, u64::MAX).1, longest);
    }
}
