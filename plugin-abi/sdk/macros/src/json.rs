//! Whether a text is JSON, and where it isn't: a misplaced comma in a manifest should fail the
//! build, not the loading. What the manifest says is the host's to judge.

/// Deeper nesting is refused, not followed.
const DEPTH: usize = 128;

/// Checks `text`; the fault names its line.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
    reader.value(0).and_then(|()| reader.end()).map_err(|fault| {
        let line = 1 + reader.bytes[..reader.at].iter().filter(|byte| **byte == b'\n').count();
        format!("line {line}: {fault}")
    })
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
            Some(found) => format!("{what} was expected, not `{}`", found.escape_default()),
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

    fn value(&mut self, depth: usize) -> Result<(), String> {
        if depth > DEPTH {
            return Err("it nests too deep".to_owned());
        }
        match self.peek() {
            Some(b'{') => self.list(b'}', |reader| {
                reader.string("a name in quotes")?;
                reader.take(b':', "`:`")?;
                reader.value(depth + 1)
            }),
            Some(b'[') => self.list(b']', |reader| reader.value(depth + 1)),
            Some(b'"') => self.string("a text"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
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

    fn string(&mut self, what: &str) -> Result<(), String> {
        self.take(b'"', what)?;
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0x20..) => self.at += 1,
                _ => return Err(self.expected("the `\"` that ends a text")),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        self.at += 1;
        let digits = self.bytes.get(self.at + 1..self.at + 5);
        match self.bytes.get(self.at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') if digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) => self.at += 5,
            _ => return Err(self.expected("an escape such as `\\n` or `\\u0041`")),
        }
        Ok(())
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
    use super::check;

    #[test]
    fn json_is_json() {
        for text in [
            "{}",
            " [1, -0.5e+3, 0, true, false, null, \"\\u00e9 \\\" \u{e9}\", {\"a\": {\"b\": []}}]\n",
            "\"x\"",
            "10.25E2",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
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
            assert!(check(text).is_err(), "{text}");
        }
        assert!(check(&"[".repeat(100_000)).is_err(), "too deep, not a stack overflow");
    }
}
