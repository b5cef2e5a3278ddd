//! Where in a JSON text a pointer points to.

/// The line of the member or element at `pointer`, counted from 1; of the nearest one around it where it is missing.
pub(super) fn line(text: &str, pointer: &str) -> Option<usize> {
    let parts: Vec<String> =
        pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    let find = |length| Scanner { text, at: 0 }.find(&parts[..length]);
    let at = (0..=parts.len()).rev().find_map(find)?;
    Some(text[..at].matches('\n').count() + 1)
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    /// The offset of what `parts` lead to from the value that begins here.
    fn find(&mut self, parts: &[String]) -> Option<usize> {
        self.skip_space();
        let Some((part, rest)) = parts.split_first() else { return Some(self.at) };
        let is_object = match self.next()? {
            b'{' => true,
            b'[' => false,
            _ => return None,
        };
        for index in 0.. {
            self.skip_space();
            let begin = self.at;
            let is_it = if is_object {
                let key: String = serde_json::from_str(self.string()?).ok()?;
                self.skip_space();
                (self.next()? == b':').then_some(key == *part)?
            } else {
                part.parse() == Ok(index)
            };
            if is_it {
                return if rest.is_empty() { Some(begin) } else { self.find(rest) };
            }
            self.value()?;
            self.skip_space();
            if self.next()? != b',' {
                return None;
            }
        }
        None
    }

    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.as_bytes().get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn skip_space(&mut self) {
        while self.text.as_bytes().get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// A string with its quotes.
    fn string(&mut self) -> Option<&str> {
        let begin = self.at;
        if self.next()? != b'"' {
            return None;
        }
        loop {
            match self.next()? {
                b'"' => return self.text.get(begin..self.at),
                b'\\' => self.at += 1,
                _ => {}
            }
        }
    }

    /// Past a value of any kind.
    fn value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            self.skip_space();
            match *self.text.as_bytes().get(self.at)? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                _ => {
                    let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                    let length = self.text.as_bytes()[self.at..].iter().take_while(|byte| word(byte)).count();
                    self.at += (length > 0).then_some(length)?;
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_found_by_its_line() {
        let text = "{\n \"a\": [1, -2.5e3,\n  {\"b/c\": \"}\\\"\",\n   \"d\": null}],\n \"e\": {\"f\": []}\n}";
        let lines = [("", 1), ("/a", 2), ("/a/1", 2), ("/a/2", 3), ("/a/2/b~1c", 3), ("/a/2/d", 4), ("/e/f", 5)];
        for (pointer, expected) in lines {
            assert_eq!(line(text, pointer), Some(expected), "{pointer}");
        }
        assert_eq!(line(text, "/e/missing/x"), Some(5), "the nearest around it");
        assert_eq!(line(text, "/missing"), Some(1));
        for broken in ["", "{", "[1", "{\"a\" 1}", "{\"a\": [}", "\u{e4}", "{\"a\":\"\\"] {
            let _ = line(broken, "/a/0");
        }
    }
}
