//! How a caller stands.

use super::gcra::Limit;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Key,
    User,
    Address,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::User => "user",
            Self::Address => "address",
        }
    }
}

/// A limit in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub kind: Kind,
    pub limit: Limit,
}

impl Policy {
    pub fn new(kind: Kind, limit: Limit) -> Self {
        Self { kind, limit }
    }
}

/// Where a caller stands after its call.
#[derive(Clone, Debug)]
pub struct RateState {
    pub policy: Policy,
    /// Calls that would be let through now.
    pub remaining: u64,
    /// Nanoseconds until the whole burst is there again.
    pub refill: u64,
}

/// Whole seconds, rounded up: whoever waits that long has waited long enough.
pub fn seconds(nanos: u64) -> u64 {
    nanos.div_ceil(1_000_000_000)
}
