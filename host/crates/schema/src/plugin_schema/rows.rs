//! What a schema.sql did to the rows that were there. The server counts per table which rows a transaction deletes and
//! updates, keys' actions included; which columns an UPDATE writes to, the statements say. To fill columns that the
//! same file adds loses nothing.
//!
//! Each statement is looked at by itself: what one may do must not hide what another does.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use tokio_postgres::Transaction;

use super::diff::{self, Holders};
use cardinal_schema_sql::{Overwrite, Statement, Work};

/// The table that a statement names and those below it, whose rows it writes as well; with the columns of these names,
/// which in a table below may be older than the one above. Looked up right before the statement runs: another one may
/// give the name to another table.
const TARGETS: &str = "
    WITH RECURSIVE below (oid, is_target, is_view) AS (
      SELECT c.oid, true, c.relkind = 'v'
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname::text = $1 AND c.relname::text = $2 AND c.relkind IN ('r', 'p', 'v')
      UNION SELECT i.inhrelid, false, false FROM pg_catalog.pg_inherits i JOIN below ON below.oid = i.inhparent
    )
    SELECT b.oid, b.is_target, b.is_view,
           ARRAY(SELECT a.attnum FROM pg_catalog.pg_attribute a
                 WHERE a.attrelid = b.oid AND a.attname::text = ANY ($3) AND NOT a.attisdropped) AS columns
    FROM below b ORDER BY b.is_target DESC";
/// Keys whose actions write rows of the table that has the key.
const WRITING_KEYS: &str = "
    SELECT k.conrelid, k.confrelid, k.conkey, k.confkey, k.confupdtype IN ('c', 'n', 'd') AS on_update,
           k.confdeltype IN ('n', 'd') AS on_delete
    FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace
    WHERE n.nspname::text = $1 AND k.contype = 'f' AND (k.confupdtype IN ('c', 'n', 'd') OR k.confdeltype IN ('n', 'd'))";
const COUNTED: &str = "
    SELECT c.oid, pg_catalog.pg_stat_get_xact_tuples_deleted(c.oid) AS deleted,
           pg_catalog.pg_stat_get_xact_tuples_updated(c.oid) AS updated
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname::text = $1 AND c.relkind IN ('r', 'p')";

/// Rows that the transaction has deleted and updated so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    deleted: i64,
    updated: i64,
}

type Counts = BTreeMap<u32, Count>;

#[derive(Debug, Clone)]
struct WritingKey {
    table: u32,
    columns: Vec<i16>,
    pointed_to: u32,
    pointed_columns: Vec<i16>,
    on_update: bool,
    on_delete: bool,
}

/// What the statements so far have done.
#[derive(Debug)]
pub(super) struct RowChanges {
    counts: Counts,
    /// Of the last statement that changed types.
    holders: Holders,
    lost: Vec<String>,
}

/// What a statement is about to write.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// By table, the columns that it gives values.
    columns: BTreeMap<u32, BTreeSet<i16>>,
    /// Whether it goes through a view: to which table, the server knows.
    through_view: bool,
    keys: Vec<WritingKey>,
}

impl RowChanges {
    pub(super) fn new(before: &Holders) -> Self {
        Self { counts: Counts::new(), holders: before.clone(), lost: Vec::new() }
    }

    /// Takes down what the statement is about to write over.
    pub(super) async fn prepare(
        &mut self,
        tx: &Transaction<'_>,
        schema: &str,
        before: &Holders,
        statement: &Statement,
    ) -> anyhow::Result<Writes> {
        let mut writes = Writes::default();
        for overwrite in &statement.overwrites {
            let targets = tx.query(TARGETS, &[&schema, &overwrite.table, &overwrite.columns]).await;
            // When there is no such table, the statement fails.
            for row in targets.context("looking up what a statement writes over")? {
                let (table, is_target, is_view): (u32, bool, bool) =
                    (row.try_get("oid")?, row.try_get("is_target")?, row.try_get("is_view")?);
                let columns: Vec<i16> = row.try_get("columns")?;
                writes.through_view |= is_view;
                if self.add(&mut writes, before, overwrite, table, columns) && is_target {
                    break; // the tables below lose the same
                }
            }
        }
        if !writes.columns.is_empty() {
            writes.keys = writing_keys(tx, schema).await?;
        }
        Ok(writes)
    }

    /// Gives whether a column that was there before is computed anew.
    fn add(
        &mut self,
        writes: &mut Writes,
        before: &Holders,
        overwrite: &Overwrite,
        table: u32,
        columns: Vec<i16>,
    ) -> bool {
        if !overwrite.every_row {
            writes.columns.entry(table).or_default().extend(columns);
            return false;
        }
        let Some(known) = before.tables.get(&table) else { return false };
        let old: Vec<String> = columns
            .iter()
            .filter_map(|number| known.columns.get(number))
            .map(|column| format!("column {}.{} is computed anew", known.name, column.name))
            .collect();
        let is_lost = !old.is_empty();
        self.lost.extend(old);
        is_lost
    }

    /// Notes what the statement, which has run, did to rows that were there.
    pub(super) async fn note(
        &mut self,
        tx: &Transaction<'_>,
        schema: &str,
        before: &Holders,
        statement: &Statement,
        writes: &Writes,
    ) -> anyhow::Result<()> {
        if statement.changes_types {
            let now = diff::holders(tx, schema).await?;
            self.lost.extend(diff::converted(before, &self.holders, &now));
            self.holders = now;
        }
        // These delete and update no rows, and there may be many of them; in a new schema none do.
        if !before.tables.is_empty() && !matches!(statement.work, Work::Drops | Work::Quick | Work::QuickOn(_)) {
            let counts = counts(tx, schema).await?;
            self.note_counts(before, writes, counts);
        }
        Ok(())
    }

    fn note_counts(&mut self, before: &Holders, writes: &Writes, counts: Counts) {
        let last = std::mem::replace(&mut self.counts, counts);
        let done = |id: &u32| {
            let (now, was) = (self.counts.get(id).copied(), last.get(id).copied().unwrap_or_default());
            let now = now.unwrap_or_default();
            Count { deleted: now.deleted - was.deleted, updated: now.updated - was.updated }
        };
        for (id, table) in &before.tables {
            let Count { deleted, updated } = done(id);
            if deleted > 0 {
                self.lost.push(format!("rows of table {} are deleted", table.name));
            }
            if updated > 0 && !writes.fills_new_columns(*id, before, done) {
                self.lost.push(format!("rows of table {} are changed", table.name));
            }
        }
    }

    /// What waited for the end of the file is done: the rest of what happened to rows.
    pub(super) async fn finish(
        mut self,
        tx: &Transaction<'_>,
        schema: &str,
        before: &Holders,
    ) -> anyhow::Result<Vec<String>> {
        let counts = counts(tx, schema).await?;
        self.note_counts(before, &Writes::default(), counts);
        Ok(self.lost)
    }
}

impl Writes {
    /// Whether all that was written to the table are columns that it did not have before.
    fn fills_new_columns(&self, table: u32, before: &Holders, done: impl Fn(&u32) -> Count) -> bool {
        let known = |number: &i16| before.tables.get(&table).is_some_and(|table| table.columns.contains_key(number));
        let Some(written) = self.columns.get(&table) else { return false };
        if self.through_view || written.is_empty() || written.iter().any(known) {
            return false;
        }
        // An action of a key may have written other columns of the same rows.
        let acts = |key: &WritingKey| {
            let pointed_to = done(&key.pointed_to);
            let is_written =
                key.pointed_to != table || key.pointed_columns.iter().any(|column| written.contains(column));
            (key.on_delete && pointed_to.deleted > 0) || (key.on_update && pointed_to.updated > 0 && is_written)
        };
        !self.keys.iter().any(|key| key.table == table && key.columns.iter().any(known) && acts(key))
    }
}

async fn writing_keys(tx: &Transaction<'_>, schema: &str) -> anyhow::Result<Vec<WritingKey>> {
    let rows = tx.query(WRITING_KEYS, &[&schema]).await.context("listing keys with actions")?;
    let key = |row: &tokio_postgres::Row| -> Result<WritingKey, tokio_postgres::Error> {
        Ok(WritingKey {
            table: row.try_get("conrelid")?,
            pointed_to: row.try_get("confrelid")?,
            columns: row.try_get("conkey")?,
            pointed_columns: row.try_get("confkey")?,
            on_update: row.try_get("on_update")?,
            on_delete: row.try_get("on_delete")?,
        })
    };
    rows.iter().map(key).collect::<Result<_, _>>().context("reading keys with actions")
}

async fn counts(tx: &Transaction<'_>, schema: &str) -> anyhow::Result<Counts> {
    let rows = tx.query(COUNTED, &[&schema]).await.context("asking what happened to the plugin's rows")?;
    let count = |row: &tokio_postgres::Row| -> Result<(u32, Count), tokio_postgres::Error> {
        Ok((row.try_get("oid")?, Count { deleted: row.try_get("deleted")?, updated: row.try_get("updated")? }))
    };
    rows.iter().map(count).collect::<Result<_, _>>().context("reading what happened to the plugin's rows")
}

#[cfg(test)]
mod tests {
    use super::{
        super::diff::tests::{holders, table},
        *,
    };

    const ITEMS: u32 = 1;
    const OTHER: u32 = 2;

    fn before() -> Holders {
        holders([(ITEMS, table("items", &[(1, "id", "bigint")]))])
    }

    fn writes(columns: &[i16]) -> Writes {
        Writes { columns: [(ITEMS, columns.iter().copied().collect())].into(), ..Writes::default() }
    }

    fn noted(writes: &Writes, counts: &[(u32, i64, i64)]) -> Vec<String> {
        let mut changes = RowChanges::new(&before());
        let count = |(id, deleted, updated): &(u32, i64, i64)| (*id, Count { deleted: *deleted, updated: *updated });
        changes.note_counts(&before(), writes, counts.iter().map(count).collect());
        changes.lost
    }

    const CHANGED: [&str; 1] = ["rows of table items are changed"];

    #[test]
    fn only_columns_that_were_there_count() {
        assert_eq!(noted(&writes(&[2]), &[(ITEMS, 0, 5)]), [""; 0]);
        assert_eq!(noted(&writes(&[1, 2]), &[(ITEMS, 0, 5)]), CHANGED);
        assert_eq!(noted(&Writes::default(), &[(ITEMS, 0, 5)]), CHANGED, "a key's action");
        assert_eq!(noted(&Writes { through_view: true, ..writes(&[2]) }, &[(ITEMS, 0, 5)]), CHANGED);
        assert_eq!(noted(&writes(&[1]), &[(ITEMS, 0, 0), (OTHER, 3, 3)]), [""; 0], "no row of it");
        assert_eq!(noted(&writes(&[2]), &[(ITEMS, 1, 0)]), ["rows of table items are deleted"]);
    }

    #[test]
    fn what_an_earlier_statement_filled_hides_no_later_one() {
        let mut changes = RowChanges::new(&before());
        let counts = |updated| Counts::from([(ITEMS, Count { deleted: 0, updated })]);
        changes.note_counts(&before(), &writes(&[2]), counts(5));
        assert_eq!(changes.lost, [""; 0]);
        changes.note_counts(&before(), &Writes::default(), counts(6));
        assert_eq!(changes.lost, CHANGED);
    }

    #[test]
    fn a_keys_action_beside_a_new_column_counts() {
        let key = |pointed_to, pointed_columns: &[i16], on_update| WritingKey {
            table: ITEMS,
            columns: vec![1],
            pointed_to,
            pointed_columns: pointed_columns.to_vec(),
            on_update,
            on_delete: !on_update,
        };
        let beside = |key| Writes { keys: vec![key], ..writes(&[2]) };
        assert_eq!(noted(&beside(key(OTHER, &[1], true)), &[(ITEMS, 0, 5), (OTHER, 0, 1)]), CHANGED);
        assert_eq!(noted(&beside(key(OTHER, &[1], false)), &[(ITEMS, 0, 5), (OTHER, 1, 0)]), CHANGED);
        assert_eq!(noted(&beside(key(OTHER, &[1], true)), &[(ITEMS, 0, 5)]), [""; 0]);
        assert_eq!(noted(&beside(key(ITEMS, &[2], true)), &[(ITEMS, 0, 5)]), CHANGED, "a key to the new column");
        assert_eq!(noted(&beside(key(ITEMS, &[1], true)), &[(ITEMS, 0, 5)]), [""; 0], "a tree");
    }

    #[test]
    fn a_column_that_is_computed_anew_counts() {
        let mut changes = RowChanges::new(&before());
        let over = Overwrite { table: String::new(), columns: Vec::new(), every_row: true };
        let mut writes = Writes::default();
        assert!(!changes.add(&mut writes, &before(), &over, ITEMS, vec![2]));
        assert!(!changes.add(&mut writes, &before(), &over, OTHER, vec![1]));
        assert!(changes.add(&mut writes, &before(), &over, ITEMS, vec![1, 2]));
        assert_eq!(changes.lost, ["column items.id is computed anew"]);
    }
}
