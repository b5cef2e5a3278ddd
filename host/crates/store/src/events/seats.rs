//! How many read along, on this host and by whom.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use uuid::Uuid;

use crate::error::StoreError;

/// When somebody may have left.
const RETRY_SECONDS: u32 = 5;

/// The books.
#[derive(Debug)]
pub struct Seats {
    per_host: usize,
    per_user: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_user: HashMap<Uuid, usize>,
}

/// A place among the readers, until it is dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Arc<Seats>,
    user: Uuid,
}

impl Seats {
    /// So many on this host, and so many of one user.
    pub fn new(per_host: usize, per_user: usize) -> Self {
        Self { per_host, per_user, taken: Mutex::default() }
    }

    pub fn taken(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).all
    }

    /// A seat for a user: 503 when the host has none left, 429 when the user has too many.
    pub fn take(self: &Arc<Self>, user: Uuid) -> Result<Seat, StoreError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= self.per_host {
            let detail = "As many readers as this host takes are connected.".to_owned();
            return Err(StoreError::Busy { detail, retry_after: RETRY_SECONDS });
        }
        let own = taken.by_user.entry(user).or_default();
        if *own >= self.per_user {
            let detail = format!("One user may read along {} times at once.", self.per_user);
            return Err(StoreError::TooMany { detail, retry_after: RETRY_SECONDS });
        }
        *own += 1;
        taken.all += 1;
        Ok(Seat { seats: Arc::clone(self), user })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn seats_are_counted_by_user_and_in_all_and_given_back() {
        let seats = Arc::new(Seats::new(1_000, 32));
        let own: Vec<Seat> = (0..32).map(|_| seats.take(Uuid::nil()).unwrap()).collect();
        assert_eq!(seats.take(Uuid::nil()).unwrap_err().code().status, 429);
        let others: Vec<Seat> = (32..1_000).map(|_| seats.take(Uuid::now_v7()).unwrap()).collect();
        assert_eq!(seats.take(Uuid::now_v7()).unwrap_err().code().status, 503);
        drop((own, others));
        assert_eq!(seats.taken(), 0);
        assert!(seats.taken.lock().unwrap().by_user.is_empty());
        seats.take(Uuid::nil()).unwrap();
    }
}
