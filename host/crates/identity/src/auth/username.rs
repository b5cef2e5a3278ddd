//! What may be a username: something that two people read alike and that no log line breaks on.

use crate::error::AuthError;
use cardinal_base::printable;

/// Characters of a username.
const MAX_LENGTH: usize = 120;

/// The name as it is stored, without the spaces around it; 422 when it is not one.
pub fn check(text: &str, pointer: &str) -> Result<String, AuthError> {
    let name = text.trim();
    let refused = |detail: String| Err(AuthError::Field { pointer: pointer.to_owned(), detail });
    if !(1..=MAX_LENGTH).contains(&name.chars().count()) {
        return refused(format!("A username has 1 to {MAX_LENGTH} characters."));
    }
    // Two names could look the same.
    if name.chars().any(printable::is_unseen) {
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
        for bad in [
            "",
            "   ",
            "a\nb",
            "a\tb",
            "a\u{0}b",
            "a\u{200b}b",
            "\u{202e}ecila",
            "a\u{a0}b",
            "a\u{2800}b",
            "mpk_abc",
            "mps_x",
        ] {
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
