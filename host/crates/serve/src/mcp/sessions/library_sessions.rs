//! How many of the protocol library's sessions are kept that no call needs any more: each takes some 80 kB.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use super::Session;

/// For clients that lost an answer on the way. One that comes back too late for it begins a session of the library's
/// anew, which takes it a fraction of a millisecond.
const KEPT: usize = 100;

/// The sessions that have one of the library's, in the order in which it was made.
#[derive(Default)]
pub(in crate::mcp) struct LibrarySessions(Mutex<VecDeque<Weak<Session>>>);

impl LibrarySessions {
    /// Notes that one was made for `session`, and ends the oldest that no call needs where there are too many.
    pub(in crate::mcp) fn note(&self, session: &Arc<Session>) {
        let mut kept = self.0.lock();
        kept.push_back(Arc::downgrade(session));
        // As many as can be in the way: those under way, which come to the end of the queue.
        for _ in KEPT..kept.len() {
            let Some(oldest) = kept.pop_front() else { return };
            if oldest.upgrade().is_some_and(|oldest| !oldest.end_inner()) {
                kept.push_back(oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::sessions::tests::{caller, open, sessions};

    #[tokio::test]
    async fn the_oldest_that_no_call_needs_is_ended() {
        let (sessions, mut all) = (sessions("one"), Vec::new());
        for _ in 0..KEPT + 2 {
            let caller = caller(); // a caller of its own: none displaces another
            let session = sessions.find(&open(&sessions, &caller), &caller).unwrap();
            let call = session.build(async |_| Ok("inner".into())).await.unwrap();
            all.push((session, Some(call)));
        }
        all[1].1 = None;
        for (session, _) in &all {
            sessions.library_sessions.note(session);
        }
        let kept = async |at: usize| all[at].0.inner().await.is_some();
        assert!(kept(0).await && kept(KEPT + 1).await, "a call is under way in them");
        assert!(!kept(1).await);
    }
}
