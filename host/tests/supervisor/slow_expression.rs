//! What PostgreSQL computes for seconds without looking up, and turns for the tests that make it: two cores can't run
//! several of them and show how long somebody waits.

use std::time::{Duration, Instant};

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::database::Database;

/// A text of 64 MB, in which what is looked for almost is. It passes the reader: only functions that make texts from
/// nothing, and long needles, are refused.
pub(super) const BIG: &str = "big (v) AS (SELECT replace(replace(replace(replace(replace('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', \
    'a', 'aaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaa'), 'a', 'aaaaaaaaaaaaaaaa'))";
/// What is looked for: as long as the reader lets it be in a text of any length.
pub(super) const NEEDLE: &str = "'baaaaaaa'";
/// As often as the reader lets it be in one expression.
const MAX_SEARCHES: usize = 8;

static TURNS: RwLock<()> = RwLock::const_new(());

/// For a test that has PostgreSQL compute for seconds.
pub(super) async fn alone() -> RwLockWriteGuard<'static, ()> {
    TURNS.write().await
}

/// For a test that measures how long somebody waits beside what is quick.
pub(super) async fn beside_nothing_slow() -> RwLockReadGuard<'static, ()> {
    TURNS.read().await
}

/// How many searches take this long at least, on this machine as it is now: one that is slow must not reach the time
/// that a step may take. All that the reader allows, where the machine is that quick.
pub(super) async fn searches_that_take(database: &Database, wanted: Duration) -> usize {
    let admin = database.admin().await;
    let begun = Instant::now();
    admin.batch_execute(&format!("WITH {BIG} SELECT FROM big WHERE strpos(v, {NEEDLE}) = 1")).await.unwrap();
    (wanted.as_secs_f64() / begun.elapsed().as_secs_f64()).ceil().clamp(1.0, MAX_SEARCHES as f64) as usize
}
