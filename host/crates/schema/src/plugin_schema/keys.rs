//! Keys of a plugin's tables to the cards, once they are made: validated, or dropped again.

use anyhow::Context as _;
use tokio_postgres::{Client, error::SqlState};

use cardinal_database::sql;

/// A foreign key, by its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub schema: String,
    pub table: String,
    pub name: String,
}

impl Key {
    pub(super) fn alter(&self, action: &str) -> String {
        let (table, name) = (sql::identifier(&self.table), sql::identifier(&self.name));
        format!("ALTER TABLE {}.{table} {action} {name}", sql::identifier(&self.schema))
    }
}

/// Keeps nobody from reading or writing cards.
pub(super) async fn validate(session: &Client, key: &Key) -> Result<(), tokio_postgres::Error> {
    session.batch_execute(&key.alter("VALIDATE CONSTRAINT")).await
}

/// Whether it stays as it is, NOT VALID.
pub(super) fn ran_out_of_time(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(&SqlState::QUERY_CANCELED | &SqlState::LOCK_NOT_AVAILABLE))
}

pub(super) async fn drop(session: &Client, key: &Key) -> anyhow::Result<()> {
    session.batch_execute(&key.alter("DROP CONSTRAINT")).await.context("dropping a key that does not hold")
}
