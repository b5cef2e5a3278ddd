//! How the exchanges of an instance went.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use cardinal_plugin_abi::error::http_kind;

use super::HttpExchanges;
use crate::{bridge::fault::http_error_kind, fault::Fault};

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a whole answer, of whatever status, or as much of it as the plugin wanted.
    Answered,
    /// It was dropped, or its call or its instance ended.
    Cancelled,
    /// There was no place for it.
    Busy,
    /// As the plugin gets to know: a word of [`http_kind`].
    Failed(&'static str),
}

const NAMES: [&str; 10] = [
    "answered",
    "cancelled",
    "busy",
    http_kind::ADDRESS_REFUSED,
    http_kind::NAME_NOT_FOUND,
    http_kind::CONNECT,
    http_kind::TLS,
    http_kind::TIMED_OUT,
    http_kind::TOO_LARGE,
    http_kind::BROKEN_OFF,
];

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Cancelled => "cancelled",
            Self::Busy => "busy",
            Self::Failed(kind) => kind,
        }
    }
}

/// Since the instance was made.
#[derive(Default)]
pub struct Counters {
    outcomes: [AtomicU64; NAMES.len()],
    opened: AtomicU64,
    reused: AtomicU64,
}

impl Counters {
    /// How many exchanges have ended, by how they did.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES.iter().zip(&self.outcomes).map(|(name, count)| (*name, count.load(Ordering::Relaxed)))
    }

    /// Answers over connections that were opened for them, and over those that were kept.
    pub fn connections(&self) -> [(&'static str, u64); 2] {
        [("opened", self.opened.load(Ordering::Relaxed)), ("reused", self.reused.load(Ordering::Relaxed))]
    }

    pub(in crate::bridge) fn count_connection(&self, is_reused: bool) {
        let counter = if is_reused { &self.reused } else { &self.opened };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self, outcome: Outcome) {
        if let Some(at) = NAMES.iter().position(|name| *name == outcome.name()) {
            self.outcomes[at].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Counts an exchange when it is over. Dropped before, it was cancelled.
pub(in crate::bridge) struct ExchangeCount {
    exchanges: Arc<HttpExchanges>,
    outcome: Outcome,
}

impl ExchangeCount {
    pub(in crate::bridge) fn new(exchanges: Arc<HttpExchanges>) -> Self {
        Self { exchanges, outcome: Outcome::Cancelled }
    }

    pub(in crate::bridge) fn done(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    /// Counts a failure and gives it back.
    pub(in crate::bridge) fn failed(self, fault: Fault) -> Fault {
        let outcome = match &fault {
            Fault::Http(error) => Outcome::Failed(http_error_kind(error)),
            Fault::Busy(_) => Outcome::Busy,
            _ => Outcome::Cancelled,
        };
        self.done(outcome);
        fault
    }
}

impl Drop for ExchangeCount {
    fn drop(&mut self) {
        self.exchanges.counters.count(self.outcome);
    }
}
