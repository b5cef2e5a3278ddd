//! `manifest.json`: what a plugin says of itself. Pure: bytes in, manifest or problems out.
//!
//! Every problem names its place (a JSON pointer), what was found and what was expected; all of
//! them are reported at once. An unknown field is only a warning, so that a plugin made
//! for a later host still loads.

use std::time::Duration;

use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::refusal::{Code, Refusal};

mod contributes;
mod field;
mod jobs;
mod mcp;
mod read;

pub use contributes::{CardAction, CardTab, Contributes, ListColumn, PluginPage};
pub use jobs::{DeclaredJob, JITTER_LIMIT, JOB_HANDLER_PREFIX, JOB_MINUTES_LIMIT, JOBS_LIMIT, ScheduledJob};
pub use mcp::{Prompt, PromptArgument, PromptMessage, PromptRole, TextPart, Tool, ToolRate, text_parts};
pub use read::check_template;
pub(crate) use read::json;

/// JSON Schema of `manifest.json`, for editors. The reader above decides.
pub const SCHEMA: &str = include_str!("manifest/schema.json");

/// The longest plugin name.
pub const NAME_LIMIT: usize = 40;
/// The longest path of a declared route.
pub const PATH_LIMIT: usize = 500;
/// The longest tool name that MCP allows.
pub const TOOL_NAME_LIMIT: usize = 128;
/// What most MCP clients take; a longer name is warned about.
pub(crate) const TOOL_NAME_ADVICE: usize = 64;
/// The longest description of a tool, and the largest tool in all: every `tools/list` of every MCP client carries them.
pub(crate) const TOOL_DESCRIPTION_LIMIT: usize = 4 << 10;
pub(crate) const TOOL_BYTES_LIMIT: usize = 64 << 10;
/// The most tools, contributions of each sort and routes of one plugin.
pub const TOOLS_LIMIT: usize = 64;
pub(crate) const TABS_LIMIT: usize = 32;
pub(crate) const PAGES_LIMIT: usize = 8;
pub const COLUMNS_LIMIT: usize = 16;
pub(crate) const ACTIONS_LIMIT: usize = 16;
pub const ROUTES_LIMIT: usize = 256;
/// The most features that a manifest may require.
pub(crate) const REQUIRES_LIMIT: usize = 64;
/// A request body when the manifest says nothing: 1 MiB.
pub const BODY_DEFAULT: u64 = 1 << 20;
/// The largest request body that a manifest may ask for: 64 MiB.
pub const BODY_LIMIT: u64 = 64 << 20;
/// The time of a call when the manifest says nothing.
pub(crate) const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// The longest time that a manifest may ask for.
pub(crate) const TIMEOUT_LIMIT: Duration = Duration::from_secs(600);
/// Calls at the same time when the manifest says nothing.
pub(crate) const CONCURRENCY_DEFAULT: u32 = 1_024;
/// The most calls at the same time that a manifest may ask for.
pub(crate) const CONCURRENCY_LIMIT: u32 = 65_536;
/// Database connections of a plugin when the manifest says nothing.
pub const CONNECTIONS_DEFAULT: u32 = 4;
/// The most database connections that a manifest may ask for: the role's own CONNECTION LIMIT.
pub(crate) const CONNECTIONS_LIMIT: u32 = 8;

/// Names that would be mistaken for the core's own schemas, paths or scopes.
const RESERVED: [&str; 9] = ["core", "host", "cardinal", "public", "system", "admin", "api", "plugin", "mcp"];

/// A manifest that keeps every rule of contract 5.2.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub name: String,
    pub version: Version,
    pub title: Option<String>,
    pub description: Option<String>,
    pub author: Option<String>,
    pub engine: Engine,
    /// Features that the host must have: [`crate::compat::FEATURES`].
    pub requires: Vec<String>,
    pub contributes: Contributes,
    pub provides_kinds: Vec<String>,
    pub reads_kinds: Vec<String>,
    /// The entry point, relative to the package's `frontend` folder.
    pub frontend_main: Option<String>,
    /// `None`: the plugin has no routes.
    pub backend: Option<Backend>,
    pub tools: Vec<Tool>,
    pub prompts: Vec<Prompt>,
    /// JSON Schema of the operator's settings for the plugin.
    pub settings_schema: Option<Value>,
    pub limits: Limits,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    pub core_version: VersionReq,
    pub plugin_api_version: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    pub api_prefix: String,
    /// The exact set of routes; `None`: whatever the library exports.
    pub routes: Option<Vec<DeclaredRoute>>,
    pub jobs: Vec<DeclaredJob>,
    pub schedule: Vec<ScheduledJob>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredRoute {
    pub method: http::Method,
    pub path: String,
    pub handler: Option<String>,
    pub summary: Option<String>,
    pub scope: Option<Access>,
    pub timeout: Option<Duration>,
    pub max_body_bytes: Option<u64>,
    pub request_schema: Option<Value>,
    pub response_schema: Option<Value>,
}

/// The half of `plugin:<name>:…` that a route or tool needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    Read,
    Write,
}

impl Access {
    pub fn as_str(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
        }
    }

    /// What a route needs when the manifest says nothing.
    pub fn from_method(method: &http::Method) -> Self {
        if matches!(*method, http::Method::GET | http::Method::HEAD) { Access::Read } else { Access::Write }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub max_concurrency: u32,
    pub timeout: Duration,
    pub db_connections: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_concurrency: CONCURRENCY_DEFAULT, timeout: TIMEOUT_DEFAULT, db_connections: CONNECTIONS_DEFAULT }
    }
}

/// One thing that is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    /// A JSON pointer; empty = the whole document.
    pub pointer: String,
    pub expected: String,
    pub found: String,
}

/// Something to mention that stops nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    pub pointer: String,
    pub message: String,
}

/// Everything that is wrong with a manifest; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl From<Problems> for Refusal {
    /// The first problem gives the code and both values, the sentence names all places.
    fn from(Problems(problems): Problems) -> Self {
        let Some(first) = problems.first() else {
            return Refusal::new(Code::BadManifest, "manifest.json is not a valid manifest.");
        };
        let place = |problem: &Problem| match problem.pointer.as_str() {
            "" => "the document".to_owned(),
            pointer => pointer.to_owned(),
        };
        let mut reason = format!("manifest.json is invalid at {}.", place(first));
        if problems.len() > 1 {
            let others: Vec<_> = problems[1..]
                .iter()
                .map(|problem| format!("{} (expected {}, found {})", place(problem), problem.expected, problem.found))
                .collect();
            reason.push_str(&format!(" Also: {}.", others.join("; ")));
        }
        Refusal::new(first.code, reason).expected(format!("{}: {}", place(first), first.expected)).found(format!(
            "{}: {}",
            place(first),
            first.found
        ))
    }
}

impl Manifest {
    /// Reads and checks `manifest.json`.
    pub fn read(bytes: &[u8]) -> Result<(Manifest, Vec<Warning>), Problems> {
        read::manifest(bytes)
    }

    /// What the Admin UI calls the plugin.
    pub fn display_title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// The settings of a plugin for which the operator has set none.
    pub fn default_settings(&self) -> Map<String, Value> {
        self.settings_schema.as_ref().map(defaults).unwrap_or_default()
    }

    /// What it does outside of calls.
    pub fn jobs(&self) -> &[DeclaredJob] {
        self.backend.as_ref().map_or(&[], |backend| &backend.jobs)
    }

    /// When the host starts some of its jobs.
    pub fn schedule(&self) -> &[ScheduledJob] {
        self.backend.as_ref().map_or(&[], |backend| &backend.schedule)
    }

    pub fn api_prefix(&self) -> Option<&str> {
        self.backend.as_ref().map(|backend| backend.api_prefix.as_str())
    }
}

/// What a manifest that may be wrong everywhere else says of who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    pub name: Option<String>,
    pub api_prefix: Option<String>,
}

/// Reads what can be read, to say which plugin is refused and which routes are out of service.
pub fn hints(bytes: &[u8]) -> Hints {
    let Ok(value) = json(bytes) else { return Hints::default() };
    let name = value.get("name").and_then(Value::as_str).filter(|name| is_kebab(name)).map(str::to_owned);
    let api_prefix = value.get("backend").and_then(|backend| match backend.get("apiPrefix") {
        Some(prefix) => prefix.as_str().filter(|prefix| is_prefix(prefix)).map(str::to_owned),
        None => name.clone(),
    });
    Hints { name, api_prefix }
}

/// Whether plugin routes may stand below it: 1 to 40 of a-z, 0-9 and hyphens.
pub fn is_prefix(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=NAME_LIMIT).contains(&text.len()) && text.bytes().all(plain)
}

/// Lower-case words of letters and digits, joined by single hyphens, the first of them beginning
/// with a letter; at most 40 characters.
pub fn is_kebab(text: &str) -> bool {
    let word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.len() <= NAME_LIMIT && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.split('-').all(word)
}

/// Whether a plugin may not be called so.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || name == "pg" || name.starts_with("pg-")
}

/// A relative name that stays below its folder on every system: no empty, `.` or `..` part, no
/// backslash, colon or control character.
pub(crate) fn is_plain_relative(path: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    let plain = |c: char| !c.is_control() && !matches!(c, '\\' | ':');
    path.len() <= PATH_LIMIT && path.chars().all(plain) && path.split('/').all(part)
}

/// The defaults of the schema's own properties.
pub fn defaults(schema: &Value) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let default = |(name, property): (&String, &Value)| Some((name.clone(), property.get("default")?.clone()));
    properties.into_iter().flatten().filter_map(default).collect()
}

#[cfg(test)]
mod tests;
