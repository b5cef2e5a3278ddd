//! Checks that schema.sql adds to tables that were there. PostgreSQL would compute them for each row while it keeps
//! everybody from the table, and it does not interrupt every expression. So the rows are looked at before the table is
//! locked, the check is made NOT VALID, which holds for new rows, and it is validated behind the commit, while others
//! read and write.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio_postgres::{Client, Transaction};

use super::Step;
use super::constraints::{self, Constraint};
use super::diff::Holders;
use super::{block::do_block, failure::Failure};
use crate::keyed_tables::STRONG_MODES;
use cardinal_database::sql;
use cardinal_schema_sql::{LateCheck, LateChecks, Statement};

/// With a check that reads its values once, the rows of such a table are checked in the blink of an eye.
pub(super) const SMALL_TABLE_BYTES: i64 = 8 * 1024 * 1024;

/// The table and its size with those below it, and whether this session keeps others from writing to it.
const TARGET: &str = "
    WITH RECURSIVE named AS (
      SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname::text = $1 AND c.relname::text = $2 AND c.relkind IN ('r', 'p')
    ), below (oid) AS (
      SELECT oid FROM named UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN below ON below.oid = i.inhparent
    )
    SELECT named.oid, (SELECT sum(pg_catalog.pg_table_size(below.oid))::bigint FROM below) AS size,
           EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.pid = pg_catalog.pg_backend_pid() AND l.granted
                   AND l.locktype = 'relation' AND l.relation IN (SELECT oid FROM below) AND l.mode IN STRONG_MODES) AS is_locked
    FROM named";
const NOT_VALID: &str = "
    SELECT k.oid, c.relname::text, k.conname::text
    FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
    WHERE n.nspname::text = $1 AND k.contype = 'c' AND NOT k.convalidated AND k.coninhcount = 0 ORDER BY k.oid";

/// The checks of one run that are to be validated.
pub(super) struct Late<'a> {
    schema: &'a str,
    pending: BTreeSet<u32>,
    /// NOT VALID before the statement that is under way.
    known: BTreeSet<u32>,
}

/// What a statement with checks needs.
pub(super) enum Admission {
    AsWritten,
    /// With the statements that look for rows that break the checks, where nobody is kept from the table yet.
    NotValid {
        looks: Vec<String>,
    },
}

impl<'a> Late<'a> {
    pub(super) fn new(schema: &'a str) -> Self {
        Self { schema, pending: BTreeSet::new(), known: BTreeSet::new() }
    }

    /// How the checks of the statement are made.
    pub(super) async fn admit(
        &mut self,
        tx: &Transaction<'_>,
        statement: &Statement,
        before: &Holders,
    ) -> Result<Admission, Failure> {
        let Some(late) = &statement.late_checks else { return Ok(Admission::AsWritten) };
        let query = TARGET.replace("STRONG_MODES", STRONG_MODES);
        let target = tx.query_opt(&query, &[&self.schema, &late.table]).await.context("looking for a table")?;
        // When there is no such table, the statement fails, or it is IF EXISTS.
        let Some(target) = target else { return Ok(Admission::AsWritten) };
        let read = |row: tokio_postgres::Row| -> Result<(u32, i64, bool), tokio_postgres::Error> {
            Ok((row.try_get("oid")?, row.try_get("size")?, row.try_get("is_locked")?))
        };
        let (table, size, is_locked) = read(target).context("reading of a table")?;
        if !before.tables.contains_key(&table) || (late.are_small && size <= SMALL_TABLE_BYTES) {
            return Ok(Admission::AsWritten);
        }
        self.known = self.not_valid(tx).await?.into_iter().map(|(id, _)| id).collect();
        let looks = late.checks.iter().filter(|_| !is_locked).map(|check| self.look(statement, late, check));
        Ok(Admission::NotValid { looks: looks.collect::<anyhow::Result<_>>()? })
    }

    fn look(&self, statement: &Statement, late: &LateChecks, check: &LateCheck) -> anyhow::Result<String> {
        let only = if check.is_own { "ONLY" } else { "" };
        let (schema, table) = (sql::identifier(self.schema), sql::identifier(&late.table));
        let expression = statement.sql.get(check.expression.clone()).context("a check has no expression")?;
        let look = format!("SELECT EXISTS (SELECT FROM {only} {schema}.{table} WHERE ({expression}) IS FALSE)");
        let message = sql::literal(&format!("check constraint of table {} is violated by some row", late.table));
        do_block(&format!(
            "DECLARE broken boolean; BEGIN EXECUTE {} INTO broken;
             IF broken THEN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = {message}; END IF; END",
            sql::literal(&look)
        ))
    }

    /// Notes the checks that the statement has made NOT VALID.
    pub(super) async fn remember(&mut self, tx: &Transaction<'_>) -> Result<(), Failure> {
        let now = self.not_valid(tx).await?;
        self.pending.extend(now.into_iter().map(|(id, _)| id).filter(|id| !self.known.contains(id)));
        Ok(())
    }

    async fn not_valid(&self, tx: &Transaction<'_>) -> anyhow::Result<Vec<(u32, Constraint)>> {
        let rows = tx.query(NOT_VALID, &[&self.schema]).await.context("listing checks that are not valid")?;
        let read = |row: &tokio_postgres::Row| -> Result<_, tokio_postgres::Error> {
            let (schema, table, name) = (self.schema.to_owned(), row.try_get("relname")?, row.try_get("conname")?);
            Ok((row.try_get("oid")?, Constraint { schema, table, name }))
        };
        Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
    }

    /// Those that are there still at the end of the file, by the names that they have now.
    pub(super) async fn finish(self, tx: &Transaction<'_>) -> anyhow::Result<Vec<Constraint>> {
        if self.pending.is_empty() {
            return Ok(Vec::new());
        }
        let open = self.not_valid(tx).await?;
        Ok(open.into_iter().filter(|(id, _)| self.pending.contains(id)).map(|(_, key)| key).collect())
    }
}

/// PostgreSQL does not interrupt every expression: so long after its time-out a session is left to its end.
const GRACE: Duration = Duration::from_secs(2);

/// Has the rows checked while others read and write. What the file did has been committed, and its step counts: a check
/// that rows break, which were written since they were looked at or could not be looked at, holds for new ones.
pub(super) async fn validate_checks(
    session: &Client,
    step: &Step<'_>,
    checks: &[Constraint],
    end: Instant,
) -> Result<(), Failure> {
    for (number, check) in checks.iter().enumerate() {
        let left = constraints::limit(session, end).await?;
        let Ok(validated) = tokio::time::timeout(left + GRACE, constraints::validate(session, check)).await else {
            for unchecked in &checks[number..] {
                warn_unchecked(step, unchecked);
            }
            return Ok(());
        };
        match validated {
            Ok(()) => {}
            Err(error) if constraints::ran_out_of_time(&error) => warn_unchecked(step, check),
            Err(error) => match error.as_db_error() {
                Some(db_error) => warn_broken(step, check, db_error.message()),
                None => return Err(Failure::Failed(anyhow::Error::new(error).context("validating a check"))),
            },
        }
    }
    Ok(())
}

fn warn_broken(step: &Step<'_>, check: &Constraint, reason: &str) {
    tracing::warn!(
        plugin = step.plugin,
        check = check.name,
        table = check.table,
        said = reason,
        "rows of a table break a check that schema.sql adds; it holds for new rows"
    );
}

fn warn_unchecked(step: &Step<'_>, check: &Constraint) {
    tracing::warn!(
        plugin = step.plugin,
        check = check.name,
        table = check.table,
        "no time to validate a check; it holds for new rows"
    );
}
