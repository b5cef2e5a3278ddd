//! HMAC-SHA-256 with a 32-byte key.

use hmac::{Hmac, KeyInit};
use sha2::Sha256;

/// A MAC that is ready to be fed.
pub fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    // HMAC fills a short key up with zeros to its block of 64 bytes; done here, nothing can fail.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    KeyInit::new(&block.into())
}
