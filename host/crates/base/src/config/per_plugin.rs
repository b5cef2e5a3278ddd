//! A setting that can differ per plugin: `lane`, or `auto,supplier=inline,price-watch=lane`.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a plugin's calls run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ExecutionMode")]
pub enum Execution {
    /// On the core's threads once they have shown to be quick, and off them when they block.
    #[default]
    Auto,
    /// On the core's threads, whatever they do.
    Inline,
    /// On threads of the plugin's own.
    Lane,
}

/// What becomes of a plugin whose calls go wrong again and again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BreakerMode {
    /// Its calls are refused for a while.
    #[default]
    On,
    /// It is reported, and nothing is refused.
    Observe,
}

/// A word that a setting takes.
pub trait Word: Copy + Default + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl Word for Execution {
    const WORDS: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("inline", Self::Inline), ("lane", Self::Lane)];
}

impl Word for BreakerMode {
    const WORDS: &'static [(&'static str, Self)] = &[("on", Self::On), ("observe", Self::Observe)];
}

/// One word for all plugins, and others for some by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerPlugin<T> {
    everyone: T,
    by_name: BTreeMap<String, T>,
}

impl<T: Word> PerPlugin<T> {
    /// The same for all.
    pub fn everyone(everyone: T) -> Self {
        Self { everyone, by_name: BTreeMap::new() }
    }

    /// What holds for a plugin.
    pub fn get(&self, plugin: &str) -> T {
        self.by_name.get(plugin).copied().unwrap_or(self.everyone)
    }

    /// From items of `word` and `name=word`.
    pub(super) fn collect(items: Vec<(Option<String>, T)>) -> Self {
        let mut setting = Self::everyone(T::default());
        for (plugin, word) in items {
            match plugin {
                Some(plugin) => drop(setting.by_name.insert(plugin, word)),
                None => setting.everyone = word,
            }
        }
        setting
    }

    /// One item of the list.
    pub(super) fn item(text: &str) -> Result<(Option<String>, T), String> {
        let (plugin, word) = split_item(text);
        let found = T::WORDS.iter().find(|(known, _)| *known == word);
        let Some((_, value)) = found else {
            let words = T::WORDS.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            return Err(format!("{word:?} is not one of {words}; write WORD for all plugins or NAME=WORD for one"));
        };
        match plugin {
            Some(name) if !is_name(name) => Err(format!("{name:?} is not the name of a plugin")),
            plugin => Ok((plugin.map(str::to_owned), *value)),
        }
    }
}

/// The plugin that an item of a list names, if it names one, and what holds for it.
pub(super) fn split_item(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((plugin, value)) => (Some(plugin.trim()), value.trim()),
        None => (None, text),
    }
}

pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

impl<T: Word + PartialEq> fmt::Display for PerPlugin<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |value: &T| T::WORDS.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word);
        out.write_str(word(&self.everyone))?;
        self.by_name.iter().try_for_each(|(name, value)| write!(out, ",{name}={}", word(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_for_all_and_others_for_some() {
        let items = ["lane", "supplier=inline"].map(|text| PerPlugin::<Execution>::item(text).unwrap());
        let setting = PerPlugin::collect(items.into());
        assert_eq!((setting.get("supplier"), setting.get("gallery")), (Execution::Inline, Execution::Lane));
        assert_eq!(setting.to_string(), "lane,supplier=inline");
        assert_eq!(PerPlugin::<Execution>::default().to_string(), "auto");
        for bad in ["fast", "supplier=", "supplier=fast", "=lane", "Supplier=lane", "lane=supplier"] {
            assert!(PerPlugin::<Execution>::item(bad).is_err(), "{bad}");
        }
    }
}
