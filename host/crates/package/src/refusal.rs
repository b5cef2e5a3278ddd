//! A plugin that is refused: why, what was expected and found, and what to do about it.

mod code;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use cardinal_base::printable::cut;

pub use self::code::Code;

/// A plugin turned away: what for, both values, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    pub code: Code,
    /// One plain sentence.
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    pub fix: String,
    /// What would be lost: an operator may agree to exactly this.
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    pub losses: Box<[String]>,
}

/// Values of a refusal come from foreign files; longer ones are cut.
const VALUE_LIMIT: usize = 2_000;

impl Refusal {
    pub fn new(code: Code, reason: impl Into<String>) -> Self {
        let reason = cut(reason.into(), VALUE_LIMIT);
        Self { code, reason, expected: None, found: None, fix: code.usual_fix().to_owned(), losses: Box::default() }
    }

    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(cut(expected.into(), VALUE_LIMIT));
        self
    }

    pub fn found(mut self, found: impl Into<String>) -> Self {
        self.found = Some(cut(found.into(), VALUE_LIMIT));
        self
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = cut(fix.into(), VALUE_LIMIT);
        self
    }

    /// With the plugin's name where the usual fix has a place for it.
    pub fn for_plugin(mut self, name: &str) -> Self {
        self.fix = self.fix.replace("{name}", name);
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.reason)?;
        if let Some(expected) = &self.expected {
            write!(f, " Expected: {}", Sentence(expected))?;
        }
        if let Some(found) = &self.found {
            write!(f, " Found: {}", Sentence(found))?;
        }
        write!(f, " {}", self.fix)
    }
}

/// A text with a full stop, unless it ends a sentence by itself.
struct Sentence<'t>(&'t str);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.0.ends_with(['.', '!', '?', '…']) { "" } else { "." };
        write!(f, "{}{end}", self.0)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_written_in_sentences_with_one_full_stop_each() {
        let refusal =
            Refusal::new(Code::CreateFailed, "No.").expected("a router").found("Seven is bad luck.").fix("Do.");
        assert_eq!(refusal.to_string(), "create-failed: No. Expected: a router. Found: Seven is bad luck. Do.");
    }

    #[test]
    fn what_to_do_names_the_plugin() {
        for code in [Code::RolledBack, Code::LowerVersion, Code::SignerChanged] {
            let refusal = Refusal::new(code, "No.").for_plugin("notes");
            assert!(refusal.fix.contains("notes") && !refusal.fix.contains('{'), "{refusal}");
        }
    }

    #[test]
    fn foreign_text_is_cut_on_a_character() {
        let refusal = Refusal::new(Code::BadManifest, "é".repeat(VALUE_LIMIT));
        assert!(refusal.reason.len() <= VALUE_LIMIT + '…'.len_utf8());
    }
}
