//! How long a call may take.

use std::time::{Duration, Instant};

/// When a call began, and when it must have ended. Both come from one reading of the clock, so a call that missed its
/// end took no less than it was given.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    started: Instant,
    timeout: Duration,
}

impl Deadline {
    /// A call that begins now and may take this long.
    pub fn after(timeout: Duration) -> Self {
        Self { started: Instant::now(), timeout }
    }

    pub const fn timeout(self) -> Duration {
        self.timeout
    }

    /// Since the call began.
    pub fn elapsed(self) -> Duration {
        self.started.elapsed()
    }

    pub fn at(self) -> Instant {
        self.started + self.timeout
    }

    /// Nothing when it has passed.
    pub fn left(self) -> Duration {
        self.at().saturating_duration_since(Instant::now())
    }
}
