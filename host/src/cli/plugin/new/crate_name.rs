//! Names that a plugin may have and a crate of Rust cannot: its crate is called as the plugin is.

use anyhow::{Result, bail};

/// Crates that every crate knows already, so that no other can have the name.
const STANDARD_CRATES: [&str; 5] = ["alloc", "core", "proc-macro", "std", "test"];
/// What the new crate depends on: a crate cannot depend on one of its own name.
const DEPENDENCIES: [&str; 2] = ["cardinal-plugin", "serde"];
/// Rust's own words, those that are kept for later among them.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// # Errors
/// In words on the argument `NAME`.
pub(super) fn check(name: &str) -> Result<()> {
    let whose = if KEYWORDS.contains(&name) {
        "a word of the Rust language"
    } else if STANDARD_CRATES.contains(&name) {
        "a crate of Rust's standard library"
    } else if DEPENDENCIES.contains(&name) {
        "a crate that every plugin depends on"
    } else {
        return Ok(());
    };
    bail!("NAME {name:?} is {whose}, so the plugin's own crate cannot have it; choose another, such as {name}-notes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_crate_can_have_are_refused_in_words() {
        for name in ["std", "alloc", "proc-macro", "fn", "async", "self", "serde", "cardinal-plugin"] {
            let refusal = check(name).unwrap_err().to_string();
            assert!(
                refusal.starts_with(&format!("NAME {name:?} is a ")) && refusal.contains("choose another"),
                "{refusal}"
            );
        }
        assert!(KEYWORDS.is_sorted() && STANDARD_CRATES.is_sorted());
        for name in ["notes", "std-notes", "stdx", "http", "tests"] {
            check(name).unwrap();
        }
    }
}
