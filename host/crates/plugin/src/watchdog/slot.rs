//! What one thread is doing, as the thread and the watchdog say it to each other.

use std::{
    sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

use cardinal_plugin_abi::CtxId;

use super::BLOCKED_TICKS;
use crate::library::background;

/// A lane's thread that has computed for this long meanwhile runs at idle priority. One that waits costs no other
/// anything, and one that a busy machine gave no time would get none at all then.
const COMPUTED: Duration = Duration::from_millis(20);

/// Where a poll did not return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a thread of the core.
    Core,
    /// On a thread of the plugin's own.
    Lane,
}

impl Place {
    /// As logs and metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Lane => "lane",
        }
    }
}

/// What one thread is doing.
#[derive(Default)]
pub struct Slot {
    /// Odd while a poll is under way; another one for each.
    pub(super) poll: AtomicU64,
    pub(super) ctx: AtomicU64,
    pub(super) handler: AtomicU32,
    /// The number of the lane's thread; 0 for a thread of the core.
    pub(super) thread: AtomicI32,
    /// The lane's thread runs at idle priority.
    pub(super) put_back: AtomicBool,
    // The watchdog's own: what it saw last, and for how many ticks.
    pub(super) seen: AtomicU64,
    /// Whose poll it is: when it has returned, `ctx` and `handler` may be those of the next one.
    pub(super) seen_ctx: AtomicU64,
    pub(super) seen_handler: AtomicU32,
    pub(super) ticks: AtomicU32,
    /// When the poll was first seen and last reported, in milliseconds since the watchdog's start.
    pub(super) since_ms: AtomicU64,
    pub(super) reported_ms: AtomicU64,
    /// What the lane's thread had computed when its poll was first seen, in nanoseconds.
    pub(super) computed: AtomicU64,
}

impl Slot {
    pub(super) fn begin(&self, ctx: CtxId, handler: u32) -> bool {
        let poll = self.poll.load(Ordering::Relaxed);
        if poll & 1 == 1 {
            return false; // a drop inside a poll: the outer one is watched
        }
        self.ctx.store(ctx, Ordering::Relaxed);
        self.handler.store(handler, Ordering::Relaxed);
        self.poll.store(poll + 1, Ordering::Release);
        true
    }

    pub(super) fn end(&self) {
        self.poll.store(self.poll.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    pub(super) fn place(&self) -> Place {
        if self.thread.load(Ordering::Relaxed) == 0 { Place::Core } else { Place::Lane }
    }

    /// Of a lane's thread that has been in the same poll for so many ticks.
    pub(super) fn put_back_if_it_computes(&self, ticks: u32) {
        if (ticks > 1 && ticks < BLOCKED_TICKS) || self.was_put_back() {
            return;
        }
        let thread = self.thread.load(Ordering::Relaxed);
        let Some(computed) = background::computed(thread) else { return };
        if ticks == 1 {
            let nanoseconds = u64::try_from(computed.as_nanos()).unwrap_or(u64::MAX);
            self.computed.store(nanoseconds, Ordering::Relaxed);
            return;
        }
        let before = Duration::from_nanos(self.computed.load(Ordering::Relaxed));
        if computed.saturating_sub(before) < COMPUTED {
            return;
        }
        // The mark first, then a look whether the poll still goes on: the thread looks in the other order, so that
        // either it sees the mark and ends, or we see that it is over and leave the next poll alone.
        self.put_back.store(true, Ordering::Relaxed);
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.poll.load(Ordering::Relaxed) == self.seen.load(Ordering::Relaxed) {
            background::put_back(thread);
        }
    }

    /// Whether the thread got a low priority for what it did, after its poll is over.
    pub(crate) fn was_put_back(&self) -> bool {
        std::sync::atomic::fence(Ordering::SeqCst);
        self.put_back.load(Ordering::Relaxed)
    }
}
