//! A host in one file: the core's tables, every plugin's schema and tables, and the few files beside the database. It
//! is written and read through the host's own connections, so that it needs no pg_dump, and goes from any version of
//! PostgreSQL to any other and from any kind of login to any other.
//!
//! A plugin's tables are not described but made again: the archive holds each schema.sql that was run, in order, and a
//! restore runs them as they were run then. A plugin whose tables cannot be read or filled is left out, with its name
//! and why: it is not to cost everybody else theirs. What an administrator changed in a plugin's schema by hand is
//! therefore not in it; a restore that would lose a column by that is refused.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub mod archive;
pub mod make;
pub mod restore;

use cardinal_schema::dump::{Sequence, Table};

/// Raised when an older program could not restore the archive any more.
const FORMAT: u32 = 1;
const PRODUCT: &str = "cardinal";
const HEAD: &str = "cardinal-backup.json";
const MANIFEST: &str = "manifest.json";
const LOCK_MEMBER: &str = "files/plugins.lock";
const SETTINGS_MEMBER: &str = "files/settings.json";
/// In the archive only when asked for. Without it everybody has to log in again; keys and passwords go on counting.
const TOKEN_SECRET_MEMBER: &str = "secrets/token-secret";
/// Likewise. Opens the secrets among plugins' settings; without it they open only where the database's secret is the
/// same.
const SEALING_KEY_MEMBER: &str = "secrets/settings-key";

/// The archive's first member: what is needed to tell whether the rest can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub product: String,
    pub format: u32,
    pub core: String,
    pub made_at: String,
    /// The core's migrations that its tables come from, see `cardinal_schema::migrate::applied`.
    pub migrations: Vec<String>,
}

/// The archive's last member; without it the archive was cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub members: Vec<Member>,
    pub tables: Vec<Rows>,
    pub sequences: Vec<Sequence>,
    pub plugins: Vec<Plugin>,
    /// Whose tables could not be read.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    pub secrets: bool,
}

/// A plugin whose tables are not in an archive, or not restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub plugin: String,
    pub why: String,
    /// Whether the operator wanted it so.
    #[serde(skip)]
    pub is_asked: bool,
}

impl LeftOut {
    fn failed(plugin: &str, error: &anyhow::Error) -> Self {
        Self { plugin: plugin.to_owned(), why: format!("{error:#}"), is_asked: false }
    }

    fn note(&self, progress: &mut dyn Progress) {
        progress.note(&format!("plugin {} is left out: {}", self.plugin, self.why));
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub name: String,
    pub size: u64,
    pub sha256: String,
}

/// A table's rows, in members `data/<number>/<part>.copy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    #[serde(flatten)]
    pub table: Table,
    pub number: usize,
    pub rows: u64,
}

/// A plugin's schema.sql files, in members `schema/<name>/<number>.sql`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plugin {
    pub name: String,
    /// The plugin's version at each step.
    pub steps: Vec<String>,
}

/// What a command tells while it works.
pub trait Progress {
    /// So many rows of this table are done.
    fn rows(&mut self, what: &str, rows: u64);
    /// A table or another part is done.
    fn done(&mut self, what: &str);
    /// Something that an operator should know.
    fn note(&mut self, text: &str);
}

/// What was done, for the last lines of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub cards: u64,
    pub rows: u64,
    pub plugins: Vec<String>,
    pub secrets: bool,
    /// Plugins whose secret settings do not open here: they have to be given again.
    pub unreadable: Vec<String>,
    pub without: Vec<LeftOut>,
    /// Files that were put in their place.
    pub files: Vec<PathBuf>,
    /// Files that stayed as they were, since there are such already.
    pub kept: Vec<PathBuf>,
}

impl Summary {
    /// Whether nobody's tables are missing but those that the operator left out.
    pub fn is_whole(&self) -> bool {
        self.without.iter().all(|left_out| left_out.is_asked)
    }

    fn from_manifest(manifest: &Manifest) -> Self {
        let cards =
            manifest.tables.iter().find(|rows| rows.table.schema == "public" && rows.table.name == "master_cards");
        Self {
            cards: cards.map_or(0, |rows| rows.rows),
            rows: manifest.tables.iter().map(|rows| rows.rows).sum(),
            plugins: manifest.plugins.iter().map(|plugin| plugin.name.clone()).collect(),
            secrets: manifest.secrets,
            unreadable: Vec::new(),
            without: manifest.left_out.clone(),
            files: Vec::new(),
            kept: Vec::new(),
        }
    }
}
