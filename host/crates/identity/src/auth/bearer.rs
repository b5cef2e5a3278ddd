//! From the Authorization header to the kind of token, exactly in the order of the contract.

/// The longest token that is looked at.
pub(crate) const TOKEN_LIMIT: usize = 8 * 1024;

/// A token by the rule of detection; nothing about it has been verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// Begins with `mpk_`.
    ApiKey(&'a str),
    /// Splitting on `.` gives exactly three parts.
    Jwt(&'a str),
    /// Everything else.
    Hmac(&'a str),
}

impl<'a> Token<'a> {
    /// The rule itself.
    pub fn detect(token: &'a str) -> Self {
        if token.starts_with("mpk_") {
            Self::ApiKey(token)
        } else if token.split('.').count() == 3 {
            Self::Jwt(token)
        } else {
            Self::Hmac(token)
        }
    }
}

/// The token of the one Authorization header among `values`; `None` when there is no header, or in one sentence why it
/// is not a token.
pub fn read<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Result<Option<Token<'a>>, &'static str> {
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err("There is more than one Authorization header.");
    }
    let text = str::from_utf8(value).ok().filter(|text| text.is_ascii());
    let text = text.ok_or("The Authorization header is not plain ASCII.")?;
    let Some((scheme, token)) = text.split_once(' ') else {
        return Err("The Authorization header is not `Bearer <token>`.");
    };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err("Only the Bearer scheme is supported.");
    }
    if token.len() > TOKEN_LIMIT {
        return Err("The token is too long.");
    }
    if token.is_empty() || !token.bytes().all(is_token_byte) {
        return Err("The token contains invalid characters.");
    }
    Ok(Some(Token::detect(token)))
}

/// The b64token of RFC 6750.
const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_texts<'a>(values: &[&'a str]) -> Result<Option<Token<'a>>, &'static str> {
        read(values.iter().map(|value| value.as_bytes()))
    }

    #[test]
    fn detection_follows_the_order() {
        assert_eq!(Token::detect("mpk_a.b.c"), Token::ApiKey("mpk_a.b.c"));
        for jwt in ["a.b.c", "a..b", ".."] {
            assert_eq!(Token::detect(jwt), Token::Jwt(jwt));
        }
        for hmac in ["abc", "a.b", "a.b.c.d", "mps_x", "MPK_x"] {
            assert_eq!(Token::detect(hmac), Token::Hmac(hmac));
        }
    }

    #[test]
    fn exactly_one_well_formed_header() {
        assert_eq!(read_texts(&[]).unwrap(), None);
        assert_eq!(read_texts(&["bearer abc"]).unwrap(), Some(Token::Hmac("abc")));
        let long = format!("Bearer {}", "a".repeat(9 * 1024));
        for bad in [
            &["Bearer"][..],
            &["Basic abc"],
            &["Bearer "],
            &["Bearer a b"],
            &["Bearer  a"],
            &["Bearer a", "Bearer b"],
            &[&long],
        ] {
            assert!(read_texts(bad).is_err(), "{bad:?}");
        }
    }

    /// The rule of the contract once more, as plainly as can be.
    fn kind(token: &str) -> &'static str {
        if token.len() >= 4 && &token.as_bytes()[..4] == b"mpk_" {
            return "key";
        }
        if token.bytes().filter(|byte| *byte == b'.').count() == 2 { "jwt" } else { "hmac" }
    }

    proptest! {
        #[test]
        fn any_header_is_a_token_or_an_error(value in "[ -~]{0,200}") {
            let _ = read_texts(&[&value]);
        }

        #[test]
        fn any_bytes_are_a_token_or_an_error(value in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = read([value.as_slice()].into_iter());
        }

        #[test]
        fn every_token_is_of_one_kind_and_comes_through_unchanged(
            scheme in "[Bb][Ee][Aa][Rr][Ee][Rr]",
            token in "(mpk_|mps_|Mpk_|)[A-Za-z0-9._~+/=-]{1,80}",
        ) {
            let value = format!("{scheme} {token}");
            let expected = match kind(&token) {
                "key" => Token::ApiKey(&token),
                "jwt" => Token::Jwt(&token),
                _ => Token::Hmac(&token),
            };
            prop_assert_eq!(read_texts(&[&value]).unwrap(), Some(expected));
        }

        #[test]
        fn one_odd_character_spoils_a_token(before in "[a-z.]{0,20}", odd in "[ !\"#$%&'(),:;<>?@\\[\\]\\\\^`{|}]", after in "[a-z.]{0,20}") {
            let value = format!("Bearer {before}{odd}{after}");
            // A space at the end is no part of a header's value for any HTTP server.
            prop_assume!(!value.ends_with(' '));
            prop_assert!(read_texts(&[&value]).is_err());
        }

        #[test]
        fn two_headers_are_refused_whatever_they_are(one in "[ -~]{0,40}", two in "[ -~]{0,40}") {
            prop_assert!(read_texts(&[&one, &two]).is_err());
        }
    }
}
