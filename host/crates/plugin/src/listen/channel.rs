//! What PostgreSQL calls a plugin's channel.
//!
//! PostgreSQL has no rights on channels: any role of the database may listen to each and notify on each. So the name is
//! one that only this plugin can make, and that is the same on all hosts: a plugin's own word, keyed with its login's
//! password.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::fault::Fault;
use cardinal_base::{config::Secret, hex::hex};

/// Bytes of a plugin's own word for a channel.
const MAX_NAME_BYTES: usize = 100;
/// Of the keyed hash. With the prefix the name has 49 of the 63 bytes that PostgreSQL takes.
const HASH_BYTES: usize = 20;

/// A channel of one plugin, by the name that PostgreSQL knows. It holds letters, digits and `_`, so it needs no quotes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Channel(String);

impl Channel {
    pub(super) fn new(name: &str, login: &Secret) -> Result<Self, Fault> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(Fault::Invalid(format!(
                "a channel's name has 1 to {MAX_NAME_BYTES} bytes, not {}",
                name.len()
            )));
        }
        let mut hash = Hmac::<Sha256>::new_from_slice(login.expose().as_bytes())
            .map_err(|error| Fault::Internal(anyhow::Error::new(error)))?;
        hash.update(b"channel\0");
        hash.update(name.as_bytes());
        Ok(Self(format!("cardinal_{}", hex(&hash.finalize().into_bytes()[..HASH_BYTES]))))
    }

    pub fn name(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn channel(name: &str, login: &str) -> Result<Channel, Fault> {
        Channel::new(name, &Secret::new(login))
    }

    #[test]
    fn a_name_is_the_same_everywhere_and_another_plugins_is_another() {
        let orders = channel("orders", "s3cret").unwrap();
        assert_eq!(orders.name(), channel("orders", "s3cret").unwrap().name());
        assert_ne!(orders.name(), channel("orders", "other").unwrap().name());
        assert_ne!(orders.name(), channel("Orders", "s3cret").unwrap().name());
        let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        assert!(is_plain(orders.name()) && orders.name().len() <= 63, "{}", orders.name());
    }

    #[test]
    fn any_text_of_a_sensible_length_is_a_name() {
        for name in ["x", "order:7", "\"; DROP TABLE orders; --", &"é".repeat(50)] {
            assert!(channel(name, "s3cret").is_ok(), "{name}");
        }
        for name in ["", &"x".repeat(101)] {
            assert!(matches!(channel(name, "s3cret"), Err(Fault::Invalid(_))), "{name}");
        }
    }
}
