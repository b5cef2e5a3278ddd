//! Passwords that were refused unseen and asked to come back, so that who does comes first.
//!
//! They are kept as hashes under a key that is this process's own, and for minutes only.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
};

use super::failures::Pair;
use cardinal_base::config::Secret;

/// Candidates that are kept at most.
const CANDIDATES: usize = 65_536;
/// How long after the time that it was asked for a candidate may come.
const CANDIDATE_TTL: u64 = 120 * 1_000;

/// A password for a name from an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Candidate(u64);

/// When candidates were asked to come back, in milliseconds.
#[derive(Default)]
pub(super) struct Returns {
    hasher: RandomState,
    expected: HashMap<Candidate, u64>,
}

impl Returns {
    pub(super) fn candidate(&self, pair: Pair, password: &Secret) -> Candidate {
        Candidate(self.hasher.hash_one((pair, password.expose())))
    }

    /// Whether it was refused before and has waited for as long as it was asked to.
    pub(super) fn take(&mut self, candidate: Candidate, now: u64) -> bool {
        let Some(at) = self.expected.get(&candidate).copied().filter(|at| *at <= now) else { return false };
        self.expected.remove(&candidate);
        at + CANDIDATE_TTL > now
    }

    /// It is refused and may come back at `at`. Whoever comes too early is not put off further.
    pub(super) fn expect(&mut self, candidate: Candidate, at: u64, now: u64) {
        if self.expected.len() >= CANDIDATES && !self.expected.contains_key(&candidate) {
            self.make_room(now);
        }
        self.expected.entry(candidate).or_insert(at);
    }

    /// First those whose time is over, then any quarter.
    fn make_room(&mut self, now: u64) {
        self.expected.retain(|_, at| *at + CANDIDATE_TTL > now);
        if self.expected.len() < CANDIDATES {
            return;
        }
        let mut place = 0;
        self.expected.retain(|_, _| {
            place += 1;
            place % 4 != 0
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::auth::throttle::failures::Failures;

    #[test]
    fn the_same_password_that_waited_has_come_back_once_and_the_table_stays_bounded() {
        let (failures, mut returns) = (Failures::default(), Returns::default());
        let pair = failures.pair(IpAddr::from([192, 0, 2, 1]), "alice");
        let candidate = |returns: &Returns, n: u32| returns.candidate(pair, &Secret::new(n.to_string()));
        let (one, other) = (candidate(&returns, 1), candidate(&returns, 2));
        returns.expect(one, 5_000, 0);
        assert!(!returns.take(one, 4_999) && !returns.take(other, 5_000));
        returns.expect(one, 9_000, 4_999);
        assert!(returns.take(one, 5_000), "it came too early, and is not put off");
        assert!(!returns.take(one, 5_001));
        returns.expect(one, 5_000, 0);
        assert!(!returns.take(one, 5_000 + CANDIDATE_TTL));
        for n in 0..200_000 {
            returns.expect(candidate(&returns, n), 1, 0);
        }
        assert!(returns.expected.len() <= CANDIDATES);
    }
}
