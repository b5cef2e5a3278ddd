//! A plugin can change its own login's password and so lock itself out. The schema step puts it back; this is how the
//! pool asks for one.

use std::pin::Pin;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_postgres::error::SqlState;

/// A plugin that does it again and again keeps the database busy with nothing but this.
const MIN_INTERVAL: Duration = Duration::from_secs(5);

type RepairFuture = Pin<Box<dyn Future<Output = bool> + Send>>;

/// What to do when the server does not let the plugin in.
pub struct LoginRepair {
    ask: Box<dyn Fn() -> RepairFuture + Send + Sync>,
    last: Mutex<Option<Instant>>,
}

impl LoginRepair {
    /// `ask` answers whether the login is in order now.
    pub fn by<F: Future<Output = bool> + Send + 'static>(ask: impl Fn() -> F + Send + Sync + 'static) -> Self {
        Self { ask: Box::new(move || Box::pin(ask())), last: Mutex::new(None) }
    }

    pub(super) fn is_lockout(error: &tokio_postgres::Error) -> bool {
        error.code() == Some(&SqlState::INVALID_PASSWORD)
            || error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
    }

    /// Whether it is worth another try.
    pub(super) async fn repaired(&self, now: Instant) -> bool {
        {
            let mut last = self.last.lock();
            if last.is_some_and(|last| now.duration_since(last) < MIN_INTERVAL) {
                return false;
            }
            *last = Some(now);
        }
        tracing::warn!("the database no longer accepts a plugin's login; having it restored");
        (self.ask)().await
    }
}
