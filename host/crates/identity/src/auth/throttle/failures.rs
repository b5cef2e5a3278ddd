//! The counts of failed logins. Pure over the time, in milliseconds that only grow.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hash, RandomState},
    net::IpAddr,
};

use crate::limit::addresses::Network;

const SECOND: u64 = 1_000;
/// Failures are forgotten when no other has come for this long.
const FAILURE_TTL: u64 = 15 * 60 * SECOND;
/// An address from which a name has logged in is known for this long.
const KNOWN_PAIR_TTL: u64 = 30 * 24 * 3_600 * SECOND;

/// Rows that are kept at most; a full table forgets the rows with the fewest failures.
const PAIRS: usize = 50_000;
const ADDRESSES: usize = 20_000;
const NAMES: usize = 20_000;
/// Known pairs that are kept at most; only logins that worked add to them.
const KNOWN: usize = 20_000;

/// How failures slow further tries down.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Failures without a delay.
    pub free: u32,
    /// The delay after these in milliseconds; each further failure doubles it.
    pub first: u64,
    pub max_delay: u64,
}

/// No longer than this: its owner may be behind the same address as who guesses, and has to wait as long.
const PAIR: Rule = Rule { free: 5, first: 15 * SECOND, max_delay: 15 * SECOND };
/// Where the name has logged in before. Short, since its owner may be behind the same address as who guesses.
const KNOWN_PAIR: Rule = Rule { free: 5, first: SECOND, max_delay: 4 * SECOND };
const ADDRESS: Rule = Rule { free: 30, first: 2 * SECOND, max_delay: 8 * SECOND };
const NAME: Rule = Rule { free: 300, first: SECOND, max_delay: 2 * SECOND };

#[derive(Clone, Copy, Default)]
struct Row {
    failures: u32,
    /// Tries whose outcome is not known yet.
    pending: u32,
    /// When the next try may begin, once `failures` are past what is free.
    next: u64,
    /// Of the last failure.
    last: u64,
}

/// Rows of one sort, at most so many.
struct Rows<K> {
    rule: Rule,
    max_rows: usize,
    rows: HashMap<K, Row>,
}

/// Address and name of a try; the name as a keyed hash, so that long names take no room.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Pair {
    pub network: Network,
    name: u64,
}

impl Pair {
    /// Whether both are at one address, or at one name.
    pub(super) fn meets(self, other: Self) -> bool {
        self.network == other.network || self.name == other.name
    }
}

/// Why a try can't begin now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ThrottledError {
    /// Milliseconds to wait.
    Later(u64),
    /// As many tries are under way as may still fail.
    Pending,
}

pub(super) struct Failures {
    hasher: RandomState,
    pairs: Rows<Pair>,
    known_pairs: Rows<Pair>,
    addresses: Rows<Network>,
    names: Rows<u64>,
    known: HashMap<Pair, u64>,
}

impl Default for Failures {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            pairs: Rows::new(PAIR, PAIRS),
            known_pairs: Rows::new(KNOWN_PAIR, KNOWN),
            addresses: Rows::new(ADDRESS, ADDRESSES),
            names: Rows::new(NAME, NAMES),
            known: HashMap::new(),
        }
    }
}

impl Failures {
    pub(super) fn pair(&self, address: IpAddr, name: &str) -> Pair {
        Pair { network: address.into(), name: self.hasher.hash_one(name.to_lowercase()) }
    }

    /// Whether the name has logged in from there.
    pub(super) fn is_known(&self, pair: Pair, now: u64) -> bool {
        self.known.get(&pair).is_some_and(|at| at + KNOWN_PAIR_TTL > now)
    }

    /// A login from there worked, here or at another host.
    pub(super) fn learn(&mut self, pair: Pair, now: u64) {
        if self.known.len() >= KNOWN && !self.known.contains_key(&pair) {
            forget_oldest(&mut self.known);
        }
        self.known.insert(pair, now);
    }

    /// How much has failed at the place of a try, what is under way counted in.
    pub(super) fn count(&self, pair: Pair, is_known: bool, now: u64) -> u32 {
        if is_known { self.known_pairs.tries(&pair, now) } else { self.addresses.tries(&pair.network, now) }
    }

    /// Why a try can't begin now. The longest delay decides; what is under way decides only where there is none.
    pub(super) fn wait(&self, pair: Pair, is_known: bool, now: u64) -> Option<ThrottledError> {
        let waits = if is_known {
            [self.known_pairs.wait(&pair, now), None, None]
        } else {
            let (network, name) = (&pair.network, &pair.name);
            [self.pairs.wait(&pair, now), self.addresses.wait(network, now), self.names.wait(name, now)]
        };
        waits.into_iter().flatten().max_by_key(|wait| match wait {
            ThrottledError::Later(ms) => *ms + 1,
            ThrottledError::Pending => 0,
        })
    }

    /// Begins a try: from here on it counts. Gives whether the pair is known, to be said again at its end.
    pub(super) fn begin(&mut self, pair: Pair, now: u64) -> Result<bool, ThrottledError> {
        let is_known = self.is_known(pair, now);
        if let Some(wait) = self.wait(pair, is_known, now) {
            return Err(wait);
        }
        if is_known {
            self.known_pairs.begin(pair, now);
        } else {
            self.pairs.begin(pair, now);
            self.addresses.begin(pair.network, now);
            self.names.begin(pair.name, now);
        }
        Ok(is_known)
    }

    /// The try did not come to a verdict.
    pub(super) fn give_back(&mut self, pair: Pair, was_known: bool) {
        if was_known {
            return self.known_pairs.end(&pair);
        }
        self.pairs.end(&pair);
        self.addresses.end(&pair.network);
        self.names.end(&pair.name);
    }

    pub(super) fn failed(&mut self, pair: Pair, was_known: bool, now: u64) {
        self.give_back(pair, was_known);
        if was_known {
            return self.known_pairs.fail(pair, now);
        }
        self.pairs.fail(pair, now);
        self.addresses.fail(pair.network, now);
        self.names.fail(pair.name, now);
    }

    /// Clears what this address did with this name; what it did with others stays.
    pub(super) fn succeeded(&mut self, pair: Pair, was_known: bool, now: u64) {
        self.give_back(pair, was_known);
        self.pairs.clear(&pair);
        self.known_pairs.clear(&pair);
        self.learn(pair, now);
    }

    /// What the hosts of the database count together for a try: its address and name, its address, its name.
    pub(super) fn rules(was_known: bool) -> &'static [Rule] {
        if was_known { &[KNOWN_PAIR] } else { &[PAIR, ADDRESS, NAME] }
    }

    /// Another host has counted more failures: of each of [`Self::rules`], the milliseconds that are left to wait.
    pub(super) fn delay(&mut self, pair: Pair, was_known: bool, waits: &[u64], now: u64) {
        let at = |place: usize| waits.get(place).copied().unwrap_or(0);
        if was_known {
            return self.known_pairs.delay(pair, at(0), now);
        }
        self.pairs.delay(pair, at(0), now);
        self.addresses.delay(pair.network, at(1), now);
        self.names.delay(pair.name, at(2), now);
    }
}

impl<K: Copy + Eq + Hash> Rows<K> {
    fn new(rule: Rule, max_rows: usize) -> Self {
        Self { rule, max_rows, rows: HashMap::new() }
    }

    fn wait(&self, key: &K, now: u64) -> Option<ThrottledError> {
        let row = self.rows.get(key)?;
        let (failures, free) = (row.failures_at(now), self.rule.free);
        if failures < free {
            return (failures + row.pending >= free).then_some(ThrottledError::Pending);
        }
        if row.next > now {
            return Some(ThrottledError::Later(row.next - now));
        }
        (row.pending > 0).then_some(ThrottledError::Pending)
    }

    fn tries(&self, key: &K, now: u64) -> u32 {
        self.rows.get(key).map_or(0, |row| row.failures_at(now).saturating_add(row.pending))
    }

    fn delay(&mut self, key: K, ms: u64, now: u64) {
        if ms == 0 {
            return;
        }
        let free = self.rule.free;
        let row = self.row(key, now);
        (row.failures, row.next, row.last) = (row.failures_at(now).max(free), row.next.max(now + ms), now);
    }

    fn begin(&mut self, key: K, now: u64) {
        self.row(key, now).pending += 1;
    }

    fn end(&mut self, key: &K) {
        let Some(row) = self.rows.get_mut(key) else { return };
        row.pending = row.pending.saturating_sub(1);
        if row.pending == 0 && row.failures == 0 {
            self.rows.remove(key);
        }
    }

    fn fail(&mut self, key: K, now: u64) {
        let Rule { free, first, max_delay } = self.rule;
        let row = self.row(key, now);
        row.failures = row.failures_at(now).saturating_add(1);
        row.last = now;
        if let Some(beyond) = row.failures.checked_sub(free) {
            row.next = now + first.checked_shl(beyond.min(16)).unwrap_or(max_delay).min(max_delay);
        }
    }

    fn clear(&mut self, key: &K) {
        if let Some(row) = self.rows.get_mut(key) {
            (row.failures, row.next) = (0, 0);
            if row.pending == 0 {
                self.rows.remove(key);
            }
        }
    }

    fn row(&mut self, key: K, now: u64) -> &mut Row {
        if self.rows.len() >= self.max_rows && !self.rows.contains_key(&key) {
            self.forget_least(now);
        }
        self.rows.entry(key).or_default()
    }

    /// First the rows whose time is over, else the quarter with the fewest failures: strangers that fill the table
    /// never free a name or an address that is under attack.
    fn forget_least(&mut self, now: u64) {
        self.rows.retain(|_, row| row.pending > 0 || row.failures_at(now) > 0);
        if self.rows.len() < self.max_rows {
            return;
        }
        let mut failures: Vec<u32> = self.rows.values().map(|row| row.failures).collect();
        let (_, quarter, _) = failures.select_nth_unstable(self.max_rows / 4);
        let quarter = *quarter;
        self.rows.retain(|_, row| row.pending > 0 || row.failures > quarter);
    }
}

impl Row {
    fn failures_at(&self, now: u64) -> u32 {
        if self.last + FAILURE_TTL <= now { 0 } else { self.failures }
    }
}

fn forget_oldest(known: &mut HashMap<Pair, u64>) {
    let mut times: Vec<u64> = known.values().copied().collect();
    let (_, quarter, _) = times.select_nth_unstable(KNOWN / 4);
    let quarter = *quarter;
    known.retain(|_, at| *at > quarter);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
    const NOW: u64 = 1_000_000;

    fn fail(failures: &mut Failures, address: IpAddr, name: &str, now: u64) -> Result<(), ThrottledError> {
        let pair = failures.pair(address, name);
        let was_known = failures.begin(pair, now)?;
        failures.failed(pair, was_known, now);
        Ok(())
    }

    fn log_in(failures: &mut Failures, address: IpAddr, name: &str, now: u64) -> Result<(), ThrottledError> {
        let pair = failures.pair(address, name);
        let was_known = failures.begin(pair, now)?;
        failures.succeeded(pair, was_known, now);
        Ok(())
    }

    #[test]
    fn failures_of_an_address_with_a_name_slow_down_this_pair_only() {
        let mut failures = Failures::default();
        for _ in 0..5 {
            fail(&mut failures, HERE, "Alice", NOW).unwrap();
        }
        assert_eq!(fail(&mut failures, HERE, "alice", NOW), Err(ThrottledError::Later(15_000)));
        fail(&mut failures, THERE, "alice", NOW).unwrap();
        log_in(&mut failures, HERE, "bob", NOW).unwrap();
        let mut now = NOW;
        for delay in [15_000; 4] {
            now += delay;
            assert!(matches!(fail(&mut failures, HERE, "alice", now - 1), Err(ThrottledError::Later(1))));
            fail(&mut failures, HERE, "alice", now).unwrap();
        }
        log_in(&mut failures, HERE, "alice", now + 60_000).unwrap();
        for _ in 0..5 {
            fail(&mut failures, HERE, "alice", now + 60_000).unwrap();
        }
    }

    #[test]
    fn tries_count_before_they_are_judged_and_those_that_succeed_are_given_back() {
        let mut failures = Failures::default();
        let pair = failures.pair(HERE, "alice");
        let begun = (0..160).filter(|_| failures.begin(pair, NOW).is_ok()).count();
        assert_eq!((begun, failures.begin(pair, NOW)), (5, Err(ThrottledError::Pending)));
        failures.succeeded(pair, false, NOW);
        assert_eq!(failures.begin(pair, NOW), Ok(true));
        (0..5).for_each(|_| failures.failed(pair, true, NOW));
        assert!(matches!(failures.begin(pair, NOW), Err(ThrottledError::Later(_))));
        let other = failures.pair(HERE, "bob");
        assert_eq!(failures.begin(other, NOW), Ok(false));
        failures.give_back(other, false);
        assert!(!failures.pairs.rows.contains_key(&other));
    }

    #[test]
    fn many_names_from_an_address_delay_it_and_never_who_is_known_there() {
        let mut failures = Failures::default();
        log_in(&mut failures, HERE, "alice", NOW).unwrap();
        for i in 0..30 {
            fail(&mut failures, HERE, &format!("user{i}"), NOW).unwrap();
        }
        assert_eq!(fail(&mut failures, HERE, "somebody", NOW), Err(ThrottledError::Later(2_000)));
        log_in(&mut failures, HERE, "ALICE", NOW).unwrap();
        log_in(&mut failures, HERE, "somebody", NOW + 2_000).unwrap();
        for round in 0..1_000 {
            let now = NOW + 2_000 + round * 8_000;
            fail(&mut failures, HERE, &format!("name{round}"), now).unwrap();
            let delay = if round == 0 { 4_000 } else { 8_000 };
            assert_eq!(fail(&mut failures, HERE, "another", now), Err(ThrottledError::Later(delay)), "never longer");
        }
    }

    #[test]
    fn a_name_under_attack_from_everywhere_is_open_where_it_logged_in_before() {
        let mut failures = Failures::default();
        log_in(&mut failures, HERE, "alice", NOW).unwrap();
        for i in 0..300u32 {
            fail(&mut failures, IpAddr::from((0x0a00_0000 + i).to_be_bytes()), "alice", NOW).unwrap();
        }
        assert_eq!(fail(&mut failures, THERE, "alice", NOW), Err(ThrottledError::Later(1_000)));
        log_in(&mut failures, HERE, "alice", NOW).unwrap();
    }

    #[test]
    fn filling_the_tables_frees_neither_a_name_nor_a_pair_and_they_stay_bounded() {
        let mut failures = Failures::default();
        let address = |i: u32| IpAddr::from((0x0a00_0000 + i).to_be_bytes());
        for i in 0..300 {
            fail(&mut failures, address(i), "alice", NOW).unwrap();
        }
        for _ in 0..5 {
            fail(&mut failures, HERE, "bob", NOW).unwrap();
        }
        for i in 0..120_000 {
            fail(&mut failures, address(1_000 + i), &format!("stranger{i}"), NOW).unwrap();
        }
        assert!(fail(&mut failures, THERE, "alice", NOW).is_err());
        assert!(fail(&mut failures, HERE, "bob", NOW).is_err());
        assert!(failures.pairs.rows.len() <= PAIRS && failures.addresses.rows.len() <= ADDRESSES);
        assert!(failures.names.rows.len() <= NAMES);
    }
}
