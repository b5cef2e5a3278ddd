//! A provider's key and its tokens, for unit tests.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use serde_json::{Value, json};
use time::{OffsetDateTime, macros::datetime};

use super::jwks::KeySet;

pub(super) const ISSUER: &str = "https://auth.example.com/oidc";
pub(super) const AUDIENCE: &str = "https://shop.example.com/api";
pub(super) const NOW: OffsetDateTime = datetime!(2026-01-01 12:00 UTC);

// Made for these tests and used nowhere else.
const KEY: &str = "MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDAuiM9smfBeU6HeNvlBjqgIrtZpbCF6QhoPxner3x9bGOGgpuGp-xzZ48_vGZOPauuhZANiAATkITITtb2tiu0pOpP_xWyoyWeHvNSfWH7BcSvwmQKGs9LKed8hXJfNiuTJktmuny8vVO0f75mnNvx9SFQ5qPkwmDgNAQKGSPesIPHCg6UwobQ2G1NOtO_ADY2yPELA7uM";

/// The public half, under the given id.
pub(super) fn jwk(id: &str) -> Value {
    json!({
        "kty": "EC", "crv": "P-384", "alg": "ES384", "use": "sig", "kid": id,
        "x": "5CEyE7W9rYrtKTqT_8VsqMlnh7zUn1h-wXEr8JkChrPSynnfIVyXzYrkyZLZrp8v",
        "y": "L1TtH--Zpzb8fUhUOaj5MJg4DQEChkj3rCDxwoOlMKG0NhtTTrTvwA2NsjxCwO7j",
    })
}

pub(super) fn keys(ids: &[&str]) -> KeySet {
    let keys: Vec<_> = ids.iter().map(|id| jwk(id)).collect();
    KeySet::read(json!({"keys": keys}).to_string().as_bytes()).unwrap()
}

/// Claims that are in order, with some changed.
pub(super) fn claims(changed: &Value) -> Value {
    let now = NOW.unix_timestamp();
    let mut claims = json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": now + 600, "iat": now});
    claims.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
    claims
}

/// Header, claims and no signature.
pub(super) fn unsigned(head: &Value, claims: &Value) -> String {
    format!("{}.", [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join("."))
}

/// A token in order, signed under the given key id.
pub(super) fn token(id: &str, changed: &Value) -> String {
    let unsigned = unsigned(&json!({"alg": "ES384", "typ": "at+jwt", "kid": id}), &claims(changed));
    let message = unsigned.trim_end_matches('.');
    let key = EncodingKey::from_ec_der(&URL_SAFE_NO_PAD.decode(KEY).unwrap());
    unsigned.clone() + &crypto::sign(message.as_bytes(), &key, Algorithm::ES384).unwrap()
}
