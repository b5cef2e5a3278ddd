//! The provider's public keys: those that may verify an ES384 token, and no others.

use anyhow::Context;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Bytes of one coordinate on the curve P-384.
const COORDINATE: usize = 48;
/// Keys tried under one `kid`; a set should have one.
const SAME_ID: usize = 4;

/// A key's fingerprint, over its coordinates.
pub(super) type Print = [u8; 32];

/// Keys as the provider publishes them.
#[derive(Default)]
pub(super) struct KeySet(Vec<Key>);

struct Key {
    id: Option<String>,
    print: Print,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

/// One entry; what isn't named here (`x5c`, `x5u`, private parts) is never looked at.
#[derive(Deserialize)]
struct Entry {
    kty: String,
    crv: String,
    x: String,
    y: String,
    kid: Option<String>,
    r#use: Option<String>,
    alg: Option<String>,
    key_ops: Option<Vec<String>>,
}

impl KeySet {
    /// Reads a set; entries for other purposes, curves or algorithms are passed over, and so is one
    /// that is damaged: it must not take the good ones with it.
    ///
    /// # Errors
    /// It is no key set.
    pub(super) fn read(document: &[u8]) -> anyhow::Result<Self> {
        let document: Document = serde_json::from_slice(document).context("it is not a key set")?;
        Ok(Self(document.keys.into_iter().filter_map(Key::read).collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn has(&self, print: &Print) -> bool {
        self.0.iter().any(|key| key.print == *print)
    }

    pub(super) fn prints(&self) -> impl Iterator<Item = &Print> {
        self.0.iter().map(|key| &key.print)
    }

    /// Which key has signed `message`. A token that names no key, and a key without a name, are fine while there is
    /// only one: trying all of them would let a flood of tokens cost a multiple.
    pub(super) fn signer(&self, id: Option<&str>, message: &str, signature: &str) -> Option<Print> {
        let only = self.0.len() == 1;
        let named = self.0.iter().filter(|key| match (id, key.id.as_deref()) {
            (Some(wanted), Some(id)) => wanted == id,
            _ => only,
        });
        let signed = |key: &&Key| crypto::verify(signature, message.as_bytes(), &key.key, Algorithm::ES384).ok();
        named.take(SAME_ID).find(|key| signed(key) == Some(true)).map(|key| key.print)
    }
}

impl Key {
    fn read(entry: Value) -> Option<Self> {
        let entry: Entry = serde_json::from_value(entry).ok()?;
        let fits = entry.kty == "EC"
            && entry.crv == "P-384"
            && entry.alg.is_none_or(|alg| alg == "ES384")
            && entry.r#use.is_none_or(|purpose| purpose == "sig")
            && entry.key_ops.is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        let coordinate = |text: &str| URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() == COORDINATE);
        let (x, y) = (coordinate(&entry.x)?, coordinate(&entry.y)?);
        if !fits {
            return None;
        }
        let print = Sha256::new().chain_update(x).chain_update(y).finalize().into();
        Some(Self { id: entry.kid, print, key: DecodingKey::from_ec_components(&entry.x, &entry.y).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use serde_json::json;

    fn set(keys: &[Value]) -> KeySet {
        KeySet::read(json!({"keys": keys}).to_string().as_bytes()).unwrap()
    }

    fn with(change: Value) -> Value {
        let mut key = sample::jwk("a");
        key.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        key
    }

    #[test]
    fn only_keys_for_es384_signatures_count() {
        assert_eq!(set(&[sample::jwk("a")]).len(), 1);
        for other in [
            json!({"kty": "RSA"}),
            json!({"crv": "P-256"}),
            json!({"alg": "ES256"}),
            json!({"alg": "HS256"}),
            json!({"use": "enc"}),
            json!({"key_ops": ["encrypt"]}),
            json!({"x": "AAAA"}),
            json!({"x": 7}),
            json!({"kid": 7}),
        ] {
            assert_eq!(set(&[with(other.clone()), sample::jwk("b")]).len(), 1, "{other}");
        }
        assert!(KeySet::read(b"{}").is_err() && KeySet::read(b"[]").is_err() && KeySet::read(b"").is_err());
    }

    #[test]
    fn a_signature_counts_under_its_own_key_id_only() {
        let token = sample::token("a", &json!({}));
        let (message, signature) = token.rsplit_once('.').unwrap();
        let keys = set(&[sample::jwk("a")]);
        assert!(keys.signer(Some("a"), message, signature).is_some_and(|print| keys.has(&print)));
        assert!(keys.signer(Some("b"), message, signature).is_none());
        assert!(keys.signer(Some("a"), message, &signature[4..]).is_none());
        assert!(keys.signer(Some("a"), message, "").is_none());
        assert!(keys.signer(Some("a"), &message[1..], signature).is_none());
    }

    #[test]
    fn without_a_key_id_there_must_be_one_key() {
        let token = sample::token("a", &json!({}));
        let (message, signature) = token.rsplit_once('.').unwrap();
        assert!(set(&[sample::jwk("a")]).signer(None, message, signature).is_some());
        assert!(set(&[sample::jwk("a"), sample::jwk("b")]).signer(None, message, signature).is_none());
        let nameless = with(json!({"kid": null}));
        assert!(set(std::slice::from_ref(&nameless)).signer(Some("a"), message, signature).is_some());
        assert!(set(&[nameless, sample::jwk("b")]).signer(Some("a"), message, signature).is_none());
    }
}
