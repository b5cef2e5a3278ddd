//! The lock on the cards that a statement of schema.sql takes when it drops a table, column or key that points to them.
//! It is kept to the end of the transaction, so from there on only statements run that are quick by their shape:
//! PostgreSQL does not interrupt every expression, so no time-out would help.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use tokio_postgres::{SimpleQueryMessage, Transaction};

use super::{card_keys::CardKeys, failure::Failure};
use cardinal_control::link::ProvisionFault;
use cardinal_schema_sql::{LockedBy, PARTITION_FIX, Position, Statement, Work};

/// For one statement of a session that has the lock; the watch bounds all of them together.
const LOCKED_STATEMENT_TIMEOUT: Duration = Duration::from_millis(950);
/// Statements behind the first that has the lock: each takes its time, however quick it is.
const MAX_LOCKED_STATEMENTS: usize = 200;
/// A host that stands still must not keep the lock.
const LOCKED_IDLE_TIMEOUT: &str = "2s";

/// Whether this session has a lock that keeps others from writing cards.
const IS_LOCKED: &str = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks l \
    WHERE l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND l.granted \
    AND l.locktype OPERATOR(pg_catalog.=) 'relation'::pg_catalog.text \
    AND l.relation OPERATOR(pg_catalog.=) 'public.master_cards'::pg_catalog.regclass::pg_catalog.oid \
    AND l.mode OPERATOR(pg_catalog.=) ANY (ARRAY['ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', \
        'AccessExclusiveLock']::pg_catalog.text[])";
/// Whether a table, or one below it, has a key to the cards (on this column, if one is given), whether it has a default
/// partition, and whether it has the place of a key that is not made yet.
const LOCKS: &str = "
    WITH RECURSIVE below (relation) AS (
      SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname = $2
      UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN below ON below.relation = i.inhparent
    ),
    checks AS MATERIALIZED ( -- so that no other table's expressions are read, which can lock it
      SELECT k.conbin, k.conrelid FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname = $2 AND k.contype = 'c'
    )
    SELECT EXISTS (
      SELECT FROM pg_catalog.pg_constraint k JOIN below ON below.relation = k.conrelid
      WHERE k.contype = 'f' AND k.confrelid = 'public.master_cards'::pg_catalog.regclass
      AND ($3::text IS NULL OR EXISTS (
        SELECT FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey) AND a.attname = $3))
    ) AS has_key,
    EXISTS (SELECT FROM pg_catalog.pg_partitioned_table p JOIN below ON below.relation = p.partrelid WHERE p.partdefid <> 0) AS has_default,
    EXISTS (
      SELECT FROM checks k WHERE pg_catalog.strpos(pg_catalog.pg_get_expr(k.conbin, k.conrelid), $4) > 0) AS has_place";
const RELATIONS: &str = "SELECT c.relname::text, c.oid, c.relkind = 'r' AS is_table FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1";

/// What a run knows of its lock on the cards.
pub(super) struct CardLock<'a> {
    schema: &'a str,
    /// The statement that took it, and the relations that were there then.
    taken: Option<(Position, BTreeSet<u32>)>,
    /// Statements that have run since.
    behind: usize,
}

impl<'a> CardLock<'a> {
    pub(super) fn new(schema: &'a str) -> Self {
        Self { schema, taken: None, behind: 0 }
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.is_some()
    }

    /// How long the next statement may take.
    pub(super) fn limit(&self, left: Duration) -> Duration {
        if self.taken.is_some() { left.min(LOCKED_STATEMENT_TIMEOUT) } else { left }
    }

    /// Refuses a statement that could run for long while others wait to write cards.
    pub(super) async fn admit(
        &self,
        tx: &Transaction<'_>,
        statement: &Statement,
        keys: &CardKeys<'_>,
    ) -> Result<(), Failure> {
        for locked_by in &statement.locked_by {
            self.admit_locking(tx, statement, locked_by, keys).await?;
        }
        if statement.work == Work::Drops {
            // What waited for the commit may take long: it happens before the lock is there.
            let done = tx.batch_execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED").await;
            done.map_err(|error| Failure::from_statement(error, Some(statement)))?;
        }
        let Some((since, there)) = &self.taken else { return Ok(()) };
        if self.behind >= MAX_LOCKED_STATEMENTS {
            return Err(too_many_behind(statement, *since));
        }
        let is_quick = match &statement.work {
            Work::Drops | Work::Quick => true,
            Work::QuickOn(tables) => self.are_new(tx, tables, there).await?,
            Work::Slow => false,
        };
        if is_quick { Ok(()) } else { Err(behind_a_lock(statement, *since)) }
    }

    async fn admit_locking(
        &self,
        tx: &Transaction<'_>,
        statement: &Statement,
        by: &LockedBy,
        keys: &CardKeys<'_>,
    ) -> Result<(), Failure> {
        let row = tx.query_one(LOCKS, &[&self.schema, &by.table, &by.column, &keys.tag()]).await;
        let row = row.context("looking for keys to the cards")?;
        let [has_key, has_default, has_place]: [bool; 3] =
            ["has_key", "has_default", "has_place"].map(|column| row.get(column));
        if has_place && by.changes_keys {
            return Err(before_its_key(statement, by));
        }
        match has_key && (has_default || !by.is_quick_without_default) {
            true => Err(locks_for_long(statement, by)),
            false => Ok(()),
        }
    }

    /// Whether all of these are tables that came after the lock: then they hold only what quick statements wrote.
    async fn are_new(&self, tx: &Transaction<'_>, tables: &[String], there: &BTreeSet<u32>) -> Result<bool, Failure> {
        let rows = tx.query(RELATIONS, &[&self.schema]).await.context("listing what is there")?;
        Ok(tables.iter().all(|table| {
            rows.iter().any(|row| {
                row.get::<_, &str>("relname") == table
                    && row.get::<_, bool>("is_table")
                    && !there.contains(&row.get::<_, u32>("oid"))
            })
        }))
    }

    /// Runs a statement, and notices whether it took the lock.
    pub(super) async fn run(&mut self, tx: &Transaction<'_>, statement: &Statement, sql: &str) -> Result<(), Failure> {
        let batch = format!("{sql}; {IS_LOCKED}");
        let answer = tx.simple_query(&batch).await.map_err(|error| Failure::from_statement(error, Some(statement)))?;
        let count = answer.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        if self.taken.is_some() {
            self.behind += 1;
            return Ok(());
        }
        if count == Some("0") {
            return Ok(());
        }
        // Nothing that is slow by its shape is known to take it. Should there be something, it has run by now.
        let is_quick = statement.work != Work::Slow || statement.locked_by.iter().any(|by| by.is_quick_without_default);
        if !is_quick {
            return Err(behind_a_lock(statement, statement.position));
        }
        let idle = format!("SET LOCAL idle_in_transaction_session_timeout = '{LOCKED_IDLE_TIMEOUT}'");
        tx.batch_execute(&idle).await.context("bounding the lock on the cards")?;
        let rows = tx.query(RELATIONS, &[&self.schema]).await.context("listing what is there")?;
        self.taken = Some((statement.position, rows.iter().map(|row| row.get("oid")).collect()));
        Ok(())
    }
}

const EXPECTED: &str = "schema.sql to keep nobody from writing cards while it reads rows or computes values";

fn behind_a_lock(statement: &Statement, since: Position) -> Failure {
    Failure::Refused(ProvisionFault::refused(
        "schema-failed",
        EXPECTED,
        format!("the statement at {} would run while public.master_cards is locked since {since}", statement.position),
        format!(
            "Dropping a table, column or key that points to the cards locks them to the end of the file. Put the \
             statement at {} before the one at {since}, or into the schema.sql of the next version.",
            statement.position
        ),
    ))
}

fn too_many_behind(statement: &Statement, since: Position) -> Failure {
    Failure::Refused(ProvisionFault::refused(
        "schema-failed",
        format!("no more than {MAX_LOCKED_STATEMENTS} statements while nobody can write cards"),
        format!("more of them up to the statement at {}; the cards are locked since {since}", statement.position),
        format!(
            "Dropping a table, column or key that points to the cards locks them to the end of the file. Put the statement \
             at {since} behind those that follow it, or into the schema.sql of the next version."
        ),
    ))
}

/// The reader finds most of these by the names in the file.
fn before_its_key(statement: &Statement, by: &LockedBy) -> Failure {
    Failure::Refused(ProvisionFault::refused(
        "schema-unsafe",
        "statements about a key to the cards to come before the key",
        format!(
            "the statement at {}, on table {}, which gets a key to the cards in this file",
            statement.position, by.table
        ),
        PARTITION_FIX,
    ))
}

fn locks_for_long(statement: &Statement, by: &LockedBy) -> Failure {
    let column = by.column.as_ref().map(|column| format!(" on its column {column}")).unwrap_or_default();
    Failure::Refused(ProvisionFault::refused(
        "schema-failed",
        EXPECTED,
        format!(
            "the statement at {} would lock public.master_cards while it reads rows, because table {} has a key to the cards{column}",
            statement.position, by.table
        ),
        "Drop the key in one version, do this in the next, and add the key again behind it. A new partition takes no \
         time when its bounds are plain values and its table has no default partition.",
    ))
}
