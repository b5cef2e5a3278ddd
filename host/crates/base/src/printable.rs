//! Foreign text in messages: names of tables and files, and what other machines say.

/// Without anything that a terminal would act on, or that would turn the reading direction.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_format(c) {
            plain.extend(c.escape_unicode());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Marks that are not seen and change how the rest is read.
fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_written_out() {
        assert_eq!(plain("a\u{1b}[2Jb\nc\u{9b}\u{202e}"), r"a\u{1b}[2Jb\u{a}c\u{9b}\u{202e}");
        assert_eq!(plain("Stühle — 椅子"), "Stühle — 椅子");
    }
}
