//! Passwords: argon2id, off the async threads, behind a bounded queue, in the same time whether
//! the user exists or not.

mod queue;

use std::{sync::Arc, thread};

pub use self::queue::HashPermit;
use self::queue::Queue;
use super::throttle::Rank;
use crate::error::AuthError;
use cardinal_base::{
    config::Secret,
    password::{self, MAX_LENGTH, MIN_LENGTH},
};

/// The place where passwords are hashed: at half of the cores at a time, so that a flood of logins leaves the rest to
/// everything else.
#[derive(Clone)]
pub struct Hasher(Arc<Queue>);

impl Default for Hasher {
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Queue::new(cores.div_ceil(2))))
    }
}

impl Hasher {
    /// Waits for a core; 503 when too many come first.
    pub async fn acquire(&self, rank: Rank) -> Result<HashPermit, AuthError> {
        self.0.acquire(rank).await
    }

    /// A PHC string for `password`, which somebody sets who has logged in.
    pub async fn hash(&self, password: Secret) -> Result<String, AuthError> {
        let permit = self.acquire(Rank::authenticated()).await?;
        run(permit, move || password::hash(&password)).await
    }

    /// Whether `password` belongs to `stored`. Without a stored hash the same work is done for nothing,
    /// so that the time tells nobody which names exist.
    pub async fn verify(
        &self,
        permit: HashPermit,
        password: Secret,
        stored: Option<String>,
    ) -> Result<bool, AuthError> {
        run(permit, move || {
            let known = stored.is_some();
            Ok(password::verify(&password, stored.as_deref().unwrap_or(password::DUMMY))? && known)
        })
        .await
    }
}

/// A client that hangs up does not end the work, so the work itself holds its turn.
async fn run<T: Send + 'static>(
    permit: HashPermit,
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Result<T, AuthError> {
    let held = move || {
        let outcome = work();
        drop(permit);
        outcome
    };
    tokio::task::spawn_blocking(held).await.map_err(AuthError::internal)?.map_err(AuthError::internal)
}

/// 422 when a new password is too short or too long.
pub fn check_new(password: &Secret, pointer: &str) -> Result<(), AuthError> {
    match password.expose().len() {
        MIN_LENGTH..=MAX_LENGTH => Ok(()),
        _ => {
            let detail = format!("A password has {MIN_LENGTH} to {MAX_LENGTH} bytes.");
            Err(AuthError::Field { pointer: pointer.to_owned(), detail })
        }
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
        for (password, stored, is_right) in [
            ("correct horse", Some(stored.clone()), true),
            ("wrong horse", Some(stored), false),
            ("correct horse", None, false),
        ] {
            let permit = hasher.acquire(Rank::authenticated()).await.unwrap();
            assert_eq!(hasher.verify(permit, secret(password), stored).await.unwrap(), is_right);
        }
    }
}
