//! Whose password is hashed next: who ranks first, not who came first, so that a flood from many addresses leaves room
//! for a place that is known, or new.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::auth::throttle::Rank;
use crate::error::AuthError;

/// How many may wait for a core; the last of them is turned away for one that comes before it. Long, so that all places
/// of a wide flood fit in that have not failed yet: one that has not either waits for their one try each, 20 ms.
const QUEUE: usize = 256;
/// How long one waits at most.
const WAIT_TIME: Duration = Duration::from_secs(10);

pub(super) struct Queue(Mutex<State>);

struct State {
    free: usize,
    waiting: BTreeMap<Rank, oneshot::Sender<HashPermit>>,
}

/// A core, given to the next when dropped.
pub struct HashPermit(Arc<Queue>);

impl Queue {
    pub(super) fn new(cores: usize) -> Self {
        Self(Mutex::new(State { free: cores, waiting: BTreeMap::new() }))
    }

    /// Waits for a core; 503 when too many come first.
    pub(super) async fn acquire(self: &Arc<Self>, rank: Rank) -> Result<HashPermit, AuthError> {
        let receiver = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Ok(HashPermit(Arc::clone(self)));
            }
            if state.waiting.len() >= QUEUE {
                // Who has hung up gives their place first.
                state.waiting.retain(|_, waiting| !waiting.is_closed());
            }
            if state.waiting.len() >= QUEUE {
                match state.waiting.last_entry() {
                    Some(last) if *last.key() > rank => drop(last.remove()),
                    _ => return Err(full()),
                }
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.insert(rank, sender);
            receiver
        };
        match tokio::time::timeout(WAIT_TIME, receiver).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(full()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl Drop for HashPermit {
    fn drop(&mut self) {
        let mut state = self.0.state();
        while let Some((_, receiver)) = state.waiting.pop_first() {
            if receiver.is_closed() {
                continue;
            }
            // Dropped by a client that hangs up just now, it comes back here, past the lock.
            drop(state);
            drop(receiver.send(Self(Arc::clone(&self.0))));
            return;
        }
        state.free += 1;
    }
}

fn full() -> AuthError {
    AuthError::Busy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_ranks_first_is_next_and_a_full_queue_turns_the_last_away() {
        let queue = Arc::new(Queue::new(1));
        let permit = queue.acquire(Rank::new(false, 0, false)).await.unwrap();
        let wait = |rank| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { queue.acquire(rank).await.map(|permit| (rank, permit)) })
        };
        let mut flood: Vec<_> = (0..QUEUE).map(|_| wait(Rank::new(false, 3, false))).collect();
        while queue.state().waiting.len() < QUEUE {
            tokio::task::yield_now().await;
        }
        assert_eq!(queue.acquire(Rank::new(false, 4, false)).await.err().unwrap().code().name, "overloaded");
        let (new, known) = (Rank::new(false, 0, false), Rank::new(true, 2, false));
        let (new_waits, known_waits) = (wait(new), wait(known));
        let mut turned_away = 0;
        while turned_away < 2 {
            tokio::task::yield_now().await;
            turned_away = flood.iter().filter(|one| one.is_finished()).count();
        }
        drop(permit);
        let (first, permit) = known_waits.await.unwrap().unwrap();
        assert_eq!(first, known);
        assert!(!new_waits.is_finished());
        drop(permit);
        let (second, permit) = new_waits.await.unwrap().unwrap();
        assert_eq!(second, new);
        // A client that hangs up loses nobody a core.
        flood.iter().for_each(tokio::task::JoinHandle::abort);
        for one in flood.drain(..) {
            drop(one.await);
        }
        drop(permit);
        drop(queue.acquire(new).await.unwrap());
        assert_eq!(queue.state().free, 1);
    }
}
