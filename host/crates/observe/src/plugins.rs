//! What is counted of every plugin, whichever of its generations serves.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::{histogram::Histogram, shard::Counter};

/// How a call of a plugin can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It answered with an error of the 5xx kind.
    Error,
    /// Its reply could not be sent.
    BadReply,
    Panic,
    Timeout,
    /// It had as many calls as it may have at a time, or is being replaced.
    Refused,
}

impl Fault {
    pub const ALL: [Self; 5] = [Self::Error, Self::BadReply, Self::Panic, Self::Timeout, Self::Refused];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::BadReply => "bad-reply",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
        }
    }
}

/// Whose fault it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Plugin,
    Database,
    /// Another server that the plugin asked, as it says itself (502, 503, 504).
    Downstream,
    /// A function of the host's failed.
    Host,
    /// Whose body came too slowly.
    Client,
}

impl Cause {
    pub const ALL: [Self; 5] = [Self::Plugin, Self::Database, Self::Downstream, Self::Host, Self::Client];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Database => "database",
            Self::Downstream => "downstream",
            Self::Host => "host",
            Self::Client => "client",
        }
    }
}

/// Of one plugin.
#[derive(Debug, Default)]
pub struct PluginMeter {
    /// Calls that were let in, their waits for the database included.
    pub calls: Histogram,
    faults: [Counter; Fault::ALL.len()],
    causes: [Counter; Cause::ALL.len()],
    /// Failures of its frontend that browsers have reported.
    pub client_errors: Counter,
    /// Those among them in which it held up the page, or its frame, for seconds.
    pub client_hangs: Counter,
}

impl PluginMeter {
    pub fn called(&self, took: Duration) {
        self.calls.observe(took);
    }

    pub fn failed(&self, fault: Fault) {
        self.faults[fault as usize].count();
    }

    pub fn caused(&self, cause: Cause) {
        self.causes[cause as usize].count();
    }

    pub fn causes(&self, cause: Cause) -> u64 {
        self.causes[cause as usize].read()
    }

    pub fn faults(&self, fault: Fault) -> u64 {
        self.faults[fault as usize].read()
    }
}

/// The meters of all plugins that were ever loaded, by name.
#[derive(Debug, Default)]
pub struct Plugins(Mutex<BTreeMap<String, Arc<PluginMeter>>>);

impl Plugins {
    pub fn meter(&self, name: &str) -> Arc<PluginMeter> {
        let mut meters = self.0.lock();
        Arc::clone(meters.entry(name.to_owned()).or_default())
    }

    pub fn read(&self) -> Vec<(String, Arc<PluginMeter>)> {
        let meters = self.0.lock();
        meters.iter().map(|(name, meter)| (name.clone(), Arc::clone(meter))).collect()
    }
}
