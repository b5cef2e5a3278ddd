//! Work that takes turns, so that much of it at once does not take longer than one after the other; but what hangs does
//! not hold up the rest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// While nothing ends for so long, what has its turn may hang, and nobody waits for it any more.
const STANDSTILL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Turns {
    permits: Semaphore,
    ended: AtomicU64,
}

impl Turns {
    /// So many at a time.
    pub(crate) fn new(at_a_time: usize) -> Self {
        Self { permits: Semaphore::new(at_a_time), ended: AtomicU64::new(0) }
    }

    /// Waits for a turn, which ends with the value; none where those before do not come to an end.
    pub(crate) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        loop {
            let ended = self.ended.load(Ordering::Relaxed);
            match timeout(STANDSTILL, self.permits.acquire()).await {
                Ok(permit) => return permit.ok(),
                Err(_) if self.ended.load(Ordering::Relaxed) == ended => return None,
                Err(_) => {}
            }
        }
    }

    /// Some of the work has ended.
    pub(crate) fn note_end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_waited_for_while_others_end_and_not_while_they_stand_still() {
        let (turns, begun) = (Turns::new(1), Instant::now());
        let first = turns.take().await;
        assert!(first.is_some());
        let ends = async {
            for _ in 0..5 {
                tokio::time::sleep(STANDSTILL / 2).await;
                turns.note_end();
            }
            drop(first);
        };
        let (second, ()) = tokio::join!(turns.take(), ends);
        assert!(second.is_some() && begun.elapsed() >= STANDSTILL * 2);
        let begun = Instant::now();
        assert!(turns.take().await.is_none());
        assert_eq!(begun.elapsed(), STANDSTILL);
    }
}
