//! Hosts that share a database hold a caller to one budget: each takes portions of it ahead of
//! need, in one statement a second for all callers together, never while a request waits.

use std::time::{Duration, Instant};

use deadpool_postgres::Pool;
use rand::RngExt as _;
use uuid::Uuid;

use super::{
    Limits,
    bucket::{Bucket, BudgetRequest},
};
use cardinal_store::rate_budgets::{self, Portion};

/// Between two exchanges at least. The rest is chance, so that no host is always the last one.
const MIN_INTERVAL: Duration = Duration::from_millis(1_000);
const CHANCE_MS: u64 = 300;
/// Portions may reach so far ahead of the rate: to the next exchange, whenever it comes.
const AHEAD_SECONDS: f64 = 1.3;
/// How long the database may take; then it is taken for gone.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Callers of one exchange; the rest waits for the next one.
const MAX_CALLERS: usize = 10_000;

/// Keeps the budgets while the host lives.
pub async fn keep(limits: &Limits, pool: &Pool, host: Uuid) {
    loop {
        exchange(limits, pool, host).await;
        let chance = rand::rng().random_range(0..=CHANCE_MS);
        tokio::time::sleep(MIN_INTERVAL + Duration::from_millis(chance)).await;
    }
}

/// This host goes: the others need not wait to notice.
pub async fn leave(pool: &Pool, host: Uuid) {
    let left = tokio::time::timeout(RENEWAL_TIMEOUT, rate_budgets::leave(pool, host)).await;
    if let Ok(Err(error)) = left {
        tracing::debug!(error = ?error, "the other hosts will notice by themselves that this one has ended");
    }
}

/// Says that this host is there, hears how many there are, and when there are others settles with
/// them: gives back what is not needed, takes what will be.
pub async fn exchange(limits: &Limits, pool: &Pool, host: Uuid) {
    let seen = tokio::time::timeout(RENEWAL_TIMEOUT, rate_budgets::seen(pool, host)).await;
    let hosts = match seen {
        Ok(Ok(hosts)) => hosts,
        // With the database away nobody new can come, and nothing tells that anybody went.
        _ => limits.buckets.hosts(),
    };
    limits.buckets.set_hosts(hosts, limits.at(Instant::now()));
    if hosts < 2 {
        return;
    }
    let requests = requests(limits, hosts);
    if requests.is_empty() {
        return;
    }
    let lines: Vec<_> = requests.iter().map(to_row).collect();
    let answer = tokio::time::timeout(RENEWAL_TIMEOUT, rate_budgets::exchange(pool, host, &lines)).await;
    let now = limits.at(Instant::now());
    let portions = match answer {
        Ok(Ok(portions)) => portions,
        Ok(Err(error)) => return unanswered(limits, &requests, now, &format!("{error:?}")),
        Err(_) => return unanswered(limits, &requests, now, "no answer in time"),
    };
    for Portion { subject, granted, spent } in portions {
        if let Some(bucket) = limits.buckets.get(subject) {
            bucket.granted(granted, spent, now);
        }
    }
}

fn requests(limits: &Limits, hosts: u32) -> Vec<BudgetRequest> {
    let now = limits.at(Instant::now());
    let mut requests = Vec::new();
    limits.buckets.each(|bucket: &std::sync::Arc<Bucket>| {
        if requests.len() < MAX_CALLERS {
            requests.extend(bucket.request(now, hosts));
        }
    });
    // In one order everywhere: two hosts never wait for each other.
    requests.sort_unstable_by_key(|request| request.subject);
    requests
}

fn to_row(request: &BudgetRequest) -> rate_budgets::BudgetRow {
    let rate = f64::from(request.limit.per_minute) / 60.0;
    let room = f64::from(request.limit.burst) + rate * AHEAD_SECONDS;
    rate_budgets::BudgetRow { subject: request.subject, debit: request.debit, want: request.want, rate, room }
}

fn unanswered(limits: &Limits, requests: &[BudgetRequest], now: u64, why: &str) {
    tracing::debug!(
        callers = requests.len(),
        why,
        "failed to share rate budgets with the other hosts; portions are \
        halved"
    );
    for request in requests {
        if let Some(bucket) = limits.buckets.get(request.subject) {
            bucket.unanswered(request, now);
        }
    }
}
