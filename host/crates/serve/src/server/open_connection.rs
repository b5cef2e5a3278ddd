//! One connection, as its own task and those that look for an idle one share it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::task::AtomicWaker;

use crate::request::Full;
use cardinal_identity::limit::addresses::Network;

/// One connection, as others see it. Only its own task writes `waits`.
pub(super) struct OpenConnection {
    pub(super) network: Option<Network>,
    pub(super) full: Option<Full>,
    /// Odd while it waits for a request's head, even while a request is under way; grows with each change.
    waits: AtomicU64,
    pub(super) close_asked: AtomicBool,
    pub(super) gone: AtomicBool,
    pub(super) waker: AtomicWaker,
}

impl OpenConnection {
    pub(super) fn new(network: Option<Network>, full: Option<Full>) -> Self {
        Self {
            network,
            full,
            waits: AtomicU64::new(1),
            close_asked: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }
    }

    /// It waits for the head of a request.
    pub(super) fn head_awaited(&self) {
        self.waits.store(self.waits.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
    }

    /// A head is there, or the connection at its end.
    pub(super) fn head_read(&self) {
        let waits = self.waits.load(Ordering::Relaxed);
        self.waits.store(waits + (waits & 1), Ordering::Relaxed);
    }

    /// Which wait it is in, `None` while a request is under way.
    pub(super) fn wait(&self) -> Option<u64> {
        Some(self.waits.load(Ordering::Relaxed)).filter(|waits| waits % 2 == 1)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(super) fn is_asked_to_close(&self) -> bool {
        self.close_asked.load(Ordering::Acquire)
    }

    pub(super) fn ask_to_close(&self) {
        self.close_asked.store(true, Ordering::Release);
        self.waker.wake();
    }
}
