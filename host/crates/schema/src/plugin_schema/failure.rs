//! How a run of schema.sql fails: its author's mistake, other work in the way, or a database that is not there.

use std::time::Duration;

use tokio_postgres::error::{DbError, SqlState};

use super::StepError;
use cardinal_base::printable::plain;
use cardinal_control::link::ProvisionFault;
use cardinal_schema_sql::Statement;

/// How a run of schema.sql ended badly. Its transaction is gone in every case.
#[derive(Debug)]
pub(super) enum Failure {
    /// A lock that others held; the same may work next time.
    Busy(String),
    Refused(ProvisionFault),
    Failed(anyhow::Error),
}

impl Failure {
    /// What PostgreSQL says about schema.sql: the author's mistake, other work in the way, or a database that is not
    /// there.
    pub(super) fn from_statement(error: tokio_postgres::Error, statement: Option<&Statement>) -> Self {
        let Some(db_error) = error.as_db_error() else {
            return Self::Failed(anyhow::Error::new(error).context("running schema.sql"));
        };
        let refuse = |code| {
            let expected = "schema.sql to run without an error";
            Self::Refused(ProvisionFault::refused(
                "schema-failed",
                expected,
                describe(db_error, statement),
                advice(code),
            ))
        };
        match db_error.code().code() {
            _ if is_busy(db_error.code()) => Self::Busy(describe(db_error, statement)),
            code @ ("53200" | "53400") => refuse(code),
            code if code.starts_with("53") || code.starts_with("08") || code.starts_with("57P") => {
                Self::Failed(anyhow::Error::new(error).context("running schema.sql"))
            }
            code => refuse(code),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let db_error = error.chain().find_map(|cause| cause.downcast_ref::<tokio_postgres::Error>()?.as_db_error());
        match db_error.filter(|db_error| is_busy(db_error.code())) {
            Some(db_error) => Self::Busy(describe(db_error, None)),
            None => Self::Failed(error),
        }
    }
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(fault) => Self::Refused(fault),
            Failure::Failed(error) => Self::Failed(error),
            Failure::Busy(met) => Self::Refused(waited_in_vain(&met, 1, "another session")),
        }
    }
}

/// Locks of others stand in the way, and may be gone the next time. A look at the catalog waits for them, too.
pub(super) fn is_busy(code: &SqlState) -> bool {
    [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE].contains(code)
}

fn describe(db_error: &DbError, statement: Option<&Statement>) -> String {
    let mut text = format!("{} {}", db_error.code().code(), db_error.message());
    if let Some(detail) = db_error.detail() {
        text.push_str(&format!(" ({detail})"));
    }
    if let Some(statement) = statement {
        text.push_str(&format!(", in the statement at {}", statement.position));
    }
    plain(&text)
}

fn advice(code: &str) -> &'static str {
    match code {
        "42501" => {
            "Keep to the plugin's own schema; of the core only public.master_cards may be referenced, by its id."
        }
        "53200" => {
            "Ask for less at once: views that read one another several times, and large values, multiply what they need."
        }
        "53400" => "Sort and join less in one statement, or fill the tables when the plugin runs.",
        "57014" => "Move long work out of schema.sql into the plugin.",
        "42P07" => "Write IF NOT EXISTS, so that schema.sql can run again over what is there.",
        "42710" => {
            "Give it a name of its own. Before a constraint that an earlier version may have made, write ALTER TABLE ... DROP \
             CONSTRAINT IF EXISTS. To an enum that is there, add values with ALTER TYPE ... ADD VALUE IF NOT EXISTS."
        }
        _ => "Correct schema.sql.",
    }
}

/// Whoever works with many relations at once takes as many locks, for which the server has one table.
pub(super) fn too_large(expected: String, found: impl Into<String>) -> ProvisionFault {
    let fix = "Make fewer tables, partitions and indexes; many in small steps, in the schema.sql of several versions.";
    ProvisionFault::refused("schema-failed", expected, found, fix)
}

/// What was in the way may be gone the next time.
pub(super) fn waited_in_vain(met: &str, tries: u32, blockers: &str) -> ProvisionFault {
    ProvisionFault::Unavailable(format!(
        "schema.sql waited for {blockers}, {tries} times ({met}); the host tries again, less and less often; when that has \
         ended, scan the plugins again"
    ))
}

pub(super) fn took_too_long(limit: Duration) -> ProvisionFault {
    ProvisionFault::refused(
        "schema-failed",
        format!("schema.sql to be done within {} s", limit.as_secs()),
        "it was still running",
        "Move long work out of schema.sql into the plugin.",
    )
}

/// What takes a lock on the cards keeps it to the end of the transaction.
pub(super) fn held_cards_too_long(limit: Duration) -> ProvisionFault {
    ProvisionFault::refused(
        "schema-failed",
        format!("schema.sql to keep others from writing cards for no more than {} s", limit.as_secs()),
        "it still held its lock on public.master_cards, which a new or dropped key to the cards takes",
        "Scan the plugins again when the machine is less busy. If it stays so: drop fewer tables with keys to \
         public.master_cards in one version, or do long work in the plugin when it runs.",
    )
}

/// What changes a table locks it to the end of the transaction, and every removal of a card waits for it.
pub(super) fn held_keyed_too_long(limit: Duration) -> ProvisionFault {
    ProvisionFault::refused(
        "schema-failed",
        format!("schema.sql to lock a table with a key to the cards for no more than {} s", limit.as_secs()),
        "it still held its lock on such a table, and no card could be removed meanwhile",
        "Scan the plugins again when the machine is less busy. If it stays so: put what takes long, such as filling another \
         table, before the first ALTER TABLE, CREATE INDEX or DROP on a table with a key to public.master_cards, or into a \
         version of its own; fill a large table in the plugin, when it runs.",
    )
}
