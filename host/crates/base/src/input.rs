//! Reading what a client sent, strictly: a wrong field is named, an unknown one refused.

use http::{HeaderMap, header};
use serde::de::{DeserializeOwned, IgnoredAny};

pub use super::exact::escape;
use super::{exact, strict::Strict};

/// What is wrong with what a client sent, in words for the client.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It is no JSON.
    #[error("{0}")]
    Json(String),
    /// One field of it is wrong.
    #[error("{pointer}: {detail}")]
    Field {
        /// A JSON pointer.
        pointer: String,
        detail: String,
    },
    /// A parameter of the query is wrong, or unknown.
    #[error("{0}")]
    Query(String),
}

impl InputError {
    pub fn field(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Field { pointer: pointer.into(), detail: detail.into() }
    }
}

/// A JSON body as `T`. 400 when it is not JSON, 422 with the pointer when a field is wrong or a number cannot be kept
/// as it was sent.
pub fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, InputError> {
    let value = exact_json(body)?;
    match std::str::from_utf8(body).ok().and_then(exact::first_inexact) {
        None => Ok(value),
        Some(pointer) => Err(InputError::field(shortened(&pointer), "This number can't be kept with all its digits.")),
    }
}

/// The same for a `T` that holds every number as text, or none that could change.
pub fn exact_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, InputError> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(Strict(&mut reader));
    match read {
        Ok(value) => reader.end().map(|()| value).map_err(|error| not_json(&error)),
        Err(error) if is_json(body) => Err(wrong_field(&error)),
        Err(error) => Err(not_json(error.inner())),
    }
}

/// JSON as `T`, without a pointer to what is wrong.
pub fn strict<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = T::deserialize(Strict(&mut reader))?;
    reader.end()?;
    Ok(value)
}

/// Whether it is JSON of any size and depth.
pub fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

fn not_json(error: &serde_json::Error) -> InputError {
    let place = format!("line {}, column {}", error.line(), error.column());
    InputError::Json(format!("The body is not valid JSON ({place})."))
}

fn wrong_field(error: &serde_path_to_error::Error<serde_json::Error>) -> InputError {
    let text = error.inner().to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let mut pointer = pointer(error.path());
    // serde names such a field in its text, and in its path only sometimes.
    let named = ["unknown field `", "missing field `", "duplicate field `"];
    if let Some(name) = named.iter().find_map(|lead| text.strip_prefix(lead)).and_then(|rest| rest.split('`').next())
        && !pointer.ends_with(&format!("/{}", escape(name)))
    {
        pointer.push('/');
        pointer.push_str(&escape(name));
    }
    InputError::field(shortened(&pointer), shortened(&plain(text)))
}

/// serde's words about a failure in JSON's.
fn plain(text: &str) -> String {
    if text.starts_with("UUID parsing failed") {
        return "Expected a UUID, such as 019a0b5e-7d0c-7c4e-9d5a-3f1b2c4d5e6f.".to_owned();
    }
    let leads = ["invalid type: ", "invalid value: ", "unknown "];
    let wrong = leads.iter().find_map(|lead| text.strip_prefix(lead)).and_then(|rest| rest.rsplit_once(", expected "));
    match wrong {
        Some((found, expected)) if !found.starts_with("field ") => {
            format!("Expected {expected}, found {}.", named(found))
        }
        _ => capitalised(text),
    }
}

/// What was found. A string is not repeated: it may be long, or a secret.
fn named(found: &str) -> &str {
    let kinds = [
        ("sequence", "an array"),
        ("map", "an object"),
        ("string", "a string"),
        ("character", "a string"),
        ("integer", "a number"),
        ("floating", "a number"),
        ("boolean", "true or false"),
        ("unit", "null"),
        ("null", "null"),
        ("variant", "another string"),
        // A number.
        ("`", found),
    ];
    match kinds.iter().find(|(kind, _)| found.starts_with(kind)) {
        Some((_, name)) => name,
        None => "another value",
    }
}

/// As much of a text of the client's as an answer repeats.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Characters of a pointer or a sentence with a client's words in it.
const MAX_SHOWN_TEXT: usize = 300;

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter().fold(String::new(), |mut out, segment| {
        match segment {
            Segment::Seq { index } => out.push_str(&format!("/{index}")),
            Segment::Map { key } => out.push_str(&format!("/{}", escape(key))),
            Segment::Enum { variant } => out.push_str(&format!("/{}", escape(variant))),
            Segment::Unknown => {}
        }
        out
    })
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + chars.as_str() + ".")
}

/// 400 unless each parameter of the query is one of `names` and stands there once.
pub fn check_query_names(query: &str, names: &[String]) -> Result<(), InputError> {
    check_utf8(query)?;
    let refused = |detail| Err(InputError::Query(detail));
    let mut seen: Vec<&str> = Vec::new();
    for (name, _) in url::form_urlencoded::parse(query.as_bytes()) {
        let Some(known) = names.iter().find(|known| **known == *name) else {
            let shown: String = name.chars().take(MAX_SHOWN_NAME).collect();
            return refused(match names.is_empty() {
                true => format!("The query parameter `{shown}` is unknown; there is none here."),
                false => format!("The query parameter `{shown}` is unknown; there are {}.", names.join(", ")),
            });
        };
        if seen.contains(&known.as_str()) {
            return refused(format!("The query parameter `{known}` is given twice."));
        }
        seen.push(known);
    }
    Ok(())
}

/// Characters of an unknown parameter that are named in the answer.
const MAX_SHOWN_NAME: usize = 64;

/// Read lossily, another text than the client's would be searched for.
fn check_utf8(query: &str) -> Result<(), InputError> {
    match percent_encoding::percent_decode_str(query).decode_utf8() {
        Ok(_) => Ok(()),
        Err(_) => Err(InputError::Query("The query is not UTF-8.".to_owned())),
    }
}

/// The query as `T`; 400 names the parameter that is unknown or wrong, and what it may be.
pub fn query<T: DeserializeOwned>(query: Option<&str>) -> Result<T, InputError> {
    let query = query.unwrap_or_default();
    check_utf8(query)?;
    let reader = serde_urlencoded::Deserializer::new(url::form_urlencoded::parse(query.as_bytes()));
    serde_path_to_error::deserialize(reader).map_err(|error| InputError::Query(wrong_parameter(&error)))
}

fn wrong_parameter(error: &serde_path_to_error::Error<serde_urlencoded::de::Error>) -> String {
    let text = error.inner().to_string();
    // The reader passes on what the standard library says of texts that are no numbers.
    let detail = match text.as_str() {
        "invalid digit found in string" | "cannot parse integer from empty string" => "Expected a whole number.".into(),
        "number too large to fit in target type" => "This number is too large.".into(),
        "number too small to fit in target type" => "This number is too small.".into(),
        "provided string was not `true` or `false`" => "Expected true or false.".into(),
        text => shortened(&plain(text)),
    };
    match error.path().to_string().as_str() {
        "." => detail,
        name => format!("The query parameter `{}` is not valid. {detail}", shortened(name)),
    }
}

/// The media type of the body, lower case, without parameters; `None` when there is none.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// Whether the `Content-Type` says that the text is not UTF-8.
pub fn is_other_charset(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').skip(1).filter_map(|parameter| parameter.trim().split_once('=')).any(|(name, charset)| {
        let (name, charset) = (name.trim(), charset.trim().trim_matches('"'));
        name.eq_ignore_ascii_case("charset")
            && !["utf-8", "utf8", "us-ascii"].iter().any(|known| charset.eq_ignore_ascii_case(known))
    })
}

/// How much an `Accept` header wants one of these types, named in full: 0 when it names none of them.
pub fn preference(accept: &str, types: &[&str]) -> f32 {
    let wanted = accept.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next()?.to_ascii_lowercase();
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        types.contains(&name.as_str()).then(|| quality.map_or(1.0, |q| q.parse().unwrap_or(0.0)))
    });
    wanted.fold(0.0, f32::max)
}

/// A field that may be absent, null or a value; serde's `Option` can't tell the first two apart.
pub mod maybe {
    use serde::{Deserialize, Deserializer};

    use super::InputError;

    /// For `#[serde(default, deserialize_with = "maybe::present")]` on `Option<Option<T>>`.
    pub fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(reader: D) -> Result<Option<Option<T>>, D::Error> {
        Option::<T>::deserialize(reader).map(Some)
    }

    /// The value of a field that may be left out and is never null.
    pub fn not_null<T>(field: Option<Option<T>>, pointer: &str) -> Result<Option<T>, InputError> {
        match field {
            Some(None) => Err(InputError::field(pointer, "This can't be null; leave it out to keep it.")),
            other => Ok(other.flatten()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Limit {
        #[allow(dead_code)]
        per_minute: u32,
    }

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Body {
        name: String,
        limit: Option<Limit>,
        #[serde(default)]
        colour: Colour,
    }

    #[derive(Deserialize, Debug, Default)]
    #[serde(rename_all = "snake_case")]
    enum Colour {
        #[default]
        Red,
        DarkBlue,
        Grey,
    }

    fn find_pointer(body: &str) -> String {
        find_wrong_field::<Body>(body).0
    }

    fn find_wrong_field<T: DeserializeOwned + std::fmt::Debug>(body: &str) -> (String, String) {
        match json::<T>(body.as_bytes()).unwrap_err() {
            InputError::Field { pointer, detail } => (pointer, detail),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_the_field() {
        assert_eq!(find_pointer(r#"{"name": 3}"#), "/name");
        assert_eq!(find_pointer(r#"{"name": "a", "nmae": 1}"#), "/nmae");
        assert_eq!(find_pointer(r#"{}"#), "/name");
        assert_eq!(find_pointer(r#"{"name": "a", "limit": {"per_minute": -1}}"#), "/limit/per_minute");
        assert_eq!(find_pointer(r#"{"name": "a", "limit": {"per_hour": 1}}"#), "/limit/per_hour");
        for array in ["[]", r#"["a"]"#, r#"["a", [1]]"#, "null", "5", "\"a\"", "true"] {
            assert_eq!(find_pointer(array), "", "{array}");
        }
        assert_eq!(find_pointer(r#"{"name": "a", "limit": [1]}"#), "/limit");
        assert_eq!(find_pointer(r#"{"name": "a", "name": "b"}"#), "/name");
        assert_eq!(find_pointer(r#"{"name": "a", "limit": {"per_minute": 1e400}}"#), "/limit/per_minute");
        assert_eq!(find_pointer(r#"{"name": "\ud800"}"#), "/name", "JSON, though no text");
    }

    #[test]
    fn names_what_is_allowed_and_no_rust_type() {
        let detail = |body: &str| find_wrong_field::<Body>(body).1;
        assert_eq!(detail("[]"), "Expected an object, found an array.");
        assert_eq!(detail(r#"{"name": ["a"]}"#), "Expected a string, found an array.");
        assert_eq!(detail(r#"{"name": null}"#), "Expected a string, found null.");
        let number = |value: &str| detail(&format!(r#"{{"name": "a", "limit": {{"per_minute": {value}}}}}"#));
        assert_eq!(number("\"secret\""), "Expected a whole number from 0 to 4294967295, found a string.");
        assert_eq!(number("-1"), "Expected a whole number from 0 to 4294967295, found `-1`.");
        assert_eq!(number("1.5"), "Expected a whole number from 0 to 4294967295, found `1.5`.");
        let colours = "Expected one of `red`, `dark_blue`, `grey`, found ";
        for (value, found) in
            [("null", "null"), ("5", "a number"), ("[\"red\"]", "an array"), ("\"x\"", "another string")]
        {
            assert_eq!(detail(&format!(r#"{{"name": "a", "colour": {value}}}"#)), format!("{colours}{found}."));
        }
        assert_eq!(detail(r#"{"name": "a", "colour": {"red": null}}"#), format!("{colours}an object."));
        assert!(detail(&format!(r#"{{"{}": 1}}"#, "x".repeat(5_000))).len() < 400);
    }

    #[test]
    fn a_number_is_kept_or_refused() {
        let body = |number: &str| format!(r#"{{"a": [{number}]}}"#);
        for kept in ["18446744073709551615", "-0", "0.10"] {
            assert!(json::<serde_json::Value>(body(kept).as_bytes()).is_ok(), "{kept}");
        }
        for changed in ["18446744073709551616", "1e400", "0.1234567890123456789"] {
            assert_eq!(find_wrong_field::<serde_json::Value>(&body(changed)).0, "/a/0", "{changed}");
        }
    }

    #[test]
    fn a_query_has_known_names_and_each_once() {
        let names = ["limit".to_owned(), "q".to_owned()];
        let check = |query: &str| check_query_names(query, &names);
        for good in ["", "&", "limit=5", "q=a&limit=5", "%6Cimit=5", "q", "q=a+b%20c%26limit%3D5", "&&q=1&"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in
            ["x=1", "x", "=1", "Limit=5", "limit=5&limit=6", "limit=5&%6cimit=6", "li%6Dit%20=5", "q=%FF", "q[]=1"]
        {
            assert!(matches!(check(bad), Err(InputError::Query(_))), "{bad}");
        }
        assert!(check_query_names("limit=5", &[]).is_err());
    }

    #[test]
    fn a_query_that_cannot_be_read_names_the_parameter_and_no_rust_type() {
        #[derive(Deserialize, Debug)]
        #[allow(dead_code)]
        struct Read {
            limit: Option<u16>,
            #[serde(default)]
            deleted: bool,
            colour: Option<Colour>,
            id: Option<uuid::Uuid>,
        }
        for (text, expected) in [
            ("limit=ten", "The query parameter `limit` is not valid. Expected a whole number."),
            ("limit=", "The query parameter `limit` is not valid. Expected a whole number."),
            ("limit=-1", "The query parameter `limit` is not valid. Expected a whole number."),
            ("limit=70000", "The query parameter `limit` is not valid. This number is too large."),
            ("deleted=yes", "The query parameter `deleted` is not valid. Expected true or false."),
            (
                "colour=x",
                "The query parameter `colour` is not valid. Expected one of `red`, `dark_blue`, `grey`, found another string.",
            ),
            (
                "id=5",
                "The query parameter `id` is not valid. Expected a UUID, such as 019a0b5e-7d0c-7c4e-9d5a-3f1b2c4d5e6f.",
            ),
        ] {
            assert_eq!(query::<Read>(Some(text)).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn accept_is_weighed() {
        let html = |accept: &str| preference(accept, &["text/html"]);
        assert_eq!(html("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"), 1.0);
        assert_eq!(html("application/json, TEXT/HTML ; q=0.5"), 0.5);
        assert_eq!((html("*/*"), html(""), html("text/html;q=0"), html("text/html;q=x")), (0.0, 0.0, 0.0, 0.0));
    }

    #[test]
    fn what_is_not_json_is_400() {
        for body in ["", "{", "{}x", "\u{1}", "{\"name\": \"a\"} {}"] {
            let read = json::<serde_json::Value>(body.as_bytes());
            assert!(matches!(read, Err(InputError::Json(_))), "{body}");
        }
    }
}
