//! How many read along, on this host and by whom.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use uuid::Uuid;

use crate::http::{
    codes,
    error::{ApiError, ApiResult},
};

/// Readers of a host, and of one user.
const PER_HOST: usize = 1_000;
const PER_USER: usize = 32;
/// When somebody may have left.
const RETRY_SECONDS: u32 = 5;

/// The books.
#[derive(Debug, Default)]
pub struct Seats(Mutex<Taken>);

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
    pub fn taken(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all
    }

    /// A seat for a user: 503 when the host has none left, 429 when the user has too many.
    pub fn take(self: &Arc<Self>, user: Uuid) -> ApiResult<Seat> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= PER_HOST {
            return Err(ApiError::new(&codes::OVERLOADED)
                .detail("As many readers of events as this host takes are connected.")
                .retry_after(RETRY_SECONDS));
        }
        let own = taken.by_user.entry(user).or_default();
        if *own >= PER_USER {
            return Err(ApiError::new(&codes::RATE_LIMITED)
                .detail(format!("One user may read events {PER_USER} times at once."))
                .retry_after(RETRY_SECONDS));
        }
        *own += 1;
        taken.all += 1;
        Ok(Seat { seats: Arc::clone(self), user })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let seats = Arc::new(Seats::default());
        let own: Vec<Seat> = (0..PER_USER).map(|_| seats.take(Uuid::nil()).unwrap()).collect();
        assert_eq!(seats.take(Uuid::nil()).unwrap_err().status(), 429);
        let others: Vec<Seat> = (PER_USER..PER_HOST).map(|_| seats.take(Uuid::now_v7()).unwrap()).collect();
        assert_eq!(seats.take(Uuid::now_v7()).unwrap_err().status(), 503);
        drop((own, others));
        assert_eq!(seats.taken(), 0);
        assert!(seats.0.lock().unwrap().by_user.is_empty());
        seats.take(Uuid::nil()).unwrap();
    }
}
