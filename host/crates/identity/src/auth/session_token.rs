//! The login token: `mps_` + base64url of its claims and an HMAC-SHA-256 over them. No dot in it,
//! so it is never taken for a JWT.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use uuid::Uuid;

use cardinal_base::mac::keyed;

const PREFIX: &str = "mps_";
const VERSION: u8 = 1;
const MAC_CONTEXT: &[u8] = b"cardinal-session-v1\0";
const CLAIMS_LEN: usize = 1 + 1 + 16 + 16 + 4 + 4 + 4;
const MAC_LEN: usize = 32;

/// What a token says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    pub session_id: Uuid,
    pub user_id: Uuid,
    /// The user's epoch at login; a raised one ends the session.
    pub epoch: u32,
    pub issued: u32,
    pub expires: u32,
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionTokenError {
    Invalid,
    Expired,
}

/// The signing keys: the current one first, older ones still accepted.
pub struct KeyRing(Vec<(u8, [u8; 32])>);

impl KeyRing {
    /// Derives the keys from secrets, current first.
    pub fn derive<'a>(secrets: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let keys = secrets.into_iter().map(|secret| {
            let hkdf = Hkdf::<Sha256>::new(None, secret);
            let (mut key, mut id) = ([0; 32], [0; 1]);
            // Only lengths over 255 hashes are refused; these are one.
            let filled = hkdf
                .expand(b"cardinal session signing", &mut key)
                .and(hkdf.expand(b"cardinal session key id", &mut id));
            debug_assert!(filled.is_ok());
            (id[0], key)
        });
        Self(keys.collect())
    }

    /// A key for another purpose, derived from the current secret.
    pub fn derive_key(&self, purpose: &[u8]) -> [u8; 32] {
        let mut mac = keyed(self.0.first().map_or(&[0; 32], |(_, key)| key));
        mac.update(purpose);
        mac.finalize().into_bytes().into()
    }

    /// Signs a token.
    pub(crate) fn mint(&self, claims: &Claims) -> String {
        let (id, key) = self.0.first().copied().unwrap_or_default();
        let mut bytes = Vec::with_capacity(CLAIMS_LEN + MAC_LEN);
        bytes.extend_from_slice(&[VERSION, id]);
        bytes.extend_from_slice(claims.session_id.as_bytes());
        bytes.extend_from_slice(claims.user_id.as_bytes());
        for word in [claims.epoch, claims.issued, claims.expires] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.extend_from_slice(&sign(&key, &bytes).finalize().into_bytes());
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Checks a token's form, signature and expiry, in this order.
    pub fn verify(&self, token: &str, now_unix: u64) -> Result<Claims, SessionTokenError> {
        let claims = self.read(token).ok_or(SessionTokenError::Invalid)?;
        if u64::from(claims.expires) <= now_unix { Err(SessionTokenError::Expired) } else { Ok(claims) }
    }

    fn read(&self, token: &str) -> Option<Claims> {
        let mut bytes = [0; CLAIMS_LEN + MAC_LEN];
        let text = token.strip_prefix(PREFIX)?;
        if URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()? != bytes.len() {
            return None;
        }
        let (signed, mac) = bytes.split_at(CLAIMS_LEN);
        let ([version, id], rest) = signed.split_first_chunk::<2>()?;
        if *version != VERSION {
            return None;
        }
        let genuine =
            self.0.iter().filter(|(known, _)| known == id).any(|(_, key)| sign(key, signed).verify_slice(mac).is_ok());
        if !genuine {
            return None;
        }
        let (session, rest) = rest.split_first_chunk::<16>()?;
        let (user, rest) = rest.split_first_chunk::<16>()?;
        let word = |at: usize| rest.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
        Some(Claims {
            session_id: Uuid::from_bytes(*session),
            user_id: Uuid::from_bytes(*user),
            epoch: word(0)?,
            issued: word(4)?,
            expires: word(8)?,
        })
    }
}

fn sign(key: &[u8; 32], claims: &[u8]) -> Hmac<Sha256> {
    let mut mac = keyed(key);
    mac.update(MAC_CONTEXT);
    mac.update(claims);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claims() -> Claims {
        Claims { session_id: Uuid::now_v7(), user_id: Uuid::now_v7(), epoch: 3, issued: 100, expires: 200 }
    }

    #[test]
    fn a_token_comes_back_until_it_expires() {
        let key_ring = KeyRing::derive([&b"0123456789abcdef0123456789abcdef"[..]]);
        let token = key_ring.mint(&claims());
        assert_eq!(token.len(), 108);
        assert!(!token.contains('.'));
        assert!(key_ring.verify(&token, 199).is_ok());
        assert_eq!(key_ring.verify(&token, 200), Err(SessionTokenError::Expired));
    }

    #[test]
    fn any_changed_character_is_refused() {
        let key_ring = KeyRing::derive([&b"0123456789abcdef0123456789abcdef"[..]]);
        let token = key_ring.mint(&claims());
        for i in 0..token.len() {
            for other in ['A', 'z', '-', '.'] {
                let mut changed = token.clone();
                changed.replace_range(i..=i, &other.to_string());
                assert!(
                    changed == token || key_ring.verify(&changed, 150) == Err(SessionTokenError::Invalid),
                    "{i} {other}"
                );
            }
        }
    }

    #[test]
    fn an_older_secret_is_accepted_as_long_as_the_ring_has_it() {
        let (old, new) = (&b"old old old old old old old old!"[..], &b"new new new new new new new new!"[..]);
        let token = KeyRing::derive([old]).mint(&claims());
        assert!(KeyRing::derive([new, old]).verify(&token, 150).is_ok());
        assert_eq!(KeyRing::derive([new]).verify(&token, 150), Err(SessionTokenError::Invalid));
    }

    proptest! {
        #[test]
        fn any_text_is_refused(text in "\\PC{0,200}") {
            let key_ring = KeyRing::derive([&b"0123456789abcdef0123456789abcdef"[..]]);
            prop_assert!(key_ring.verify(&text, 0).is_err());
        }
    }
}
