//! The pictures that were asked for last, within a bound of bytes.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::Outcome;

/// Bytes of all pictures that are kept.
const MAX_KEPT_BYTES: usize = 48 << 20;
/// What an address takes beside its picture; it bounds the number of those that have none.
const ENTRY_BYTES: usize = 4 << 10;
/// A picture is read again after this: shops exchange pictures at one address.
const TTL: Duration = Duration::from_secs(3_600);
/// A failure may pass sooner.
const FAILURE_TTL: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Cache(Mutex<CacheState>);

#[derive(Default)]
struct CacheState {
    by_address: HashMap<Arc<str>, Entry>,
    /// Of all entries.
    bytes: usize,
    /// Counts look-ups, so that entries have an order.
    clock: u64,
}

struct Entry {
    slot: Arc<Slot>,
    bytes: usize,
    used: u64,
}

/// What becomes of one address. Those who ask while it is read wait for the same reading.
struct Slot {
    outcome: OnceCell<Outcome>,
    made: Instant,
}

impl Cache {
    /// What is known of `address`, or what `read` says, which else never runs. An error of `read` is kept for nobody.
    pub(super) async fn get<E>(
        &self,
        address: &str,
        read: impl Future<Output = Result<Outcome, E>>,
    ) -> Result<Outcome, E> {
        let slot = self.slot(address);
        let outcome = slot.outcome.get_or_try_init(|| read).await.cloned();
        self.finish(address, &slot);
        outcome
    }

    fn slot(&self, address: &str) -> Arc<Slot> {
        let mut kept = self.0.lock();
        kept.clock += 1;
        let used = kept.clock;
        if let Some(entry) = kept.by_address.get_mut(address).filter(|entry| entry.slot.is_fresh()) {
            entry.used = used;
            return Arc::clone(&entry.slot);
        }
        let slot = Arc::new(Slot { outcome: OnceCell::new(), made: Instant::now() });
        kept.remove(address);
        kept.bytes += ENTRY_BYTES;
        kept.by_address.insert(address.into(), Entry { slot: Arc::clone(&slot), bytes: ENTRY_BYTES, used });
        kept.make_room();
        slot
    }

    /// Counts what has been read; forgets what could not be tried.
    fn finish(&self, address: &str, slot: &Arc<Slot>) {
        let mut kept = self.0.lock();
        let Some(entry) = kept.by_address.get_mut(address).filter(|entry| Arc::ptr_eq(&entry.slot, slot)) else {
            return;
        };
        let bytes = match slot.outcome.get() {
            Some(Ok(picture)) => ENTRY_BYTES + picture.bytes.len(),
            Some(Err(_)) => ENTRY_BYTES,
            // Others still wait for their turn with it, or the next request makes a new one.
            None => return,
        };
        let before = std::mem::replace(&mut entry.bytes, bytes);
        kept.bytes = kept.bytes + bytes - before;
        kept.make_room();
    }
}

impl CacheState {
    fn remove(&mut self, address: &str) {
        if let Some(entry) = self.by_address.remove(address) {
            self.bytes -= entry.bytes;
        }
    }

    /// Drops what was used longest ago. Whoever is being answered with it keeps it for as long.
    fn make_room(&mut self) {
        while self.bytes > MAX_KEPT_BYTES {
            let oldest =
                self.by_address.iter().min_by_key(|(_, entry)| entry.used).map(|(address, _)| Arc::clone(address));
            let Some(oldest) = oldest else { return };
            self.remove(&oldest);
        }
    }
}

impl Slot {
    fn is_fresh(&self) -> bool {
        let age = self.made.elapsed();
        match self.outcome.get() {
            None => true,
            Some(Ok(_)) => age < TTL,
            Some(Err(_)) => age < FAILURE_TTL,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use tokio::sync::Notify;

    use super::*;
    use crate::pictures::{Busy, Format, Picture, PictureError};

    fn picture(bytes: usize) -> Outcome {
        Ok(Arc::new(Picture { format: Format::Png, bytes: vec![0; bytes].into(), tag: String::new() }))
    }

    /// Asks for `address`; whether it had to be read.
    async fn ask(cache: &Cache, address: &str, bytes: usize) -> bool {
        let mut has_read = false;
        let read = async {
            has_read = true;
            Ok::<_, Infallible>(picture(bytes))
        };
        cache.get(address, read).await.unwrap().unwrap();
        has_read
    }

    #[tokio::test]
    async fn what_was_used_longest_ago_makes_room() {
        let (cache, size) = (Cache::default(), MAX_KEPT_BYTES / 4);
        for address in ["a", "b", "c"] {
            assert!(ask(&cache, address, size).await);
        }
        assert!(!ask(&cache, "a", size).await);
        assert!(ask(&cache, "d", size).await);
        assert!(!ask(&cache, "a", size).await);
        assert!(ask(&cache, "b", size).await, "it was used longest ago");
        assert!(cache.0.lock().bytes <= MAX_KEPT_BYTES);
    }

    #[tokio::test]
    async fn addresses_without_a_picture_have_a_bound_too() {
        let (cache, most) = (Cache::default(), MAX_KEPT_BYTES / ENTRY_BYTES);
        for n in 0..=most {
            let failed = async { Ok::<_, Infallible>(Err(Arc::new(PictureError::NotAPicture))) };
            assert!(cache.get(&n.to_string(), failed).await.unwrap().is_err());
        }
        let kept = cache.0.lock();
        assert!(kept.by_address.len() == most && !kept.by_address.contains_key("0"));
    }

    #[tokio::test]
    async fn all_who_ask_at_once_wait_for_one_reading() {
        let (cache, reads, go) = (Cache::default(), AtomicUsize::new(0), Notify::new());
        let one = || {
            cache.get("a", async {
                reads.fetch_add(1, Ordering::Relaxed);
                go.notified().await;
                Ok::<_, Infallible>(picture(1))
            })
        };
        let (first, second, ()) = tokio::join!(one(), one(), async { go.notify_one() });
        assert!(Arc::ptr_eq(&first.unwrap().unwrap(), &second.unwrap().unwrap()));
        assert_eq!(reads.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn what_could_not_be_tried_is_tried_by_the_next() {
        let cache = Cache::default();
        assert!(cache.get("a", async { Err(Busy) }).await.is_err());
        assert!(ask(&cache, "a", 1).await);
    }
}
