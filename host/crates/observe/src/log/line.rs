//! How one line is written. Whatever stands in a value, a line stays one line and shows nothing but text: control
//! characters, escape sequences and what turns the writing direction are written as escapes.

use std::{
    cell::Cell,
    fmt::{self, Write as _},
};

use time::OffsetDateTime;
use tracing::Level;

use super::mask::{mask, mask_json};
use cardinal_base::{config::LogFormat, printable::turns_line};

/// Longer values are cut.
const VALUE_LIMIT: usize = 16 << 10;

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Human { colours: bool },
    Json,
}

impl Style {
    pub(super) fn new(format: LogFormat, on_terminal: bool) -> Self {
        match format {
            LogFormat::Human => Self::Human { colours: on_terminal },
            LogFormat::Json => Self::Json,
        }
    }
}

/// A line being written.
pub(super) struct Line<'b> {
    out: &'b mut String,
    style: Style,
}

impl<'b> Line<'b> {
    pub(super) fn begin(
        out: &'b mut String,
        style: Style,
        at: OffsetDateTime,
        level: Level,
        target: [&str; 2],
        message: &str,
    ) -> Self {
        match style {
            Style::Json => {
                out.push_str("{\"timestamp\":\"");
                timestamp(out, at);
                out.push_str("\",\"level\":\"");
                out.push_str(level.as_str());
                out.push_str("\",\"target\":\"");
                target.iter().for_each(|part| escape(out, part, true));
                out.push_str("\",\"message\":\"");
                escape(out, cut(message), true);
                out.push('"');
            }
            Style::Human { colours } => {
                timestamp(out, at);
                out.push(' ');
                let (before, after) = if colours { (colour(level), "\x1b[0m") } else { ("", "") };
                // Writing into a string does not fail.
                let _ = write!(out, "{before}{:>5}{after} ", level.as_str());
                target.iter().for_each(|part| escape(out, part, false));
                out.push_str(": ");
                escape(out, cut(message), false);
            }
        }
        Self { out, style }
    }

    /// A line as it is kept for readers: an object but for its beginning, which is its number.
    pub(super) fn kept(out: &'b mut String, at: OffsetDateTime, level: Level, source: &str, message: &str) -> Self {
        out.push_str("\"at\":\"");
        timestamp(out, at);
        out.push_str("\",\"level\":\"");
        out.push_str(&level.as_str().to_ascii_lowercase());
        let mut line = Self { out, style: Style::Json };
        line.out.push('"');
        line.text("source", source);
        line.text("message", message);
        line
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        let value = cut(value);
        self.name(name);
        let is_plain = || !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        if self.style != Style::Json && is_plain() {
            escape(self.out, value, false);
            return;
        }
        self.out.push('"');
        escape(self.out, value, true);
        self.out.push('"');
    }

    pub(super) fn some_text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    /// A text that somebody else wrote, without the credentials that may be in it.
    pub(super) fn foreign(&mut self, name: &str, value: &str) {
        self.text(name, &mask(value));
    }

    /// A text of known characters that need no escape.
    pub(super) fn ascii(&mut self, name: &str, value: impl AsRef<[u8]>) {
        self.text(name, std::str::from_utf8(value.as_ref()).unwrap_or_default());
    }

    /// A number or a truth, as it is in both styles.
    pub(super) fn number(&mut self, name: &str, value: impl fmt::Display) {
        self.name(name);
        let _ = write!(self.out, "{value}");
    }

    /// Microseconds.
    pub(super) fn us(&mut self, name: &str, took: std::time::Duration) {
        self.number(name, took.as_micros());
    }

    /// An object that somebody else has written as JSON; what is none is a text. Credentials in it are masked.
    pub(super) fn json(&mut self, name: &str, value: &str) {
        let value = mask_json(value);
        let object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&value);
        match (self.style, object) {
            (Style::Json, Ok(object)) if !is_deep(&value, MAX_DEPTH - 1) => {
                self.name(name);
                let plain = serde_json::Value::Object(object).to_string();
                // Outside of its texts it has no such characters, and there an escape is as good.
                for c in plain.chars() {
                    if turns_line(c) { unicode(self.out, c) } else { self.out.push(c) }
                }
            }
            _ => self.text(name, &value),
        }
    }

    fn name(&mut self, name: &str) {
        // Each stands once in a line: at its beginning, or put there by whoever passes it on.
        let name = match name {
            "timestamp" => "field_timestamp",
            "level" => "field_level",
            "target" => "field_target",
            "process" => "field_process",
            name => name,
        };
        if self.style == Style::Json {
            self.out.push_str(",\"");
            self.out.push_str(name);
            self.out.push_str("\":");
        } else {
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push('=');
        }
    }

    pub(super) fn end(self) {
        self.out.push_str(if self.style == Style::Json { "}\n" } else { "\n" });
    }
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

fn cut(text: &str) -> &str {
    if text.len() <= VALUE_LIMIT { text } else { &text[..text.floor_char_boundary(VALUE_LIMIT)] }
}

/// With `quoted`, so that the text can stand between quotes.
fn escape(out: &mut String, text: &str, quoted: bool) {
    // Most of what is written is short and plain.
    let plain = |byte: u8| (0x20..0x7f).contains(&byte) && !(quoted && (byte == b'"' || byte == b'\\'));
    if text.bytes().all(plain) {
        out.push_str(text);
        return;
    }
    for c in text.chars() {
        match c {
            '"' | '\\' if quoted => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if turns_line(c) => unicode(out, c),
            c => out.push(c),
        }
    }
}

/// As JSON has it; every odd character is of the first 65,536.
fn unicode(out: &mut String, c: char) {
    let _ = write!(out, "\\u{:04x}", u32::from(c));
}

/// RFC 3339 in UTC with microseconds. All but those are the same for a second.
fn timestamp(out: &mut String, at: OffsetDateTime) {
    const WHOLE: usize = "2026-01-01T00:00:00".len();
    thread_local! {
        static SECOND: Cell<(i64, [u8; WHOLE])> = const { Cell::new((i64::MIN, [b'0'; WHOLE])) };
    }
    let unix = at.unix_timestamp();
    let fresh = || {
        let mut text = [b'0'; WHOLE];
        let (date, (hour, minute, second)) = (at.date(), at.to_hms());
        let mut into = &mut text[..];
        let year = date.year().clamp(0, 9_999);
        let _ = io_write(
            &mut into,
            format_args!("{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}", u8::from(date.month()), date.day()),
        );
        text
    };
    let (known, mut text) = SECOND.try_with(Cell::get).unwrap_or((i64::MIN, [b'0'; WHOLE]));
    if known != unix {
        text = fresh();
        let _ = SECOND.try_with(|second| second.set((unix, text)));
    }
    out.push_str(std::str::from_utf8(&text).unwrap_or_default());
    let mut micros = at.microsecond();
    let mut digits = *b".000000Z";
    for digit in digits[1..7].iter_mut().rev() {
        *digit += (micros % 10) as u8;
        micros /= 10;
    }
    out.push_str(std::str::from_utf8(&digits).unwrap_or_default());
}

fn io_write(into: &mut &mut [u8], text: fmt::Arguments<'_>) -> std::io::Result<()> {
    std::io::Write::write_fmt(into, text)
}

/// How deep a line nests at most, itself counted. Readers of logs have limits, too.
pub(super) const MAX_DEPTH: usize = 64;

/// Whether JSON nests deeper than that.
pub(super) fn is_deep(json: &str, max_depth: usize) -> bool {
    let opens = |byte: u8| byte == b'{' || byte == b'[';
    // Nearly every line has fewer brackets than it may have levels.
    if json.bytes().filter(|byte| opens(*byte)).count() <= max_depth {
        return false;
    }
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ if opens(byte) => depth += 1,
            _ => {}
        }
        if depth > max_depth {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const HUMAN: Style = Style::Human { colours: false };

    fn line(style: Style, message: &str, fields: &[(&str, &str)]) -> String {
        let mut out = String::new();
        let at = datetime!(2026-11-21 07:05:09.000123 UTC);
        let mut line = Line::begin(&mut out, style, at, Level::WARN, ["a::b", ""], message);
        fields.iter().for_each(|(name, value)| line.text(name, value));
        line.end();
        out
    }

    #[test]
    fn a_line_looks_like_this() {
        let fields = [("path", "/x"), ("user", "Ada L."), ("none", "")];
        let human = "2026-11-21T07:05:09.000123Z  WARN a::b: it rains path=/x user=\"Ada L.\" none=\"\"\n";
        assert_eq!(line(HUMAN, "it rains", &fields), human);
        let json = r#"{"timestamp":"2026-11-21T07:05:09.000123Z","level":"WARN","target":"a::b","message":"it rains","path":"/x","user":"Ada L.","none":""}"#;
        assert_eq!(line(Style::Json, "it rains", &fields).trim_end(), json);
    }

    #[test]
    fn nothing_in_a_value_gets_out_of_its_line() {
        let evil = "x\r\n2026 ERROR forged\x1b[2J\x07\u{9b}31m\u{202e}\u{2028}\u{7f} \"quoted\" back\\slash\0";
        for style in [HUMAN, Style::Json] {
            let written = line(style, evil, &[("v", evil)]);
            assert_eq!(written.matches('\n').count(), 1, "{written:?}");
            assert!(!written.trim_end_matches('\n').chars().any(turns_line), "{written:?}");
        }
        let json: serde_json::Value = serde_json::from_str(&line(Style::Json, evil, &[("v", evil)])).unwrap();
        assert_eq!((json["v"].as_str(), json["message"].as_str()), (Some(evil), Some(evil)));
        assert!(line(HUMAN, "m", &[("v", "a b=\"c")]).contains(r#" v="a b=\"c""#));
    }

    #[test]
    fn a_plugins_fields_are_an_object_or_a_text() {
        let with = |style, fields: &str| {
            let mut out = String::new();
            let mut line = Line::begin(&mut out, style, OffsetDateTime::UNIX_EPOCH, Level::INFO, ["plugin", ""], "m");
            line.json("fields", fields);
            line.end();
            out
        };
        let parsed = |fields: &str| {
            serde_json::from_str::<serde_json::Value>(&with(Style::Json, fields)).unwrap()["fields"].clone()
        };
        assert_eq!(parsed("{\n\"a\": [1,\r\n2]}")["a"][1], 2);
        assert_eq!(parsed("{\"a\": \"\u{202e}\"}")["a"], "\u{202e}");
        assert_eq!(parsed("} , \"level\": \"forged"), "} , \"level\": \"forged");
        assert_eq!(with(Style::Json, "{\"a\":\n1}").lines().count(), 1);
        assert!(with(HUMAN, r#"{"a":1}"#).ends_with("fields=\"{\\\"a\\\":1}\"\n"));
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let written = line(HUMAN, "m", &[("v", &"ü".repeat(VALUE_LIMIT))]);
        assert!(written.len() < VALUE_LIMIT + 100 && written.ends_with("ü\"\n"));
    }
}
