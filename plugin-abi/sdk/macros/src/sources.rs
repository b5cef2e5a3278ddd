//! The words of a crate's sources: whether a handler's name can be in the router at all. A word that stands anywhere
//! but behind `fn`, or a text that is the name, is enough; what macros put together is not seen, so they stop the
//! search.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::Path,
};

/// What a crate's `src` says, comments left out.
#[derive(Default)]
pub(crate) struct Sources {
    /// Behind `fn`.
    functions: BTreeSet<String>,
    /// Elsewhere.
    words: HashSet<String>,
    texts: HashSet<String>,
}

/// Words that show that names may come from where nobody sees them.
const UNSEEN: [&str; 5] = ["include", "paste", "concat_idents", "macro_rules", "proc_macro"];
/// More of a name's letters may not differ.
const NEAR: usize = 2;

impl Sources {
    /// Reads what is below `folder`; what cannot be read is as if it were not there.
    pub(crate) fn read(folder: &Path) -> Self {
        let mut sources = Self::default();
        sources.walk(folder);
        sources
    }

    #[cfg(test)]
    pub(crate) fn from_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut sources = Self::default();
        texts.into_iter().for_each(|text| sources.add(text));
        sources
    }

    fn walk(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.walk(&path),
                _ if path.extension().is_some_and(|kind| kind == "rs") => {
                    if let Ok(text) = fs::read_to_string(&path) {
                        self.add(&text);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether the router may have a handler of this name.
    pub(crate) fn may_have(&self, name: &str) -> bool {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        !is_word || self.is_blind() || self.words.contains(name) || self.texts.contains(name)
    }

    fn is_blind(&self) -> bool {
        self.functions.is_empty() || UNSEEN.iter().any(|word| self.words.contains(*word))
    }

    /// Whether there is a function of this name.
    pub(crate) fn defines(&self, name: &str) -> bool {
        self.functions.contains(name)
    }

    /// Whether the router may have a route of this path.
    pub(crate) fn may_have_path(&self, path: &str) -> bool {
        self.is_blind() || self.texts.contains(path)
    }

    /// The path that differs least, of those that are not `declared`.
    pub(crate) fn nearest_path(&self, path: &str, declared: &[&str]) -> Option<&str> {
        let others = self.texts.iter().map(String::as_str);
        let others = others.filter(|text| text.starts_with('/') && !declared.contains(text));
        others
            .map(|text| (distance(text, path), text))
            .min()
            .filter(|(letters, _)| *letters <= NEAR)
            .map(|(_, text)| text)
    }

    /// The function whose name differs least.
    pub(crate) fn nearest(&self, name: &str) -> Option<&str> {
        let near = |own: &String| (distance(own, name), own.clone());
        self.functions.iter().min_by_key(|own| near(own)).filter(|own| distance(own, name) <= NEAR).map(String::as_str)
    }

    fn add(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let (mut at, mut before) = (0, String::new());
        while at < bytes.len() {
            match bytes[at] {
                b'/' if bytes.get(at + 1) == Some(&b'/') => at += line_comment(&bytes[at..]),
                b'/' if bytes.get(at + 1) == Some(&b'*') => at += block_comment(&bytes[at..]),
                b'"' => {
                    let length = text_length(&bytes[at..]);
                    let inside = at + 1..(at + length).saturating_sub(1).max(at + 1);
                    self.texts.insert(text.get(inside).unwrap_or_default().to_owned());
                    at += length;
                }
                b'\'' => at += letter(&bytes[at..]),
                byte if is_letter(byte) => {
                    let length =
                        bytes[at..].iter().take_while(|byte| is_letter(**byte) || byte.is_ascii_digit()).count();
                    let word = &text[at..at + length];
                    at += length;
                    if let Some(length) = raw_text(word, &bytes[at..]) {
                        at += length;
                        continue;
                    }
                    match before.as_str() {
                        "fn" => drop(self.functions.insert(word.to_owned())),
                        _ => drop(self.words.insert(word.to_owned())),
                    }
                    word.clone_into(&mut before);
                }
                byte => {
                    if !byte.is_ascii_whitespace() {
                        before.clear();
                    }
                    at += 1;
                }
            }
        }
    }
}

/// Bytes of letters beyond ASCII count as letters, so that no word is cut within one.
fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn line_comment(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len())
}

fn block_comment(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (at, depth) = (at + 2, depth + 1),
            Some(b"*/") => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a text with its quotes.
fn text_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of a letter in quotes, or 1 for the beginning of a lifetime.
fn letter(bytes: &[u8]) -> usize {
    match bytes {
        [_, b'\\', _, rest @ ..] => 3 + rest.iter().position(|byte| *byte == b'\'').map_or(rest.len(), |end| end + 1),
        [_, _, b'\'', ..] => 3,
        _ => 1,
    }
}

/// The length of a raw text behind its prefix; `None` when it is none.
fn raw_text(prefix: &str, bytes: &[u8]) -> Option<usize> {
    if !matches!(prefix, "r" | "br" | "cr") {
        return None;
    }
    let hashes = bytes.iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(hashes) != Some(&b'"') {
        return None;
    }
    let end = [&b"\""[..], &vec![b'#'; hashes]].concat();
    let inside = &bytes[hashes + 1..];
    let length = inside.windows(end.len()).position(|window| window == end);
    Some(hashes + 1 + length.map_or(inside.len(), |length| length + end.len()))
}

/// Letters to be changed, added or taken away.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for j in 0..b.len() {
            let changed = diagonal + usize::from(letter != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_where_it_is_used() {
        let sources = Sources::from_texts([r##"
            // lost
            /* gone /* nested */ gone */
            fn list<'a>(x: &'a str) -> char { '"' }
            fn orphan() { let _ = ('\'', '\u{41}', b'x', "said \" hidden", r#"raw "quoted" raw"#); }
            routes().get("/x", list).handler("warm", other::warmer)
        "##]);
        for (name, may) in [
            ("list", true),
            ("warm", true),
            ("warmer", true),
            ("orphan", false),
            ("lost", false),
            ("gone", false),
            ("nested", false),
            ("hidden", false),
            ("quoted", false),
            ("lst", false),
            ("GET /x", true),
        ] {
            assert_eq!(sources.may_have(name), may, "{name}");
        }
        assert_eq!((sources.nearest("lst"), sources.nearest("nothing")), (Some("list"), None));
        assert!(sources.defines("orphan") && !sources.defines("warm"));
    }

    #[test]
    fn what_cannot_be_seen_is_not_judged() {
        assert!(Sources::default().may_have("list"));
        assert!(Sources::from_texts(["macro_rules! all {} fn a() {}"]).may_have("list"));
        assert!(Sources::from_texts(["fn a() {} include!(x);"]).may_have("list"));
    }

    #[test]
    fn broken_sources_are_read_to_their_end() {
        for text in ["\"", "'", "'\\", "/*", "//", "r#\"", "fn", "é", "\"\\", "b'", "r###", "'é'"] {
            Sources::from_texts([text]);
        }
    }
}
