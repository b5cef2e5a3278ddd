//! What is said of plugins' schemas: asked for by the worker, made by the supervisor.

use serde::{Deserialize, Serialize};

use cardinal_base::printable::plain;
use cardinal_database::connect::ConnectParams;
use cardinal_schema_sql::SchemaError;

/// How long a statement of a plugin may take; its sessions begin with this setting.
pub const STATEMENT_TIMEOUT_MS: u64 = 15_000;

/// A plugin's schema and the login that its statements run as.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PluginDatabase {
    pub schema: String,
    pub role: String,
    pub connect: ConnectParams,
}

/// Why a plugin did not get its database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "lowercase")]
pub enum ProvisionFault {
    /// The package or its schema.sql will not do; trying again changes nothing.
    #[error("{code}: expected {expected}, found {found}; {fix}")]
    Refused {
        code: String,
        expected: String,
        found: String,
        fix: String,
        /// What an operator would have to agree to.
        #[serde(default)]
        losses: Vec<String>,
    },
    /// The database or a process was not there; trying again may help.
    #[error("{0}")]
    Unavailable(String),
    /// The database was there and would not do it; the log says why.
    #[error("{0}")]
    Failed(String),
}

impl ProvisionFault {
    /// What was found has names in it that a plugin chose.
    pub fn refused(code: &str, expected: impl Into<String>, found: impl Into<String>, fix: impl Into<String>) -> Self {
        let (code, losses) = (code.to_owned(), Vec::new());
        Self::Refused { code, expected: expected.into(), found: plain(&found.into()), fix: fix.into(), losses }
    }

    /// Names what an operator would have to agree to.
    pub fn losing(mut self, lost: Vec<String>) -> Self {
        if let Self::Refused { losses, .. } = &mut self {
            *losses = lost;
        }
        self
    }
}

impl From<SchemaError> for ProvisionFault {
    fn from(error: SchemaError) -> Self {
        let code = if error.is_forbidden { "schema-unsafe" } else { "schema-failed" };
        Self::refused(code, error.expected, error.found, error.fix)
    }
}

/// What was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeReport {
    pub tables: Vec<String>,
    pub schema_steps: u64,
    pub settings: bool,
}
