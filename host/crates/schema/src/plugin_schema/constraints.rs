//! Constraints of a plugin's tables, keys to the cards and checks, once they are made: validated, or dropped again.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio_postgres::{Client, error::SqlState};

use super::LOCK_TIMEOUT;
use cardinal_database::sql;

/// A constraint, by its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Constraint {
    pub schema: String,
    pub table: String,
    pub name: String,
}

impl Constraint {
    pub(super) fn alter(&self, action: &str) -> String {
        let (table, name) = (sql::identifier(&self.table), sql::identifier(&self.name));
        format!("ALTER TABLE {}.{table} {action} {name}", sql::identifier(&self.schema))
    }
}

/// Gives what the session does next no time beyond `end`, and says how much that is.
pub(super) async fn limit(session: &Client, end: Instant) -> anyhow::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    let limits = format!("SET lock_timeout = '{LOCK_TIMEOUT}'; SET statement_timeout = {}", left.as_millis().max(1));
    session.batch_execute(&limits).await.context("preparing to validate constraints")?;
    Ok(left)
}

/// Keeps nobody from reading or writing cards.
pub(super) async fn validate(session: &Client, constraint: &Constraint) -> Result<(), tokio_postgres::Error> {
    session.batch_execute(&constraint.alter("VALIDATE CONSTRAINT")).await
}

/// Whether it stays as it is, NOT VALID.
pub(super) fn ran_out_of_time(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(&SqlState::QUERY_CANCELED | &SqlState::LOCK_NOT_AVAILABLE))
}

pub(super) async fn drop(session: &Client, constraint: &Constraint) -> anyhow::Result<()> {
    session
        .batch_execute(&constraint.alter("DROP CONSTRAINT"))
        .await
        .context("dropping a constraint that does not hold")
}
