//! Which lines are written: what the setting says, and what an operator has changed for a while.

use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::Serialize;
use time::OffsetDateTime;
use tokio::sync::Notify;
use tracing::{Level, Metadata, level_filters::LevelFilter};

use super::targets::{self, ACCESS_TARGET, PLUGIN_TARGET};
use cardinal_base::config::LogLevels;

/// Changes that may be in force at a time.
const MAX_OVERRIDES: usize = 32;

/// The lines of the pools of connections.
const POOL_TARGET: &str = "deadpool.postgres";

/// A level that holds for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Override {
    /// A module, a plugin (`plugin::<name>`), or `*` for everything.
    pub target: String,
    pub level: String,
    #[serde(with = "time::serde::rfc3339")]
    pub until: OffsetDateTime,
    #[serde(skip)]
    filter: Option<LevelFilter>,
}

/// Why a level was not changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_OVERRIDES} levels are already changed")]
pub struct TooManyOverridesError;

#[derive(Debug)]
pub(super) struct Levels {
    setting: LogLevels,
    overrides: Mutex<Vec<Override>>,
    in_force: ArcSwap<LogLevels>,
    /// Whether requests have lines: the one question that is asked for every request.
    access: AtomicBool,
    changed: Notify,
}

impl Levels {
    pub(super) fn new(setting: LogLevels) -> Self {
        let levels = Self {
            in_force: ArcSwap::from_pointee(setting.clone()),
            setting,
            overrides: Mutex::default(),
            access: AtomicBool::new(false),
            changed: Notify::new(),
        };
        levels.put_in_force(levels.setting.clone());
        levels
    }

    /// Whether an event may be written, as far as its place in the code tells.
    pub(super) fn may_write(&self, place: &Metadata<'_>) -> bool {
        let levels = self.in_force.load();
        let max_level = match place.target() {
            PLUGIN_TARGET => levels.max_level_within(PLUGIN_TARGET),
            // Each connection that fails, where the pool's owner logs the outage once.
            POOL_TARGET if levels.get(POOL_TARGET) < LevelFilter::DEBUG => {
                levels.get(POOL_TARGET).min(LevelFilter::ERROR)
            }
            target => levels.get_by([&targets::name(target), &targets::name_by_crate(target)]),
        };
        max_level >= *place.level()
    }

    /// Whether this is written.
    pub(super) fn writes(&self, target: &str, level: Level) -> bool {
        self.in_force.load().get(target) >= level
    }

    /// Whether requests that went well have a line.
    pub(super) fn writes_access(&self) -> bool {
        self.access.load(Ordering::Relaxed)
    }

    /// The highest level of anything.
    pub(super) fn max_level(&self) -> LevelFilter {
        self.in_force.load().max_level()
    }

    pub(super) fn set(
        &self,
        target: Option<&str>,
        level: LevelFilter,
        until: OffsetDateTime,
        now: OffsetDateTime,
    ) -> Result<(), TooManyOverridesError> {
        let target = target.unwrap_or("*");
        {
            let mut overrides = self.overrides.lock();
            let full = overrides.len() >= MAX_OVERRIDES && !overrides.iter().any(|known| known.target == target);
            if full && until > now {
                return Err(TooManyOverridesError);
            }
            overrides.retain(|known| known.target != target);
            overrides.push(Override {
                target: target.to_owned(),
                level: level.to_string(),
                until,
                filter: Some(level),
            });
        }
        self.revert(now);
        self.changed.notify_one();
        Ok(())
    }

    /// Ends what has had its time and puts the rest in force; when the next one ends.
    pub(super) fn revert(&self, now: OffsetDateTime) -> Option<OffsetDateTime> {
        let mut overrides = self.overrides.lock();
        for ended in overrides.extract_if(.., |known| known.until <= now) {
            tracing::info!(changed = ended.target, to = ended.level, "the log level is back to its setting");
        }
        let mut levels = self.setting.clone();
        for known in overrides.iter() {
            if let Some(filter) = known.filter {
                levels.set((known.target != "*").then_some(&known.target), filter);
            }
        }
        self.put_in_force(levels);
        overrides.iter().map(|known| known.until).min()
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn report(&self) -> (String, Vec<Override>) {
        let overrides = self.overrides.lock();
        (self.in_force.load().to_string(), overrides.clone())
    }

    fn put_in_force(&self, levels: LogLevels) {
        self.access.store(levels.get(ACCESS_TARGET) >= Level::INFO, Ordering::Relaxed);
        self.in_force.store(levels.into());
        // Each place in the code remembers whether it is heard.
        tracing::callsite::rebuild_interest_cache();
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, macros::datetime};

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-01-01 00:00 UTC);

    #[test]
    fn a_change_ends_by_itself() {
        let levels = Levels::new("warn,cardinal::db=error".parse().unwrap());
        levels.set(Some("cardinal::db"), LevelFilter::TRACE, NOW + Duration::minutes(5), NOW).unwrap();
        levels.set(None, LevelFilter::INFO, NOW + Duration::minutes(1), NOW).unwrap();
        assert!(levels.writes("cardinal::db::pool", Level::TRACE) && levels.writes("x", Level::INFO));
        assert!(levels.writes_access());
        assert_eq!(levels.revert(NOW + Duration::minutes(1)), Some(NOW + Duration::minutes(5)));
        assert!(levels.writes("cardinal::db", Level::TRACE) && !levels.writes("x", Level::INFO));
        assert!(!levels.writes_access());
        assert_eq!(levels.revert(NOW + Duration::minutes(5)), None);
        assert_eq!(levels.report(), ("warn,cardinal::db=error".to_owned(), Vec::new()));
    }

    #[test]
    fn changes_are_bounded_and_a_past_end_takes_one_back() {
        let levels = Levels::new(LogLevels::default());
        let later = NOW + Duration::minutes(1);
        for n in 0..MAX_OVERRIDES {
            levels.set(Some(&format!("m{n}")), LevelFilter::DEBUG, later, NOW).unwrap();
        }
        assert_eq!(levels.set(Some("one-more"), LevelFilter::DEBUG, later, NOW), Err(TooManyOverridesError));
        levels.set(Some("m3"), LevelFilter::TRACE, later, NOW).unwrap();
        levels.set(Some("m3"), LevelFilter::TRACE, NOW, NOW).unwrap();
        assert_eq!(levels.report().1.len(), MAX_OVERRIDES - 1);
    }
}
