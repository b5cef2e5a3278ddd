//! Keys of a plugin's tables to the cards that were added without a look at the rows that are there.

use anyhow::Context as _;
use tokio_postgres::{Client, GenericClient};

use crate::db::sql;

/// A foreign key that PostgreSQL has not checked against its table's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    schema: String,
    table: String,
    name: String,
}

impl Key {
    fn alter(&self, action: &str) -> String {
        let (table, name) = (sql::identifier(&self.table), sql::identifier(&self.name));
        format!("ALTER TABLE {}.{table} {action} {name}", sql::identifier(&self.schema))
    }
}

pub(super) async fn not_valid(session: &impl GenericClient, schema: &str) -> anyhow::Result<Vec<Key>> {
    let asked = "SELECT c.relname::text, k.conname::text FROM pg_catalog.pg_constraint k
                 JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                 WHERE k.contype = 'f' AND NOT k.convalidated AND n.nspname = $1
                 AND k.confrelid = 'public.master_cards'::pg_catalog.regclass";
    let rows = session.query(asked, &[&schema]).await.context("looking for keys that are not validated")?;
    let key = |row: &tokio_postgres::Row| -> Result<Key, tokio_postgres::Error> {
        Ok(Key { schema: schema.to_owned(), table: row.try_get(0)?, name: row.try_get(1)? })
    };
    Ok(rows.iter().map(key).collect::<Result<_, _>>()?)
}

/// Keeps nobody from reading or writing cards.
pub(super) async fn validate(session: &Client, key: &Key) -> Result<(), tokio_postgres::Error> {
    session.batch_execute(&key.alter("VALIDATE CONSTRAINT")).await
}

pub(super) async fn drop(session: &Client, key: &Key) -> anyhow::Result<()> {
    session.batch_execute(&key.alter("DROP CONSTRAINT")).await.context("dropping a key that does not hold")
}
