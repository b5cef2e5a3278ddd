//! JSON with the lines that its parts stand in: a misplaced comma in a manifest should fail the build, not the loading.

/// Deeper nesting is refused, not followed.
const DEPTH: usize = 128;

/// A part of a document.
pub(crate) struct Node {
    /// The line that it begins in, from 1.
    pub(crate) line: usize,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
    /// A number, `true`, `false` or `null`.
    Other,
}

impl Node {
    /// The member of an object; the last of several alike, as for the host.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let Value::Object(members) = &self.value else { return None };
        members.iter().rev().find(|(own, _)| own == name).map(|(_, node)| node)
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// The elements; none of what is no list.
    pub(crate) fn list(&self) -> &[Self] {
        if let Value::List(elements) = &self.value { elements } else { &[] }
    }
}

/// Reads `text`; the fault is the line and what is wrong there.
pub(crate) fn parse(text: &str) -> Result<Node, (usize, String)> {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
    let document = reader.value(0).and_then(|document| reader.end().map(|()| document));
    document.map_err(|fault| (reader.line(), fault))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// The next byte that is no white space, not taken.
    fn peek(&mut self) -> Option<u8> {
        while self.bytes.get(self.at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn expected(&self, what: &str) -> String {
        let rest = String::from_utf8_lossy(&self.bytes[self.at.min(self.bytes.len())..]).into_owned();
        match rest.chars().next() {
            Some(found) if found.is_control() => format!("{what} was expected, not `{}`", found.escape_default()),
            Some(found) => format!("{what} was expected, not `{found}`"),
            None => format!("{what} was expected, not the end"),
        }
    }

    fn take(&mut self, byte: u8, what: &str) -> Result<(), String> {
        if self.peek() != Some(byte) {
            return Err(self.expected(what));
        }
        self.at += 1;
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        if self.peek().is_none() { Ok(()) } else { Err(self.expected("the end")) }
    }

    fn line(&self) -> usize {
        1 + self.bytes[..self.at.min(self.bytes.len())].iter().filter(|byte| **byte == b'\n').count()
    }

    fn value(&mut self, depth: usize) -> Result<Node, String> {
        if depth > DEPTH {
            return Err("it nests too deep".to_owned());
        }
        let first = self.peek();
        let line = self.line();
        let value = match first {
            Some(b'{') => {
                let mut members = Vec::new();
                self.list(b'}', |reader| {
                    let name = reader.string("a name in quotes")?;
                    reader.take(b':', "`:`")?;
                    members.push((name, reader.value(depth + 1)?));
                    Ok(())
                })?;
                Value::Object(members)
            }
            Some(b'[') => {
                let mut elements = Vec::new();
                self.list(b']', |reader| reader.value(depth + 1).map(|element| elements.push(element)))?;
                Value::List(elements)
            }
            Some(b'"') => Value::Text(self.string("a text")?),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| Value::Other)?,
            _ => self.word().map(|()| Value::Other)?,
        };
        Ok(Node { line, value })
    }

    /// What stands between brackets, separated by commas.
    fn list(&mut self, close: u8, mut element: impl FnMut(&mut Self) -> Result<(), String>) -> Result<(), String> {
        self.at += 1;
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            element(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => break,
                _ => return Err(self.expected(&format!("`,` or `{}`", char::from(close)))),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self, what: &str) -> Result<String, String> {
        self.take(b'"', what)?;
        let mut text = Vec::new();
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    let mut letter = [0; 4];
                    text.extend_from_slice(self.escape()?.encode_utf8(&mut letter).as_bytes());
                }
                Some(byte @ 0x20..) => {
                    text.push(*byte);
                    self.at += 1;
                }
                _ => return Err(self.expected("the `\"` that ends a text")),
            }
        }
        self.at += 1;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The letter that an escape stands for; one half of a pair is the sign for what is no letter.
    fn escape(&mut self) -> Result<char, String> {
        self.at += 1;
        let digits = self.bytes.get(self.at + 1..self.at + 5).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = code.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let letter = match (self.bytes.get(self.at), code) {
            (Some(b'b'), _) => '\u{8}',
            (Some(b'f'), _) => '\u{c}',
            (Some(b'n'), _) => '\n',
            (Some(b'r'), _) => '\r',
            (Some(b't'), _) => '\t',
            (Some(byte @ (b'"' | b'\\' | b'/')), _) => char::from(*byte),
            (Some(b'u'), Some(code)) => {
                self.at += 5;
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => return Err(self.expected("an escape such as `\\n` or `\\u0041`")),
        };
        self.at += 1;
        Ok(letter)
    }

    fn number(&mut self) -> Result<(), String> {
        let length = self.bytes[self.at..].iter().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
        let number = &self.bytes[self.at..self.at + length];
        let digits = number.strip_prefix(b"-").unwrap_or(number);
        let starts_well = match digits {
            [b'0', second, ..] => !second.is_ascii_digit(),
            [first, ..] => first.is_ascii_digit(),
            [] => false,
        };
        let text = String::from_utf8_lossy(number);
        let ends_well = !text.ends_with('.') && !text.contains(".e") && !text.contains(".E");
        if !starts_well || !ends_well || text.parse::<f64>().is_err() {
            return Err(format!("`{text}` is not a number"));
        }
        self.at += length;
        Ok(())
    }

    fn word(&mut self) -> Result<(), String> {
        let words: [&[u8]; 3] = [b"true", b"false", b"null"];
        match words.into_iter().find(|word| self.bytes[self.at..].starts_with(word)) {
            Some(word) => {
                self.at += word.len();
                Ok(())
            }
            None => Err(self.expected("a value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Value, parse};

    #[test]
    fn json_is_json() {
        for text in [
            "{}",
            " [1, -0.5e+3, 0, true, false, null, \"\\u00e9 \\\" \u{e9}\", {\"a\": {\"b\": []}}]\n",
            "\"x\"",
            "10.25E2",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_not_is_not() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "{a: 1}",
            "[1 2]",
            "01",
            "1.",
            "-",
            "1.e2",
            "+1",
            ".5",
            "tru",
            "\"a\nb\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"a",
            "{} {}",
            "// x\n{}",
            "NaN",
            "'a'",
            "]",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err(), "too deep, not a stack overflow");
    }

    #[test]
    fn parts_know_their_lines_and_texts() {
        let document =
            parse("{\n \"a\": [\n  1,\n  \"b\\n\\u00e9\\\"ü\"]}").unwrap_or_else(|(_, fault)| panic!("{fault}"));
        let list = document.get("a").unwrap();
        assert!(matches!(list.list()[0].value, Value::Other));
        let text = &list.list()[1];
        assert_eq!((list.line, text.line, text.text()), (2, 4, Some("b\né\"ü")));
        assert!(document.get("b").is_none() && text.list().is_empty());
    }
}
