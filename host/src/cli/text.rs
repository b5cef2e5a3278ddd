//! Foreign text on a terminal: names and messages come from files and from other machines.

use std::io::Write as _;

use anyhow::Context as _;

/// Writes a line to standard output.
///
/// # Errors
/// Nobody reads it any more, or the disk behind it is full.
pub(super) fn print_line(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{text}").context("writing to standard output")
}

/// Without anything that a terminal would act on, or that would turn the reading direction.
pub(super) fn plain(text: &str) -> String {
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

/// The same for a text of several lines.
pub(super) fn plain_lines(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// As one word of a shell's command line.
pub(super) fn shell_word(text: &str) -> String {
    let is_plain = !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
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
