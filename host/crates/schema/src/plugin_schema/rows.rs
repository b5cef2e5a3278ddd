//! What a schema.sql did to the rows that were there. The server counts per table which rows a transaction deletes and
//! updates, keys' actions included; which columns an UPDATE writes to, the statements say. To fill columns that the same
//! file adds loses nothing.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use tokio_postgres::Transaction;

use super::diff::Holders;
use cardinal_schema_sql::{Overwrite, Statement};

/// Looked up right before the statement runs: another one may give the name to another table.
const TARGET: &str = "
    SELECT c.oid, c.relkind = 'v',
           ARRAY(SELECT a.attnum FROM pg_catalog.pg_attribute a
                 WHERE a.attrelid = c.oid AND a.attname::text = ANY ($3) AND NOT a.attisdropped)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname::text = $1 AND c.relname::text = $2 AND c.relkind IN ('r', 'p', 'v')";
const COUNTED: &str = "
    SELECT t, pg_catalog.pg_stat_get_xact_tuples_deleted(t) > 0, pg_catalog.pg_stat_get_xact_tuples_updated(t) > 0
    FROM pg_catalog.unnest($1::pg_catalog.oid[]) t";

/// What the statements so far have written over.
#[derive(Debug, Default)]
pub(super) struct RowChanges {
    /// By table, whether a column was among them that was there before.
    tables: BTreeMap<u32, bool>,
    /// Whether one went through a view: to which table, the server knows.
    through_view: bool,
    /// Tables of this step that computed a column of theirs anew, and with it those of older tables below them.
    recomputed: BTreeSet<u32>,
    lost: Vec<String>,
}

impl RowChanges {
    /// Takes down what the statement is about to write over.
    pub(super) async fn note(
        &mut self,
        work: &Transaction<'_>,
        schema: &str,
        before: &Holders,
        statement: &Statement,
    ) -> anyhow::Result<()> {
        for overwrite in &statement.overwrites {
            let asked = work.query_opt(TARGET, &[&schema, &overwrite.table, &overwrite.columns]).await;
            // There is no such table: the statement fails.
            let Some(row) = asked.context("looking up what a statement writes over")? else { continue };
            let (table, is_view): (u32, bool) = (row.try_get(0)?, row.try_get(1)?);
            let columns: Vec<i16> = row.try_get(2)?;
            match is_view {
                true => self.through_view = true,
                false => self.note_table(before, overwrite, table, &columns),
            }
        }
        Ok(())
    }

    fn note_table(&mut self, before: &Holders, overwrite: &Overwrite, table: u32, columns: &[i16]) {
        let known = before.tables.get(&table);
        if overwrite.of_every_row {
            match known {
                None => drop(self.recomputed.insert(table)),
                Some(known) => {
                    let old = columns.iter().filter_map(|number| known.columns.get(number));
                    self.lost
                        .extend(old.map(|column| format!("column {}.{} is computed anew", known.name, column.name)));
                }
            }
            return;
        }
        let all_new = known.is_some_and(|known| columns.iter().all(|number| !known.columns.contains_key(number)));
        *self.tables.entry(table).or_default() |= !all_new;
    }

    /// What happened to rows that were there, in the words that an operator confirms.
    pub(super) async fn lost(
        mut self,
        work: &Transaction<'_>,
        before: &Holders,
        after: &Holders,
    ) -> anyhow::Result<Vec<String>> {
        let left: Vec<u32> = before.tables.keys().filter(|id| after.tables.contains_key(id)).copied().collect();
        let rows = work.query(COUNTED, &[&left]).await.context("asking what happened to the plugin's rows")?;
        for row in rows {
            let (id, deleted, updated): (u32, bool, bool) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let name = before.tables.get(&id).map(|table| table.name.as_str()).unwrap_or_default();
            if deleted {
                self.lost.push(format!("rows of table {name} are deleted"));
            }
            if (updated && !self.fills_new_columns(id, before, after)) || self.is_recomputed(id, before, after) {
                self.lost.push(format!("rows of table {name} are changed"));
            }
        }
        Ok(self.lost)
    }

    /// Whether all that was written to the table are columns that it did not have before.
    fn fills_new_columns(&self, table: u32, before: &Holders, after: &Holders) -> bool {
        let family = family(table, before, after);
        let written: Vec<bool> = family.iter().filter_map(|id| self.tables.get(id)).copied().collect();
        !self.through_view && !written.is_empty() && written.iter().all(|has_old| !has_old)
    }

    fn is_recomputed(&self, table: u32, before: &Holders, after: &Holders) -> bool {
        !self.recomputed.is_disjoint(&family(table, before, after))
    }
}

/// The table and those above it, through which its rows are written as well.
fn family(table: u32, before: &Holders, after: &Holders) -> BTreeSet<u32> {
    let mut family = BTreeSet::from([table]);
    loop {
        let known = family.len();
        let pairs = before.parents.iter().chain(&after.parents);
        let above: Vec<u32> = pairs.filter(|(child, _)| family.contains(child)).map(|(_, parent)| *parent).collect();
        family.extend(above);
        if family.len() == known {
            return family;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::diff::tests::{holders, table},
        *,
    };

    fn over(of_every_row: bool) -> Overwrite {
        Overwrite { table: String::new(), columns: Vec::new(), of_every_row }
    }

    #[test]
    fn only_columns_that_were_there_count() {
        let mut before =
            holders([(1, table("items", &[(1, "id", "bigint")])), (2, table("part", &[(1, "id", "bigint")]))]);
        before.parents.insert((2, 1));
        let mut overwritten = RowChanges::default();
        assert!(!overwritten.fills_new_columns(1, &before, &before), "a key's action");
        overwritten.note_table(&before, &over(false), 1, &[2]);
        assert!(overwritten.fills_new_columns(1, &before, &before));
        assert!(overwritten.fills_new_columns(2, &before, &before), "through its parent");
        overwritten.note_table(&before, &over(false), 2, &[1, 2]);
        assert!(overwritten.fills_new_columns(1, &before, &before));
        assert!(!overwritten.fills_new_columns(2, &before, &before));
        overwritten.through_view = true;
        assert!(!overwritten.fills_new_columns(1, &before, &before));
    }

    #[test]
    fn a_column_that_is_computed_anew_counts() {
        let before = holders([(1, table("items", &[(1, "id", "bigint")]))]);
        let mut overwritten = RowChanges::default();
        overwritten.note_table(&before, &over(true), 1, &[2]);
        assert!(overwritten.lost.is_empty());
        overwritten.note_table(&before, &over(true), 1, &[1, 2]);
        assert_eq!(overwritten.lost, ["column items.id is computed anew"]);
        overwritten.note_table(&before, &over(true), 9, &[1]);
        let mut after = before.clone();
        assert!(!overwritten.is_recomputed(1, &before, &after));
        after.parents.insert((1, 9));
        assert!(overwritten.is_recomputed(1, &before, &after));
    }
}
