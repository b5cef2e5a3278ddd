//! API keys: `mpk_` + 40 base62 characters + 6 base62 characters of CRC-32 over the 44 before them.

use rand::{Rng, RngExt};
use sha2::{Digest, Sha256};

use cardinal_store::api_keys::KeyHash;

const PREFIX: &str = "mpk_";
const RANDOM_CHARS: usize = 40;
const CHECK_CHARS: usize = 6;
const LENGTH: usize = PREFIX.len() + RANDOM_CHARS + CHECK_CHARS;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A key as its owner holds it. Shown once, never stored, never logged.
#[derive(Clone)]
pub struct PlainKey(String);

impl PlainKey {
    /// A new key.
    pub fn generate(random: &mut impl Rng) -> Self {
        let mut key = String::with_capacity(LENGTH);
        key.push_str(PREFIX);
        key.extend((0..RANDOM_CHARS).map(|_| char::from(BASE62[random.random_range(0..BASE62.len())])));
        let check = checksum(&key);
        key.push_str(&check);
        Self(key)
    }

    /// A key that a client sent; `None` when its form or its checksum is wrong, which costs no look-up.
    pub fn parse(text: &str) -> Option<Self> {
        let (body, check) = text.split_at_checked(LENGTH - CHECK_CHARS)?;
        let well_formed = text.len() == LENGTH
            && body.strip_prefix(PREFIX)?.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && checksum(body) == check;
        well_formed.then(|| Self(text.to_owned()))
    }

    /// What is stored and looked up.
    pub fn hash(&self) -> KeyHash {
        hash(&self.0)
    }

    /// For display: `mpk_ab12…xyz`.
    pub fn hint(&self) -> String {
        format!("{}…{}", &self.0[..8], &self.0[LENGTH - 3..])
    }

    /// The key itself, for the one answer that shows it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// SHA-256 over the whole key.
pub fn hash(key: &str) -> KeyHash {
    Sha256::digest(key.as_bytes()).into()
}

fn checksum(body: &str) -> String {
    let mut rest = crc32fast::hash(body.as_bytes());
    let mut out = [b'0'; CHECK_CHARS];
    for slot in out.iter_mut().rev() {
        *slot = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    out.iter().map(|byte| char::from(*byte)).collect()
}

impl std::fmt::Debug for PlainKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PlainKey(masked)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_is_recognised_and_every_change_of_it_is_not() {
        let key = PlainKey::generate(&mut rand::rng());
        let text = key.expose();
        assert_eq!(text.len(), 50);
        assert_eq!(PlainKey::parse(text).unwrap().hash(), key.hash());
        for i in 0..text.len() {
            let mut bytes = text.as_bytes().to_vec();
            bytes[i] = if bytes[i] == b'a' { b'b' } else { b'a' };
            assert!(PlainKey::parse(std::str::from_utf8(&bytes).unwrap()).is_none(), "changed at {i}");
        }
        assert!(!format!("{key:?}").contains(&text[8..40]));
        assert_eq!(key.hint().chars().count(), 12);
    }

    proptest! {
        #[test]
        fn any_text_is_a_key_or_not(text in "\\PC{0,80}") {
            prop_assert!(PlainKey::parse(&text).is_none());
            prop_assert!(PlainKey::parse(&["mpk_", &text].concat()).is_none());
        }
    }
}
