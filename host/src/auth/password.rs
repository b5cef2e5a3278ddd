//! Passwords: argon2id, off the async threads, behind a bounded queue, in the same time whether
//! the user exists or not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use argon2::{Algorithm, Argon2, Params, PasswordHash, PasswordHasher, PasswordVerifier, Version};
use rand::RngExt as _;
use tokio::sync::Semaphore;

use crate::{
    config::Secret,
    http::{
        codes,
        error::{ApiError, ApiResult},
    },
};

/// The minimum that OWASP names; 16 to 21 ms and 19 MiB here.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// How many may wait for a core before the next is turned away.
const QUEUE: usize = 16;
/// Bytes of a password.
pub const SHORTEST: usize = 8;
pub const LONGEST: usize = 256;
/// Characters of a generated password: 142 bits.
const GENERATED: usize = 24;

/// The place where passwords are hashed: one per core at a time.
#[derive(Clone)]
pub struct Hasher {
    cores: Arc<Semaphore>,
    inside: Arc<AtomicUsize>,
    places: usize,
}

impl Default for Hasher {
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self { cores: Arc::new(Semaphore::new(cores)), inside: Arc::default(), places: cores + QUEUE }
    }
}

impl Hasher {
    /// A PHC string for `password`.
    pub async fn hash(&self, password: Secret) -> ApiResult<String> {
        self.run(move || {
            let hash = argon2()?.hash_password(password.expose().as_bytes());
            hash.map(|hash| hash.to_string()).map_err(|error| anyhow::anyhow!("hashing a password: {error}"))
        })
        .await
    }

    /// Whether `password` belongs to `stored`. Without a stored hash the same work is done for nothing,
    /// so that the time tells nobody which names exist.
    pub async fn verify(&self, password: Secret, stored: Option<String>) -> ApiResult<bool> {
        self.run(move || {
            let known = stored.is_some();
            Ok(verify(&password, stored.as_deref().unwrap_or(DUMMY))? && known)
        })
        .await
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> anyhow::Result<T> + Send + 'static) -> ApiResult<T> {
        let Some(place) = Place::take(&self.inside, self.places) else {
            return Err(ApiError::new(&codes::OVERLOADED).detail("Too many logins at once."));
        };
        let core = Arc::clone(&self.cores).acquire_owned().await.map_err(ApiError::internal)?;
        // A client that hangs up does not end the work, so the work itself holds its place and core.
        let held = move || {
            let outcome = work();
            drop((place, core));
            outcome
        };
        tokio::task::spawn_blocking(held).await.map_err(ApiError::internal)?.map_err(ApiError::internal)
    }
}

/// A place in the queue, given back when dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(inside: &Arc<AtomicUsize>, places: usize) -> Option<Self> {
        let place = Self(Arc::clone(inside));
        (inside.fetch_add(1, Ordering::AcqRel) < places).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn argon2() -> anyhow::Result<Argon2<'static>> {
    let params =
        Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|error| anyhow::anyhow!("argon2 parameters: {error}"))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

/// A hash that no password has, of the same parameters as real ones. Constant, so that not even the first login with
/// an unknown name takes longer.
const DUMMY: &str = "$argon2id$v=19$m=19456,t=2,p=1$Y2FyZGluYWwtZHVtbXkhIQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

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

/// 422 when a new password is too short or too long.
pub fn check_new(password: &Secret, pointer: &str) -> ApiResult<()> {
    match password.expose().len() {
        SHORTEST..=LONGEST => Ok(()),
        _ => Err(ApiError::invalid(pointer, format!("A password has {SHORTEST} to {LONGEST} bytes."))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn verifies_its_own_hash_and_nothing_else() {
        let hasher = Hasher::default();
        let secret = |text: &str| Secret::new(text);
        let stored = hasher.hash(secret("correct horse")).await.unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert!(hasher.verify(secret("correct horse"), Some(stored.clone())).await.unwrap());
        assert!(!hasher.verify(secret("wrong horse"), Some(stored)).await.unwrap());
        assert!(!hasher.verify(secret("correct horse"), None).await.unwrap());
    }

    #[tokio::test]
    async fn a_full_queue_turns_away() {
        let hasher = Hasher { cores: Arc::new(Semaphore::new(1)), inside: Arc::new(AtomicUsize::new(17)), places: 17 };
        let error = hasher.hash(Secret::new("x")).await.unwrap_err();
        assert_eq!(error.code(), "overloaded");
        assert_eq!(hasher.inside.load(Ordering::Acquire), 17);
    }
}
