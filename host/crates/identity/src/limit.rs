//! Rate limits: per key and per user, and per address for whoever shows no valid credential.
//!
//! The rule (`gcra`) and the counts (`bucket`, `addresses`) are pure over a number of nanoseconds;
//! `lease` brings hosts that share a database to one budget for each caller.

pub mod addresses;
pub mod bucket;
mod buckets;
pub mod budget_lease;
pub mod gcra;
pub mod rate_state;
mod tool_charge;

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use uuid::Uuid;

use self::{
    addresses::{Addresses, Network},
    bucket::{Bucket, TakeOutcome},
    buckets::Buckets,
    gcra::{BURST_PART, Limit},
    rate_state::{Kind, Policy, RateState, seconds},
};
use crate::error::AuthError;

pub use self::tool_charge::ToolCharge;

/// Calls without a valid credential that an address may make: far more than a person or a script
/// that has made a mistake needs, far less than what a host can answer.
const ADDRESS: Limit = Limit::new(1_200, 600);
/// Refusals that an address is sent: so many at once, then each is held until its turn, this many a minute. A client
/// that asks again as soon as it is refused would otherwise get as many as a core can make.
const MAX_REFUSAL_BURST: u32 = 10;
const REFUSALS: Limit = Limit::new(300, MAX_REFUSAL_BURST + MAX_REFUSALS_HELD);
/// Refusals of an address that are held one after the other, 200 ms each; beyond these all are held for the same 10 s.
const MAX_REFUSALS_HELD: u32 = 50;
/// From so many unpaid refusals on an address floods: it gets no new connection while the listener is full.
const FLOOD_THRESHOLD: u32 = 20;
/// A person's session has this many times what a key has.
const USER_FACTOR: u32 = 10;
const MAX_PER_MINUTE: u32 = 100_000_000;

/// A limit of a caller and where its calls are counted; stands in the cached caller.
#[derive(Clone, Debug)]
pub struct Allowance {
    policy: Policy,
    bucket: Arc<Bucket>,
}

impl Allowance {
    pub const fn limit(&self) -> Limit {
        self.policy.limit
    }
}

/// What the row of a key says of its rate.
pub(crate) struct KeyRate {
    /// The key on whose budget its calls count.
    pub budget: Uuid,
    /// `None` is no limit.
    pub per_minute: Option<i32>,
    pub burst: Option<i32>,
}

/// All limits of this host.
pub struct Limits {
    started: Instant,
    user: Limit,
    address: Policy,
    addresses: Addresses,
    refusals: Addresses,
    buckets: Buckets,
}

impl Limits {
    /// With the calls a minute that a key has which says nothing else.
    pub fn new(key_per_minute: u32) -> Self {
        let user = key_per_minute.saturating_mul(USER_FACTOR).min(MAX_PER_MINUTE);
        Self {
            started: Instant::now(),
            user: Limit::new(user, user / BURST_PART),
            address: Policy::new(Kind::Address, ADDRESS),
            addresses: Addresses::new(ADDRESS),
            refusals: Addresses::new(REFUSALS),
            buckets: Buckets::default(),
        }
    }

    /// What a key may do, whose own rate comes first and then those of the keys that it was made with, nearest first: a
    /// call counts on all of these budgets. Empty is no limit.
    ///
    /// A limit that one further on is as tight as can never be reached first, since that one counts the same calls and
    /// more; it is left out, so that a key with its maker's limit costs no more than any other.
    pub(crate) fn key_allowances(&self, rates: impl DoubleEndedIterator<Item = KeyRate>) -> Vec<Allowance> {
        let mut counted: Vec<(Uuid, Limit)> = Vec::new();
        for rate in rates.rev() {
            let Some(limit) = rate.limit() else { continue };
            let reached_first = |(_, outer): &(Uuid, Limit)| !outer.is_as_tight_as(limit);
            if counted.iter().all(reached_first) {
                counted.push((rate.budget, limit));
            }
        }
        let allowance = |(budget, limit): (Uuid, Limit)| self.allowance(Kind::Key, budget, limit);
        counted.into_iter().rev().map(allowance).collect()
    }

    /// What a user may do, by session or by JWT; all logins of a user together.
    pub(crate) fn user_allowances(&self, id: Uuid) -> Vec<Allowance> {
        vec![self.allowance(Kind::User, id, self.user)]
    }

    fn allowance(&self, kind: Kind, id: Uuid, limit: Limit) -> Allowance {
        Allowance {
            policy: Policy::new(kind, limit),
            bucket: self.buckets.get_or_create(id, limit, self.at(Instant::now())),
        }
    }

    /// Lets an address in, before anything of its credential is looked at; charges nothing.
    pub fn admit(&self, peer: IpAddr, at: Instant, rate_state: &mut Option<RateState>) -> Result<(), AuthError> {
        let now = self.at(at);
        self.addresses.admit(Network::from(peer), now).map_err(|(spent_until, wait)| {
            *rate_state = Some(self.address_state(spent_until, now));
            refused("Too many requests without a valid credential from this address.", wait)
        })
    }

    /// Charges a call that showed no valid credential to its address.
    pub fn charge_address(&self, peer: IpAddr, at: Instant, rate_state: &mut Option<RateState>) {
        let now = self.at(at);
        let spent_until = self.addresses.charge(Network::from(peer), now);
        *rate_state = Some(self.address_state(spent_until, now));
    }

    /// How long the answer to a caller without a valid credential is held that refuses it for asking too often.
    pub fn hold_refusal(&self, peer: IpAddr) -> Duration {
        let now = self.at(Instant::now());
        let spent_until = self.refusals.charge(Network::from(peer), now);
        Duration::from_nanos(spent_until.saturating_sub(now + u64::from(MAX_REFUSAL_BURST) * REFUSALS.period))
    }

    /// Whether this address asks again and again though it is refused.
    pub fn floods(&self, peer: IpAddr) -> bool {
        let spent_until = self.refusals.spent_until(Network::from(peer));
        spent_until > self.at(Instant::now()) + u64::from(FLOOD_THRESHOLD) * REFUSALS.period
    }

    /// Charges a call to its caller's budgets, whatever comes of it later: on each of its budgets, or on none of them
    /// when one refuses.
    pub fn charge(
        &self,
        allowances: &[Allowance],
        at: Instant,
        rate_state: &mut Option<RateState>,
    ) -> Result<(), AuthError> {
        let (now, hosts) = (self.at(at), self.buckets.hosts());
        let mut tightest: Option<(&Policy, u64, u64)> = None;
        for (place, Allowance { policy, bucket }) in allowances.iter().enumerate() {
            match bucket.take(policy.limit, now, hosts) {
                TakeOutcome::Admitted { remaining, refill } => {
                    if tightest.is_none_or(|(_, before, _)| remaining < before) {
                        tightest = Some((policy, remaining, refill));
                    }
                }
                TakeOutcome::Refused { wait, refill } => {
                    allowances[..place].iter().for_each(|taken| taken.bucket.give_back(taken.policy.limit));
                    let refill = refill.max(wait);
                    *rate_state = Some(RateState { policy: *policy, remaining: 0, refill });
                    return Err(refused("Too many requests.", wait));
                }
            }
        }
        if let Some((policy, remaining, refill)) = tightest {
            *rate_state = Some(RateState { policy: *policy, remaining, refill });
        }
        Ok(())
    }

    /// Forgets what time has made good; called every minute.
    pub fn sweep(&self) {
        let now = self.at(Instant::now());
        self.addresses.sweep(now);
        self.refusals.sweep(now);
        self.buckets.sweep(now);
    }

    fn address_state(&self, spent_until: u64, now: u64) -> RateState {
        let remaining = ADDRESS.remaining(spent_until, now);
        RateState { policy: self.address, remaining, refill: spent_until.saturating_sub(now) }
    }

    /// Nanoseconds since this host began, and a second more: zero stands for what never was.
    fn at(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.started) + Duration::from_secs(1);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl KeyRate {
    fn limit(&self) -> Option<Limit> {
        let per_minute = u32::try_from(self.per_minute?).unwrap_or(1);
        let burst = self.burst.and_then(|burst| u32::try_from(burst).ok());
        Some(Limit::with_usual_burst(per_minute, burst))
    }
}

fn refused(detail: &'static str, wait: u64) -> AuthError {
    let retry_after = u32::try_from(seconds(wait).max(1)).unwrap_or(u32::MAX);
    AuthError::TooOften { detail, retry_after }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls a minute of a key and of those that it was made with, as they are counted.
    fn counted(rates: &[Option<i32>]) -> Vec<u32> {
        let rate = |per_minute: &Option<i32>| KeyRate { budget: Uuid::now_v7(), per_minute: *per_minute, burst: None };
        let rates: Vec<KeyRate> = rates.iter().map(rate).collect();
        Limits::new(6000)
            .key_allowances(rates.into_iter())
            .iter()
            .map(|allowance| allowance.limit().per_minute)
            .collect()
    }

    #[test]
    fn only_limits_that_can_be_reached_first_are_counted() {
        assert_eq!(counted(&[Some(600)]), [600]);
        assert!(counted(&[None]).is_empty());
        assert_eq!(counted(&[Some(600), Some(600), Some(600)]), [600], "the usual one: as fast as its maker");
        assert_eq!(counted(&[None, Some(600)]), [600]);
        assert_eq!(counted(&[Some(60), None, Some(600)]), [60, 600]);
        assert_eq!(counted(&[Some(60), Some(300), Some(600)]), [60, 300, 600]);
        assert_eq!(counted(&[Some(600), Some(60)]), [60], "a maker that was slowed down");
        assert_eq!(counted(&[Some(60), Some(600), Some(300)]), [60, 300]);
    }

    #[test]
    fn refusals_of_an_address_are_held_one_after_the_other() {
        let (limits, here) = (Limits::new(6000), IpAddr::from([192, 0, 2, 1]));
        let held: Vec<u128> = (0..100).map(|_| limits.hold_refusal(here).as_millis()).collect();
        assert!(held[..10].iter().all(|ms| *ms == 0), "{held:?}");
        assert!((100..=200).contains(&held[10]) && held[30] > 3_500 && held[58] < 10_000, "{held:?}");
        assert!(held[70..].iter().all(|ms| (10_000..=10_400).contains(ms)), "{held:?}");
        assert!(limits.floods(here) && !limits.floods(IpAddr::from([192, 0, 2, 2])));
    }

    #[test]
    fn siblings_share_what_their_maker_has_and_a_refused_call_costs_neither() {
        let limits = Limits::new(6000);
        let maker = Uuid::now_v7();
        let sibling = || {
            let rate = |budget, per_minute, burst| KeyRate { budget, per_minute: Some(per_minute), burst: Some(burst) };
            let rates = [rate(Uuid::now_v7(), 59, 4), rate(maker, 60, 6)];
            limits.key_allowances(rates.into_iter())
        };
        let (one, two, now) = (sibling(), sibling(), Instant::now());
        let calls = |allowances: &[Allowance], tries: usize| {
            let mut rate_state = None;
            let admitted = (0..tries).filter(|_| limits.charge(allowances, now, &mut rate_state).is_ok()).count();
            (admitted, rate_state.unwrap().policy.limit.per_minute)
        };
        assert_eq!(calls(&one, 4), (4, 59), "of what is left, the answer says the lesser");
        assert_eq!(calls(&one, 9), (0, 59), "its own limit refuses");
        assert_eq!(calls(&two, 2), (2, 60));
        assert_eq!(calls(&two, 9), (0, 60), "the maker's refuses");
        let later = now + Duration::from_secs(2);
        let whole = (0..9).filter(|_| limits.charge(&two, later, &mut None).is_ok()).count();
        assert_eq!(whole, 2, "what the maker's refused had cost nothing of its own");
    }
}
