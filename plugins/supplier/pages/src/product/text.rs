//! Text as a person reads it: no tags, no entities, no layout white space.

use html5gum::{Token, Tokenizer};

const MAX_LENGTH: usize = 20_000;

/// Shops write `Tom &amp; Jerry` and `<p>Soft</p>` into JSON too, where neither is markup.
/// `None` when nothing readable is left.
pub(super) fn plain(text: &str) -> Option<String> {
    let plain = if text.contains(['<', '&']) { words(&without_markup(text)) } else { words(text) };
    (!plain.is_empty()).then_some(plain)
}

fn without_markup(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for Ok(token) in Tokenizer::new(text) {
        match token {
            Token::String(string) => plain.push_str(&String::from_utf8_lossy(&string)),
            // `<li>one</li><li>two</li>` must not become "onetwo".
            Token::StartTag(_) | Token::EndTag(_) => plain.push(' '),
            _ => {}
        }
    }
    plain
}

/// The words of a text that has no markup any more.
pub(super) fn words(text: &str) -> String {
    let mut plain = String::with_capacity(text.len().min(MAX_LENGTH));
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if plain.len() + word.len() >= MAX_LENGTH {
            plain.push('…');
            break;
        }
        if !plain.is_empty() {
            plain.push(' ');
        }
        plain.push_str(word);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn entities_and_tags_become_text() {
        let text = "<p>Tom &amp;&nbsp;Jerry</p>\n<ul><li>one</li><li>2 &lt; 3</li></ul>";
        assert_eq!(plain(text).as_deref(), Some("Tom & Jerry one 2 < 3"));
    }

    #[test]
    fn nothing_readable_is_nothing() {
        assert_eq!(plain(" \n<br>&nbsp; "), None);
    }

    #[test]
    fn an_endless_text_is_cut() {
        assert!(plain(&"word ".repeat(100_000)).is_some_and(|text| text.len() <= 20_010));
    }
}
