//! Typed access to a JSON document that remembers where it is and collects what is wrong.

use std::{cell::RefCell, time::Duration};

use serde_json::{Map, Value};

use super::{Access, Problem, TIMEOUT_LIMIT, Warning};
use crate::refusal::Code;
use cardinal_base::spelling::did_you_mean;

/// Values are quoted in messages up to this many characters.
const MAX_SHOWN_CHARS: usize = 80;
/// Longest title, label, author, kind, handler, summary.
pub(super) const LINE_LIMIT: usize = 200;

/// Where the readers of one document leave what they find.
#[derive(Default)]
pub(super) struct Findings {
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<Warning>>,
}

impl Findings {
    pub(super) fn problem(&self, code: Code, pointer: &str, expected: impl Into<String>, found: impl Into<String>) {
        let problem = Problem { code, pointer: pointer.to_owned(), expected: expected.into(), found: found.into() };
        self.problems.borrow_mut().push(problem);
    }

    pub(super) fn warning(&self, pointer: &str, message: impl Into<String>) {
        self.warnings.borrow_mut().push(Warning { pointer: pointer.to_owned(), message: message.into() });
    }

    pub(super) fn into_parts(self) -> (Vec<Problem>, Vec<Warning>) {
        (self.problems.into_inner(), self.warnings.into_inner())
    }
}

/// A value and its place.
#[derive(Clone)]
pub(super) struct Field<'a> {
    pub value: &'a Value,
    pub pointer: String,
    findings: &'a Findings,
}

impl<'a> Field<'a> {
    pub(super) fn root(value: &'a Value, findings: &'a Findings) -> Self {
        Self { value, pointer: String::new(), findings }
    }

    /// Notes that the value is not what was expected.
    pub(super) fn wrong(&self, code: Code, expected: impl Into<String>) {
        self.findings.problem(code, &self.pointer, expected, describe(self.value));
    }

    pub(super) fn warn(&self, message: impl Into<String>) {
        self.findings.warning(&self.pointer, message);
    }

    pub(super) fn object(&self) -> Option<Object<'a>> {
        let Some(map) = self.value.as_object() else {
            self.wrong(Code::BadManifest, "an object");
            return None;
        };
        Some(Object { map, pointer: self.pointer.clone(), findings: self.findings })
    }

    pub(super) fn string(&self) -> Option<&'a str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.wrong(Code::BadManifest, "a string");
        }
        text
    }

    /// A string that says something, on one line, not longer than `limit` characters.
    pub(super) fn line(&self, limit: usize) -> Option<&'a str> {
        let text = self.string()?;
        let fits = !text.trim().is_empty() && text.chars().count() <= limit && !text.chars().any(char::is_control);
        if !fits {
            self.wrong(Code::BadManifest, format!("1 to {limit} characters on one line"));
        }
        fits.then_some(text)
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        let value = self.value.as_bool();
        if value.is_none() {
            self.wrong(Code::BadManifest, "true or false");
        }
        value
    }

    pub(super) fn integer(&self, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        // However it is written: `3e4` is a whole number, too.
        let written = || self.value.as_f64().filter(|it| it.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(it));
        let value = self.value.as_u64().or_else(|| written().map(|it| it as u64)).filter(|value| range.contains(value));
        if value.is_none() {
            self.wrong(Code::BadManifest, format!("a whole number from {} to {}", range.start(), range.end()));
        }
        value
    }

    pub(super) fn array(&self) -> Option<Vec<Field<'a>>> {
        let Some(items) = self.value.as_array() else {
            self.wrong(Code::BadManifest, "an array");
            return None;
        };
        let item = |(i, value)| Field { value, pointer: format!("{}/{i}", self.pointer), findings: self.findings };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// The items of an array that has at most `limit` of them.
    pub(super) fn bounded_array(&self, limit: usize) -> Option<Vec<Field<'a>>> {
        let items = self.array()?;
        if items.len() > limit {
            self.wrong(Code::BadManifest, format!("an array of at most {limit}"));
            return None;
        }
        Some(items)
    }

    /// A string of at most `limit` bytes.
    pub(super) fn text(&self, limit: usize) -> Option<&'a str> {
        let text = self.string()?;
        if text.len() > limit {
            let found = format!("a string of {} bytes", text.len());
            self.findings.problem(Code::BadManifest, &self.pointer, format!("at most {limit} bytes"), found);
            return None;
        }
        Some(text)
    }

    /// Whether the value is at most `limit` bytes of JSON.
    pub(super) fn fits(&self, limit: usize) -> bool {
        let length = self.value.to_string().len();
        if length > limit {
            let (expected, found) = (format!("at most {limit} bytes of JSON"), format!("{length} bytes"));
            self.findings.problem(Code::BadManifest, &self.pointer, expected, found);
        }
        length <= limit
    }

    /// A JSON Schema that can be compiled: an object, or `true`/`false`.
    pub(super) fn schema(&self) -> Option<Value> {
        if !matches!(self.value, Value::Object(_) | Value::Bool(_)) {
            self.wrong(Code::BadManifest, "a JSON Schema");
            return None;
        }
        if let Err(error) = jsonschema::validator_for(self.value) {
            let (found, place) = (shorten(&error.to_string()), format!("{}{}", self.pointer, error.instance_path()));
            self.findings.problem(Code::BadManifest, &place, "a valid JSON Schema", found);
            return None;
        }
        Some(self.value.clone())
    }

    /// A JSON Schema of objects, as MCP wants it.
    pub(super) fn object_schema(&self) -> Option<Map<String, Value>> {
        let object = self.object()?;
        if let Some(kind) = object.optional("type").filter(|kind| kind.value != "object") {
            kind.wrong(Code::BadManifest, "\"object\"");
            return None;
        }
        self.schema()?;
        let mut map = object.map.clone();
        map.entry("type").or_insert_with(|| "object".into());
        Some(map)
    }
}

/// An object whose known fields are taken by name; [`done`](Self::done) warns about the rest.
pub(super) struct Object<'a> {
    pub map: &'a Map<String, Value>,
    pointer: String,
    findings: &'a Findings,
}

impl<'a> Object<'a> {
    pub(super) fn optional(&self, name: &str) -> Option<Field<'a>> {
        let value = self.map.get(name)?;
        Some(Field { value, pointer: self.child_pointer(name), findings: self.findings })
    }

    pub(super) fn required(&self, name: &str, expected: &str) -> Option<Field<'a>> {
        let field = self.optional(name);
        if field.is_none() {
            self.findings.problem(Code::BadManifest, &self.child_pointer(name), expected, "nothing");
        }
        field
    }

    /// Notes a problem of a field that may not be there.
    pub(super) fn wrong(&self, name: &str, code: Code, expected: impl Into<String>) {
        let found = self.map.get(name).map_or_else(|| "nothing".to_owned(), describe);
        self.findings.problem(code, &self.child_pointer(name), expected, found);
    }

    /// Warns about every field that is not in `known`.
    pub(super) fn done(&self, known: &[&str]) {
        for name in self.map.keys().filter(|name| !known.contains(&name.as_str())) {
            let guess = did_you_mean(name, known.iter().copied());
            let message = format!("This field is not known to this host and has no effect.{guess}");
            self.findings.warning(&self.child_pointer(name), message);
        }
    }

    fn child_pointer(&self, name: &str) -> String {
        format!("{}/{}", self.pointer, name.replace('~', "~0").replace('/', "~1"))
    }
}

/// A value as it is named in a message.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => format!("the boolean {value}"),
        Value::Number(_) => format!("the number {value}"),
        Value::String(text) => format!("the string {:?}", shorten(text)),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

pub(super) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

pub(super) fn line(object: &Object, name: &str) -> Option<String> {
    object.optional(name)?.line(LINE_LIMIT).map(str::to_owned)
}

pub(super) fn scope(object: &Object) -> Option<Access> {
    let field = object.optional("scope")?;
    match field.string()? {
        "read" => Some(Access::Read),
        "write" => Some(Access::Write),
        _ => {
            field.wrong(Code::BadManifest, "\"read\" or \"write\"");
            None
        }
    }
}

pub(super) fn timeout(object: &Object) -> Option<Duration> {
    let max_ms = TIMEOUT_LIMIT.as_millis() as u64;
    object.optional("timeout_ms")?.integer(1..=max_ms).map(Duration::from_millis)
}
