//! One caller's spending: exact while this host is alone, by leases while it shares the database
//! with others.
//!
//! Alone, the whole state is one number and a call is one compare-and-swap. With others, the budget
//! lies in the database; this host takes portions of it ahead of need (`budget_lease.rs`) and a call takes
//! one from the portion. What it hands out before it could ask is debited afterwards.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use uuid::Uuid;

use super::gcra::{Limit, SpentUntil};

/// One call, in the thousandths that leases are counted in.
const CALL: i64 = 1_000;
/// The balance of a caller that was not seen since its portion was given back.
const QUIET: i64 = i64::MIN;
/// How much more than it asked for last time a caller may ask for next time.
const HEADROOM: f64 = 1.5;
/// The longest `Retry-After` of a caller without a portion, when the budget has room: one exchange.
const NEXT_EXCHANGE: u64 = 1_000_000_000;

/// The spending of one key or user on this host.
#[derive(Debug)]
pub struct Bucket {
    pub subject: Uuid,
    /// Alone: all that was spent. Shared: what the whole of the hosts had spent or leased when the
    /// database last said so.
    spent_until: AtomicU64,
    shared: AtomicBool,
    /// What is left of this host's portion, in thousandths of a call, or [`QUIET`].
    balance: AtomicI64,
    /// Calls since the last exchange, refused ones too: the need.
    requested: AtomicU32,
    ledger: Mutex<Ledger>,
}

/// What only exchanges and changes of the limit touch.
#[derive(Debug)]
struct Ledger {
    limit: Limit,
    /// Handed out without having been leased, in thousandths; negative: to be given back.
    undebited: i64,
    /// The last portion, which is halved again and again while the database is away.
    portion: i64,
}

/// What an exchange asks for one caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetRequest {
    pub subject: Uuid,
    /// Calls to charge to the budget, or to give back to it when negative.
    pub debit: f64,
    /// Calls to lease.
    pub want: f64,
    pub limit: Limit,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// Calls that would still be let through, and nanoseconds until the burst is whole.
    Admitted { remaining: u64, refill: u64 },
    /// Nanoseconds to wait, and until the burst is whole.
    Refused { wait: u64, refill: u64 },
}

impl Bucket {
    pub fn new(subject: Uuid, limit: Limit, shared: bool) -> Self {
        Self {
            subject,
            spent_until: AtomicU64::new(0),
            shared: AtomicBool::new(shared),
            balance: AtomicI64::new(QUIET),
            requested: AtomicU32::new(0),
            ledger: Mutex::new(Ledger { limit, undebited: 0, portion: 0 }),
        }
    }

    /// Takes one call of a budget that `hosts` share.
    pub fn take(&self, limit: Limit, now: u64, hosts: u32) -> TakeOutcome {
        if self.shared.load(Ordering::Acquire) {
            return self.take_leased(limit, now, hosts);
        }
        let mut spent_until = self.spent_until.load(Ordering::Relaxed);
        loop {
            let next = match limit.take(spent_until, now) {
                Ok(next) => next,
                Err(wait) => return TakeOutcome::Refused { wait, refill: spent_until.saturating_sub(now) },
            };
            match self.spent_until.compare_exchange_weak(spent_until, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let (remaining, refill) = (limit.remaining(next, now), next.saturating_sub(now));
                    return TakeOutcome::Admitted { remaining, refill };
                }
                Err(seen) => spent_until = seen,
            }
        }
    }

    fn take_leased(&self, limit: Limit, now: u64, hosts: u32) -> TakeOutcome {
        self.requested.fetch_add(1, Ordering::Relaxed);
        let mut balance = self.balance.load(Ordering::Acquire);
        loop {
            if balance == QUIET {
                balance = self.wake(now, hosts);
                continue;
            }
            if balance < CALL {
                return self.refuse_leased(limit, now);
            }
            match self.balance.compare_exchange_weak(balance, balance - CALL, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    let refill = self.spent_until.load(Ordering::Relaxed).saturating_sub(now);
                    return TakeOutcome::Admitted { remaining: calls(balance - CALL), refill };
                }
                Err(seen) => balance = seen,
            }
        }
    }

    /// Takes back a call that was admitted here and refused elsewhere.
    pub fn give_back(&self, limit: Limit) {
        if self.shared.load(Ordering::Acquire) {
            return self.give(CALL);
        }
        let less = |spent_until: u64| Some(spent_until.saturating_sub(limit.period));
        // The closure always gives a value, so that the update does not fail.
        let _ = self.spent_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    fn refuse_leased(&self, limit: Limit, now: u64) -> TakeOutcome {
        let spent_until = self.spent_until.load(Ordering::Relaxed);
        let wait = limit.take(spent_until, now).err().unwrap_or(0).max(NEXT_EXCHANGE);
        TakeOutcome::Refused { wait, refill: spent_until.saturating_sub(now) }
    }

    /// The first call after a while: this host's part of what is known to be left, until the next
    /// exchange can ask for a portion.
    fn wake(&self, now: u64, hosts: u32) -> i64 {
        let mut ledger = self.ledger();
        let balance = self.balance.load(Ordering::Acquire);
        if balance != QUIET {
            return balance; // another call was faster
        }
        let part = self.part(ledger.limit, now, hosts);
        ledger.hand_out(part);
        self.spend(ledger.limit, part, now);
        self.balance.store(part, Ordering::Release);
        part
    }

    /// One host's part of what is left of the budget, in thousandths of a call.
    fn part(&self, limit: Limit, now: u64, hosts: u32) -> i64 {
        let left = f64::from(limit.burst) - limit.spent(self.spent_until.load(Ordering::Relaxed), now);
        thousandths(left.max(0.0) / f64::from(hosts.max(1)))
    }

    fn spend(&self, limit: Limit, thousandths: i64, now: u64) {
        let before = self.spent_until.load(Ordering::Relaxed);
        let spent = limit.spent(before, now) + thousandths as f64 / CALL as f64;
        self.spent_until.store(limit.after(spent, now), Ordering::Relaxed);
    }

    /// Follows the limit when it was changed: what was spent stays spent, call by call.
    pub fn follow(&self, limit: Limit, now: u64) {
        let mut ledger = self.ledger();
        if ledger.limit == limit {
            return;
        }
        let spent_until = self.spent_until.load(Ordering::Relaxed);
        let spent = ledger.limit.spent(spent_until, now).min(f64::from(limit.burst));
        self.spent_until.store(limit.after(spent, now), Ordering::Relaxed);
        ledger.limit = limit;
    }

    /// Whether forgetting it would give nobody anything.
    pub(crate) fn is_spent_nothing(&self, now: u64) -> bool {
        let quiet = !self.shared.load(Ordering::Acquire) || self.balance.load(Ordering::Acquire) == QUIET;
        quiet && self.spent_until.load(Ordering::Relaxed) <= now && self.ledger().undebited == 0
    }

    /// For the order in which buckets are forgotten when there are too many.
    pub(crate) fn spent_until(&self) -> SpentUntil {
        self.spent_until.load(Ordering::Relaxed)
    }

    /// From here on others have a part in the budget: all but this host's part of what is left is
    /// given up, and what was spent is owed.
    pub fn share(&self, now: u64, hosts: u32) {
        let mut ledger = self.ledger();
        if self.shared.load(Ordering::Acquire) {
            return;
        }
        let limit = ledger.limit;
        let spent = thousandths(limit.spent(self.spent_until.load(Ordering::Relaxed), now));
        let mut balance = QUIET;
        ledger.undebited = 0;
        if spent > 0 {
            balance = self.part(limit, now, hosts);
            ledger.hand_out(balance);
            ledger.undebited += spent;
            self.spend(limit, balance, now);
        }
        self.balance.store(balance, Ordering::Release);
        self.shared.store(true, Ordering::Release);
    }

    /// The others are gone: what they held comes back with time.
    pub fn unshare(&self, now: u64) {
        let mut ledger = self.ledger();
        if !self.shared.swap(false, Ordering::AcqRel) {
            return;
        }
        let balance = self.balance.swap(QUIET, Ordering::AcqRel);
        if balance > 0 {
            self.spend(ledger.limit, -balance, now);
        }
        ledger.undebited = 0;
        self.requested.store(0, Ordering::Relaxed);
    }

    /// What to ask the database for, `None` when there is nothing to say. Call it no more than once
    /// a second, and tell it the answer.
    pub fn request(&self, now: u64, hosts: u32) -> Option<BudgetRequest> {
        let mut ledger = self.ledger();
        let limit = ledger.limit;
        let requested = self.requested.swap(0, Ordering::Relaxed);
        let mut want = 0;
        if requested == 0 {
            // Not needed here: others may have it.
            let unused = self.balance.swap(QUIET, Ordering::AcqRel);
            if unused > 0 {
                ledger.undebited -= unused;
                self.spend(limit, -unused, now);
            }
        } else {
            let need = thousandths(f64::from(requested) * HEADROOM + 1.0).max(self.part(limit, now, hosts));
            want = (need - self.balance.load(Ordering::Acquire).max(0)).max(0);
        }
        let debit = std::mem::take(&mut ledger.undebited);
        if requested == 0 && debit == 0 {
            return None;
        }
        Some(BudgetRequest { subject: self.subject, debit: whole(debit), want: whole(want), limit })
    }

    /// The database gave this portion; with it, all hosts together have spent or hold so much.
    pub fn granted(&self, granted: f64, spent: f64, now: u64) {
        let mut ledger = self.ledger();
        let portion = thousandths(granted);
        ledger.portion = portion;
        self.spent_until.store(ledger.limit.after(spent + whole(ledger.undebited), now), Ordering::Relaxed);
        self.give(portion);
    }

    /// The database did not answer: half of the last portion, to be debited when it is back.
    pub fn unanswered(&self, request: &BudgetRequest, now: u64) {
        let mut ledger = self.ledger();
        ledger.undebited += thousandths(request.debit);
        ledger.portion /= 2;
        let portion = ledger.portion.min(thousandths(request.want));
        ledger.undebited += portion;
        self.spend(ledger.limit, portion, now);
        self.give(portion);
    }

    fn give(&self, portion: i64) {
        if portion > 0 && self.balance.load(Ordering::Acquire) != QUIET {
            self.balance.fetch_add(portion, Ordering::AcqRel);
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }
}

impl Ledger {
    /// Gives what was not leased: it is owed, and the measure of what may be given again.
    fn hand_out(&mut self, portion: i64) {
        self.undebited += portion;
        self.portion = portion;
    }
}

fn thousandths(calls: f64) -> i64 {
    (calls * CALL as f64).round() as i64
}

fn whole(thousandths: i64) -> f64 {
    thousandths as f64 / CALL as f64
}

fn calls(balance: i64) -> u64 {
    u64::try_from(balance / CALL).unwrap_or(0)
}

#[cfg(test)]
mod tests;
