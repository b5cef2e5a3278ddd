//! From the Authorization header to the kind of token, exactly in the order of the contract.

use http::{HeaderMap, header};

/// The longest token that is looked at.
pub const TOKEN_LIMIT: usize = 8 * 1024;

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

/// The token of the one Authorization header; `None` when there is no header, or in one sentence
/// why it is not a token.
pub fn read(headers: &HeaderMap) -> Result<Option<Token<'_>>, &'static str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err("There is more than one Authorization header.");
    }
    let text = value.to_str().map_err(|_| "The Authorization header is not plain ASCII.")?;
    let Some((scheme, token)) = text.split_once(' ') else {
        return Err("The Authorization header is not `Bearer <token>`.");
    };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err("Only the Bearer scheme is served here.");
    }
    if token.len() > TOKEN_LIMIT {
        return Err("The token is too long.");
    }
    if token.is_empty() || !token.bytes().all(is_token_byte) {
        return Err("The token has characters that no token has.");
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
    use http::HeaderValue;
    use proptest::prelude::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        headers
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
        assert_eq!(read(&headers(&[])).unwrap(), None);
        assert_eq!(read(&headers(&["bearer abc"])).unwrap(), Some(Token::Hmac("abc")));
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
            assert!(read(&headers(bad)).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_a_token_or_an_error(value in "[ -~]{0,200}") {
            let _ = read(&headers(&[&value]));
        }
    }
}
