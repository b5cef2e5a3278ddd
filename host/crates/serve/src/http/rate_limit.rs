//! The two headers that say how a caller stands (draft-ietf-httpapi-ratelimit-headers).

use std::cell::RefCell;

use http::{HeaderMap, HeaderName, HeaderValue};

use cardinal_identity::limit::rate_state::{Policy, RateState, seconds};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Writes `RateLimit-Policy` and `RateLimit`.
pub(crate) fn write(state: &RateState, headers: &mut HeaderMap) {
    let kind = state.policy.kind.name();
    let mut line = HeaderText::new();
    line.text("\"").text(kind).text("\";r=").number(state.remaining);
    line.text(";t=").number(seconds(state.refill));
    if let (Some(policy), Ok(line)) = (policy(state.policy), HeaderValue::from_bytes(line.written())) {
        headers.insert(POLICY, policy);
        headers.insert(LIMIT, line);
    }
}

thread_local! {
    static LATEST_POLICY: RefCell<Option<(Policy, HeaderValue)>> = const { RefCell::new(None) };
}

/// The line of the policy that came last on this thread is kept: callers have few.
fn policy(policy: Policy) -> Option<HeaderValue> {
    LATEST_POLICY.with_borrow_mut(|latest| {
        if let Some((_, line)) = latest.as_ref().filter(|(of, _)| *of == policy) {
            return Some(line.clone());
        }
        let line = describe(policy)?;
        *latest = Some((policy, line.clone()));
        Some(line)
    })
}

fn describe(Policy { kind, limit }: Policy) -> Option<HeaderValue> {
    let mut line = HeaderText::new();
    line.text("\"").text(kind.name()).text("\";q=").number(limit.per_minute.into());
    // The draft has no word for a burst; parameters of one's own carry a prefix.
    line.text(";w=60;cardinal-burst=").number(limit.burst.into());
    HeaderValue::from_bytes(line.written()).ok()
}

/// A short line on the stack: a name and two numbers of 20 digits fit, and so does a policy.
struct HeaderText {
    bytes: [u8; 96],
    length: usize,
}

impl HeaderText {
    fn new() -> Self {
        Self { bytes: [0; 96], length: 0 }
    }

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
    use cardinal_identity::limit::{gcra::Limit, rate_state::Kind};

    use super::*;

    fn written(remaining: u64, refill: u64) -> (String, String) {
        let policy = Policy::new(Kind::Address, Limit::new(1200, 600));
        let mut headers = HeaderMap::new();
        write(&RateState { policy, remaining, refill }, &mut headers);
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

    #[test]
    fn the_longest_policy_is_whole() {
        let policy = Policy::new(Kind::Address, Limit::new(u32::MAX, u32::MAX));
        let mut headers = HeaderMap::new();
        write(&RateState { policy, remaining: 0, refill: 0 }, &mut headers);
        assert_eq!(headers[POLICY], r#""address";q=4294967295;w=60;cardinal-burst=4294967295"#);
    }
}
