//! Which characters of a foreign text a reader sees: names of tables and files, and what people and machines say.

use std::ops::RangeInclusive;

/// Without anything that a terminal would act on, or that would turn the reading direction.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if turns_line(c) {
            plain.extend(c.escape_unicode());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// The text, or its first `limit` bytes and an ellipsis.
pub fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.push('…');
    }
    text
}

/// Controls, and marks that are not seen and change how the rest of the line reads.
#[inline]
pub fn turns_line(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{feff}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

/// Everything that a reader does not see, or takes for a space.
pub fn is_unseen(c: char) -> bool {
    c.is_control() || c.is_whitespace() && c != ' ' || SHAPELESS.iter().any(|range| range.contains(&c))
}

/// Characters besides controls and spaces that have no shape, or turn the writing direction: Unicode's format
/// characters, those that it lets programs ignore, private ones, and the blank of Braille. As the Admin UI has it.
const SHAPELESS: &[RangeInclusive<char>] = &[
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{2800}'..='\u{2800}',
    '\u{3164}'..='\u{3164}',
    '\u{e000}'..='\u{f8ff}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
    '\u{f0000}'..='\u{10ffff}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_a_line_is_not_seen() {
        let all = || (0..=u32::from(char::MAX)).filter_map(char::from_u32);
        assert!(all().filter(|c| turns_line(*c)).all(is_unseen));
        assert!(!is_unseen(' ') && !is_unseen('漢') && !is_unseen('😀'));
    }

    #[test]
    fn what_a_terminal_would_act_on_is_written_out() {
        assert_eq!(plain("a\u{1b}[2Jb\nc\u{9b}\u{202e}"), r"a\u{1b}[2Jb\u{a}c\u{9b}\u{202e}");
        assert_eq!(plain("Stühle — 椅子"), "Stühle — 椅子");
    }
}
