//! What may be a username: something that two people read alike and that no log line breaks on.

use crate::error::AuthError;

/// Characters of a username.
const MAX_LENGTH: usize = 120;

/// The name as it is stored, without the spaces around it; 422 when it is not one.
pub fn check(text: &str, pointer: &str) -> Result<String, AuthError> {
    let name = text.trim();
    let refused = |detail: String| Err(AuthError::Field { pointer: pointer.to_owned(), detail });
    if !(1..=MAX_LENGTH).contains(&name.chars().count()) {
        return refused(format!("A username has 1 to {MAX_LENGTH} characters."));
    }
    if name.chars().any(|c| c.is_control() || c.is_whitespace() && c != ' ' || is_invisible(c)) {
        return refused(
            "A username has no control characters, no invisible ones, and no white space but spaces.".into(),
        );
    }
    // Somebody pasted a credential into the wrong field; names are shown and logged.
    if ["mpk_", "mps_"].iter().any(|prefix| name.starts_with(prefix)) {
        return refused("A username must not begin like a key or a token.".into());
    }
    Ok(name.to_owned())
}

/// Characters that change how others are read, or show nothing at all: two names could look the same.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_people_have() {
        for good in
            ["a", "alice", " alice ", "Änne Müller", "o'neil@example.com", "山田", "a.b-c_d+e", &"x".repeat(120)]
        {
            assert_eq!(check(good, "/username").unwrap(), good.trim(), "{good}");
        }
        for bad in ["", "   ", "a\nb", "a\tb", "a\u{0}b", "a\u{200b}b", "\u{202e}ecila", "a\u{a0}b", "mpk_abc", "mps_x"]
        {
            let refused = check(bad, "/username");
            assert!(matches!(&refused, Err(AuthError::Field { pointer, .. }) if pointer == "/username"), "{bad:?}");
        }
        assert!(check(&"x".repeat(121), "/username").is_err());
    }

    proptest! {
        #[test]
        fn what_is_taken_is_a_name_and_stays_the_same(text in "\\PC{0,140}|[ -~]{0,140}|[\\x00-\\x7f]{0,40}") {
            if let Ok(name) = check(&text, "/username") {
                prop_assert!((1..=MAX_LENGTH).contains(&name.chars().count()));
                prop_assert_eq!(name.trim(), name.as_str());
                prop_assert!(!name.chars().any(char::is_control));
                prop_assert_eq!(check(&name, "/username").unwrap(), name);
            }
        }
    }
}
