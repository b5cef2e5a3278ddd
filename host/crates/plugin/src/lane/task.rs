//! One future on a lane: polled by one thread at a time, when it was woken.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use parking_lot::Mutex;

use super::Shared;

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
/// Woken while it runs: queued again afterwards.
const WOKEN: u8 = 3;
const DONE: u8 = 4;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Task {
    pub handler: u32,
    threads: Arc<Shared>,
    state: AtomicU8,
    cancelled: AtomicBool,
    /// Only the thread that made it RUNNING locks it.
    work: Mutex<Option<Work>>,
}

impl Task {
    pub(super) fn new(
        handler: u32,
        threads: Arc<Shared>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Arc<Self> {
        let (state, cancelled) = (AtomicU8::new(IDLE), AtomicBool::new(false));
        Arc::new(Self { handler, threads, state, cancelled, work: Mutex::new(Some(Box::pin(work))) })
    }

    /// Has it polled, unless it is going to be anyway.
    pub(super) fn wake_up(self: &Arc<Self>) {
        let next = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| match state {
            IDLE => Some(QUEUED),
            RUNNING => Some(WOKEN),
            _ => None,
        });
        if next == Ok(IDLE) {
            self.threads.push(Arc::clone(self));
        }
    }

    /// Has it dropped instead of polled.
    pub(super) fn cancel(self: &Arc<Self>) {
        self.cancelled.store(true, Ordering::Release);
        self.wake_up();
    }

    /// Whether it was given up: its outcome has no receiver any more.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Polls it once. To be called by the thread that took it from the queue.
    pub(super) fn run(self: &Arc<Self>) {
        self.state.store(RUNNING, Ordering::Release);
        let mut work = self.work.lock();
        let is_over = self.is_cancelled() || !self.is_pending(&mut work);
        if is_over {
            self.state.store(DONE, Ordering::Release);
            // A plugin's own panics are contained before they get here.
            let _ = catch_unwind(AssertUnwindSafe(|| *work = None));
            return;
        }
        drop(work);
        if self.state.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            self.state.store(QUEUED, Ordering::Release);
            self.threads.push(Arc::clone(self));
        }
    }

    fn is_pending(self: &Arc<Self>, work: &mut Option<Work>) -> bool {
        let Some(work) = work.as_mut() else { return false };
        let waker = Waker::from(Arc::clone(self));
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut Context::from_waker(&waker))));
        matches!(polled, Ok(Poll::Pending))
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_up();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_up();
    }
}
