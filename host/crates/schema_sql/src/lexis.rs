//! Tokens: the bounds of a file, and how names, texts and numbers are written so that they can be read in one way only.

use squawk_lexer::TokenKind;
use squawk_syntax::quote::strip_dollar_quotes;
use squawk_syntax::{SyntaxKind, SyntaxToken};

use super::error::SchemaError;
use super::{MAX_BYTES, MAX_DEPTH, MAX_STATEMENT_TOKENS, MAX_TOKENS};

/// PostgreSQL cuts longer names off, so that two of them can become one.
const MAX_NAME_BYTES: usize = 63;

pub(super) fn is_trivia(kind: SyntaxKind) -> bool {
    matches!(kind, SyntaxKind::WHITESPACE | SyntaxKind::COMMENT)
}

/// Words are the kinds whose names end in `_KW`, and plain names.
pub(super) fn is_word(kind: SyntaxKind) -> bool {
    kind == SyntaxKind::IDENT || is_keyword(kind)
}

pub(super) fn is_keyword(kind: SyntaxKind) -> bool {
    (SyntaxKind::ABORT_KW..=SyntaxKind::WHILE_KW).contains(&kind)
}

/// What has to hold before the parser sees the text: it calls itself for what is nested.
pub(super) fn check_bounds(text: &str) -> Result<(), SchemaError> {
    if text.len() > MAX_BYTES {
        let why = format!("the file has {} bytes, and {MAX_BYTES} are the limit", text.len());
        return Err(SchemaError::unreadable(&why));
    }
    let odd = text.char_indices().find(|(at, c)| {
        // A byte order mark at the front is what editors leave there; PostgreSQL would not take it either.
        c.is_control() && !matches!(c, '\n' | '\r' | '\t') || (*c == '\u{feff}' && *at == 0)
    });
    if let Some((at, c)) = odd {
        let what = format!("the character U+{:04X}", u32::from(c));
        return Err(SchemaError::at(
            text,
            at,
            &what,
            "Take it out, and save the file as UTF-8 without a byte order mark.",
        ));
    }
    Depth::default().check(text)
}

/// Counts before the parser runs, from the tokenizer's words alone.
#[derive(Default)]
struct Depth {
    tokens: usize,
    in_statement: usize,
    /// Brackets and CASE that are open.
    open: usize,
    /// Signs and NOT in a row: each makes the parser call itself.
    prefixes: usize,
    /// Without their ON yet.
    joins: usize,
}

impl Depth {
    fn check(mut self, text: &str) -> Result<(), SchemaError> {
        let mut offset = 0;
        for token in squawk_lexer::tokenize(text) {
            let at = offset;
            offset += token.len as usize;
            self.count(token.kind, text.get(at..offset).unwrap_or_default());
            if self.open.max(self.prefixes).max(self.joins) > MAX_DEPTH {
                let what = format!("more than {MAX_DEPTH} levels within one another");
                return Err(SchemaError::at(text, at, &what, "Write it flatter."));
            }
            if self.in_statement > MAX_STATEMENT_TOKENS || self.tokens > MAX_TOKENS {
                let what = format!(
                    "more than {MAX_STATEMENT_TOKENS} words and signs in one statement, or {MAX_TOKENS} in the file,"
                );
                return Err(SchemaError::at(text, at, &what, "Split it, or fill the tables when the plugin runs."));
            }
        }
        Ok(())
    }

    fn count(&mut self, kind: TokenKind, text: &str) {
        use TokenKind::*;
        if matches!(kind, Whitespace | LineComment | BlockComment { .. }) {
            return;
        }
        self.tokens += 1;
        self.in_statement += 1;
        let is = |word: &str| kind == Ident && text.eq_ignore_ascii_case(word);
        match kind {
            OpenParen | OpenBracket | OpenCurly => self.open += 1,
            CloseParen | CloseBracket | CloseCurly => self.open = self.open.saturating_sub(1),
            Semi => *self = Self { tokens: self.tokens, ..Self::default() },
            _ if is("case") => self.open += 1,
            _ if is("end") => self.open = self.open.saturating_sub(1),
            _ => {}
        }
        let is_sign = matches!(kind, Minus | Plus | Tilde | Bang | At | Pound | Or | Slash | Question | And);
        match is_sign || is("not") {
            true => self.prefixes += 1,
            false => self.prefixes = 0,
        }
        // Joins lean to the right until their ON comes.
        match () {
            () if is("join") => self.joins += 1,
            () if is("on") || is("using") => self.joins = self.joins.saturating_sub(1),
            () => {}
        }
    }
}

/// A name as PostgreSQL folds it: small letters, unless it stands in quotes.
pub(super) fn name(text: &str, token: &SyntaxToken) -> Result<String, SchemaError> {
    let written = token.text();
    let at = usize::from(token.text_range().start());
    let refuse = |what: &str, fix: &str| Err(SchemaError::forbidden(text, at, what, fix));
    let name = match written.strip_prefix('"') {
        Some(quoted) => match quoted.strip_suffix('"') {
            Some(inside) => inside.replace("\"\"", "\""),
            None => return refuse("a name without an end", "Close the quotes."),
        },
        // `U&"..."` is a name as well.
        None if written.contains('"') => return refuse("a name in escapes", "Write its characters themselves."),
        None => written.to_ascii_lowercase(),
    };
    match name.len() {
        0 => refuse("an empty name", "Give it a name."),
        1..=MAX_NAME_BYTES => Ok(name),
        _ => refuse(&format!("a name of more than {MAX_NAME_BYTES} bytes"), "Give it a shorter name."),
    }
}

/// In ASCII alone, as all that is printed: no encoding of the session can read it in another way.
pub(super) fn quoted(name: &str) -> String {
    let doubled = name.replace('"', "\"\"");
    match name.is_ascii() {
        true => format!("\"{doubled}\""),
        false => format!("U&\"{}\"", in_ascii(&doubled.replace('\\', "\\\\"), |code| format!("\\+{code:06x}"))),
    }
}

/// With every other character as the escape that this makes of its number.
fn in_ascii(text: &str, escape: impl Fn(u32) -> String) -> String {
    text.chars().map(|c| if c.is_ascii() { c.to_string() } else { escape(u32::from(c)) }).collect()
}

/// A text, a number or a row of bits, in the one form that every server reads alike. Pieces of a text that stand on
/// lines of their own are one text, whose first piece says how the others are read.
pub(super) fn literal(
    text: &str,
    first: &SyntaxToken,
    rest: impl Iterator<Item = SyntaxToken>,
) -> Result<String, SchemaError> {
    let written = first.text();
    let at = usize::from(first.text_range().start());
    let refuse = |what: &str, fix: &str| Err(SchemaError::forbidden(text, at, what, fix));
    let prefix = usize::from(first.kind() != SyntaxKind::STRING);
    let pieces: Vec<String> = std::iter::once(inside(written, prefix).to_owned())
        .chain(rest.map(|piece| inside(piece.text(), 0).to_owned()))
        .collect();
    let joined = pieces.concat();
    match first.kind() {
        SyntaxKind::STRING => Ok(string(&joined.replace("''", "'"))),
        SyntaxKind::ESC_STRING => match pieces.iter().map(|piece| unescaped(piece)).collect::<Option<String>>() {
            Some(value) => Ok(string(&value)),
            None => {
                refuse("an escape", "Write the character itself; \\n, \\t, \\r, \\b, \\f, \\\\, \\' and \\uXXXX work.")
            }
        },
        SyntaxKind::BIT_STRING if joined.bytes().all(|b| b == b'0' || b == b'1') => Ok(format!("B'{joined}'")),
        SyntaxKind::BYTE_STRING if joined.bytes().all(|b| b.is_ascii_hexdigit()) => Ok(format!("X'{joined}'")),
        SyntaxKind::DOLLAR_QUOTED_STRING => match strip_dollar_quotes(written) {
            Some(inside) => Ok(string(inside)),
            None => refuse("a text without an end", "Close it."),
        },
        SyntaxKind::INT_NUMBER if written.bytes().all(|b| b.is_ascii_digit()) => Ok(written.to_owned()),
        SyntaxKind::NUMERIC_NUMBER if is_decimal(written) => Ok(written.to_owned()),
        // PostgreSQL 15 reads `0x1F` and `1_000` as a number and a name behind it.
        SyntaxKind::INT_NUMBER | SyntaxKind::NUMERIC_NUMBER => {
            refuse("a number that is not written in digits alone", "Write it in decimal, without underscores.")
        }
        _ => refuse("a value of this kind", "Write a plain text in single quotes, or a number."),
    }
}

/// What stands between the quotes, behind a prefix of so many letters.
fn inside(written: &str, prefix: usize) -> &str {
    written.get(prefix + 1..written.len().max(prefix + 2) - 1).unwrap_or_default()
}

/// Read the same whatever `standard_conforming_strings` and `backslash_quote` are, and in any encoding.
pub(super) fn string(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    match value.contains('\\') || !value.is_ascii() {
        true => format!("E'{}'", in_ascii(&quoted.replace('\\', "\\\\"), |code| format!("\\U{code:08x}"))),
        false => format!("'{quoted}'"),
    }
}

fn is_decimal(written: &str) -> bool {
    let (mantissa, exponent) = written.split_once(['e', 'E']).unwrap_or((written, "0"));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && !exponent.is_empty()
        && digits(exponent)
}

/// The escapes that mean a character; those that mean a byte depend on an encoding.
fn unescaped(inside: &str) -> Option<String> {
    let mut value = String::with_capacity(inside.len());
    let mut rest = inside.chars();
    while let Some(c) = rest.next() {
        value.push(match c {
            '\'' => rest.next().filter(|next| *next == '\'')?,
            '\\' => match rest.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                same @ ('\\' | '\'') => same,
                'u' => code_point(&mut rest, 4)?,
                'U' => code_point(&mut rest, 8)?,
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(value)
}

fn code_point(rest: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let mut code = 0;
    for _ in 0..digits {
        code = code * 16 + rest.next()?.to_digit(16)?;
    }
    char::from_u32(code).filter(|c| *c != '\0')
}
