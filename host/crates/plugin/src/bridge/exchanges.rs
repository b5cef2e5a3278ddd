//! The requests to other servers that one instance has under way: their places, their client and how they went.

mod counters;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::fault::Fault;
use cardinal_base::http_client::{self, PoolingClient, Reach};

pub(super) use self::counters::ExchangeCount;
pub use self::counters::{Counters, Outcome};

/// Exchanges of one instance that are under way at once, bodies that it has not read to their end among them.
const MAX_EXCHANGES: usize = 32;
/// Requests of one instance that wait for a place; who waits spends the request's own time.
const MAX_WAITING: usize = 256;

/// What one instance has of the HTTP client.
pub struct HttpExchanges {
    pub(super) client: PoolingClient,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    pub counters: Counters,
}

impl HttpExchanges {
    pub(crate) fn new(client: http_client::HttpClient, reach: Reach) -> Self {
        Self {
            client: PoolingClient::new(client, reach),
            places: Arc::new(Semaphore::new(MAX_EXCHANGES)),
            waiting: AtomicUsize::new(0),
            counters: Counters::default(),
        }
    }

    /// Exchanges that are under way.
    pub fn in_flight(&self) -> usize {
        MAX_EXCHANGES.saturating_sub(self.places.available_permits())
    }

    /// A place for one, when it is free.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit, Fault> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        let _waiting = Waiting::join(&self.waiting)?;
        Arc::clone(&self.places).acquire_owned().await.map_err(|error| Fault::Internal(error.into()))
    }
}

/// One of those that wait for a place.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn join(waiting: &'a AtomicUsize) -> Result<Self, Fault> {
        let more = |count: usize| (count < MAX_WAITING).then_some(count + 1);
        match waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Self(waiting)),
            Err(_) => Err(Fault::Busy("The plugin has too many requests to other servers under way.".to_owned())),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
