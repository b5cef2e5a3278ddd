//! JSON text whose numbers keep every digit.
//!
//! A `serde_json::Value` holds whole numbers of 64 bits and doubles, and silently rounds what is neither. Values that
//! are only passed on stay text here; where a `Value` is needed, [`first_inexact`] finds the number that it would
//! change.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, value::RawValue};

/// Deeper JSON than this is refused before anything looks at it.
const JSON_DEPTH: usize = 128;

/// Whole numbers of so many digits are exact as integers of 64 bits and as doubles.
const SAFE_DIGITS: usize = 15;

/// One segment of a JSON pointer.
pub fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

/// An object whose values are text.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Object(BTreeMap<String, Box<RawValue>>);

type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

impl Object {
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    pub fn to_raw(&self) -> serde_json::Result<Box<RawValue>> {
        serde_json::value::to_raw_value(self)
    }

    /// The bytes of its members.
    pub fn size(&self) -> usize {
        self.0.values().map(|value| value.get().len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn contains_key(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    pub fn insert(&mut self, name: impl Into<String>, value: Box<RawValue>) {
        self.0.insert(name.into(), value);
    }

    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Keeps the members of these names.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| keep(name));
    }

    /// The member as an object; an empty one where it is something else or missing.
    pub fn object(&self, name: &str) -> serde_json::Result<Self> {
        match self.0.get(name) {
            Some(value) if is_object(value) => Self::parse(value.get()),
            _ => Ok(Self::default()),
        }
    }

    /// Sets the members of `other` whole; one that is null is removed.
    pub fn replace_members(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            if value.get() == "null" {
                self.0.remove(name);
            } else {
                self.0.insert(name.clone(), value.clone());
            }
        }
    }

    /// Applies `patch` as RFC 7396 says. The depth of what a client sends is checked before.
    pub fn merge(&mut self, patch: &Self) -> serde_json::Result<()> {
        for (name, value) in &patch.0 {
            if value.get() == "null" {
                self.0.remove(name);
            } else if is_object(value) {
                let mut inner = self.object(name)?;
                inner.merge(&Self::parse(value.get())?)?;
                self.0.insert(name.clone(), inner.to_raw()?);
            } else {
                self.0.insert(name.clone(), value.clone());
            }
        }
        Ok(())
    }
}

fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// The JSON pointer of the first number that a `Value` would change; none in text that is no JSON.
pub fn first_inexact(text: &str) -> Option<String> {
    if !may_be_inexact(text) {
        return None;
    }
    let mut pointer = String::new();
    let value: &RawValue = serde_json::from_str(text).ok()?;
    has_inexact(value.get(), &mut pointer, JSON_DEPTH).then_some(pointer)
}

/// JSON for people: where a `Value` would change a number, its digits stand there as a text that says so. None when it
/// is no JSON or nested too deeply.
pub fn readable(text: &str) -> Option<Value> {
    read(text.trim(), JSON_DEPTH)
}

fn read(text: &str, depth: usize) -> Option<Value> {
    if !may_be_inexact(text) {
        return serde_json::from_str(text).ok();
    }
    let depth = depth.checked_sub(1)?;
    match text.as_bytes().first()? {
        b'{' => {
            let members: Members<'_> = serde_json::from_str(text).ok()?;
            let members = members.iter().map(|(name, value)| Some((name.to_string(), read(value.get(), depth)?)));
            members.collect::<Option<_>>().map(Value::Object)
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            items.iter().map(|item| read(item.get(), depth)).collect::<Option<_>>().map(Value::Array)
        }
        b'-' | b'0'..=b'9' if !keeps(text) => Some(format!("{text} (number)").into()),
        _ => serde_json::from_str(text).ok(),
    }
}

/// Whether there is anything but short whole numbers, which every `Value` keeps. Digits in texts count, too.
fn may_be_inexact(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) {
        let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let after = bytes.get(start + length);
        if length > SAFE_DIGITS || matches!(after, Some(b'.' | b'e' | b'E')) {
            return true;
        }
        at = start + length;
    }
    false
}

/// On success `pointer` leads to the number.
fn has_inexact(text: &str, pointer: &mut String, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    let end = pointer.len();
    let mut look = |name: &str, value: &RawValue| {
        pointer.push('/');
        pointer.push_str(&escape(name));
        let found = has_inexact(value.get(), pointer, depth);
        if !found {
            pointer.truncate(end);
        }
        found
    };
    match text.as_bytes().first() {
        Some(b'{') => {
            let members: Members<'_> = serde_json::from_str(text).unwrap_or_default();
            members.iter().any(|(name, value)| look(name, value))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            items.iter().enumerate().any(|(index, item)| look(&index.to_string(), item))
        }
        Some(b'-' | b'0'..=b'9') => !keeps(text),
        _ => false,
    }
}

/// Whether the number comes out of a `Value` as the same number.
fn keeps(number: &str) -> bool {
    let Ok(parsed) = number.parse::<Number>() else { return false };
    decimal(number) == decimal(&parsed.to_string())
}

/// A number by its value, however it is written.
#[derive(PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    significant: String,
    /// Of the last significant digit.
    exponent: i64,
}

fn decimal(number: &str) -> Decimal {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent.strip_prefix('+').unwrap_or(exponent).parse::<i64>().unwrap_or(i64::MAX);
    let digits = format!("{}{part}", whole.trim_start_matches('-'));
    let significant = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - significant.len()).unwrap_or_default();
    let significant = significant.trim_start_matches('0').to_owned();
    if significant.is_empty() {
        return Decimal { is_negative: false, significant, exponent: 0 };
    }
    let places = i64::try_from(part.len()).unwrap_or_default();
    let exponent = exponent.saturating_sub(places).saturating_add(zeros);
    Decimal { is_negative: number.starts_with('-'), significant, exponent }
}

/// The same JSON with each member once, the last one, as every parser that checked it has seen it. None when it is no
/// JSON or nested too deeply.
pub fn without_duplicates(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    copy(text.trim(), &mut out, JSON_DEPTH)?;
    Some(out)
}

fn copy(text: &str, out: &mut String, depth: usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match text.as_bytes().first()? {
        b'{' => {
            let members: Members<'_> = serde_json::from_str(text).ok()?;
            for (index, (name, value)) in members.iter().enumerate() {
                out.push(if index == 0 { '{' } else { ',' });
                out.push_str(&serde_json::to_string(name).ok()?);
                out.push(':');
                copy(value.get(), out, depth)?;
            }
            out.push_str(if members.is_empty() { "{}" } else { "}" });
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            for (index, item) in items.iter().enumerate() {
                out.push(if index == 0 { '[' } else { ',' });
                copy(item.get(), out, depth)?;
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        _ => out.push_str(text),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7396, appendix A, that are about objects.
    #[test]
    fn merges_as_the_standard_shows() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            (
                r#"{"a":{"n":18446744073709551616.10}}"#,
                r#"{"a":{"m":-0}}"#,
                r#"{"a":{"m":-0,"n":18446744073709551616.10}}"#,
            ),
        ] {
            let mut merged = Object::parse(target).unwrap();
            merged.merge(&Object::parse(patch).unwrap()).unwrap();
            assert_eq!(merged.to_raw().unwrap().get(), result);
        }
    }

    #[test]
    fn finds_the_number_that_a_value_would_change() {
        for exact in [
            "1",
            "-0",
            "-0.0",
            "1.10",
            "0.1",
            "999999999999999",
            "[\"1234567890123456789\", 7]",
            "1e5",
            "1.5E-300",
            "18446744073709551615",
            "1e22",
            "[{}]",
            "\"1e999\"",
        ] {
            assert_eq!(first_inexact(exact), None, "{exact}");
        }
        for inexact in ["18446744073709551616", "-9223372036854775809", "1e400", "0.12345678901234567890", "1e-400"] {
            assert_eq!(first_inexact(inexact).as_deref(), Some(""), "{inexact}");
            let nested = format!(r#"{{"a":[1,{{"b/c":{inexact}}}]}}"#);
            assert_eq!(first_inexact(&nested).as_deref(), Some("/a/1/b~1c"), "{nested}");
        }
    }

    #[test]
    fn a_member_is_there_once() {
        let text = r#" {"a":1,"b":[{"x":1,"x":2.0}],"a":12345678901234567890123, "c":{}, "d":[]} "#;
        let once = r#"{"a":12345678901234567890123,"b":[{"x":2.0}],"c":{},"d":[]}"#;
        assert_eq!(without_duplicates(text).as_deref(), Some(once));
        assert_eq!(without_duplicates(&"[".repeat(1_000_000)), None);
    }
}
