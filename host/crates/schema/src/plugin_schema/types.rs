//! Types and domains that an earlier run of schema.sql made. There is no IF NOT EXISTS for them, and no other way to say
//! them in a file that runs again.

use anyhow::Context as _;
use cardinal_schema_sql::{NewType, Statement};
use tokio_postgres::Transaction;

/// Whether the type that the statement makes is there: of the same sort, and an enum with all of its values. Any other
/// one of its name PostgreSQL refuses.
pub(super) async fn is_made(work: &Transaction<'_>, schema: &str, statement: &Statement) -> anyhow::Result<bool> {
    let Some(NewType { name, letter, values }) = &statement.new_type else { return Ok(false) };
    let asked = format!(
        "SELECT EXISTS (
           SELECT FROM pg_catalog.pg_type t
           JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
           LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
           WHERE n.nspname = $1 AND t.typname = $2 AND t.typtype::text = $3 AND coalesce(c.relkind = 'c', true)
             AND ARRAY[{}]::text[] <@ ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid))",
        values.join(", ")
    );
    let there = work.query_one(&asked, &[&schema, name, letter]).await.and_then(|row| row.try_get(0));
    there.context("looking for a type that schema.sql makes")
}
