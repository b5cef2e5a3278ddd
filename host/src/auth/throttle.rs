//! Slows guessing down without locking anybody out for good.
//!
//! Failures are counted per address and name, per address, and per name. Only the first two stop
//! somebody soon: the limit per name is so high that a stranger can't lock an account.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

use crate::limit::addresses::Network;

const WINDOW_SECONDS: u64 = 15 * 60;
const PER_ADDRESS_AND_NAME: u32 = 5;
const PER_ADDRESS: u32 = 30;
const PER_NAME: u32 = 1_800;
/// Rows that are kept; beyond it the oldest windows are forgotten first.
const ROWS: usize = 50_000;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Row {
    Both(Network, String),
    Address(Network),
    Name(String),
}

#[derive(Clone, Copy)]
struct Window {
    began: u64,
    failures: u32,
}

/// The counts of failed logins.
#[derive(Default)]
pub struct Throttle(Mutex<HashMap<Row, Window>>);

impl Throttle {
    /// Seconds to wait before a try is looked at, `None` when it may go ahead.
    pub fn wait(&self, address: IpAddr, name: &str, now: u64) -> Option<u32> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = limits(address, name).into_iter().filter_map(|(row, limit)| {
            let window = rows.get(&row)?;
            let ends = window.began + WINDOW_SECONDS;
            (window.failures >= limit && ends > now).then(|| u32::try_from(ends - now).unwrap_or(u32::MAX))
        });
        waits.max()
    }

    /// Counts a failure.
    pub fn failed(&self, address: IpAddr, name: &str, now: u64) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.len() >= ROWS {
            rows.retain(|_, window| window.began + WINDOW_SECONDS > now);
        }
        if rows.len() >= ROWS {
            let median = now.saturating_sub(WINDOW_SECONDS / 2);
            rows.retain(|_, window| window.began > median);
        }
        for (row, _) in limits(address, name) {
            let window = rows.entry(row).or_insert(Window { began: now, failures: 0 });
            if window.began + WINDOW_SECONDS <= now {
                *window = Window { began: now, failures: 0 };
            }
            window.failures = window.failures.saturating_add(1);
        }
    }

    /// A success clears what this address did with this name.
    pub fn succeeded(&self, address: IpAddr, name: &str) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.remove(&Row::Both(address.into(), name.to_lowercase()));
    }
}

fn limits(address: IpAddr, name: &str) -> [(Row, u32); 3] {
    let (network, name) = (Network::from(address), name.to_lowercase());
    [
        (Row::Both(network, name.clone()), PER_ADDRESS_AND_NAME),
        (Row::Address(network), PER_ADDRESS),
        (Row::Name(name), PER_NAME),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn five_failures_stop_this_address_with_this_name_only() {
        let throttle = Throttle::default();
        for _ in 0..5 {
            assert_eq!(throttle.wait(HERE, "alice", 1000), None);
            throttle.failed(HERE, "Alice", 1000);
        }
        assert_eq!(throttle.wait(HERE, "alice", 1000), Some(900));
        assert_eq!(throttle.wait(THERE, "alice", 1000), None);
        assert_eq!(throttle.wait(HERE, "bob", 1000), None);
        assert_eq!(throttle.wait(HERE, "alice", 1900), None);
    }

    #[test]
    fn many_names_from_one_address_stop_the_address() {
        let throttle = Throttle::default();
        for i in 0..30 {
            throttle.failed(HERE, &format!("user{i}"), 1000);
        }
        assert!(throttle.wait(HERE, "somebody", 1000).is_some());
    }

    #[test]
    fn a_success_clears() {
        let throttle = Throttle::default();
        for _ in 0..5 {
            throttle.failed(HERE, "alice", 1000);
        }
        throttle.succeeded(HERE, "ALICE");
        assert_eq!(throttle.wait(HERE, "alice", 1000), None);
    }
}
