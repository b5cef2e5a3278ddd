//! Cards that were deleted longer ago than they are kept: the reaper removes them for good, some at a time. What a
//! plugin keeps of a card may make its removal slow; then that card waits, and no other.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::reaper::{BATCH_TIMEOUT, CARD_TIMEOUT, QUICK_CARD_TIMEOUT, RemoveError, card_in_use, remove_cards};
use cardinal_database::pool::Pool;

/// Cards that one statement removes: what else they take along is locked meanwhile.
const BATCH: i64 = 200;
/// A card whose removal took too long is tried by itself in the next round: perhaps another card's session held it.
/// If it takes too long again, it is tried after this.
const SLOW_RETRY: Duration = Duration::from_secs(24 * 60 * 60);
/// Slow cards that are remembered, and batches that wait for their second try.
const MAX_SLOW: usize = 10_000;

/// What a round has done.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ExpiryReport {
    pub cards: u64,
    /// Cards that a plugin's tables still refer to, by plugin. They are tried again in the next round.
    pub in_use: BTreeMap<String, u64>,
    /// Cards whose removal took too long. They are tried again by themselves, and if that is slow, a day later.
    pub slow: u64,
}

/// Removes expired cards, round by round.
#[derive(Debug)]
pub struct Expiry {
    slow: HashMap<Uuid, SlowCard>,
    batch_timeout: Duration,
    card_timeout: Duration,
}

#[derive(Debug, Clone, Copy)]
struct SlowCard {
    since: Instant,
    /// How often its removal took too long.
    times: u32,
}

impl SlowCard {
    fn is_set_aside(self) -> bool {
        self.times > 1 && self.since.elapsed() < SLOW_RETRY
    }
}

impl Default for Expiry {
    fn default() -> Self {
        Self::new(BATCH_TIMEOUT, CARD_TIMEOUT)
    }
}

impl Expiry {
    pub fn new(batch_timeout: Duration, card_timeout: Duration) -> Self {
        Self { slow: HashMap::new(), batch_timeout, card_timeout }
    }

    /// Removes what was deleted before `before`, oldest first. A card that cannot go stops no other: a batch that
    /// does not go as a whole comes after all others, card by card.
    pub async fn remove(&mut self, reaper: &Pool, before: OffsetDateTime) -> Result<ExpiryReport, StoreError> {
        self.slow.retain(|_, slow| slow.since.elapsed() < SLOW_RETRY);
        let (mut removed, mut mixed) = (ExpiryReport::default(), Vec::new());
        let mut last = DeletedCard { deleted_at: OffsetDateTime::UNIX_EPOCH, id: Uuid::nil() };
        loop {
            let batch = next(reaper, before, last).await?;
            let Some(reached) = batch.last() else { break };
            last = *reached;
            let ids = batch.iter().map(|card| card.id);
            let (slow, ids): (Vec<Uuid>, Vec<Uuid>) = ids.partition(|id| self.slow.contains_key(id));
            mixed.extend(slow.into_iter().filter(|id| !self.slow[id].is_set_aside()));
            match remove_cards(reaper, &ids, self.batch_timeout).await {
                Ok(cards) => removed.cards += cards,
                Err(RemoveError::Unavailable(error)) => return Err(error),
                // The rest comes in a later round.
                Err(_) if mixed.len() >= MAX_SLOW => {}
                Err(_) => mixed.extend(ids),
            }
        }
        // A card that takes long comes after those that do not.
        let (quick, mut slow) = (self.card_timeout.min(QUICK_CARD_TIMEOUT), Vec::new());
        for id in mixed {
            if !self.is_removed(reaper, id, quick, &mut removed).await? {
                slow.push(id);
            }
        }
        for id in slow {
            let has_time = quick < self.card_timeout;
            if !has_time || !self.is_removed(reaper, id, self.card_timeout, &mut removed).await? {
                removed.slow += 1;
                self.note_slow(id);
            }
        }
        Ok(removed)
    }

    fn note_slow(&mut self, id: Uuid) {
        if self.slow.len() < MAX_SLOW {
            self.slow.entry(id).or_insert(SlowCard { since: Instant::now(), times: 0 }).times += 1;
        }
    }

    /// Gives false for a card that takes longer than this; true also for one that is not to be removed.
    async fn is_removed(
        &mut self,
        reaper: &Pool,
        id: Uuid,
        timeout: Duration,
        removed: &mut ExpiryReport,
    ) -> Result<bool, StoreError> {
        match remove_cards(reaper, &[id], timeout).await {
            Ok(cards) => {
                removed.cards += cards;
                self.slow.remove(&id);
            }
            Err(RemoveError::Unavailable(error)) => return Err(error),
            Err(RemoveError::Slow(_)) => return Ok(false),
            Err(RemoveError::Refused(error)) => match card_in_use(error) {
                StoreError::CardInUse { plugin } => *removed.in_use.entry(plugin).or_default() += 1,
                error => tracing::warn!(card = %id, ?error, "failed to remove a deleted card"),
            },
        }
        Ok(true)
    }
}

/// A deleted card, by the order in which they are removed.
#[derive(Clone, Copy)]
struct DeletedCard {
    deleted_at: OffsetDateTime,
    id: Uuid,
}

async fn next(reaper: &Pool, before: OffsetDateTime, last: DeletedCard) -> Result<Vec<DeletedCard>, StoreError> {
    let client = reaper.get().await?;
    let sql = "SELECT deleted_at, id FROM public.master_cards \
               WHERE deleted_at IS NOT NULL AND deleted_at < $1 AND (deleted_at, id) > ($2, $3) \
               ORDER BY deleted_at, id LIMIT $4";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&before, &last.deleted_at, &last.id, &BATCH]).await?;
    Ok(rows.iter().map(|row| DeletedCard { deleted_at: row.get("deleted_at"), id: row.get("id") }).collect())
}
