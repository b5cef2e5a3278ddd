//! Lines that come from another process as lines of this host's log: whether they have the shape of one, and marking
//! whose they are.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::line::{MAX_DEPTH, Style, is_deep};
use cardinal_base::{config::Observe, printable::turns_line};

const LEVELS: [&str; 5] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];
/// Targets of lines that the supervisor writes alone: what other processes print, and what it does itself.
const SUPERVISOR_TARGETS: [&str; 2] = ["postgres", "worker"];
const SUPERVISOR_MODULES: &str = "cardinal::keeper";
/// As in `2026-01-01T00:00:00.000000Z`; `0` is any digit.
const TIMESTAMP: &[u8] = b"0000-00-00T00:00:00.000000Z";

/// Knows how lines of this host look.
#[derive(Clone, Copy, Debug)]
pub struct LineCheck(Style);

/// What every line of the JSON log has. Any of it twice is no line.
#[derive(Deserialize)]
struct JsonLine<'l> {
    #[serde(borrow)]
    timestamp: Cow<'l, str>,
    #[serde(borrow)]
    level: Cow<'l, str>,
    #[serde(borrow)]
    target: Cow<'l, str>,
    #[serde(borrow, rename = "message")]
    _message: Cow<'l, str>,
    #[serde(default, rename = "process", deserialize_with = "refuse")]
    _process: (),
}

fn refuse<'de, D: Deserializer<'de>>(_: D) -> Result<(), D::Error> {
    Err(D::Error::custom("only the reader of a line says whose it is"))
}

impl LineCheck {
    pub fn new(observe: &Observe) -> Self {
        Self(Style::new(observe.log_format, observe.colours))
    }

    /// Puts a line without its end behind `out`, marked as `process`'s and with an end; `false` when it is no line.
    pub fn append(self, line: &[u8], process: &str, out: &mut Vec<u8>) -> bool {
        let Ok(text) = std::str::from_utf8(line) else { return false };
        let (is_line, suffix) = match self.0 {
            Style::Json => (is_json_line(text), [",\"process\":\"", process, "\"}\n"]),
            Style::Human { colours } => (is_human_line(text, colours), [" process=", process, "\n"]),
        };
        if is_line {
            out.extend_from_slice(if self.0 == Style::Json { &line[..line.len() - 1] } else { line });
            suffix.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
        }
        is_line
    }
}

fn is_json_line(text: &str) -> bool {
    if !(text.starts_with("{\"timestamp\":\"") && text.ends_with('}') && is_plain(text)) || is_deep(text, MAX_DEPTH) {
        return false;
    }
    serde_json::from_str::<JsonLine<'_>>(text)
        .is_ok_and(|line| is_timestamp(&line.timestamp) && LEVELS.contains(&&*line.level) && is_target(&line.target))
}

fn is_human_line(text: &str, colours: bool) -> bool {
    let Some((time, rest)) = text.split_at_checked(TIMESTAMP.len()) else { return false };
    let Some(rest) = rest.strip_prefix(' ').filter(|_| is_timestamp(time)) else { return false };
    let rest = if colours { without_colour(rest) } else { rest };
    let Some((level, rest)) = rest.split_at_checked(5) else { return false };
    let rest = if colours { without_colour(rest) } else { rest };
    let Some((target, rest)) = rest.strip_prefix(' ').and_then(|rest| rest.split_once(": ")) else { return false };
    LEVELS.contains(&level.trim_start()) && is_target(target) && is_plain(rest)
}

/// `ESC [ 3 1 m`, say, which changes nothing but how text looks.
fn without_colour(text: &str) -> &str {
    let Some(parameters) = text.strip_prefix("\x1b[") else { return text };
    parameters.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix('m').unwrap_or(text)
}

fn is_timestamp(text: &str) -> bool {
    let fits = |(found, wanted): (u8, &u8)| if *wanted == b'0' { found.is_ascii_digit() } else { found == *wanted };
    text.len() == TIMESTAMP.len() && text.bytes().zip(TIMESTAMP).all(fits)
}

/// Of a module or a plugin that this process may speak for.
fn is_target(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_:-.".contains(&byte);
    !text.is_empty()
        && text.bytes().all(is_name)
        && !SUPERVISOR_TARGETS.contains(&text)
        && !text.strip_prefix(SUPERVISOR_MODULES).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// Without characters that command a terminal or change how the rest reads: those stand as escapes in a line.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) || !text.chars().any(turns_line)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use tracing::Level;

    use super::{super::line::Line, *};

    const JSON: LineCheck = LineCheck(Style::Json);
    const HUMAN: LineCheck = LineCheck(Style::Human { colours: false });
    const COLOURED: LineCheck = LineCheck(Style::Human { colours: true });

    fn line(check: LineCheck, level: Level, target: [&str; 2], message: &str) -> String {
        let mut out = String::new();
        let mut line =
            Line::begin(&mut out, check.0, datetime!(2026-11-21 07:05:09.000123 UTC), level, target, message);
        line.text("path", "/x\u{1b}[2J\"\\ \u{e9}\u{202e}");
        line.json("fields", r#"{"a": ["\u202e", {"b": null}]}"#);
        line.number("us", 12);
        line.end();
        out.trim_end_matches('\n').to_owned()
    }

    fn appended(check: LineCheck, line: &str) -> Option<String> {
        let mut out = Vec::new();
        check.append(line.as_bytes(), "worker", &mut out).then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn what_the_log_writes_passes_and_is_marked() {
        for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
            for target in [["cardinal::access", ""], ["plugin::", "supplier-2"], ["cardinal::keepers", ""]] {
                for (check, end) in [(JSON, ",\"process\":\"worker\"}\n"), (HUMAN, " process=worker\n")] {
                    let written = line(check, level, target, "it rains: \"x\" \u{9b}");
                    let appended = appended(check, &written).unwrap_or_else(|| panic!("{written}"));
                    assert!(
                        appended.ends_with(end) && appended.starts_with(written.trim_end_matches('}')),
                        "{appended}"
                    );
                }
                assert!(appended(COLOURED, &line(COLOURED, level, target, "m")).is_some());
            }
        }
        let json = appended(JSON, &line(JSON, Level::INFO, ["a", ""], "m")).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["process"], "worker");
    }

    #[test]
    fn what_the_log_nests_passes_and_brackets_in_texts_do_not_count() {
        for depth in [1, MAX_DEPTH - 1, MAX_DEPTH, 100, 127] {
            let mut out = String::new();
            let at = datetime!(2026-11-21 07:05:09.000123 UTC);
            let mut line = Line::begin(&mut out, Style::Json, at, Level::INFO, ["a", ""], &"[{".repeat(1_000));
            line.json("fields", &format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
            line.end();
            assert!(appended(JSON, out.trim_end_matches('\n')).is_some(), "{depth}: {out}");
        }
    }

    #[test]
    fn what_is_no_line_does_not_pass() {
        let good = line(JSON, Level::INFO, ["a", ""], "m");
        let with = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            good.replacen(from, to, 1)
        };
        let forged = [
            String::new(),
            "{}".to_owned(),
            "null".to_owned(),
            "rubbish".to_owned(),
            good[..good.len() - 1].to_owned(),
            format!("{good}}}"),
            format!("{good}{good}"),
            format!(" {good}"),
            with("INFO", "FINE"),
            with("\"a\"", "\"postgres\""),
            with("\"a\"", "\"worker\""),
            with("\"a\"", "\"cardinal::keeper::postgres\""),
            with("\"a\"", "\"cardinal::\\u006beeper\""),
            with("\"a\"", "7"),
            with(",\"us\":12", "").replacen("\"m\"", "null", 1),
            with(",\"us\":12", ",\"process\":\"supervisor\""),
            with(",\"us\":12", ",\"process\":null"),
            with(",\"us\":12", ",\"pro\\u0063ess\":\"supervisor\""),
            with(",\"us\":12", ",\"target\":\"worker\""),
            with(",\"us\":12", ",\"us\":\t12"),
            with("\"m\"", "\"m\u{1b}\""),
            with("\"m\"", "\"m\u{202e}\""),
            with("2026-11", "2026/11"),
            with("\"us\":12", &format!("\"us\":{}{}", "[".repeat(25_000), "]".repeat(25_000))),
            with("\"us\":12", &format!("\"us\":{}1{}", "{\"a\":".repeat(MAX_DEPTH), "}".repeat(MAX_DEPTH))),
        ];
        for line in forged {
            assert_eq!(appended(JSON, &line), None, "{line}");
        }
        let good = line(HUMAN, Level::INFO, ["a", ""], "m");
        let forged = [
            String::new(),
            "rubbish".to_owned(),
            good.replace(" a: ", " postgres: "),
            good.replace(" a: ", " "),
            good.replace(" a: ", " a\x1b[2J: "),
            good.replace("INFO", "FINE"),
            good.replace(": m", ": \x1b[31mm"),
            good.replace("2026", "\u{e9}26"),
        ];
        for line in forged {
            assert_eq!(appended(HUMAN, &line), None, "{line}");
            assert_eq!(appended(COLOURED, &line), None, "{line}");
        }
        assert!(!JSON.append(b"{\"timestamp\":\"\xff\"}", "worker", &mut Vec::new()));
    }
}
