//! Secrets taken out of what a plugin says: it may quote its settings wherever it writes a text. Pure.

use std::collections::{BTreeSet, HashSet};

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::secret;
use cardinal_base::input::escape;
use cardinal_package::refusal::Refusal;

/// How much of a text is shown. A longer secret counts by its beginning.
pub(crate) const SHOWN_LIMIT: usize = 4 << 10;
/// How much of a text is looked at, so that a secret at the end of what is shown is known as one.
pub(crate) const READ_LIMIT: usize = 2 * SHOWN_LIMIT + 4;
/// A shorter secret stands in every other word.
const MIN_HIDDEN: usize = 3;
/// A shorter line of a secret may stand elsewhere by chance.
const MIN_LINE: usize = 8;
/// Where there is more to be looked for, no text is shown.
const SECRETS_LIMIT: usize = 4 << 20;
/// Losses of a refusal that are shown.
const MAX_LOSSES: usize = 64;
/// What stands in no part of a URL as it is.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// What stands in no value of a form as it is.
const OF_FORMS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*').remove(b' ');
/// What stands in no path of a URL as it is.
const OF_PATHS: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'?').add(b'^').add(b'`').add(b'{').add(b'}');
/// Stands in the place of a secret.
const HIDDEN: &str = "[secret]";
/// What a text that was cut ends with.
const CUT: char = '…';

/// What must not be shown.
#[derive(Default)]
pub(crate) struct Secrets {
    /// In order, each in every way in which it is written.
    texts: Vec<String>,
    /// For each of them the longest of the others that it begins with.
    beginnings: Vec<Option<usize>>,
    /// There are too many.
    hide_all: bool,
}

impl Secrets {
    /// Those of all these settings: what the schema marks, and what lies at these pointers.
    pub(crate) fn from_settings<'s>(
        schema: Option<&Value>,
        settings: impl IntoIterator<Item = &'s Value>,
        pointers: impl IntoIterator<Item = &'s String>,
    ) -> Self {
        let stored = BTreeSet::from_iter(pointers);
        let declared = schema.map(declared_names).unwrap_or_default();
        let mut found = Found::default();
        let mut left: Vec<&Value> = Vec::new();
        for settings in settings {
            let marked = schema.map(|schema| secret::pointers(schema, settings)).unwrap_or_default();
            left.extend(marked.iter().chain(stored.iter().copied()).filter_map(|pointer| settings.pointer(pointer)));
        }
        while let Some(value) = left.pop() {
            match value {
                Value::String(text) => found.add_text(text),
                Value::Number(number) => found.add_number(number),
                Value::Array(items) => left.extend(items),
                Value::Object(members) => {
                    members.keys().filter(|name| !declared.contains(name.as_str())).for_each(|name| found.add(name));
                    left.extend(members.values());
                }
                Value::Bool(_) | Value::Null => {}
            }
        }
        Self::new(found)
    }

    fn new(found: Found) -> Self {
        let texts = Vec::from_iter(found.texts);
        let (mut beginnings, mut open) = (Vec::with_capacity(texts.len()), Vec::<usize>::new());
        for (index, text) in texts.iter().enumerate() {
            while open.pop_if(|before| !text.starts_with(&texts[*before])).is_some() {}
            beginnings.push(open.last().copied());
            open.push(index);
        }
        Self { texts, beginnings, hide_all: found.bytes > SECRETS_LIMIT }
    }

    /// The beginning of the text, with a mark for each place where secrets stand.
    pub(crate) fn hide(&self, text: &str) -> String {
        if self.hide_all && !text.is_empty() {
            return HIDDEN.to_owned();
        }
        let read = &text[..text.floor_char_boundary(READ_LIMIT)];
        let end = read.floor_char_boundary(SHOWN_LIMIT);
        let (mut shown, mut from) = (String::new(), 0);
        for (start, past) in self.places(read, end) {
            shown.push_str(&read[from..start]);
            shown.push_str(HIDDEN);
            from = past;
        }
        shown.push_str(&read[from.min(end)..end]);
        if end < text.len() || shown.len() > SHOWN_LIMIT {
            shown.truncate(shown.floor_char_boundary(SHOWN_LIMIT));
            shown.push(CUT);
        }
        shown
    }

    /// A refusal in whose texts these do not stand.
    pub(crate) fn without(&self, refusal: Refusal) -> Refusal {
        let Refusal { code, reason, expected, found, fix, losses } = refusal;
        let hide = |text: String| self.hide(&text);
        Refusal {
            code,
            reason: hide(reason),
            expected: expected.map(hide),
            found: found.map(hide),
            fix: hide(fix),
            losses: losses.into_iter().take(MAX_LOSSES).map(hide).collect(),
        }
    }

    /// Where secrets stand that begin before `end`. Those that overlap or touch each other are one place.
    fn places(&self, text: &str, end: usize) -> Vec<(usize, usize)> {
        let mut places: Vec<(usize, usize)> = Vec::new();
        for (start, _) in text[..end].char_indices() {
            let length = self.longest(&text[start..]).max(self.cut_off(&text[start..]));
            match places.last_mut() {
                _ if length == 0 => {}
                Some((_, past)) if start <= *past => *past = (*past).max(start + length),
                _ => places.push((start, start + length)),
            }
        }
        places
    }

    /// The length of the longest one that the text begins with.
    fn longest(&self, text: &str) -> usize {
        let after = self.texts.partition_point(|secret| secret.as_str() <= text);
        // What the text begins with is the last one before it, or one that this one begins with.
        let mut candidate = after.checked_sub(1);
        let Some(last) = candidate else { return 0 };
        let common = common_length(self.texts[last].as_bytes(), text.as_bytes());
        while let Some(index) = candidate {
            if self.texts[index].len() <= common {
                return self.texts[index].len();
            }
            candidate = self.beginnings[index];
        }
        0
    }

    /// The length of what is left before the end, where the text was cut within a secret that begins here.
    fn cut_off(&self, text: &str) -> usize {
        let Some(left) = text.strip_suffix(CUT).filter(|left| left.len() >= MIN_HIDDEN) else { return 0 };
        let next = self.texts.partition_point(|secret| secret.as_str() < left);
        if self.texts.get(next).is_some_and(|secret| secret.starts_with(left)) { left.len() } else { 0 }
    }
}

/// How many bytes two texts have in common at their beginning; by the block, since that is done for every character.
fn common_length(one: &[u8], other: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let blocks = one.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK)).take_while(|(a, b)| a == b).count();
    let same = blocks * BLOCK;
    same + one[same..].iter().zip(&other[same..]).take_while(|(a, b)| a == b).count()
}

/// The names that a schema itself says: whoever may read the settings is shown these.
fn declared_names(schema: &Value) -> HashSet<&str> {
    let (mut names, mut left) = (HashSet::new(), vec![schema]);
    while let Some(schema) = left.pop() {
        let declared = schema.get("properties").and_then(Value::as_object);
        names.extend(declared.into_iter().flat_map(|members| members.keys().map(String::as_str)));
        match schema {
            Value::Object(members) => left.extend(members.values()),
            Value::Array(items) => left.extend(items),
            _ => {}
        }
    }
    names
}

/// Secrets in the ways in which they are written.
#[derive(Default)]
struct Found {
    texts: BTreeSet<String>,
    bytes: usize,
}

impl Found {
    /// A secret of several lines may be quoted by the line, and any without the blanks around it.
    fn add_text(&mut self, text: &str) {
        self.add(text);
        self.add(text.trim());
        if text.contains('\n') {
            text.lines().map(str::trim).filter(|line| line.len() >= MIN_LINE).for_each(|line| self.add(line));
        }
    }

    /// As it was written, and as a floating-point number is.
    fn add_number(&mut self, number: &serde_json::Number) {
        self.add(&number.to_string());
        if let Some(value) = number.as_f64() {
            self.add(&format!("{value}"));
            self.add(&format!("{value:?}"));
        }
    }

    /// As it is, as JSON and Rust quote it, as a part of a pointer, and as one of a URL or a form.
    fn add(&mut self, text: &str) {
        if self.bytes > SECRETS_LIMIT || text.len() < MIN_HIDDEN {
            return;
        }
        let text = &text[..text.floor_char_boundary(SHOWN_LIMIT)];
        let json = serde_json::to_string(text).unwrap_or_default();
        let rust = format!("{text:?}");
        let inner = |quoted: &str| quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned();
        // A form alone has blanks left.
        let urls =
            [RESERVED, OF_PATHS, OF_FORMS].map(|set| utf8_percent_encode(text, set).to_string().replace(' ', "+"));
        let small = urls.each_ref().map(|url| with_small_digits(url));
        let ways = [text.to_owned(), inner(&json), in_ascii(inner(&json)), inner(&rust), escape(text)];
        for mut form in ways.into_iter().chain(urls).chain(small) {
            form.truncate(form.floor_char_boundary(SHOWN_LIMIT));
            let length = form.len();
            if self.texts.insert(form) {
                self.bytes += length;
            }
        }
    }
}

/// `%2f` in the place of `%2F`.
fn with_small_digits(url: &str) -> String {
    let mut parts = url.split('%');
    let mut small = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(part.floor_char_boundary(2));
        small.extend(["%", &digits.to_ascii_lowercase(), rest]);
    }
    small
}

/// As those write JSON that leave no other letters in it.
fn in_ascii(json: String) -> String {
    if json.is_ascii() {
        return json;
    }
    let mut ascii = String::with_capacity(json.len());
    for c in json.chars() {
        match c.is_ascii() {
            true => ascii.push(c),
            false => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| ascii.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use cardinal_package::refusal::Code;
    use serde_json::json;

    use super::*;

    fn secrets(values: Value) -> Secrets {
        let schema = json!({"properties": {"secret": {"writeOnly": true, "properties": {"declared": {}}}}});
        Secrets::from_settings(Some(&schema), [&json!({"secret": values, "open": "sesame"})], [])
    }

    #[test]
    fn marks_are_made_in_the_text_alone() {
        let bomb = secrets(json!(["sec", "ret", "[se"].repeat(10)));
        assert_eq!(bomb.hide("a secret, secretsec; open sesame"), "a [secret], [secret]; open sesame");
        let overlapping = secrets(json!(["abcd", "cdef", "abc", "xyz"]));
        assert_eq!(overlapping.hide("-abcdef-abcxyz-cdex-"), "-[secret]-[secret]-cdex-");
        assert_eq!(secrets(json!(["ab", "", "даль"])).hide("ab, дальше"), "ab, [secret]ше");
        assert_eq!(secrets(json!([])).hide("as it is"), "as it is");
    }

    #[test]
    fn a_secret_is_known_as_forms_paths_and_ascii_write_it() {
        let secrets = secrets(json!(["tok en/Ä~b"]));
        for written in [
            "tok+en%2F%C3%84%7Eb",
            "tok+en%2f%c3%84%7eb",
            "tok%20en/%C3%84~b",
            "tok%20en%2F%C3%84~b",
            "tok%20en%2f%c3%84~b",
            r"tok en/\u00c4~b",
        ] {
            assert_eq!(secrets.hide(&format!("<{written}>")), "<[secret]>");
        }
        assert_eq!(secrets.hide("100% of it"), "100% of it");
    }

    /// Each of these took minutes, or all memory, when one secret was taken out after the other.
    #[test]
    fn many_secrets_leave_the_text_short() {
        let all = [
            json!(Vec::from_iter((0..1_000).flat_map(|at| [format!("sec{at}"), "sec".to_owned(), "ret".to_owned()]))),
            json!(Vec::from_iter((3..1_000).map(|length| "a".repeat(length)))),
            json!(["a".repeat(1 << 20)]),
            json!(Vec::from_iter((0..100_000).map(|at| format!("{at:05}")))),
            json!(Vec::from_iter((0..1_500).map(|at| format!("{at:2000}")))),
        ];
        let texts = ["secret".repeat(1 << 12), "a".repeat(1 << 15), "aab".repeat(1 << 12), "12345 ".repeat(1 << 12)];
        for values in all {
            let secrets = secrets(values);
            for text in &texts {
                let shown = secrets.hide(text);
                assert!(shown.len() <= SHOWN_LIMIT + CUT.len_utf8(), "{}", shown.len());
            }
        }
    }

    #[test]
    fn too_many_secrets_hide_every_text() {
        let all = secrets(json!(Vec::from_iter((0..3_000).map(|at| format!("{at:3000}")))));
        assert_eq!((all.hide("anything").as_str(), all.hide("").as_str()), (HIDDEN, ""));
    }

    #[test]
    fn what_is_cut_shows_no_part_of_a_secret() {
        let secret = "0123456789".repeat(1_000);
        let secrets = secrets(json!([secret, "k-0\"line\n"]));
        for before in 0..60 {
            let text = format!("{}{secret} and more", "n".repeat(100 * before));
            let shown = secrets.hide(&text);
            assert!(!shown.contains("123") && shown.len() <= SHOWN_LIMIT + 8, "{before}: {shown}");
        }
        // By whoever wrote it.
        assert_eq!(secrets.hide("of 0123…"), "of [secret]…");
        assert_eq!(secrets.hide(r#"of "k-0\"l…"#), r#"of "[secret]…"#);
        assert_eq!((secrets.hide("of 01…").as_str(), secrets.hide("of 0123").as_str()), ("of 01…", "of 0123"));
    }

    #[test]
    fn secrets_count_in_every_way_in_which_they_are_written() {
        let secrets = secrets(json!({
            "a": 123_456.0, "b": 123_457, "c": "two\nlines of text\nor three",
            "the/name": true, "declared": false, "tab": "a\t'b", "pasted": "pw@é \n",
        }));
        for text in [
            "123456",
            "123456.0",
            "123457",
            "123457.0",
            "lines of text",
            r"two\nlines of text\nor three",
            "the/name",
            "the~1name",
            "a\t'b",
            r"a\t'b",
            "pw@é",
            "pw%40%C3%A9",
        ] {
            assert_eq!(secrets.hide(&format!("<{text}>")), "<[secret]>", "{text}");
        }
        // What the schema says is known.
        assert_eq!(secrets.hide("/secret/declared: three"), "/secret/declared: three");
    }

    #[test]
    fn secrets_of_all_settings_count() {
        let schema = json!({"properties": {"token": {"writeOnly": true}}});
        let (new, old) = (json!({"token": "NEW-TOKEN"}), json!({"token": "OLD-TOKEN"}));
        let secrets = Secrets::from_settings(Some(&schema), [&new, &old], []);
        assert_eq!(secrets.hide("OLD-TOKEN, then NEW-TOKEN"), "[secret], then [secret]");
    }

    #[test]
    fn what_was_stored_as_a_secret_counts() {
        let at = "/old/token".to_owned();
        let secrets = Secrets::from_settings(None, [&json!({"old": {"token": "hunter2"}})], [&at]);
        let refusal = Refusal::new(Code::CreateFailed, "hunter2?").expected("hunter2").found("hunter2").fix("hunter2!");
        let refusal = secrets.without(Refusal { losses: Box::new(["hunter2".to_owned()]), ..refusal });
        assert!(!format!("{refusal:?}").contains("hunter"), "{refusal:?}");
        assert_eq!(refusal.code, Code::CreateFailed);
    }
}
