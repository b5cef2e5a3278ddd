//! Limits of single tools: a budget for each caller and tool.

use std::{sync::Arc, time::Instant};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{
    Limits,
    bucket::{Bucket, TakeOutcome},
    gcra::Limit,
    refused,
};
use crate::error::AuthError;

/// A call of a tool that is charged to its caller. Dropped without [`ToolCharge::keep`], it has cost nothing.
#[derive(Debug)]
pub struct ToolCharge {
    bucket: Arc<Bucket>,
    limit: Limit,
    is_kept: bool,
}

impl ToolCharge {
    /// The call runs.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for ToolCharge {
    fn drop(&mut self) {
        if !self.is_kept {
            self.bucket.give_back(self.limit);
        }
    }
}

impl Limits {
    /// Charges a call of `tool` to its caller, a key or a user. A refused call costs nothing.
    ///
    /// # Errors
    /// When the caller has called the tool too often, with the time to wait.
    pub fn charge_tool(&self, caller: Uuid, tool: &str, limit: Limit) -> Result<ToolCharge, AuthError> {
        let now = self.at(Instant::now());
        let bucket = self.buckets.get_or_create(subject(caller, tool), limit, now);
        match bucket.take(limit, now, self.buckets.hosts()) {
            TakeOutcome::Admitted { .. } => Ok(ToolCharge { bucket, limit, is_kept: false }),
            TakeOutcome::Refused { wait, .. } => Err(refused("This tool was called too often.", wait)),
        }
    }
}

/// Whose budget it is, the same on every host.
fn subject(caller: Uuid, tool: &str) -> Uuid {
    let digest = Sha256::new().chain_update(caller).chain_update(tool).finalize();
    digest.first_chunk().copied().map_or(caller, Uuid::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_a_budget_for_each_tool_and_what_did_not_run_costs_nothing() {
        let (limits, limit) = (Limits::new(6000), Limit::new(1, 2));
        let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
        for _ in 0..3 {
            drop(limits.charge_tool(one, "a", limit).unwrap());
        }
        for _ in 0..2 {
            limits.charge_tool(one, "a", limit).unwrap().keep();
        }
        let AuthError::TooOften { retry_after, .. } = limits.charge_tool(one, "a", limit).unwrap_err() else {
            panic!()
        };
        assert!((1..=60).contains(&retry_after), "{retry_after}");
        assert!(limits.charge_tool(one, "b", limit).is_ok() && limits.charge_tool(other, "a", limit).is_ok());
    }
}
