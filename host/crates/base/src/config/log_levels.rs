use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tracing::level_filters::LevelFilter;

use crate::log_targets::{is_within, resolve};

/// The most directives of one setting.
const DIRECTIVES_LIMIT: usize = 64;

/// Libraries that write several INFO lines for each request: at the default level only their warnings are logged.
const VERBOSE_LIBRARIES: [&str; 1] = ["rmcp"];

/// What is logged: a level for everything, and others for modules (`cardinal::db`) and plugins (`plugin::supplier`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogLevels {
    everything: LevelFilter,
    /// A module and what stands below it; the longest that fits counts.
    modules: Vec<(String, LevelFilter)>,
}

impl Default for LogLevels {
    fn default() -> Self {
        Self { everything: LevelFilter::INFO, modules: Vec::new() }
    }
}

impl LogLevels {
    /// The level of a module.
    pub fn get(&self, module: &str) -> LevelFilter {
        self.get_by([module, module])
    }

    /// The level of a module that has two names.
    pub fn get_by(&self, names: [&str; 2]) -> LevelFilter {
        let fits = self.modules.iter().filter(|(own, _)| names.iter().any(|name| is_within(name, own)));
        fits.max_by_key(|(own, _)| own.len()).map_or_else(|| self.unnamed(names[0]), |(_, level)| *level)
    }

    /// The level of a module that no directive names. `debug` and `trace` mean everything.
    fn unnamed(&self, module: &str) -> LevelFilter {
        let is_verbose = VERBOSE_LIBRARIES.iter().any(|library| is_within(module, library));
        if is_verbose && self.everything == LevelFilter::INFO { LevelFilter::WARN } else { self.everything }
    }

    /// The highest level of a module and of everything below it.
    pub fn max_level_within(&self, module: &str) -> LevelFilter {
        let below = self.modules.iter().filter(|(own, _)| is_within(own, module)).map(|(_, level)| *level);
        below.fold(self.get(module), LevelFilter::max)
    }

    /// The highest level of anything.
    pub fn max_level(&self) -> LevelFilter {
        self.modules.iter().map(|(_, level)| *level).fold(self.everything, LevelFilter::max)
    }

    /// Sets the level of a module, or of everything.
    pub fn set(&mut self, module: Option<&str>, level: LevelFilter) {
        let Some(module) = module else {
            self.everything = level;
            return;
        };
        match self.modules.iter_mut().find(|(own, _)| own == module) {
            Some((_, own)) => *own = level,
            None => self.modules.push((module.to_owned(), level)),
        }
    }
}

/// A level by its name.
pub fn level(text: &str) -> Option<LevelFilter> {
    match text.to_ascii_lowercase().as_str() {
        "off" => Some(LevelFilter::OFF),
        "error" => Some(LevelFilter::ERROR),
        "warn" => Some(LevelFilter::WARN),
        "info" => Some(LevelFilter::INFO),
        "debug" => Some(LevelFilter::DEBUG),
        "trace" => Some(LevelFilter::TRACE),
        _ => None,
    }
}

impl FromStr for LogLevels {
    type Err = String;

    /// Strict: a misspelt level must not be taken for the name of a module, or all goes silent.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |what: &str| {
            format!("{what:?} is not a level: write off, error, warn, info, debug or trace, or info,module=debug")
        };
        let mut levels = Self::default();
        let directives = text.split(',').map(str::trim).filter(|directive| !directive.is_empty());
        for (count, directive) in directives.enumerate() {
            if count == DIRECTIVES_LIMIT {
                return Err(format!("more than {DIRECTIVES_LIMIT} modules"));
            }
            let (module, name) = match directive.split_once('=') {
                Some((module, name)) => (Some(module.trim()), name.trim()),
                None => (None, directive),
            };
            let level = level(name).ok_or_else(|| bad(directive))?;
            levels.set(module.map(resolve).transpose()?.as_deref(), level);
        }
        Ok(levels)
    }
}

impl fmt::Display for LogLevels {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.everything)?;
        self.modules.iter().try_for_each(|(module, level)| write!(out, ",{module}={level}"))
    }
}

impl TryFrom<String> for LogLevels {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<LogLevels> for String {
    fn from(levels: LogLevels) -> Self {
        levels.to_string()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_module_counts() {
        let levels: LogLevels = "warn, cardinal=info,cardinal::db=debug,plugin::price-watch=trace,".parse().unwrap();
        for (module, level) in [
            ("hyper", LevelFilter::WARN),
            ("cardinal", LevelFilter::INFO),
            ("cardinal::dbx", LevelFilter::INFO),
            ("cardinal::db", LevelFilter::DEBUG),
            ("cardinal::db::pool", LevelFilter::DEBUG),
            ("plugin::price-watch", LevelFilter::TRACE),
            ("plugin::price", LevelFilter::WARN),
        ] {
            assert_eq!(levels.get(module), level, "{module}");
        }
        assert_eq!((levels.max_level_within("plugin"), levels.max_level()), (LevelFilter::TRACE, LevelFilter::TRACE));
        assert_eq!(levels.to_string().parse::<LogLevels>().unwrap(), levels);
    }

    #[test]
    fn a_verbose_library_is_quiet_until_it_is_asked_for() {
        let level = |text: &str| text.parse::<LogLevels>().unwrap().get("rmcp::service");
        for (text, expected) in [
            ("", LevelFilter::WARN),
            ("info", LevelFilter::WARN),
            ("info,rmcp=info", LevelFilter::INFO),
            ("error", LevelFilter::ERROR),
            ("debug", LevelFilter::DEBUG),
        ] {
            assert_eq!(level(text), expected, "{text:?}");
        }
        assert_eq!(LogLevels::default().get("rmcpx"), LevelFilter::INFO);
        assert_eq!(LogLevels::default().to_string(), "info");
    }

    #[test]
    fn what_is_misspelt_is_refused() {
        for text in [
            "loud",
            "info,cardinal::stoer=debug",
            "info,cardinal::db=verbose",
            "cardinal::db",
            "a b=info",
            "=info",
            "cardinal:=info",
            "::=info",
        ] {
            assert!(text.parse::<LogLevels>().is_err(), "{text:?} was taken");
        }
    }
}
