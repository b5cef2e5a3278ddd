//! Metrics, log lines, spans and trace context.
//!
//! What is absent: all that is measured. Whoever counts or logs depends on this crate; it knows none of them.

pub mod exposition;
mod histogram;
pub mod log;
pub mod meter;
pub mod plugins;
pub mod process;
pub mod recent;
pub mod request_timing;
pub mod shard;
pub mod spans;
pub mod tools;
pub mod trace;
pub mod traffic;

use time::OffsetDateTime;

use self::{meter::Requests, plugins::Plugins, shard::Gauge, spans::Spans, tools::Tools, traffic::Traffic};

/// What is counted while the worker serves.
#[derive(Debug)]
pub struct Telemetry {
    pub requests: Requests,
    pub plugins: Plugins,
    pub tools: Tools,
    pub traffic: Traffic,
    pub spans: Spans,
    /// Open connections of all listeners.
    pub connections: Gauge,
    pub started: OffsetDateTime,
    /// How often the supervisor had to start the worker again before this one.
    pub worker_restarts: u64,
}

impl Telemetry {
    pub fn new(started: OffsetDateTime, worker_restarts: u64, spans: Spans) -> Self {
        Self {
            requests: Requests::default(),
            plugins: Plugins::default(),
            tools: Tools::default(),
            traffic: Traffic::default(),
            spans,
            connections: Gauge::default(),
            started,
            worker_restarts,
        }
    }
}
