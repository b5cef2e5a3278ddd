//! Passwords as they are stored: argon2id.

use argon2::{Algorithm, Argon2, Params, PasswordHash, PasswordHasher, PasswordVerifier, Version};
use rand::RngExt as _;

use crate::config::Secret;

/// The minimum that OWASP names; 16 to 21 ms and 19 MiB here.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// Bytes of a password.
pub const MIN_LENGTH: usize = 8;
pub const MAX_LENGTH: usize = 256;
/// Characters of a generated password: 142 bits.
const GENERATED: usize = 24;

/// A PHC string for `password`. Takes 20 ms of a core.
///
/// # Errors
/// The system has no random numbers.
pub fn hash(password: &Secret) -> anyhow::Result<String> {
    let hash = argon2()?.hash_password(password.expose().as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|error| anyhow::anyhow!("hashing a password: {error}"))
}

fn argon2() -> anyhow::Result<Argon2<'static>> {
    let params =
        Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|error| anyhow::anyhow!("argon2 parameters: {error}"))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

/// A hash that no password has, of the same parameters as real ones. Constant, so that not even the first login with
/// an unknown name takes longer.
pub const DUMMY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$Y2FyZGluYWwtZHVtbXkhIQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A random password that nobody has to remember.
pub fn generate() -> Secret {
    let mut random = rand::rng();
    let text: String = (0..GENERATED).map(|_| char::from(random.sample(rand::distr::Alphanumeric))).collect();
    Secret::new(text)
}

/// Whether `password` belongs to `stored`, for whoever may wait for it: the time of the answer tells what was compared.
pub fn verify(password: &Secret, stored: &str) -> anyhow::Result<bool> {
    let hash = PasswordHash::new(stored).map_err(|error| anyhow::anyhow!("reading a stored password hash: {error}"))?;
    Ok(argon2()?.verify_password(password.expose().as_bytes(), &hash).is_ok())
}
