//! Forgets callers whose rights have changed. Where the change was made that happens at once. Changes at other hosts
//! are polled on a connection of its own, one query for all callers, ten times a second while somebody calls. A cached
//! caller is trusted only while that goes on; otherwise it is looked up again after [`cache::UNFOLLOWED_TTL`].

use std::{
    collections::HashSet,
    convert::Infallible,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::{Auth, cache};
use crate::error::AuthError;
use cardinal_database::log_failure;
use cardinal_store::{
    error::StoreError,
    identity_changes::{self, Changes, Position},
};

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a poll may take; then its connection is taken for lost.
const POLL_TIMEOUT: Duration = Duration::from_millis(500);
/// How long cached callers are trusted after the last poll that was answered began.
const TRUST_TIME: Duration = Duration::from_millis(250);
/// Without a call for this long, polling pauses.
const IDLE_AFTER: Duration = Duration::from_secs(10);
/// How often a call is noted; more would have all threads write to one cache line.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

/// How far this host has followed. Times are milliseconds since `started`; 0 is never.
pub(super) struct Follower {
    started: Instant,
    /// When the last poll that was answered began.
    polled: AtomicU64,
    called: AtomicU64,
    /// Rings when somebody calls while polling pauses.
    resume: Notify,
    changes: watch::Sender<()>,
}

impl Default for Follower {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            polled: AtomicU64::new(0),
            called: AtomicU64::new(0),
            resume: Notify::new(),
            changes: watch::Sender::new(()),
        }
    }
}

impl Follower {
    /// Notes a call; gives whether cached callers can be trusted for it.
    pub(super) fn is_current(&self) -> bool {
        let now = self.now();
        if is_over(self.called.load(Ordering::Relaxed), now, NOTE_INTERVAL) {
            self.called.store(now, Ordering::Release);
            self.resume.notify_one();
        }
        !is_over(self.polled.load(Ordering::Acquire), now, TRUST_TIME)
    }

    fn is_idle(&self) -> bool {
        is_over(self.called.load(Ordering::Acquire), self.now(), IDLE_AFTER)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }
}

fn is_over(at: u64, now: u64, after: Duration) -> bool {
    at == 0 || u128::from(now.saturating_sub(at)) >= after.as_millis()
}

async fn in_time<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match tokio::time::timeout(POLL_TIMEOUT, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(StoreError::Outage(anyhow::anyhow!("no answer in {POLL_TIMEOUT:?}"))),
    }
}

impl Auth {
    /// Follows changes at other hosts for as long as this host lives.
    pub async fn follow_rights(&self) {
        let mut is_failing = false;
        loop {
            let polled_before = self.follower.polled.load(Ordering::Acquire);
            let Err(error) = self.follow_on_one_connection().await;
            let made_progress = self.follower.polled.load(Ordering::Acquire) != polled_before;
            if !is_failing || made_progress {
                log_failure!(error, "failed to follow changes of rights; credentials are looked up in the database");
            }
            is_failing = true;
            // Readers of streams find out that their rights cannot be looked up.
            self.follower.changes.send_replace(());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn follow_on_one_connection(&self) -> Result<Infallible, AuthError> {
        let client = in_time(async { Ok(self.pool.get().await?.detach()) }).await?;
        let mut position: Option<Position> = None;
        loop {
            let (polled_at, is_first) = (self.follower.now(), position.is_none());
            let changes = in_time(identity_changes::after(&client, &mut position)).await?;
            if is_first || changes.is_everything {
                // What changed before this connection is not known.
                self.forget_everybody();
            } else {
                self.forget_changed(&changes);
            }
            self.follower.polled.store(polled_at, Ordering::Release);
            tokio::time::sleep(POLL_INTERVAL).await;
            while self.follower.is_idle() {
                self.follower.resume.notified().await;
            }
        }
    }

    /// Changes whenever somebody's rights may have.
    pub fn rights_changes(&self) -> watch::Receiver<()> {
        self.follower.changes.subscribe()
    }

    /// Forgets what is known of keys and of those that were made with them, so that a change acts at once on this host.
    pub fn forget_keys(&self, ids: impl IntoIterator<Item = Uuid>) {
        self.forget_changed(&Changes { keys: ids.into_iter().collect(), ..Changes::default() });
    }

    /// Forgets one session.
    pub fn forget_session(&self, id: Uuid) {
        self.forget_changed(&Changes { sessions: HashSet::from([id]), ..Changes::default() });
    }

    /// Forgets every session of a user.
    pub fn forget_sessions(&self, user: Uuid) {
        self.sessions.forget(|caller| caller.user_id == user);
        self.follower.changes.send_replace(());
    }

    /// Forgets everything of a user: sessions, keys and JWTs.
    pub fn forget_user(&self, id: Uuid) {
        self.forget_changed(&Changes { users: HashSet::from([id]), ..Changes::default() });
    }

    fn forget_everybody(&self) {
        self.caches().iter().for_each(|cache| cache.forget(|_| true));
        self.follower.changes.send_replace(());
    }

    fn forget_changed(&self, changes: &Changes) {
        let Changes { users, keys, sessions, .. } = changes;
        if !users.is_empty() {
            self.caches().iter().for_each(|cache| cache.forget(|caller| users.contains(&caller.user_id)));
        }
        if !keys.is_empty() {
            self.keys.forget(|caller| caller.comes_from_key(keys));
        }
        if !sessions.is_empty() {
            self.sessions.forget(|caller| caller.session_id.is_some_and(|id| sessions.contains(&id)));
        }
        if !(users.is_empty() && keys.is_empty() && sessions.is_empty()) {
            self.follower.changes.send_replace(());
        }
    }

    fn caches(&self) -> [&cache::Cache; 3] {
        [&self.keys, &self.sessions, &self.jwts]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_trusted_before_the_first_poll_nor_long_after_the_last() {
        let follower = Follower::default();
        assert!(!follower.is_current() && !follower.is_idle());
        let trust = u64::try_from(TRUST_TIME.as_millis()).unwrap();
        assert!(is_over(0, 1, TRUST_TIME));
        assert!(!is_over(5, 5 + trust - 1, TRUST_TIME) && is_over(5, 5 + trust, TRUST_TIME));
        follower.polled.store(follower.now(), Ordering::Release);
        assert!(follower.is_current());
    }
}
