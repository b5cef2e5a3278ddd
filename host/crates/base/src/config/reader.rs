use std::fmt;
use std::path::{Path, PathBuf};

use crate::secret_file;

/// One setting that cannot be used: its variable, and what is wrong with it and how to write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub setting: String,
    pub problem: String,
}

/// Every bad setting of one start, so that an operator does not repair them one start at a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError(pub Vec<Fault>);

impl fmt::Display for SettingsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Fault { setting, problem }) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            write!(out, "{}: {problem}", label(setting))?;
        }
        Ok(())
    }
}

impl SettingsError {
    /// One setting that proved to be wrong only when it was used.
    pub fn one(setting: &str, problem: impl Into<String>) -> Self {
        Self(vec![Fault { setting: setting.to_owned(), problem: problem.into() }])
    }
}

/// Variables that have no flag of their own: the list of processes would show a key.
const WITHOUT_FLAG: [&str; 1] = ["CARDINAL_API_KEY"];

/// A setting by its variable and its flag, as far as it has both.
fn label(setting: &str) -> String {
    if setting.starts_with("--") || WITHOUT_FLAG.contains(&setting) {
        return setting.to_owned();
    }
    let flag = match setting {
        "CARDINAL_URL" => "url".to_owned(),
        _ if setting.starts_with("PLUGIN_SETTINGS_") => "plugin-settings".to_owned(),
        _ => setting.to_ascii_lowercase().replace('_', "-"),
    };
    format!("{setting} (--{flag})")
}

/// Judges settings one after another and collects what is wrong, so that one bad value does not hide the next.
#[derive(Debug, Default)]
pub(super) struct Reader {
    faults: Vec<Fault>,
}

impl Reader {
    pub(super) fn fault(&mut self, setting: impl Into<String>, problem: impl Into<String>) {
        self.faults.push(Fault { setting: setting.into(), problem: problem.into() });
    }

    /// An absent or empty value is `None` (`NAME=` in a container's environment file means "not set").
    pub(super) fn optional<T>(
        &mut self,
        setting: &'static str,
        raw: &Option<String>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = raw.as_deref().map(str::trim).filter(|text| !text.is_empty())?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.fault(setting, problem);
                None
            }
        }
    }

    /// As [`Reader::optional`], for a setting that always has a value.
    pub(super) fn value<T>(
        &mut self,
        setting: &'static str,
        raw: &Option<String>,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> T {
        self.optional(setting, raw, parse).unwrap_or(default)
    }

    /// A comma-separated list; empty items (a trailing comma) are ignored.
    pub(super) fn list<T>(
        &mut self,
        setting: &'static str,
        raw: &Option<String>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let text = raw.as_deref().unwrap_or_default();
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        let mut values = Vec::new();
        for item in items {
            match parse(item) {
                Ok(value) => values.push(value),
                Err(problem) => self.fault(setting, problem),
            }
        }
        values
    }

    /// A secret that is set by itself, or in a file as containers' secrets are; the setting that it came from stands
    /// beside it. Not trimmed but for the end of the file's last line.
    pub(super) fn secret(
        &mut self,
        setting: &'static str,
        raw: &Option<String>,
        file_setting: &'static str,
        file: &Option<String>,
    ) -> SecretSetting {
        let raw = raw.as_deref().filter(|text| !text.trim().is_empty());
        match (raw, self.optional(file_setting, file, |text| absolute(text))) {
            (Some(_), Some(_)) => {
                self.fault(setting, format!("{file_setting} is set, too: keep one of the two"));
                SecretSetting::default()
            }
            (text, None) => SecretSetting { setting, text: text.map(str::to_owned), file: None },
            (None, Some(file)) => match read_secret(&file) {
                Ok(text) => SecretSetting { setting: file_setting, text: Some(text), file: Some(file) },
                Err(problem) => {
                    self.fault(file_setting, format!("{} {problem}", file.display()));
                    SecretSetting::default()
                }
            },
        }
    }

    pub(super) fn finish<T>(self, value: T) -> Result<T, SettingsError> {
        if self.faults.is_empty() { Ok(value) } else { Err(SettingsError(self.faults)) }
    }
}

/// What was set of a secret.
#[derive(Debug, Default)]
pub(super) struct SecretSetting {
    pub setting: &'static str,
    pub text: Option<String>,
    pub file: Option<PathBuf>,
}

/// What is wrong with the file follows its name in a message.
pub(super) fn read_secret(path: &Path) -> Result<String, String> {
    let text = secret_file::read_small(path).map_err(|error| format!("cannot be read: {error}"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    Ok(line.to_owned())
}

/// A whole number within its range.
pub(super) fn number<T>(range: std::ops::RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + fmt::Display,
{
    move |text| match text.parse::<T>() {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(format!("{text:?} is not a whole number from {} to {}", range.start(), range.end())),
    }
}

/// `on` or `off`, and the spellings people try first.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" | "yes" => Ok(true),
        "off" | "false" | "0" | "no" => Ok(false),
        _ => Err(format!("{text:?} is neither on nor off")),
    }
}

/// The path, complete and on one line.
pub(super) fn absolute(text: impl AsRef<Path>) -> Result<PathBuf, String> {
    let path = std::path::absolute(text.as_ref()).map_err(|error| error.to_string())?;
    // Paths travel to the worker as JSON, and into PostgreSQL's command line as text.
    match path.to_str() {
        Some(text) if !text.contains(['\n', '\0']) => Ok(path),
        _ => Err("the path must be UTF-8 text of one line".to_owned()),
    }
}
