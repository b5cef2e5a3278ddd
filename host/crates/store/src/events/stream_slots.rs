//! How many read along, on this host and by whom.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::error::StoreError;

/// When somebody may have left.
const RETRY_SECONDS: u32 = 5;

/// How many slots are taken, and their bounds.
#[derive(Debug)]
pub struct StreamSlots {
    per_host: usize,
    per_user: usize,
    taken: Mutex<SlotCounts>,
}

#[derive(Debug, Default)]
struct SlotCounts {
    all: usize,
    by_user: HashMap<Uuid, usize>,
}

/// A slot among the readers, until it is dropped.
#[derive(Debug)]
pub struct StreamSlot {
    slots: Arc<StreamSlots>,
    user: Uuid,
}

impl StreamSlots {
    /// So many on this host, and so many of one user.
    pub fn new(per_host: usize, per_user: usize) -> Self {
        Self { per_host, per_user, taken: Mutex::default() }
    }

    pub fn taken(&self) -> usize {
        self.taken.lock().all
    }

    /// A slot for a user: 503 when the host has none left, 429 when the user has too many.
    pub fn take(self: &Arc<Self>, user: Uuid) -> Result<StreamSlot, StoreError> {
        let mut taken = self.taken.lock();
        if taken.all >= self.per_host {
            let detail = "This host has its maximum of event streams open.".to_owned();
            return Err(StoreError::Busy { detail, retry_after: RETRY_SECONDS });
        }
        let own = taken.by_user.entry(user).or_default();
        if *own >= self.per_user {
            let detail = format!("One user may have at most {} event streams open.", self.per_user);
            return Err(StoreError::TooMany { detail, retry_after: RETRY_SECONDS });
        }
        *own += 1;
        taken.all += 1;
        Ok(StreamSlot { slots: Arc::clone(self), user })
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        taken.all -= 1;
        if let Some(own) = taken.by_user.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                taken.by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted_by_user_and_in_all_and_given_back() {
        let slots = Arc::new(StreamSlots::new(1_000, 32));
        let own: Vec<StreamSlot> = (0..32).map(|_| slots.take(Uuid::nil()).unwrap()).collect();
        assert_eq!(slots.take(Uuid::nil()).unwrap_err().code().status, 429);
        let others: Vec<StreamSlot> = (32..1_000).map(|_| slots.take(Uuid::now_v7()).unwrap()).collect();
        assert_eq!(slots.take(Uuid::now_v7()).unwrap_err().code().status, 503);
        drop((own, others));
        assert_eq!(slots.taken(), 0);
        assert!(slots.taken.lock().by_user.is_empty());
        slots.take(Uuid::nil()).unwrap();
    }
}
