//! The one clock. Everything that asks for the time takes it as a parameter, so that tests turn
//! the hands instead of sleeping.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use time::OffsetDateTime;

/// Where the time comes from.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's own.
    #[default]
    System,
    /// Hands that a test turns: microseconds since 1970.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// A clock that stands still at `at` until it is moved.
    pub fn manual(at: OffsetDateTime) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(micros(at))))
    }

    /// The time, UTC.
    pub fn now(&self) -> OffsetDateTime {
        match self {
            // The database keeps microseconds: what is shown before it was stored is what is read again.
            Self::System => {
                let now = OffsetDateTime::now_utc();
                now.replace_nanosecond(now.microsecond() * 1000).unwrap_or(now)
            }
            Self::Manual(hands) => {
                let micros = i128::from(hands.load(Ordering::Relaxed));
                OffsetDateTime::from_unix_timestamp_nanos(micros * 1000).unwrap_or(OffsetDateTime::UNIX_EPOCH)
            }
        }
    }

    /// Seconds since 1970, never negative.
    pub fn unix(&self) -> u64 {
        u64::try_from(self.now().unix_timestamp()).unwrap_or(0)
    }

    /// Turns the hands of a manual clock; the system's own is left alone.
    pub fn advance(&self, by: std::time::Duration) {
        if let Self::Manual(hands) = self {
            hands.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::Relaxed);
        }
    }
}

fn micros(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1000).unwrap_or(i64::MAX)
}
