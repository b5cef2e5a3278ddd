//! The rules of a source entry: its key, its size, its shape. Pure.

/// The most sources that a card may have.
pub const SOURCES_PER_CARD: i64 = 256;
/// The largest `data` of a source, as JSON text.
pub const DATA_LIMIT: usize = 256 << 10;
/// How deep objects and arrays may lie in each other.
pub(crate) const NESTING_LIMIT: usize = 64;
/// The longest source key.
pub const KEY_LIMIT: usize = 200;
/// Exponents beyond a double's, negative ones, too, would be kept exactly, and come back as that many digits: a few
/// bytes of JSON would grow to hundreds of kilobytes.
const EXPONENT_LIMIT: u32 = 308;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError {
    /// A code of contract section 2.
    pub code: &'static str,
    pub detail: String,
}

impl SourceError {
    fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new("validation-failed", detail)
    }
}

/// `source-limit-exceeded`: the card has its full number of sources.
pub fn too_many_sources() -> SourceError {
    SourceError::new("source-limit-exceeded", format!("A card may have at most {SOURCES_PER_CARD} sources."))
}

/// `card-too-large`, with the words of the database's own check.
pub fn card_too_large(detail: String) -> SourceError {
    SourceError::new("card-too-large", detail)
}

/// A plugin's source key is `<plugin>:<suffix>`.
pub fn check_key(plugin: &str, key: &str) -> Result<(), SourceError> {
    let invalid = |detail: String| Err(SourceError::new("source-key-invalid", detail));
    let suffix = key.strip_prefix(plugin).and_then(|rest| rest.strip_prefix(':'));
    match suffix {
        None => invalid(format!("A source key of this plugin begins with \"{plugin}:\".")),
        Some("") => invalid(format!("A source key needs something after \"{plugin}:\".")),
        Some(_) if key.len() > KEY_LIMIT => invalid(format!("A source key has at most {KEY_LIMIT} bytes.")),
        Some(suffix) if suffix.chars().any(char::is_control) => {
            invalid("A source key has no control characters.".to_owned())
        }
        Some(_) => Ok(()),
    }
}

/// A plugin writes the kinds that its manifest declares.
pub fn check_kind(declared: &[String], kind: &str) -> Result<(), SourceError> {
    if declared.iter().any(|known| known == kind) {
        return Ok(());
    }
    let detail = format!("The kind {kind:?} is not among the plugin's provides_kinds ({}).", declared.join(", "));
    Err(SourceError::new("kind-not-declared", detail))
}

/// Size, nesting and what PostgreSQL's jsonb can't hold. `data` must be JSON already.
pub fn check_data(data: &str) -> Result<(), SourceError> {
    if data.len() > DATA_LIMIT {
        let detail = format!("The data has {} bytes; a source may have {DATA_LIMIT}.", data.len());
        return Err(SourceError::new("source-limit-exceeded", detail));
    }
    check_json(data)
}

/// Nesting and what PostgreSQL's jsonb can't hold, whatever the size. `data` must be JSON already.
pub(crate) fn check_json(data: &str) -> Result<(), SourceError> {
    check_nested(data, 0)
}

/// The same for a member of an object.
pub fn check_member(data: &str) -> Result<(), SourceError> {
    check_nested(data, 1)
}

fn check_nested(data: &str, depth: usize) -> Result<(), SourceError> {
    let mut scan = Scan { bytes: data.as_bytes(), at: 0, depth };
    while let Some(byte) = scan.next() {
        match byte {
            b'"' => scan.string()?,
            b'{' | b'[' => scan.deeper()?,
            b'}' | b']' => scan.depth = scan.depth.saturating_sub(1),
            b'-' | b'0'..=b'9' => scan.number()?,
            _ => {}
        }
    }
    Ok(())
}

/// Walks JSON text that is known to be well-formed.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl Scan<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn deeper(&mut self) -> Result<(), SourceError> {
        self.depth += 1;
        if self.depth > NESTING_LIMIT {
            let detail = format!("The data is nested deeper than {NESTING_LIMIT}.");
            return Err(SourceError::new("source-limit-exceeded", detail));
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), SourceError> {
        while let Some(byte) = self.next() {
            match byte {
                b'"' => break,
                b'\\' if self.bytes[self.at..].starts_with(b"u0000") => {
                    let detail = r"The data has the character \u0000, which the database can't hold.";
                    return Err(SourceError::invalid(detail));
                }
                b'\\' if self.bytes.get(self.at) == Some(&b'u') => self.unit()?,
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// After the backslash of `\uXXXX`: half of a pair is no character.
    fn unit(&mut self) -> Result<(), SourceError> {
        let half = SourceError::invalid(r"The data has half of a surrogate pair (\ud800 to \udfff).");
        match self.hex(self.at) {
            0xD800..=0xDBFF => {
                let low = self.bytes.get(self.at + 5) == Some(&b'\\')
                    && self.bytes.get(self.at + 6) == Some(&b'u')
                    && (0xDC00..=0xDFFF).contains(&self.hex(self.at + 6));
                self.at += 11;
                if low { Ok(()) } else { Err(half) }
            }
            0xDC00..=0xDFFF => Err(half),
            _ => {
                self.at += 5;
                Ok(())
            }
        }
    }

    /// The four digits behind the `u` at `at`.
    fn hex(&self, at: usize) -> u32 {
        let digits = self.bytes.get(at + 1..at + 5).and_then(|digits| std::str::from_utf8(digits).ok());
        digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or_default()
    }

    /// After the first character of a number. Who reads it into a double must be able to: clients and plugins do.
    fn number(&mut self) -> Result<(), SourceError> {
        let rest = &self.bytes[self.at - 1..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
        let length = rest.iter().take_while(|byte| is_part(byte)).count();
        self.at += length - 1;
        let text = std::str::from_utf8(&rest[..length]).unwrap_or_default();
        let exponent = text.find(['e', 'E']).map(|at| text[at + 1..].trim_start_matches(['+', '-']));
        let has_far_exponent =
            exponent.is_some_and(|digits| digits.parse::<u32>().map_or(true, |it| it > EXPONENT_LIMIT));
        let may_be_large = exponent.is_some() || length > EXPONENT_LIMIT as usize;
        if has_far_exponent || may_be_large && text.parse().is_ok_and(f64::is_infinite) {
            return Err(SourceError::invalid("The data has a number beyond the range of a double."));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn code(outcome: Result<(), SourceError>) -> &'static str {
        outcome.map_or_else(|broken| broken.code, |()| "ok")
    }

    #[test]
    fn keys_begin_with_the_plugin() {
        assert_eq!(code(check_key("supplier", "supplier:example.com")), "ok");
        for key in ["", "supplier", "supplier:", "other:x", "supplierx:y", "Supplier:x", "supplier:a\n"] {
            assert_eq!(code(check_key("supplier", key)), "source-key-invalid", "{key:?}");
        }
        assert_eq!(code(check_key("supplier", &format!("supplier:{}", "x".repeat(KEY_LIMIT)))), "source-key-invalid");
    }

    #[test]
    fn kinds_are_declared() {
        let declared = ["supplier".to_owned()];
        assert_eq!(code(check_kind(&declared, "supplier")), "ok");
        assert_eq!(code(check_kind(&declared, "price")), "kind-not-declared");
        assert_eq!(code(check_kind(&[], "")), "kind-not-declared");
    }

    #[test]
    fn nesting_counts_outside_strings() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(code(check_data(&nested(NESTING_LIMIT))), "ok");
        assert_eq!(code(check_data(&nested(NESTING_LIMIT + 1))), "source-limit-exceeded");
        assert_eq!(code(check_data(&format!("{:?}", "[{".repeat(200)))), "ok");
        assert_eq!(code(check_data(&format!("[{}]", vec!["{}"; 500].join(",")))), "ok");
        assert_eq!(code(check_data(r#"["\"[[[","\\"]"#)), "ok");
    }

    #[test]
    fn size_is_bounded() {
        assert_eq!(code(check_data(&format!("{:?}", "x".repeat(DATA_LIMIT - 2)))), "ok");
        assert_eq!(code(check_data(&format!("{:?}", "x".repeat(DATA_LIMIT - 1)))), "source-limit-exceeded");
    }

    #[test]
    fn what_jsonb_cannot_hold_is_refused() {
        assert_eq!(code(check_data(r#"{"a":"x\u0000"}"#)), "validation-failed");
        assert_eq!(code(check_data(r#"{"a":"x\\u0000"}"#)), "ok", "an escaped backslash and plain text");
        assert_eq!(code(check_data(r#"["\ud83d\ude00", "\u00e4\"", "\\ud83d"]"#)), "ok");
        for half in [r#"["\ud83d"]"#, r#"["\ude00"]"#, r#"["\ud83d\u0041"]"#, r#"["\ud83dx"]"#] {
            assert_eq!(code(check_data(half)), "validation-failed", "{half}");
        }
        assert_eq!(code(check_data("[1e308, -1.5E-300, true, false]")), "ok");
        assert_eq!(code(check_data("[1e309]")), "validation-failed");
        assert_eq!(code(check_data("1E+99999999999")), "validation-failed");
        assert_eq!(code(check_data(r#"{"a":-1.7976931348623157e308,"b":["e9999",1]}"#)), "ok");
        assert_eq!(code(check_data("[1.7976931348623159e308]")), "validation-failed");
        let digits = |count: usize| "9".repeat(count);
        assert_eq!(code(check_data(&format!("[-{0}, {0}.{0}, 0.{1}]", digits(308), digits(999)))), "ok");
        assert_eq!(code(check_data(&format!(r#"{{"n":{}}}"#, digits(310)))), "validation-failed");
        assert_eq!(code(check_data("[1e-400]")), "validation-failed");
    }
}
