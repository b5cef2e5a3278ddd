//! Streams that were closed because their caller has more of them open than there may be. Clients open a stream again
//! at once when it ends; with one too many they would displace each other's without end. So each time the stream of a
//! session is displaced it has to stay away for twice as long.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use uuid::Uuid;

/// How long a stream stays away that is displaced for the first time, and at most.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const MAX_WAIT: Duration = Duration::from_secs(300);
/// After this long without being displaced a session begins anew.
const QUIET: Duration = Duration::from_secs(600);
/// Sessions that are remembered.
const LIMIT: usize = 10_000;

#[derive(Clone, Copy)]
struct Displacement {
    at: Instant,
    wait: Duration,
}

/// The sessions whose streams were displaced, by their ids.
#[derive(Default)]
pub(super) struct DisplacedStreams(Mutex<HashMap<Uuid, Displacement>>);

impl DisplacedStreams {
    /// Notes that the streams of a session were closed; gives how long they have to stay away.
    pub(super) fn note(&self, session: Uuid, now: Instant) -> Duration {
        let mut all = self.0.lock();
        let before = all.get(&session).filter(|known| now.saturating_duration_since(known.at) < QUIET);
        let wait = before.map_or(FIRST_WAIT, |known| (known.wait * 2).min(MAX_WAIT));
        if all.len() >= LIMIT
            && let Some(oldest) = all.iter().min_by_key(|(_, known)| known.at).map(|(id, _)| *id)
        {
            all.remove(&oldest);
        }
        all.insert(session, Displacement { at: now, wait });
        wait
    }

    /// How long a session still has to wait before it opens a stream again.
    pub(super) fn wait(&self, session: Uuid, now: Instant) -> Option<Duration> {
        let known = *self.0.lock().get(&session)?;
        known.wait.checked_sub(now.saturating_duration_since(known.at)).filter(|left| !left.is_zero())
    }

    pub(super) fn sweep(&self, now: Instant) {
        self.0.lock().retain(|_, known| now.saturating_duration_since(known.at) < QUIET);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_stays_away_for_twice_as_long_each_time() {
        let (streams, session, now) = (DisplacedStreams::default(), Uuid::now_v7(), Instant::now());
        assert_eq!(streams.wait(session, now), None);
        let waits: Vec<u64> = (0..8).map(|_| streams.note(session, now).as_secs()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(streams.wait(session, now + Duration::from_secs(299)), Some(Duration::from_secs(1)));
        assert_eq!(streams.wait(session, now + Duration::from_secs(300)), None);
        assert_eq!(streams.wait(Uuid::now_v7(), now), None);
        let later = now + QUIET;
        assert_eq!(streams.note(session, later), FIRST_WAIT, "it was quiet for long");
        streams.sweep(later + QUIET);
        assert!(streams.0.lock().is_empty());
    }

    #[test]
    fn only_so_many_are_remembered() {
        let (streams, first, now) = (DisplacedStreams::default(), Uuid::now_v7(), Instant::now());
        streams.note(first, now);
        for _ in 0..LIMIT {
            streams.note(Uuid::now_v7(), now + Duration::from_millis(1));
        }
        assert_eq!(streams.wait(first, now), None);
        assert_eq!(streams.0.lock().len(), LIMIT);
    }
}
