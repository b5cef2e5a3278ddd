//! Calls that wait at this host for a person. Who decides here wakes them at once; what is decided at other hosts, or
//! expires, one question to the database finds for all of them.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};
use uuid::Uuid;

use cardinal_database::{log_failure, pool::Pool};
use cardinal_store::approvals;

/// How often the database is asked while a call waits.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(super) struct Waiting {
    calls: Mutex<HashMap<Uuid, watch::Sender<bool>>>,
    /// Rings when there is one to look for.
    arrived: Notify,
}

/// A call's place among those that wait.
pub(super) struct Place(watch::Receiver<bool>);

impl Place {
    /// Waits until the question is decided or over.
    pub(super) async fn wait(mut self) -> bool {
        // The sender is dropped only after it has sent.
        let _ = self.0.wait_for(|is_over| *is_over).await;
        true
    }
}

impl Waiting {
    pub(super) fn enter(&self, id: Uuid) -> Place {
        let receiver = self.calls.lock().entry(id).or_insert_with(|| watch::Sender::new(false)).subscribe();
        self.arrived.notify_one();
        Place(receiver)
    }

    pub(super) fn wake(&self, ids: &[Uuid]) {
        let mut calls = self.calls.lock();
        for id in ids {
            if let Some(call) = calls.remove(id) {
                call.send_replace(true);
            }
        }
    }

    pub(super) async fn follow(&self, pool: &Pool) {
        loop {
            let ids = self.ids();
            if ids.is_empty() {
                self.arrived.notified().await;
                continue;
            }
            sleep(LOOK_INTERVAL).await;
            match approvals::ended(pool, &ids).await {
                Ok(ended) => self.wake(&ended),
                Err(error) => log_failure!(error, "failed to look for decisions on tool calls"),
            }
        }
    }

    /// Those that somebody still waits for.
    fn ids(&self) -> Vec<Uuid> {
        let mut calls = self.calls.lock();
        calls.retain(|_, call| call.receiver_count() > 0);
        calls.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_who_wait_for_a_decision_are_woken_and_nobody_else() {
        let waiting = Waiting::default();
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let places = (waiting.enter(one), waiting.enter(one), waiting.enter(other));
        waiting.wake(&[one]);
        assert!(tokio::join!(places.0.wait(), places.1.wait()) == (true, true));
        assert_eq!(waiting.ids(), [other]);
        drop(places.2);
        assert!(waiting.ids().is_empty());
    }
}
