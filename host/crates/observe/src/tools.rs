//! What is counted of tool calls, by tool and outcome.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;

use super::histogram::{Histogram, Reading};

/// Tools that are counted by name; beyond it they are counted together. Plugins bring tools, and could bring any
/// number.
const MAX_TOOLS: usize = 1_000;
/// The label of tools beyond [`MAX_TOOLS`].
const OTHER: &str = "other";

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    /// The tool answered with an error, in time or not.
    Error,
    InvalidArguments,
    /// A person would have had to confirm it.
    Unconfirmed,
    /// Its caller has called the tool too often.
    RateLimited,
    Cancelled,
    /// The host failed.
    Broken,
}

impl Outcome {
    pub const ALL: [Self; 7] = [
        Self::Ok,
        Self::Error,
        Self::InvalidArguments,
        Self::Unconfirmed,
        Self::RateLimited,
        Self::Cancelled,
        Self::Broken,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::InvalidArguments => "invalid-arguments",
            Self::Unconfirmed => "unconfirmed",
            Self::RateLimited => "rate-limited",
            Self::Cancelled => "cancelled",
            Self::Broken => "broken",
        }
    }
}

/// Of one tool.
#[derive(Debug, Default)]
struct ToolMeter([OnceLock<Histogram>; Outcome::ALL.len()]);

/// The meters of all tools that were ever called, by name.
#[derive(Debug, Default)]
pub struct Tools(Mutex<BTreeMap<String, Arc<ToolMeter>>>);

impl Tools {
    /// Counts a call.
    pub fn observe(&self, tool: &str, outcome: Outcome, took: Duration) {
        self.meter(tool).0[outcome as usize].get_or_init(Histogram::default).observe(took);
    }

    fn meter(&self, tool: &str) -> Arc<ToolMeter> {
        let mut meters = self.0.lock();
        if let Some(known) = meters.get(tool) {
            return Arc::clone(known);
        }
        let name = if meters.len() < MAX_TOOLS { tool } else { OTHER };
        Arc::clone(meters.entry(name.to_owned()).or_default())
    }

    /// What was observed, by tool and outcome.
    pub fn read(&self) -> Vec<(String, Outcome, Reading)> {
        let meters = self.0.lock().clone();
        let mut read = Vec::new();
        for (tool, meter) in meters {
            for outcome in Outcome::ALL {
                if let Some(histogram) = meter.0[outcome as usize].get() {
                    read.push((tool.clone(), outcome, histogram.read()));
                }
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_beyond_the_limit_are_counted_together() {
        let tools = Tools::default();
        for number in 0..MAX_TOOLS + 5 {
            tools.observe(&format!("tool_{number}"), Outcome::Ok, Duration::from_millis(1));
        }
        tools.observe("tool_0", Outcome::Error, Duration::from_millis(1));
        let read = tools.read();
        let count = |name: &str, outcome| {
            let found = read.iter().find(|(tool, ended, _)| tool == name && *ended == outcome);
            found.map_or(0, |(_, _, reading)| reading.buckets.iter().sum::<u64>())
        };
        assert_eq!(count(OTHER, Outcome::Ok), 5);
        assert_eq!((count("tool_0", Outcome::Ok), count("tool_0", Outcome::Error)), (1, 1));
        assert_eq!(read.len(), MAX_TOOLS + 2);
    }
}
