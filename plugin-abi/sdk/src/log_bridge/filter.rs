//! Which lines are written: a level for everything, and for targets that differ. One filter for the library, since
//! `tracing` and `log` have one place each for it.

use std::sync::{PoisonError, RwLock};

use crate::Level;

/// The finest level, as its number; 0 is none.
const OFF: u32 = 0;

static FILTER: RwLock<Filter> = RwLock::new(Filter { everything: Level::Info as u32, targets: Vec::new() });

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    everything: u32,
    /// Targets and their levels, the longest first.
    targets: Vec<(String, u32)>,
}

impl Filter {
    pub(super) fn parse(directives: &str) -> Result<Self, String> {
        let mut filter = Self { everything: Level::Info as u32, targets: Vec::new() };
        for directive in directives.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
            match directive.split_once('=') {
                Some((target, name)) => filter.targets.push((target.trim().to_owned(), level(name.trim())?)),
                None => filter.everything = level(directive)?,
            }
        }
        filter.targets.sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
        Ok(filter)
    }

    /// The finest level that passes for any target.
    fn most(&self) -> u32 {
        self.targets.iter().map(|(_, level)| *level).fold(self.everything, u32::max)
    }

    fn passes(&self, target: &str, level: u32) -> bool {
        let is_in =
            |prefix: &str| target.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        let own = self.targets.iter().find(|(prefix, _)| is_in(prefix));
        level <= own.map_or(self.everything, |(_, level)| *level)
    }
}

fn level(name: &str) -> Result<u32, String> {
    match name.to_ascii_lowercase().as_str() {
        "off" => Ok(OFF),
        "error" => Ok(Level::Error as u32),
        "warn" => Ok(Level::Warn as u32),
        "info" => Ok(Level::Info as u32),
        "debug" => Ok(Level::Debug as u32),
        "trace" => Ok(Level::Trace as u32),
        _ => Err(format!("`{name}` is not a level of a log filter: off, error, warn, info, debug or trace")),
    }
}

/// Puts a filter in force; gives the finest level that passes.
pub(super) fn set(filter: Filter) -> u32 {
    let most = filter.most();
    *FILTER.write().unwrap_or_else(PoisonError::into_inner) = filter;
    most
}

/// The filter of a plugin whose author has set none; one that was set stays.
pub(super) fn set_default(plugin: &str) -> u32 {
    let mut filter = FILTER.write().unwrap_or_else(PoisonError::into_inner);
    if filter.targets.is_empty() && filter.everything == Level::Info as u32 {
        filter.targets = vec![(plugin.replace('-', "_"), Level::Trace as u32)];
    }
    filter.most()
}

#[cfg(feature = "tracing")]
pub(super) fn most() -> u32 {
    FILTER.read().unwrap_or_else(PoisonError::into_inner).most()
}

pub(super) fn passes(target: &str, level: u32) -> bool {
    FILTER.read().unwrap_or_else(PoisonError::into_inner).passes(target, level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_target_counts() {
        let filter = Filter::parse("warn, notes=trace,notes::http=off").unwrap();
        for (target, level, passes) in [
            ("notes", Level::Trace, true),
            ("notes::service", Level::Trace, true),
            ("notes::http", Level::Error, false),
            ("notes::httpd", Level::Trace, true),
            ("notesbook", Level::Info, false),
            ("hyper", Level::Warn, true),
            ("hyper", Level::Info, false),
        ] {
            assert_eq!(filter.passes(target, level as u32), passes, "{target} {level:?}");
        }
        assert_eq!(filter.most(), Level::Trace as u32);
        assert!(Filter::parse("notes=loud").is_err() && Filter::parse("notes=").is_err());
        assert_eq!(Filter::parse("").unwrap().most(), Level::Info as u32);
    }
}
