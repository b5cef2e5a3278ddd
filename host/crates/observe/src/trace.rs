//! W3C Trace Context: who began what this request is a part of, and what it is called from here on.
//!
//! Parsed strictly: a context that is not well-formed is none, and the trace begins here. Every request is a span of
//! its own; whatever it calls (a plugin, an upstream) gets that span as its parent.

use http::{HeaderMap, HeaderName, HeaderValue};
use rand::Rng;

use cardinal_base::hex::write_hex;

pub const PARENT: HeaderName = HeaderName::from_static("traceparent");
pub const STATE: HeaderName = HeaderName::from_static("tracestate");

/// Bytes of a `traceparent` of version 00.
const PARENT_LENGTH: usize = 55;
/// Bytes and members of a `tracestate` that is passed on; the recommendation asks for no more.
const STATE_LENGTH: usize = 512;
const STATE_MEMBERS: usize = 32;
const SAMPLED: u8 = 1;

/// The place of one request, or of a part of it, in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    id: [u8; 16],
    span: [u8; 8],
    /// None where the trace begins here.
    parent: Option<[u8; 8]>,
    flags: u8,
}

impl Trace {
    /// The trace that the headers carry, or a new one, with a new span in it.
    pub fn from_headers(headers: &HeaderMap, random: &mut impl Rng) -> Self {
        match only(headers, &PARENT).and_then(|value| Trace::from_parent(value.as_bytes())) {
            Some(sender) => sender.child(random),
            None => Self { id: some(random), span: some(random), parent: None, flags: 0 },
        }
    }

    /// The place of whoever sent this `traceparent`, which does not say what that is a part of.
    pub fn from_parent(text: &[u8]) -> Option<Self> {
        let (known, more) = text.split_at_checked(PARENT_LENGTH)?;
        let hyphens = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        let [version] = unhex(&known[..2])?;
        // A later version may say more, behind another hyphen.
        let ends_well = if version == 0 { more.is_empty() } else { more.first().is_none_or(|byte| *byte == b'-') };
        let (id, span): ([u8; 16], [u8; 8]) = (unhex(&known[3..35])?, unhex(&known[36..52])?);
        let [flags] = unhex(&known[53..])?;
        let good = hyphens && ends_well && version != 0xff && id != [0; 16] && span != [0; 8];
        good.then_some(Self { id, span, parent: None, flags: flags & SAMPLED })
    }

    /// A part of this one, with a span of its own.
    pub fn child(&self, random: &mut impl Rng) -> Self {
        Self { span: some(random), parent: Some(self.span), ..*self }
    }

    /// No other system has begun it.
    pub fn begins_here(&self) -> bool {
        self.parent.is_none()
    }

    /// Whoever began it wants its spans to be kept.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    pub(crate) fn set_sampled(&mut self) {
        self.flags |= SAMPLED;
    }

    /// Of 32 hex digits.
    pub fn id(&self) -> impl AsRef<[u8]> + use<> {
        let mut text = [0; 32];
        write_hex(&self.id, &mut text);
        text
    }

    /// Of 16 hex digits.
    pub fn span(&self) -> impl AsRef<[u8]> + use<> {
        let mut text = [0; 16];
        write_hex(&self.span, &mut text);
        text
    }

    /// The span that this one is a part of, of 16 hex digits.
    pub(crate) fn parent_span(&self) -> Option<impl AsRef<[u8]> + use<>> {
        self.parent.map(|parent| {
            let mut text = [0; 16];
            write_hex(&parent, &mut text);
            text
        })
    }

    /// `traceparent` for whatever this request calls.
    pub fn parent(&self) -> Parent {
        let mut text = [b'-'; PARENT_LENGTH];
        write_hex(&[0], &mut text[..2]);
        write_hex(&self.id, &mut text[3..35]);
        write_hex(&self.span, &mut text[36..52]);
        write_hex(&[self.flags], &mut text[53..]);
        Parent(text)
    }

    /// Makes a request that is passed on a part of this trace. What it carries of another one, or one that is not
    /// well-formed, goes.
    pub fn inject(&self, headers: &mut HeaderMap) {
        let state = if continues(headers) { state(headers) } else { None };
        match state {
            Some(state) => drop(headers.insert(STATE, state)),
            None => drop(headers.remove(STATE)),
        }
        // Hex digits and hyphens are a header value.
        if let Ok(parent) = HeaderValue::from_bytes(self.parent().as_ref()) {
            headers.insert(PARENT, parent);
        }
    }
}

/// The text of a `traceparent`.
#[derive(Clone, Copy, Debug)]
pub struct Parent([u8; PARENT_LENGTH]);

impl AsRef<[u8]> for Parent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Whether the headers carry a trace that is well-formed.
fn continues(headers: &HeaderMap) -> bool {
    only(headers, &PARENT).is_some_and(|value| Trace::from_parent(value.as_bytes()).is_some())
}

/// The `tracestate`, in one line, when it is well-formed and belongs to a trace that is.
pub fn state(headers: &HeaderMap) -> Option<HeaderValue> {
    if !headers.contains_key(STATE) || !continues(headers) {
        return None;
    }
    let mut members: Vec<&str> = Vec::new();
    for value in headers.get_all(STATE) {
        for member in value.to_str().ok()?.split(',').map(|member| member.trim_matches([' ', '\t'])) {
            if member.is_empty() {
                continue;
            }
            let (key, value) = member.split_once('=')?;
            let again = members.iter().any(|known| known.split_once('=').is_some_and(|(own, _)| own == key));
            if again || !is_key(key) || !is_value(value) {
                return None;
            }
            members.push(member);
        }
    }
    let text = members.join(",");
    let fits = !text.is_empty() && members.len() <= STATE_MEMBERS && text.len() <= STATE_LENGTH;
    HeaderValue::from_str(&text).ok().filter(|_| fits)
}

fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn is_key(key: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/".contains(&byte);
    let named = |part: &str, max_length: usize, digits: bool| {
        let begins = |byte: &u8| byte.is_ascii_lowercase() || digits && byte.is_ascii_digit();
        part.len() <= max_length && part.as_bytes().first().is_some_and(begins) && part.bytes().all(plain)
    };
    match key.split_once('@') {
        Some((tenant, system)) => named(tenant, 241, true) && named(system, 14, false),
        None => named(key, 256, false),
    }
}

fn is_value(value: &str) -> bool {
    (1..=256).contains(&value.len()) && value.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'=')
}

/// Any number but zero, which means "none".
fn some<const N: usize>(random: &mut impl Rng) -> [u8; N] {
    let mut bytes = [0; N];
    while bytes == [0; N] {
        random.fill_bytes(&mut bytes);
    }
    bytes
}

/// Lower case only, as the recommendation demands.
fn unhex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(parents: &[&str], states: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, values) in [(PARENT, parents), (STATE, states)] {
            for text in values {
                headers.append(&name, text.parse().unwrap());
            }
        }
        headers
    }

    fn parent_after(parents: &[&str]) -> String {
        let trace = Trace::from_headers(&headers(parents, &[]), &mut rand::rng());
        String::from_utf8(trace.parent().as_ref().to_vec()).unwrap()
    }

    #[test]
    fn a_trace_goes_on_with_a_span_of_its_own() {
        let (one, other) = (parent_after(&[GIVEN]), parent_after(&[GIVEN]));
        assert!(one.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && one.ends_with("-01"), "{one}");
        assert!(!one.contains("b7ad6b7169203331") && one != other, "each hop is another span");
        let later = parent_after(&["cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff-more"]);
        assert!(later.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && later.ends_with("-01"), "{later}");
    }

    #[test]
    fn a_part_has_the_whole_as_its_parent() {
        let text = |id: Option<&dyn AsRef<[u8]>>| id.map(|id| String::from_utf8(id.as_ref().to_vec()).unwrap());
        let whole = Trace::from_headers(&headers(&[GIVEN], &[]), &mut rand::rng());
        assert!(whole.is_sampled() && !whole.begins_here());
        assert_eq!(text(whole.parent_span().as_ref().map(|id| id as _)).as_deref(), Some("b7ad6b7169203331"));
        let part = whole.child(&mut rand::rng());
        assert_eq!((part.id().as_ref(), part.is_sampled()), (whole.id().as_ref(), true));
        assert_eq!(part.parent_span().unwrap().as_ref(), whole.span().as_ref());
        assert_ne!(part.span().as_ref(), whole.span().as_ref());
        let mut first = Trace::from_headers(&headers(&[], &[]), &mut rand::rng());
        assert!(first.begins_here() && first.parent_span().is_none() && !first.is_sampled());
        first.set_sampled();
        assert!(first.is_sampled() && first.parent().as_ref().ends_with(b"-01"));
    }

    #[test]
    fn what_is_not_well_formed_begins_a_new_trace() {
        let bad = [
            "",
            "00",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more",
            "0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ];
        for text in bad {
            let made = parent_after(&[text]);
            assert!(!made.contains("0af7651916cd43dd8448eb211c80319c") && made.ends_with("-00"), "{text:?}: {made}");
            assert!(Trace::from_parent(made.as_bytes()).is_some(), "{made}");
        }
        assert!(!parent_after(&[GIVEN, GIVEN]).contains("0af7651916cd43dd"), "two headers are none");
    }

    #[test]
    fn the_state_is_passed_on_only_when_it_is_good() {
        let good = |states: &[&str]| state(&headers(&[GIVEN], states)).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(good(&["a=1, b@sys=2 ", "", "3t@x=x"]).as_deref(), Some("a=1,b@sys=2,3t@x=x"));
        let many: Vec<String> = (0..33).map(|n| format!("k{n}=v")).collect();
        let (many, long) = (many.join(","), format!("a={}", "x".repeat(257)));
        for bad in ["a", "A=1", "a=1,a=2", "1=x", "a=b=c", "a@=1", many.as_str(), long.as_str()] {
            assert_eq!(good(&[bad]), None, "{bad}");
        }
        assert!(state(&headers(&["nonsense"], &["a=1"])).is_none(), "it belongs to no trace");
    }

    #[test]
    fn a_request_that_is_passed_on_is_marked() {
        for (parents, kept) in [(&[GIVEN][..], true), (&["nonsense"], false), (&[], false)] {
            let mut sent = headers(parents, &["a=1"]);
            let trace = Trace::from_headers(&sent, &mut rand::rng());
            trace.inject(&mut sent);
            assert_eq!(sent[PARENT].as_bytes(), trace.parent().as_ref());
            assert_eq!(sent.get(STATE).is_some(), kept);
        }
    }
}
