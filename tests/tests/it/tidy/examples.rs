//! Which public items have no example in their documentation.

/// A module counts where it has a body: that of a file says its words there.
const KEYWORDS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "macro_rules!", "mod"];
const QUALIFIERS: [&str; 5] = ["const", "async", "unsafe", "extern", "\"C\""];

/// The lines, from 1, of public items without a code block above them. A trait's methods are as public as the trait.
/// What is `#[doc(hidden)]`, or stands in a private module or in the tests at the file's end, is left out.
pub(super) fn missing(source: &str) -> Vec<usize> {
    if source.contains("\n#![doc(hidden)]") {
        return Vec::new();
    }
    let lines = source.lines().take_while(|line| line.trim() != "#[cfg(test)]").enumerate();
    let (mut missing, mut above, mut is_in_trait) = (Vec::new(), Above::default(), false);
    let mut end_of_skipped: Option<String> = None;
    for (at, line) in lines {
        let text = line.trim_start();
        let indentation = &line[..line.len() - text.len()];
        if let Some(end) = &end_of_skipped {
            if line == end {
                end_of_skipped = None;
            }
            continue;
        }
        is_in_trait &= line != "}";
        above.read(text);
        let (public, keyword) = match text.strip_prefix("pub ") {
            Some(rest) => (true, keyword(rest)),
            None => (above.is_exported || (is_in_trait && indentation.len() == 4), keyword(text)),
        };
        let is_body_elsewhere = keyword == "mod" && text.ends_with(';');
        if !KEYWORDS.contains(&keyword) || is_body_elsewhere {
            continue;
        }
        if public && !above.is_hidden && !above.has_example {
            missing.push(at + 1);
        }
        if keyword == "mod" && (!public || above.is_hidden) {
            end_of_skipped = Some(format!("{indentation}}}"));
        }
        is_in_trait |= keyword == "trait" && public && !above.is_hidden;
        above = Above::default();
    }
    missing
}

fn keyword(text: &str) -> &str {
    text.split(' ').find(|word| !QUALIFIERS.contains(word) && !word.starts_with("pub(")).unwrap_or_default()
}

/// What stands above an item: documentation and attributes, up to an empty line.
#[derive(Default)]
struct Above {
    has_example: bool,
    is_hidden: bool,
    is_exported: bool,
}

impl Above {
    fn read(&mut self, text: &str) {
        if text.is_empty() {
            *self = Self::default();
        }
        self.has_example |= text.starts_with("///") && text.contains("```");
        self.is_hidden |= text.starts_with("#[doc(hidden)]");
        self.is_exported |= text.starts_with("#[macro_export]");
    }
}

#[test]
fn an_item_without_an_example_is_found() {
    let shown = "/// ```\n/// f();\n/// ```\n#[must_use = \"so\n that it counts\"]\npub const fn f() {}\n\n";
    let others = "/// Words.\npub async fn g() {}\n\n#[doc(hidden)]\npub fn h() {}\n\npub(crate) fn i() {}\n";
    assert_eq!(missing(&format!("{shown}{others}")), [9]);
    let of_trait = "/// ```\n/// ```\npub trait T {\n    fn f();\n    #[doc(hidden)]\n    fn g();\n}\nfn h() {}\n";
    assert_eq!(missing(of_trait), [4]);
    let modules =
        "mod a {\n    pub struct A;\n}\npub mod b {\n    pub enum B {}\n}\npub mod c;\npub const C: u8 = 1;\n";
    assert_eq!(missing(modules), [4, 5]);
    assert_eq!(missing("macro_rules! a {}\n\n#[macro_export]\nmacro_rules! b {}\n"), [4]);
    assert!(missing("//! Of tests.\n#![doc(hidden)]\npub fn a() {}\n").is_empty());
    assert!(missing("#[cfg(test)]\nmod tests {\n    pub fn a() {}\n}\n").is_empty());
}
