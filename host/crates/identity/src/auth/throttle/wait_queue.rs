//! Who goes first: the order of tries that wait, for their delay to end and for their password to be hashed.

use std::collections::BTreeMap;

use super::failures::{Failures, Pair};
use crate::limit::addresses::Network;

/// Tries that wait for their delay to end, of an address and in all.
pub(super) const MAX_HELD_PER_ADDRESS: usize = 32;
const MAX_HELD: usize = 256;

/// The place of a try among others; the least goes first. Whose name has logged in from there comes before all others,
/// then who has failed least there: strangers' guesses fall behind a place that has not guessed yet. Chance decides the
/// rest, so that being quick gains nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    is_stranger: bool,
    tier: u32,
    chance: u64,
}

impl Rank {
    /// `has_come_back`: it was refused, and comes with the same password when it was asked to. Guessers move on to
    /// their next guess. So from a place that has not failed it goes before all others of that kind, however many new
    /// ones an attacker has, and else before all whose place has failed.
    pub fn new(is_known: bool, failures: u32, has_come_back: bool) -> Self {
        let tier = match (failures, has_come_back) {
            (0, true) => 0,
            (0, false) => 1,
            (_, true) => 2,
            (failures, false) => failures.saturating_add(2),
        };
        Self { is_stranger: !is_known, tier, chance: rand::random() }
    }

    /// Of who has logged in already.
    pub fn authenticated() -> Self {
        Self::new(true, 0, false)
    }
}

/// The tries that wait.
#[derive(Default)]
pub(super) struct WaitQueue(BTreeMap<Rank, Pair>);

impl WaitQueue {
    /// Takes a try in, perhaps in the place of one that comes after it; `false` when there is no place.
    pub(super) fn join(&mut self, rank: Rank, pair: Pair) -> bool {
        let same_network = |network: Network| move |(_, other): &(&Rank, &Pair)| other.network == network;
        let worst = if self.0.iter().filter(same_network(pair.network)).count() >= MAX_HELD_PER_ADDRESS {
            self.0.iter().rfind(same_network(pair.network)).map(|(rank, _)| *rank)
        } else if self.0.len() >= MAX_HELD {
            self.0.last_key_value().map(|(rank, _)| *rank)
        } else {
            None
        };
        if let Some(worst) = worst {
            if worst < rank {
                return false;
            }
            self.0.remove(&worst);
        }
        self.0.insert(rank, pair);
        true
    }

    pub(super) fn holds(&self, rank: Rank) -> bool {
        self.0.contains_key(&rank)
    }

    pub(super) fn leave(&mut self, rank: Rank) {
        self.0.remove(&rank);
    }

    /// Whether another try that could begin now comes first, and beginning it would delay this one.
    pub(super) fn is_after_another(
        &self,
        rank: Rank,
        pair: Pair,
        is_known: bool,
        failures: &Failures,
        now: u64,
    ) -> bool {
        self.0.range(..rank).any(|(_, other)| {
            let other_is_known = failures.is_known(*other, now);
            let shares = if is_known || other_is_known { *other == pair } else { pair.meets(*other) };
            shares && failures.wait(*other, other_is_known, now).is_none()
        })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_full_line_gives_up_the_try_that_comes_last() {
        let failures = Failures::default();
        let pair = |n: u32| failures.pair(IpAddr::from(n.to_be_bytes()), "alice");
        let mut line = WaitQueue::default();
        let guesses: Vec<Rank> = (0..MAX_HELD).map(|_| Rank::new(false, 3, false)).collect();
        for (n, rank) in guesses.iter().enumerate() {
            assert!(line.join(*rank, pair(u32::try_from(n).unwrap())));
        }
        assert!(!line.join(Rank::new(false, 4, false), pair(1_000)), "who failed more waits for a place");
        let (new, known) = (Rank::new(false, 0, false), Rank::new(true, 5, false));
        assert!(line.join(new, pair(1_001)) && line.join(known, pair(1_002)));
        assert_eq!((line.len(), line.holds(new), line.holds(known)), (MAX_HELD, true, true));
        assert_eq!(guesses.iter().filter(|rank| line.holds(**rank)).count(), MAX_HELD - 2);
    }

    #[test]
    fn an_address_has_a_share_of_the_line() {
        let failures = Failures::default();
        let mut line = WaitQueue::default();
        let here = |name: usize| failures.pair(IpAddr::from([192, 0, 2, 1]), &name.to_string());
        for n in 0..MAX_HELD_PER_ADDRESS {
            assert!(line.join(Rank::new(false, 3, false), here(n)));
        }
        assert!(!line.join(Rank::new(false, 4, false), here(100)));
        assert!(line.join(Rank::new(false, 2, false), here(101)));
        assert_eq!(line.len(), MAX_HELD_PER_ADDRESS);
    }
}
