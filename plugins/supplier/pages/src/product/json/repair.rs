//! JSON with the mistakes that shops make, without them.

/// Comments and superfluous commas go, control characters and backslashes inside texts become what
/// was meant. Of what is right nothing is changed.
pub(super) fn repaired(text: &str) -> String {
    let unescaped = if is_escaped(text) { without_entities(text) } else { text.to_owned() };
    let mut repair = Repair { output: String::with_capacity(unescaped.len()) };
    let mut rest = unescaped.as_str();
    while let Some(c) = rest.chars().next() {
        rest = match c {
            '"' => repair.string(rest),
            _ => repair.outside(c, rest),
        };
    }
    repair.output
}

/// The whole block went through a template engine that escapes HTML: `{&quot;name&quot;: ...}`.
fn is_escaped(text: &str) -> bool {
    text.contains("&quot;") && !text.contains('"')
}

fn without_entities(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&#39;", "'").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

struct Repair {
    output: String,
}

impl Repair {
    /// Outside of texts; `rest` begins with `c`. Gives what comes next.
    fn outside<'a>(&mut self, c: char, rest: &'a str) -> &'a str {
        if rest.starts_with("//") {
            return rest.find('\n').map_or("", |end| &rest[end..]);
        }
        if rest.starts_with("/*") {
            return rest.find("*/").map_or("", |end| &rest[end + 2..]);
        }
        for frame in ["<!--", "-->", "<![CDATA[", "]]>"] {
            if let Some(behind) = rest.strip_prefix(frame) {
                return behind;
            }
        }
        if matches!(c, ']' | '}') {
            self.drop_comma();
        }
        // White space of other kinds, a byte order mark, and what the page's decoder made of a NUL.
        let blank = c.is_control() || c.is_whitespace() || matches!(c, '\u{feff}' | '\u{fffd}');
        self.output.push(if blank { ' ' } else { c });
        &rest[c.len_utf8()..]
    }

    /// `[1, 2,]`
    fn drop_comma(&mut self) {
        let written = self.output.trim_end();
        if let Some(before) = written.strip_suffix(',') {
            self.output.truncate(before.len());
        }
    }

    /// A text, from its first quotation mark.
    fn string<'a>(&mut self, rest: &'a str) -> &'a str {
        self.output.push('"');
        let mut letters = rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = letters.next() {
            match c {
                '"' => {
                    self.output.push('"');
                    return &rest[at + 1..];
                }
                '\\' => match letters.next() {
                    Some((_, escaped @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u'))) => {
                        self.output.extend(['\\', escaped]);
                    }
                    // `\'` and `\-` are no escapes in JSON: what is meant is the letter.
                    Some((_, other)) => self.output.push(if other.is_control() { ' ' } else { other }),
                    None => {}
                },
                c if c.is_control() => self.output.push(' '),
                c => self.output.push(c),
            }
        }
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::repaired;

    #[test]
    fn what_is_right_stays_as_it_is() {
        for text in [r#"{"a": "// no comment, /* none */ ,] \" \\", "b": [1, 2.50, "ä"]}"#, "[]", r#""\\""#, "{}"] {
            assert_eq!(repaired(text), text);
        }
    }

    #[test]
    fn mistakes_are_taken_out() {
        for (text, expected) in [
            ("{\"a\": 1, // one\n \"b\": 2}", "{\"a\": 1,   \"b\": 2}"),
            ("{\"a\": /* one */ 1}", "{\"a\":  1}"),
            ("[1, 2 , ]", "[1, 2 ]"),
            ("{\"a\": [1,],}", "{\"a\": [1]}"),
            ("{\"a\": \"x\ty\n\"}", "{\"a\": \"x y \"}"),
            (r#"{"a": "it\'s"}"#, r#"{"a": "it's"}"#),
            ("\u{feff}[\u{a0}1]", " [ 1]"),
            ("{&quot;a&quot;: &quot;b &amp;amp; c&quot;}", "{\"a\": \"b &amp; c\"}"),
            ("/* never closed", ""),
            ("\"never closed", "\"never closed"),
            ("\"\\", "\""),
        ] {
            assert_eq!(repaired(text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_text_has_an_end(text in "[\\[\\]{}\",:/*\\\\\n<>!a-eé -]{0,100}") {
            repaired(&text);
        }
    }
}
