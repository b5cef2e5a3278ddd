use std::time::{Duration, Instant};

const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(10);
/// A process that lived this long was well: its next death starts the count anew.
const RESET_AFTER: Duration = Duration::from_secs(60);

/// How long to wait before something that died is started again: not at all after a long life or for the first time,
/// ever longer after short ones.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: Duration::ZERO }
    }
}

impl Backoff {
    pub(crate) fn after_death(&mut self, started: Instant, now: Instant) -> Duration {
        if now.duration_since(started) >= RESET_AFTER {
            self.next = Duration::ZERO;
        }
        let wait = self.next;
        self.next = (wait * 2).clamp(FIRST_DELAY, MAX_DELAY);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lives_wait_longer_and_a_long_one_forgives() {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        let waits: Vec<_> = (0..9).map(|_| backoff.after_death(start, start).as_millis()).collect();
        assert_eq!(waits, [0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000]);
        assert_eq!(backoff.after_death(start, start + RESET_AFTER), Duration::ZERO);
    }
}
