use super::*;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn bucket(limit: Limit, shared: bool) -> Bucket {
    Bucket::new(Uuid::nil(), limit, shared)
}

fn admitted(bucket: &Bucket, limit: Limit, now: u64, hosts: u32, calls: usize) -> usize {
    (0..calls).filter(|_| matches!(bucket.take(limit, now, hosts), TakeOutcome::Admitted { .. })).count()
}

/// What `crates/store/src/rate_budgets.rs` does for one caller.
struct Budget {
    spent: f64,
    at: u64,
    taker: usize,
    taken_at: u64,
    contended_at: Option<u64>,
}

impl Budget {
    fn new() -> Self {
        Self { spent: 0.0, at: 0, taker: usize::MAX, taken_at: 0, contended_at: None }
    }

    /// `(granted, spent)`
    fn exchange(&mut self, host: usize, request: &BudgetRequest, now: u64) -> (f64, f64) {
        let rate = f64::from(request.limit.per_minute) / 60.0;
        let room = f64::from(request.limit.burst) + rate * 1.3;
        let passed = (now - self.at) as f64 / SECOND as f64;
        let owed = ((self.spent - rate * passed).max(0.0) + request.debit).max(0.0);
        let other = (self.taker != usize::MAX && self.taker != host).then_some(self.taken_at);
        let contended = self.contended_at.max(other).is_some_and(|at| now - at < 3 * SECOND);
        let granted = request.want.min((room - owed).max(0.0) * if contended { 0.5 } else { 1.0 });
        if request.want > 0.0 {
            self.contended_at = other.or(self.contended_at);
            (self.taker, self.taken_at) = (host, now);
        }
        (self.spent, self.at) = (owed + granted, now);
        (granted, self.spent)
    }
}

/// Hosts with a caller each; `demand(host, now)` says how often it calls in each tenth of a second.
struct Fleet {
    limit: Limit,
    buckets: Vec<Bucket>,
    budget: Budget,
    next: Vec<u64>,
    admitted: Vec<usize>,
}

impl Fleet {
    fn new(hosts: usize, limit: Limit) -> Self {
        let next = (0..hosts).map(|host| SECOND + (host as u64 * 37 + 11) * MS).collect();
        let buckets = (0..hosts).map(|_| bucket(limit, true)).collect();
        Self { limit, buckets, budget: Budget::new(), next, admitted: vec![0; hosts] }
    }

    fn run(&mut self, from: u64, seconds: u64, database: bool, demand: impl Fn(usize, u64) -> usize) -> usize {
        let before: usize = self.admitted.iter().sum();
        let hosts = self.buckets.len() as u32;
        for tick in 0..seconds * 100 {
            let now = (1 + from) * SECOND + tick * 10 * MS;
            for host in 0..self.buckets.len() {
                if self.next[host] <= now {
                    // As irregular as the real one.
                    self.next[host] = now + SECOND + (tick * 7919 + host as u64 * 104_729) % 300 * MS;
                    self.exchange(host, now, hosts, database);
                }
                if tick % 10 == 0 {
                    let calls = demand(host, now);
                    self.admitted[host] += admitted(&self.buckets[host], self.limit, now, hosts, calls);
                }
            }
        }
        self.admitted.iter().sum::<usize>() - before
    }

    fn exchange(&mut self, host: usize, now: u64, hosts: u32, database: bool) {
        let bucket = &self.buckets[host];
        let Some(request) = bucket.request(now, hosts) else { return };
        if database {
            let (granted, spent) = self.budget.exchange(host, &request, now);
            bucket.granted(granted, spent, now);
        } else {
            bucket.unanswered(&request, now);
        }
    }
}

#[test]
fn a_call_that_is_given_back_was_never_made() {
    let limit = Limit::new(60, 3);
    for (shared, hosts) in [(false, 1), (true, 1)] {
        let bucket = bucket(limit, shared);
        for _ in 0..20 {
            assert_eq!(admitted(&bucket, limit, SECOND, hosts, 1), 1, "shared: {shared}");
            bucket.give_back(limit);
        }
        assert_eq!(admitted(&bucket, limit, SECOND, hosts, 10), 3, "shared: {shared}");
    }
}

#[test]
fn alone_it_is_exact() {
    let limit = Limit::new(60, 5);
    let bucket = bucket(limit, false);
    assert_eq!(admitted(&bucket, limit, SECOND, 1, 100), 5);
    assert_eq!(bucket.take(limit, SECOND, 1), TakeOutcome::Refused { wait: SECOND, refill: 5 * SECOND });
    assert_eq!(bucket.take(limit, 2 * SECOND, 1), TakeOutcome::Admitted { remaining: 0, refill: 5 * SECOND });
    assert_eq!(admitted(&bucket, limit, 12 * SECOND, 1, 100), 5);
}

#[test]
fn a_changed_limit_holds_at_once_and_what_was_spent_stays_spent() {
    let slow = Limit::new(1, 100);
    let bucket = bucket(slow, false);
    assert_eq!(admitted(&bucket, slow, SECOND, 1, 1_000), 100);
    let fast = Limit::new(6_000, 600);
    bucket.follow(fast, SECOND);
    assert_eq!(admitted(&bucket, fast, SECOND, 1, 1_000), 500, "100 of 600 were spent");
    let tiny = Limit::new(60, 2);
    bucket.follow(tiny, SECOND);
    assert_eq!(admitted(&bucket, tiny, 3 * SECOND, 1, 10), 2, "no longer shut out than its own burst");
}

#[test]
fn several_hosts_hold_a_caller_to_one_limit() {
    for (hosts, limit) in [
        (2, Limit::new(6_000, 600)),
        (3, Limit::new(600, 60)),
        (2, Limit::new(600, 1)),
        (5, Limit::new(1_200, 20)),
        (2, Limit::new(60, 6)),
        (10, Limit::new(100_000, 10_000)),
    ] {
        let total = Fleet::new(hosts, limit).run(0, 60, true, |_, _| limit.per_minute as usize / 50 + 20) as f64;
        let allowed = f64::from(limit.burst + limit.per_minute);
        let off = (total - allowed) / f64::from(limit.per_minute);
        assert!(off.abs() < 0.1, "{hosts} hosts, {limit:?}: {total} of {allowed}");
    }
}

#[test]
fn a_host_that_alone_is_called_gets_the_whole_of_it() {
    let limit = Limit::new(6_000, 600);
    let total = Fleet::new(3, limit).run(0, 60, true, |host, _| if host == 1 { 1_000 } else { 0 });
    assert!((6_000..=7_200).contains(&total), "{total}");
}

#[test]
fn nobody_gains_by_changing_hosts() {
    let limit = Limit::new(600, 60);
    for seconds in [1, 2, 3, 5, 7] {
        let turn = move |host, now| if now / (seconds * SECOND) % 2 == host as u64 { 100 } else { 0 };
        let total = Fleet::new(2, limit).run(0, 60, true, turn);
        assert!(total as f64 <= 660.0 * 1.1, "changing every {seconds} s: {total}");
    }
}

#[test]
fn who_stays_below_the_limit_is_never_refused() {
    let limit = Limit::new(6_000, 600);
    let mut fleet = Fleet::new(2, limit);
    let total = fleet.run(0, 60, true, |_, _| 4); // 80 a second of 100
    assert_eq!(total, 2 * 4 * 600);
}

#[test]
fn without_the_database_portions_are_halved_and_paid_back() {
    let limit = Limit::new(6_000, 600);
    let mut fleet = Fleet::new(2, limit);
    fleet.run(0, 20, true, |_, _| 1_000);
    let gone = fleet.run(20, 20, false, |_, _| 1_000);
    assert!((1..600).contains(&gone), "less and less: {gone}");
    let back = fleet.run(40, 20, true, |_, _| 1_000);
    // What was not used meanwhile is a burst again, no more.
    assert!((2_000..=2_000 + 600 + 130).contains(&back), "{back}");
}

#[test]
fn others_come_and_go_and_the_budget_stays_one() {
    let limit = Limit::new(600, 100);
    let bucket = bucket(limit, false);
    assert_eq!(admitted(&bucket, limit, SECOND, 1, 60), 60);
    bucket.share(SECOND, 2);
    assert_eq!(admitted(&bucket, limit, SECOND, 2, 100), 20, "its half of the 40 that were left");
    let request = bucket.request(SECOND, 2).unwrap();
    assert!((request.debit - 80.0).abs() < 0.01, "all that it has handed out: {request:?}");
    bucket.granted(0.0, 80.0, SECOND);
    bucket.unshare(SECOND);
    assert_eq!(admitted(&bucket, limit, SECOND, 1, 100), 20);
    bucket.share(2 * SECOND, 2);
    bucket.unshare(2 * SECOND);
    assert_eq!(admitted(&bucket, limit, 2 * SECOND, 1, 100), 10, "a second brings ten calls");
}

#[test]
fn what_is_not_needed_is_given_back_once() {
    let limit = Limit::new(600, 100);
    let bucket = bucket(limit, true);
    assert_eq!(admitted(&bucket, limit, SECOND, 2, 10), 10);
    let request = bucket.request(SECOND, 2).unwrap();
    assert!((request.debit - 50.0).abs() < 0.01, "{request:?}");
    bucket.granted(0.0, 50.0, SECOND);
    let back = bucket.request(2 * SECOND, 2).unwrap();
    assert!((back.debit + 40.0).abs() < 0.01 && back.want == 0.0, "{back:?}");
    bucket.granted(0.0, 0.0, 2 * SECOND);
    assert_eq!(bucket.request(3 * SECOND, 2), None, "nothing is left to say");
    assert!(bucket.is_spent_nothing(4 * SECOND));
}
