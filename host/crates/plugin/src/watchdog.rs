//! Watches the threads that run plugins' code.
//!
//! A thread of the runtime that a plugin blocks may have been the one that waited for the network;
//! the others sleep, and nothing wakes them: the whole core stands still until the plugin comes
//! back. A task that is given to the runtime from outside wakes one of them, so one is given on
//! every tick while a poll does not return. That helps only while a thread is left, so polls of
//! plugins get all threads but one at a time ([`Watchdog::poll_here`]); what finds no place goes to
//! the plugin's own lane. Measured without it: standstills as long as the plugin blocks; with it:
//! 12 ms at most.
//!
//! No clock is read for a poll: it leaves a number in a slot of its thread, and the watchdog counts
//! the ticks that a number stays.

mod slot;

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use cardinal_plugin_abi::CtxId;
use parking_lot::Mutex;
use tokio::runtime::Handle;

pub use self::slot::{Place, Slot};
use crate::library::background;
use cardinal_observe::shard::CachePadded;

/// How often the watchdog looks.
const TICK: Duration = Duration::from_millis(5);
/// Ticks without a poll after which the watchdog sleeps until the next one. Waking it costs a call
/// a few microseconds, so it does not fall asleep between any two.
const IDLE_TICKS: u32 = 200;
/// Ticks after which a poll that has not returned counts as one that blocks: 50 ms. A busy machine
/// can take a thread away for 10.
const BLOCKED_TICKS: u32 = 10;
/// How often a poll that goes on blocking is reported again, in ticks: every 100 ms.
const REPORT_TICKS: u32 = 20;
/// Threads of the runtime that share one count of places; more would meet in one cache line.
const GROUP: usize = 8;
/// Threads that can be watched. What runs on others is sent to its lane.
const SLOTS: usize = 256;

/// Learns that a plugin's code blocks a thread.
pub(crate) trait BlockObserver: Send + Sync {
    /// The poll of a handler has not returned for `so_far`. Told once per poll.
    fn blocks(&self, handler: u32, place: Place, so_far: Duration);
    /// It still has not, and had not at `before`.
    fn still_blocks(&self, handler: u32, place: Place, before: Duration, so_far: Duration);
    /// It has returned after all.
    fn returned(&self, handler: u32, place: Place, after: Duration);
}

/// The watchdog of one runtime. Dropping it ends it.
pub struct Watchdog {
    shared: Arc<Shared>,
    thread: Thread,
}

struct Shared {
    groups: Vec<CachePadded<Group>>,
    slots: Vec<CachePadded<Slot>>,
    plugin_threads: Mutex<Vec<Arc<Slot>>>,
    observers: Mutex<HashMap<CtxId, Weak<dyn BlockObserver>>>,
    blocked: [AtomicUsize; 2],
    started: Instant,
    asleep: AtomicBool,
    ended: AtomicBool,
}

/// Polls of plugins on the core's threads, and how many there may be at a time.
struct Group {
    polls: AtomicUsize,
    max_polls: usize,
}

impl Watchdog {
    /// Starts watching over `runtime`.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn start(runtime: Handle) -> io::Result<Self> {
        let workers = runtime.metrics().num_workers();
        let groups = (workers / GROUP).max(1);
        // Of each group's threads one is left for the core.
        let group = |at| {
            CachePadded(Group {
                polls: AtomicUsize::new(0),
                max_polls: (workers.saturating_sub(at)).div_ceil(groups).saturating_sub(1).max(1),
            })
        };
        let shared = Arc::new(Shared {
            groups: (0..groups).map(group).collect(),
            slots: (0..SLOTS).map(|_| CachePadded::default()).collect(),
            plugin_threads: Mutex::default(),
            observers: Mutex::default(),
            blocked: Default::default(),
            started: Instant::now(),
            asleep: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let watched = Arc::clone(&shared);
        let thread =
            thread::Builder::new().name("plugin-watchdog".to_owned()).spawn(move || watched.watch(&runtime))?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    /// Notifies `observer` when code of `ctx` blocks a thread.
    pub(crate) fn observe(&self, ctx: CtxId, observer: Weak<dyn BlockObserver>) {
        self.shared.observers.lock().insert(ctx, observer);
    }

    /// The end of [`observe`](Self::observe).
    pub fn forget(&self, ctx: CtxId) {
        self.shared.observers.lock().remove(&ctx);
    }

    /// A poll on this thread of the core, until what this gives is dropped. `None` when all threads
    /// but one are polling plugins, unless `anyway`.
    pub(crate) fn poll_here(&self, ctx: CtxId, handler: u32, anyway: bool) -> Option<PollGuard<'_>> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static HOME: usize = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        let shared = &*self.shared;
        let home = HOME.try_with(|home| *home).unwrap_or(SLOTS);
        let Some(CachePadded(slot)) = shared.slots.get(home) else {
            return anyway.then(PollGuard::unwatched);
        };
        let CachePadded(group) = &shared.groups[home % shared.groups.len()];
        // In one order with `sleep`: either it sees this poll, or this sees it asleep.
        if group.polls.fetch_add(1, Ordering::SeqCst) >= group.max_polls && !anyway {
            group.polls.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        self.wake();
        Some(PollGuard { slot: slot.begin(ctx, handler).then_some(slot), group: Some(group) })
    }

    /// A slot for a lane's thread, to be called on it.
    pub(crate) fn plugin_thread(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        slot.thread.store(background::this_thread(), Ordering::Relaxed);
        self.shared.plugin_threads.lock().push(Arc::clone(&slot));
        slot
    }

    /// A poll on a lane's thread.
    pub(crate) fn poll_on_plugin_thread<'s>(&self, slot: &'s Slot, ctx: CtxId, handler: u32) -> PollGuard<'s> {
        let begun = slot.begin(ctx, handler);
        std::sync::atomic::fence(Ordering::SeqCst); // as in `poll_here`
        self.wake();
        PollGuard { slot: begun.then_some(slot), group: None }
    }

    /// How many threads plugins block right now: the core's, and their own.
    pub fn blocked(&self) -> [usize; 2] {
        [Place::Core, Place::Lane].map(|place| self.shared.blocked[place as usize].load(Ordering::Relaxed))
    }

    fn wake(&self) {
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// A poll under way; see [`Watchdog::poll_here`].
pub struct PollGuard<'w> {
    slot: Option<&'w Slot>,
    group: Option<&'w Group>,
}

impl PollGuard<'_> {
    fn unwatched() -> Self {
        Self { slot: None, group: None }
    }
}

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.end();
        }
        if let Some(group) = self.group {
            group.polls.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Shared {
    fn watch(&self, runtime: &Handle) {
        let mut idle = 0;
        while !self.ended.load(Ordering::SeqCst) {
            let ThreadScan { any, held } = self.look();
            if held {
                runtime.spawn(async {}); // wakes a thread of the core, see above
            }
            idle = if any { 0 } else { idle + 1 };
            if idle < IDLE_TICKS { thread::sleep(TICK) } else { self.sleep() }
        }
    }

    fn look(&self) -> ThreadScan {
        let (mut seen, mut blocked) = (ThreadScan::default(), [0; 2]);
        let mut plugin_threads = self.plugin_threads.lock();
        plugin_threads.retain(|slot| Arc::strong_count(slot) > 1);
        let on_plugin_threads: Vec<_> = plugin_threads.clone();
        drop(plugin_threads);
        for slot in self.slots.iter().map(|CachePadded(slot)| slot).chain(on_plugin_threads.iter().map(AsRef::as_ref)) {
            let place = slot.place();
            let ticks = self.look_at(slot, place, &mut seen);
            blocked[place as usize] += usize::from(ticks >= BLOCKED_TICKS);
        }
        for (shown, count) in self.blocked.iter().zip(blocked) {
            shown.store(count, Ordering::Relaxed);
        }
        seen
    }

    /// For how many ticks the slot has been in the same poll.
    fn look_at(&self, slot: &Slot, place: Place, seen: &mut ThreadScan) -> u32 {
        let poll = slot.poll.load(Ordering::Acquire);
        let before = slot.seen.swap(poll, Ordering::Relaxed);
        let ticks = slot.ticks.load(Ordering::Relaxed);
        if poll != before {
            seen.any = true;
            slot.ticks.store(0, Ordering::Relaxed);
            if ticks >= BLOCKED_TICKS {
                let after = self.lasted(slot);
                self.notify(slot, |observer, handler| observer.returned(handler, place, after));
            }
            return 0;
        }
        if poll & 1 == 0 {
            return 0;
        }
        let ticks = ticks.saturating_add(1);
        slot.ticks.store(ticks, Ordering::Relaxed);
        (seen.any, seen.held) = (true, seen.held || place == Place::Core);
        if ticks == 1 {
            slot.since_ms.store(self.now_ms(), Ordering::Relaxed);
            slot.seen_ctx.store(slot.ctx.load(Ordering::Relaxed), Ordering::Relaxed);
            slot.seen_handler.store(slot.handler.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        if place == Place::Lane {
            slot.put_back_if_it_computes(ticks);
        }
        self.report(slot, place, ticks);
        ticks
    }

    /// Of a poll that has not returned: when it begins to block, and now and then while it does.
    fn report(&self, slot: &Slot, place: Place, ticks: u32) {
        if ticks < BLOCKED_TICKS || !(ticks - BLOCKED_TICKS).is_multiple_of(REPORT_TICKS) {
            return;
        }
        // Ticks are what it has had a chance to run for; a clock also counts what a busy machine did not give it.
        let so_far = self.lasted(slot).max(TICK * ticks);
        let before = Duration::from_millis(slot.reported_ms.swap(millis(so_far), Ordering::Relaxed));
        self.notify(slot, |observer, handler| match ticks {
            BLOCKED_TICKS => observer.blocks(handler, place, so_far),
            _ => observer.still_blocks(handler, place, before, so_far),
        });
    }

    /// How long the poll has gone on since it was first seen.
    fn lasted(&self, slot: &Slot) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(slot.since_ms.load(Ordering::Relaxed)))
    }

    fn now_ms(&self) -> u64 {
        millis(self.started.elapsed())
    }

    fn notify(&self, slot: &Slot, report: impl FnOnce(&dyn BlockObserver, u32)) {
        let ctx = slot.seen_ctx.load(Ordering::Relaxed);
        let observer = self.observers.lock().get(&ctx).and_then(Weak::upgrade);
        if let Some(observer) = observer {
            report(&*observer, slot.seen_handler.load(Ordering::Relaxed));
        }
    }

    fn sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        if self.is_quiet() && !self.ended.load(Ordering::SeqCst) {
            thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
    }

    fn is_quiet(&self) -> bool {
        let rests = |slot: &Arc<Slot>| slot.poll.load(Ordering::SeqCst) & 1 == 0;
        self.groups.iter().all(|CachePadded(group)| group.polls.load(Ordering::SeqCst) == 0)
            && self.plugin_threads.lock().iter().all(rests)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What one look over all threads has shown.
#[derive(Default)]
struct ThreadScan {
    /// Something runs, or has since the last look.
    any: bool,
    /// A thread of the core has been in one poll for a tick.
    held: bool,
}

#[cfg(test)]
mod tests;
