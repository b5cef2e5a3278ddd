//! Rate limits: per key and per user, and per address for whoever shows no valid credential.
//!
//! The rule (`gcra`) and the books (`meter`, `addresses`) are pure over a number of nanoseconds;
//! `lease` brings hosts that share a database to one budget for each caller.

pub mod addresses;
pub mod gcra;
pub mod lease;
pub mod meter;
mod meters;
pub mod standing;

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use uuid::Uuid;

use self::{
    addresses::{Addresses, Network},
    gcra::Limit,
    meter::{Meter, Taken},
    meters::Meters,
    standing::{Kind, Policy, Standing, seconds},
};
use crate::{
    auth::caller::Caller,
    http::{
        codes,
        error::{ApiError, ApiResult},
    },
};

/// Calls without a valid credential that an address may make: far more than a person or a script
/// that has made a mistake needs, far less than what a host can answer.
const ADDRESS: Limit = Limit::new(1_200, 600);
/// A person's session has this many times what a key has.
const USER_FACTOR: u32 = 10;
const HIGHEST_PER_MINUTE: u32 = 100_000_000;
/// A burst, where none is given, is this part of a minute's calls.
const BURST_PART: u32 = 10;

/// A caller's limit and where its calls are counted; stands in the cached caller.
#[derive(Clone, Debug)]
pub struct Allowance {
    policy: Policy,
    meter: Arc<Meter>,
}

/// All limits of this host.
pub struct Limits {
    began: Instant,
    user: Limit,
    address: Policy,
    addresses: Addresses,
    meters: Meters,
}

impl Limits {
    /// With the calls a minute that a key has which says nothing else.
    pub fn new(key_per_minute: u32) -> Self {
        let user = key_per_minute.saturating_mul(USER_FACTOR).min(HIGHEST_PER_MINUTE);
        Self {
            began: Instant::now(),
            user: Limit::new(user, user / BURST_PART),
            address: Policy::new(Kind::Address, ADDRESS),
            addresses: Addresses::new(ADDRESS),
            meters: Meters::default(),
        }
    }

    /// What a key may do; a key without a limit has none.
    pub fn of_key(&self, id: Uuid, per_minute: Option<i32>, burst: Option<i32>) -> Option<Allowance> {
        let per_minute = u32::try_from(per_minute?).unwrap_or(1);
        let burst = burst.and_then(|burst| u32::try_from(burst).ok()).unwrap_or(per_minute / BURST_PART);
        Some(self.allowance(Kind::Key, id, Limit::new(per_minute, burst)))
    }

    /// What a user may do, by session or by JWT; all logins of a user together.
    pub fn of_user(&self, id: Uuid) -> Option<Allowance> {
        Some(self.allowance(Kind::User, id, self.user))
    }

    fn allowance(&self, kind: Kind, id: Uuid, limit: Limit) -> Allowance {
        Allowance { policy: Policy::new(kind, limit), meter: self.meters.of(id, limit, self.at(Instant::now())) }
    }

    /// Lets an address in, before anything of its credential is looked at; charges nothing.
    pub fn admit(&self, peer: IpAddr, at: Instant, standing: &mut Option<Standing>) -> ApiResult<()> {
        let now = self.at(at);
        self.addresses.admit(Network::from(peer), now).map_err(|(spent_until, wait)| {
            *standing = Some(self.of_address(spent_until, now));
            refused("Too many requests without a valid credential from this address.", wait)
        })
    }

    /// Charges a call that showed no valid credential to its address.
    pub fn charge_address(&self, peer: IpAddr, at: Instant, standing: &mut Option<Standing>) {
        let now = self.at(at);
        let spent_until = self.addresses.charge(Network::from(peer), now);
        *standing = Some(self.of_address(spent_until, now));
    }

    /// Charges a call to its caller, whatever comes of it later.
    pub fn charge(&self, caller: &Caller, at: Instant, standing: &mut Option<Standing>) -> ApiResult<()> {
        let Some(Allowance { policy, meter }) = &caller.allowance else { return Ok(()) };
        let taken = meter.take(policy.limit, self.at(at), self.meters.hosts());
        let stand = |remaining, refill| Some(Standing { policy: policy.clone(), remaining, refill });
        match taken {
            Taken::Admitted { remaining, refill } => {
                *standing = stand(remaining, refill);
                Ok(())
            }
            Taken::Refused { wait, refill } => {
                *standing = stand(0, refill.max(wait));
                Err(refused("Too many requests.", wait))
            }
        }
    }

    /// Forgets what time has made good; called every minute.
    pub fn sweep(&self) {
        let now = self.at(Instant::now());
        self.addresses.sweep(now);
        self.meters.sweep(now);
    }

    fn of_address(&self, spent_until: u64, now: u64) -> Standing {
        let remaining = ADDRESS.remaining(spent_until, now);
        Standing { policy: self.address.clone(), remaining, refill: spent_until.saturating_sub(now) }
    }

    /// Nanoseconds since this host began, and a second more: zero stands for what never was.
    fn at(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.began) + Duration::from_secs(1);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

fn refused(detail: &str, wait: u64) -> ApiError {
    let wait = u32::try_from(seconds(wait).max(1)).unwrap_or(u32::MAX);
    ApiError::new(&codes::RATE_LIMITED).detail(detail).retry_after(wait)
}
