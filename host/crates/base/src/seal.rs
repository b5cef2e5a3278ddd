//! Secrets in the database: encrypted and bound to their place, with a key that every host of the database derives from
//! the secret of the role passwords. Whoever has the rows alone, from a dump or a backup, has nothing.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hkdf::Hkdf;
use sha2::Sha256;

use crate::config::Secret;
use crate::hex::hex;

/// What every sealed text begins with.
const VERSION: &str = "v1";
const KEY_LEN: usize = 32;
const ID_LEN: usize = 4;

/// A key, and the number by which a text says that it was sealed with this one.
#[derive(Clone)]
pub struct SealingKey {
    id: String,
    bytes: [u8; KEY_LEN],
}

/// Why a sealed text does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsealError {
    /// It was sealed by a host with another secret.
    OtherKey,
    /// It is not what was sealed, or not in its place.
    Damaged,
}

/// What binds a secret among a plugin's settings: sealed there, it opens for no other plugin and under no other name.
pub fn settings_place(plugin: &str, pointer: &str) -> String {
    format!("plugin settings {plugin} {pointer}")
}

impl SealingKey {
    /// The key that belongs to the secret of the role passwords.
    pub fn derive(secret: &Secret) -> Self {
        let hkdf = Hkdf::<Sha256>::new(None, secret.expose().as_bytes());
        let mut bytes = [0; KEY_LEN];
        // Only lengths over 255 hashes are refused; this is one.
        let filled = hkdf.expand(b"cardinal plugin settings", &mut bytes);
        debug_assert!(filled.is_ok());
        Self::from_bytes(bytes)
    }

    fn from_bytes(bytes: [u8; KEY_LEN]) -> Self {
        let mut id = [0; ID_LEN];
        let filled = Hkdf::<Sha256>::new(None, &bytes).expand(b"cardinal sealing key id", &mut id);
        debug_assert!(filled.is_ok());
        Self { id: hex(&id), bytes }
    }

    /// The key as it crosses the control socket, and as a backup with secrets holds it.
    pub fn export(&self) -> Secret {
        Secret::new(URL_SAFE_NO_PAD.encode(self.bytes))
    }

    /// What [`export`](Self::export) has written.
    pub fn import(text: &Secret) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.expose().trim()).ok()?;
        Some(Self::from_bytes(bytes.try_into().ok()?))
    }

    /// Seals a text for one place; elsewhere it does not open.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn seal(&self, place: &str, text: &[u8]) -> anyhow::Result<String> {
        let mut sealed = text.to_vec();
        let nonce = self.cipher()?.seal_in_place_append_tag(Aad::from(place.as_bytes()), &mut sealed)?;
        let mut whole = nonce.as_ref().to_vec();
        whole.append(&mut sealed);
        Ok(format!("{VERSION}.{}.{}", self.id, URL_SAFE_NO_PAD.encode(whole)))
    }

    /// Opens what was sealed for this place.
    ///
    /// # Errors
    /// As [`UnsealError`] tells them apart.
    pub fn open(&self, place: &str, sealed: &str) -> Result<Vec<u8>, UnsealError> {
        let mut parts = sealed.split('.');
        let (Some(VERSION), Some(id), Some(text), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(UnsealError::Damaged);
        };
        if id != self.id {
            return Err(UnsealError::OtherKey);
        }
        let mut whole = URL_SAFE_NO_PAD.decode(text).map_err(|_| UnsealError::Damaged)?;
        let (nonce, body) = whole.split_at_mut_checked(NONCE_LEN).ok_or(UnsealError::Damaged)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| UnsealError::Damaged)?;
        let cipher = self.cipher().map_err(|_| UnsealError::Damaged)?;
        let opened = cipher.open_in_place(nonce, Aad::from(place.as_bytes()), body);
        opened.map(|text| text.to_vec()).map_err(|_| UnsealError::Damaged)
    }

    /// Nonces are random, and one that came twice would give no more away than that two texts are the same.
    fn cipher(&self) -> Result<RandomizedNonceKey, aws_lc_rs::error::Unspecified> {
        RandomizedNonceKey::new(&AES_256_GCM_SIV, &self.bytes)
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SealingKey({})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &str) -> SealingKey {
        SealingKey::derive(&Secret::new(secret))
    }

    #[test]
    fn what_was_sealed_opens_in_its_place_alone() {
        let (one, sealed) = (key("one"), key("one").seal("echo/token", b"hunter2").unwrap());
        assert_eq!(one.open("echo/token", &sealed).unwrap(), b"hunter2");
        assert_eq!(one.open("other/token", &sealed), Err(UnsealError::Damaged));
        assert_eq!(key("two").open("echo/token", &sealed), Err(UnsealError::OtherKey));
        assert_ne!(one.seal("echo/token", b"hunter2").unwrap(), sealed, "nobody sees that two are the same");
    }

    #[test]
    fn what_was_changed_does_not_open() {
        let (one, sealed) = (key("one"), key("one").seal("p", b"hunter2").unwrap());
        for at in 0..sealed.len() {
            let mut bent = sealed.clone().into_bytes();
            bent[at] = if bent[at] == b'A' { b'B' } else { b'A' };
            assert!(one.open("p", &String::from_utf8(bent).unwrap()).is_err(), "byte {at}");
        }
        for text in ["", "v1", "v1.", "v1..", "v1.00000000.AAAA", &sealed[..sealed.len() - 4], &format!("{sealed}.x")] {
            assert!(one.open("p", text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_key_that_was_exported_is_the_same_one() {
        let one = key("one");
        let again = SealingKey::import(&one.export()).unwrap();
        assert_eq!(again.open("p", &one.seal("p", b"x").unwrap()).unwrap(), b"x");
        assert!(SealingKey::import(&Secret::new("short")).is_none());
        assert!(!format!("{one:?}").contains(one.export().expose()));
    }
}
