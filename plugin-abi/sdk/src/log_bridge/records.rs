//! The crate `log`: its records, with their target as a field. Key-value pairs of a record are left out.

use log::{LevelFilter, Log, Metadata, Record};
use serde_json::Map;

use super::{filter, write};
use crate::{Level, scope::Origin};

pub(super) struct Bridge;

pub(super) static BRIDGE: Bridge = Bridge;

fn level_of(level: log::Level) -> Level {
    match level {
        log::Level::Error => Level::Error,
        log::Level::Warn => Level::Warn,
        log::Level::Info => Level::Info,
        log::Level::Debug => Level::Debug,
        log::Level::Trace => Level::Trace,
    }
}

pub(super) fn level_filter(most: u32) -> LevelFilter {
    let levels = [LevelFilter::Off, LevelFilter::Error, LevelFilter::Warn, LevelFilter::Info, LevelFilter::Debug];
    usize::try_from(most).ok().and_then(|most| levels.get(most)).copied().unwrap_or(LevelFilter::Trace)
}

impl Log for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        filter::passes(metadata.target(), level_of(metadata.level()) as u32)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let fields = Map::from_iter([("target".to_owned(), record.target().into())]);
            write(Origin::default(), level_of(record.level()), &record.args().to_string(), fields);
        }
    }

    fn flush(&self) {}
}
