//! Writers of one card take turns in the host instead of at the row's lock: who comes while another one writes waits
//! without a connection, and all that wait are written by one statement when the turn is over. Who comes alone is
//! written at once, by the statement made for one. Writers on other hosts and of other things meet at the row, as ever.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{runtime::Handle, sync::oneshot};
use uuid::Uuid;

use crate::{
    cards::{
        self,
        sources::{Entry, QueuedEnrichment, WriteOutcome},
    },
    error::StoreError,
};
use cardinal_base::db_error;
use cardinal_database::pool::Pool;

/// Enrichments that may wait for one card, and the bytes of their data.
const MAX_WAITING: usize = 1_024;
const MAX_WAITING_BYTES: usize = 16 << 20;
/// How many one statement writes at most, and bytes beyond which it takes no further one.
const MAX_BATCH: usize = 64;
const MAX_BATCH_BYTES: usize = 1 << 20;
/// Writers of different cards rarely meet at one of these locks; none is held over a wait.
const SHARDS: usize = 16;

/// Why an enrichment was not written.
#[derive(Debug)]
pub enum EnrichError {
    Store(StoreError),
    /// Too many wait for the same card already.
    Crowded,
    /// The database was not there for those who waited together.
    QueuedEnrichment(Arc<StoreError>),
    /// The host is stopping.
    Stopped,
}

type Outcome = Result<WriteOutcome, EnrichError>;

/// Who writes which card.
#[derive(Clone)]
pub(super) struct EnrichmentQueue(Arc<Shared>);

struct Shared {
    pool: Pool,
    /// Where those who waited are written: none of them may take the others along when its caller gives up.
    runtime: Handle,
    hasher: RandomState,
    shards: [Mutex<HashMap<Uuid, Queue>>; SHARDS],
}

/// Those who wait for a card that is being written.
#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    bytes: usize,
}

struct Waiting {
    entry: QueuedEnrichment,
    reply: oneshot::Sender<Outcome>,
}

/// While it lives nobody else in this host enriches the card. Its end, however it comes, begins the next one.
struct CardGuard {
    queue: EnrichmentQueue,
    card: Uuid,
}

impl EnrichmentQueue {
    pub(super) fn new(pool: Pool, runtime: Handle) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self(Arc::new(Shared { pool, runtime, hasher: RandomState::new(), shards }))
    }

    /// Writes source `key` of a card, alone or with others that wait for the same card.
    pub(super) async fn enrich(&self, card: Uuid, key: &str, entry: &Entry<'_>) -> Outcome {
        if let Some(_guard) = self.begin(card) {
            return cards::sources::enrich(&self.0.pool, card, key, entry).await.map_err(EnrichError::Store);
        }
        let (reply, outcome) = oneshot::channel();
        let together = QueuedEnrichment::from_entry(key, entry).map_err(EnrichError::Store)?;
        match self.wait(card, Waiting { entry: together, reply })? {
            // The one before was done in the meantime.
            Some(_guard) => cards::sources::enrich(&self.0.pool, card, key, entry).await.map_err(EnrichError::Store),
            None => outcome.await.unwrap_or(Err(EnrichError::Stopped)),
        }
    }

    fn begin(&self, card: Uuid) -> Option<CardGuard> {
        let mut shard = self.shard(card);
        if shard.contains_key(&card) {
            return None;
        }
        shard.insert(card, Queue::default());
        Some(CardGuard { queue: self.clone(), card })
    }

    /// Queues up; the guard of the card when there is nobody to wait for any more.
    fn wait(&self, card: Uuid, waiting: Waiting) -> Result<Option<CardGuard>, EnrichError> {
        let mut shard = self.shard(card);
        let Some(queue) = shard.get_mut(&card) else {
            shard.insert(card, Queue::default());
            return Ok(Some(CardGuard { queue: self.clone(), card }));
        };
        let bytes = queue.bytes + waiting.entry.size();
        if queue.waiting.len() >= MAX_WAITING || bytes > MAX_WAITING_BYTES {
            return Err(EnrichError::Crowded);
        }
        queue.bytes = bytes;
        queue.waiting.push(waiting);
        Ok(None)
    }

    fn shard(&self, card: Uuid) -> MutexGuard<'_, HashMap<Uuid, Queue>> {
        let number = self.0.hasher.hash_one(card) as usize % SHARDS;
        self.0.shards[number].lock()
    }
}

impl Drop for CardGuard {
    fn drop(&mut self) {
        let mut shard = self.queue.shard(self.card);
        let next = shard.get_mut(&self.card).map(Queue::next).unwrap_or_default();
        if next.is_empty() {
            shard.remove(&self.card);
            return;
        }
        drop(shard);
        let guard = CardGuard { queue: self.queue.clone(), card: self.card };
        self.queue.0.runtime.spawn(guard.write(next));
    }
}

impl CardGuard {
    async fn write(self, waiting: Vec<Waiting>) {
        let (entries, replies): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|waiting| (waiting.entry, waiting.reply)).unzip();
        let outcomes = self.outcomes(&entries).await;
        // The next turn begins before anybody is told: what they do then queues up for the one after it.
        drop(self);
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            // Whoever has given up is not told.
            let _ = reply.send(outcome);
        }
    }

    async fn outcomes(&self, entries: &[QueuedEnrichment]) -> Vec<Outcome> {
        let pool = &self.queue.0.pool;
        match cards::sources::enrich_together(pool, self.card, entries).await {
            Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
            // Nobody fails for what another one sends.
            Err(StoreError::Database(error)) if !db_error::is_unavailable(&error) => {
                let mut outcomes = Vec::with_capacity(entries.len());
                for entry in entries.chunks(1) {
                    let alone = cards::sources::enrich_together(pool, self.card, entry).await;
                    let alone = alone.map(|mut outcome| outcome.pop().unwrap_or(WriteOutcome::NoCard));
                    outcomes.push(alone.map_err(EnrichError::Store));
                }
                outcomes
            }
            Err(error) => {
                let error = Arc::new(error);
                entries.iter().map(|_| Err(EnrichError::QueuedEnrichment(Arc::clone(&error)))).collect()
            }
        }
    }
}

impl Queue {
    /// Takes those whose turn is next, but for those who have given up.
    fn next(&mut self) -> Vec<Waiting> {
        self.waiting.retain(|waiting| !waiting.reply.is_closed());
        let mut bytes = 0;
        let fits = |waiting: &&Waiting| {
            let room = bytes < MAX_BATCH_BYTES;
            bytes += waiting.entry.size();
            room
        };
        let count = self.waiting.iter().take(MAX_BATCH).take_while(fits).count();
        let next = self.waiting.drain(..count).collect();
        self.bytes = self.waiting.iter().map(|waiting| waiting.entry.size()).sum();
        next
    }
}
