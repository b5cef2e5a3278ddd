//! Foreign text on a terminal: names and messages come from files and from other machines.

use std::io::Write as _;

use anyhow::Context as _;

pub(super) use cardinal_base::printable::plain;

/// Writes a line to standard output.
///
/// # Errors
/// Nobody reads it any more, or the disk behind it is full.
pub(super) fn print_line(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{text}").context("writing to standard output")
}

/// The same for a text of several lines, each by itself.
pub(super) fn plain_lines(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// As one word of a shell's command line.
pub(super) fn shell_word(text: &str) -> String {
    let is_plain = !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
