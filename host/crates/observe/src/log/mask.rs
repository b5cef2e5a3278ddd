//! Credentials in texts that somebody else wrote: a plugin's lines, a driver's error. They are masked before anything
//! is written or kept. Only what can be told from other words is found; nobody should log a credential.

use std::{borrow::Cow, ops::Range};

use base64::{Engine, engine::general_purpose};
use serde_json::Value;

const MASK: &str = "***";
/// Names that a value follows which nobody else may know, as in `password=x`, `"password": "x"`. In lower case.
const NAMED: [&str; 9] =
    ["password", "passwd", "secret", "api_key", "apikey", "api-key", "access_token", "refresh_token", "private_key"];
/// Members of a plugin's fields whose text is masked whole, beside those above.
const MEMBERS: [&str; 4] = ["authorization", "cookie", "set-cookie", "token"];
/// Shorter ones are words of a sentence.
const MIN_TOKEN: usize = 8;
const MIN_JWT: usize = 16;

/// The text without what is known to be a credential.
pub(super) fn mask(text: &str) -> Cow<'_, str> {
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    keys(text, &mut found);
    jwts(text, &mut found);
    schemes(text, &lower, &mut found);
    addresses(text, &mut found);
    named(text, &lower, &mut found);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_by_key(|range| range.start);
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for range in found {
        if range.start >= at {
            out.push_str(&text[at..range.start]);
            out.push_str(MASK);
        }
        at = at.max(range.end);
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

/// A JSON object that a plugin wrote, without credentials; what is no object is a text.
pub(super) fn mask_json(text: &str) -> Cow<'_, str> {
    match serde_json::from_str::<Value>(text) {
        Ok(mut value @ Value::Object(_)) => {
            mask_value(&mut value);
            Cow::Owned(value.to_string())
        }
        _ => mask(text),
    }
}

fn mask_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = mask(text) {
                *text = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_value),
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match value {
                    Value::String(text) if is_secret(name) && !text.is_empty() => MASK.clone_into(text),
                    value => mask_value(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_secret(member: &str) -> bool {
    let lower = member.to_ascii_lowercase();
    MEMBERS.contains(&lower.as_str()) || NAMED.iter().any(|name| lower.ends_with(name))
}

fn token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The end of the run of such bytes that begins at `from`.
fn run(text: &str, from: usize, fits: impl Fn(u8) -> bool) -> usize {
    text.as_bytes()[from..].iter().position(|byte| !fits(*byte)).map_or(text.len(), |length| from + length)
}

/// Our own keys and login tokens. Their beginning stays, so that it can be told what was there.
fn keys(text: &str, found: &mut Vec<Range<usize>>) {
    for prefix in ["mpk_", "mps_"] {
        for (at, _) in text.match_indices(prefix) {
            let begin = at + prefix.len();
            let end = run(text, begin, token_byte);
            if end - begin >= MIN_TOKEN {
                found.push(begin..end);
            }
        }
    }
}

/// A JWT's header is a JSON object, which always begins like this in base64.
fn jwts(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, _) in text.match_indices("eyJ") {
        let end = run(text, at, |byte| token_byte(byte) || byte == b'.');
        if end - at >= MIN_JWT {
            found.push(at..end);
        }
    }
}

/// What follows `Bearer` or `Basic` as in an Authorization header.
fn schemes(text: &str, lower: &str, found: &mut Vec<Range<usize>>) {
    for scheme in ["bearer", "basic"] {
        for (at, _) in lower.match_indices(scheme) {
            let begin = run(text, at + scheme.len(), |byte| matches!(byte, b' ' | b'\t' | b'"' | b':' | b'='));
            let end = run(text, begin, |byte| token_byte(byte) || b".~+/=".contains(&byte));
            let value = &text[begin..end];
            let is_one = match scheme {
                "basic" => is_name_and_password(value),
                _ => value.len() >= MIN_TOKEN && !is_word(value),
            };
            if is_one && begin > at + scheme.len() {
                found.push(begin..end);
            }
        }
    }
}

fn is_name_and_password(value: &str) -> bool {
    let decoded = general_purpose::STANDARD_NO_PAD.decode(value.trim_end_matches('='));
    decoded.is_ok_and(|bytes| bytes.contains(&b':'))
}

/// `Bearer authentication` names no token.
fn is_word(value: &str) -> bool {
    value.len() < 20 && value.bytes().skip(1).all(|byte| byte.is_ascii_lowercase())
}

/// The password of `scheme://user:password@host`.
fn addresses(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, separator) in text.match_indices("://") {
        let begin = at + separator.len();
        let end = run(text, begin, |byte| !byte.is_ascii_whitespace() && !b"/?#\"'<>`\\".contains(&byte));
        let Some(user_info) = text[begin..end].rfind('@') else { continue };
        if let Some(colon) = text[begin..begin + user_info].find(':')
            && colon + 1 < user_info
        {
            found.push(begin + colon + 1..begin + user_info);
        }
    }
}

fn named(text: &str, lower: &str, found: &mut Vec<Range<usize>>) {
    let quote = |byte: u8| matches!(byte, b'"' | b'\'' | b'\\');
    for name in NAMED.iter().chain(&["token"]) {
        for (at, _) in lower.match_indices(name) {
            let after = run(text, run(text, at + name.len(), quote), |byte| byte == b' ');
            let separator = text.as_bytes().get(after);
            // `unexpected token: x` is what every parser says.
            let separates = separator == Some(&b'=') || separator == Some(&b':') && *name != "token";
            if !separates {
                continue;
            }
            let begin = run(text, run(text, after + 1, |byte| byte == b' '), quote);
            let end = run(text, begin, |byte| !byte.is_ascii_whitespace() && !b"&,;\"'\\)}]".contains(&byte));
            if end > begin && !["true", "false", "null", "none"].contains(&&lower[begin..end]) {
                found.push(begin..end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_masked_wherever_they_stand() {
        for (text, shown) in [
            ("key mpk_0123456789abcdefghijABCDEFGHIJ0123456789abcdef!", "key mpk_***!"),
            ("\"mps_AAEC-_0123456789\"", "\"mps_***\""),
            ("eyJhbGciOiJFUzM4NCJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl, so", "***, so"),
            ("Authorization: Bearer abcdefghijklmnop.qrstuvwxyz", "Authorization: Bearer ***"),
            ("AUTHORIZATION: BASIC dXNlcjpodW50ZXIy", "AUTHORIZATION: BASIC ***"),
            ("{\"authorization\":\"Bearer 0123456789ab\"}", "{\"authorization\":\"Bearer ***\"}"),
            ("postgres://user:hunter2@secret@db.example/x", "postgres://user:***@db.example/x"),
            ("https://a.example/?access_token=abcdef&x=1", "https://a.example/?access_token=***&x=1"),
            ("host=db user=u password=hunter2 dbname=x", "host=db user=u password=*** dbname=x"),
            ("DB_PASSWORD: 'hunter2'", "DB_PASSWORD: '***'"),
            (r#"{\"client_secret\": \"hunter2\"}"#, r#"{\"client_secret\": \"***\"}"#),
            ("ünïcödé mpk_0123456789 ünd mps_0123456789", "ünïcödé mpk_*** ünd mps_***"),
        ] {
            assert_eq!(mask(text), shown);
        }
    }

    #[test]
    fn other_words_stay() {
        for text in [
            "",
            "the prefix is mpk_ or mps_",
            "Bearer token missing; a basic understanding of Bearer authentication",
            "unexpected token: } in line 3",
            "the secret of the house, password=",
            "https://example.org/a:b@c and http://host:8080/x",
            "password: null",
            "12:30:00 time: 5",
        ] {
            assert_eq!(mask(text), text);
        }
    }

    #[test]
    fn members_of_an_object_are_masked_by_name_and_by_what_they_hold() {
        let fields = r#"{"password":"x","n":1,"deep":[{"Cookie":"a=b","url":"ftp://u:p@h/"}],"token":7}"#;
        let shown = r#"{"password":"***","n":1,"deep":[{"Cookie":"***","url":"ftp://u:***@h/"}],"token":7}"#;
        let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(parsed(&mask_json(fields)), parsed(shown));
        assert_eq!(mask_json("no JSON, mpk_0123456789"), "no JSON, mpk_***");
    }
}
