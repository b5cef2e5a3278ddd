//! What a schema.sql did to the tables that were there: nothing may be lost without the operator's word.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use tokio_postgres::Transaction;

use cardinal_base::printable::plain;
use cardinal_control::link::ProvisionFault;

/// What holds data, by what the server calls it inside, so that a table or column that was dropped and made again under
/// the same name counts as lost: its data is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Holders {
    pub tables: BTreeMap<u32, Table>,
    /// Labels of enums that a table stores, with their type.
    labels: BTreeMap<u32, (String, String)>,
    /// Partitions and inheriting tables with those that show their rows.
    pub parents: BTreeSet<(u32, u32)>,
}

/// A table, or a composite type that a table stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub name: String,
    pub is_type: bool,
    is_logged: bool,
    pub columns: BTreeMap<i16, Column>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub name: String,
    /// As people read it.
    kind: String,
    /// As the server knows it: another type may get the name of this one.
    type_id: (u32, i32),
}

/// Types of the columns of the plugin's tables, and whatever they are made of.
const STORED: &str = "
    WITH RECURSIVE own AS (
      SELECT c.oid, c.relname, c.relkind, c.relpersistence, c.reltype FROM pg_catalog.pg_class c
      WHERE c.relnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = $1)
    ),
    stored(type) AS (
      SELECT a.atttypid FROM own JOIN pg_catalog.pg_attribute a ON a.attrelid = own.oid
      WHERE own.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
      UNION
      SELECT part.type FROM stored s JOIN pg_catalog.pg_type t ON t.oid = s.type, LATERAL (
        SELECT t.typelem UNION ALL SELECT t.typbasetype
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
                  WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid
        UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngmultitypid = t.oid
      ) AS part(type) WHERE part.type <> 0
    )";
const TABLES: &str = "
    SELECT own.oid, own.relname::text, own.relkind = 'c' AS is_type, own.relpersistence <> 'u' AS is_logged, a.attnum, a.attname::text,
           pg_catalog.format_type(a.atttypid, a.atttypmod) AS kind, a.atttypid, a.atttypmod
    FROM own LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = own.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE own.relkind IN ('r', 'p') OR own.relkind = 'c' AND own.reltype IN (SELECT type FROM stored)";
const LABELS: &str = "
    SELECT e.oid, t.typname::text, e.enumlabel::text FROM pg_catalog.pg_enum e JOIN pg_catalog.pg_type t ON t.oid = e.enumtypid
    WHERE t.oid IN (SELECT type FROM stored)";
const PARENTS: &str = "
    SELECT i.inhrelid, i.inhparent FROM pg_catalog.pg_inherits i JOIN own ON own.oid = i.inhrelid
    WHERE own.relkind IN ('r', 'p')";

/// Needs a session in which no name means anything of the plugin's.
pub(super) async fn holders(tx: &Transaction<'_>, schema: &str) -> anyhow::Result<Holders> {
    let (mut holders, own) = (Holders::default(), format!("{schema}."));
    for row in query_rows(tx, TABLES, schema).await? {
        let table = holders.tables.entry(row.try_get("oid")?).or_insert(Table {
            name: name(row.try_get("relname")?),
            is_type: row.try_get("is_type")?,
            is_logged: row.try_get("is_logged")?,
            columns: BTreeMap::new(),
        });
        // Absent for a table without columns.
        if let Some(number) = row.try_get::<_, Option<i16>>("attnum")? {
            let type_id = (row.try_get("atttypid")?, row.try_get("atttypmod")?);
            // With the schema or without, by the search path of the moment.
            let kind = name(row.try_get::<_, String>("kind")?.replace(&own, ""));
            table.columns.insert(number, Column { name: name(row.try_get("attname")?), kind, type_id });
        }
    }
    for row in query_rows(tx, LABELS, schema).await? {
        holders.labels.insert(row.try_get("oid")?, (name(row.try_get("typname")?), name(row.try_get("enumlabel")?)));
    }
    for row in query_rows(tx, PARENTS, schema).await? {
        holders.parents.insert((row.try_get("inhrelid")?, row.try_get("inhparent")?));
    }
    Ok(holders)
}

/// As operators see it, and confirm it.
fn name(written: String) -> String {
    plain(&written)
}

async fn query_rows(tx: &Transaction<'_>, what: &str, schema: &str) -> anyhow::Result<Vec<tokio_postgres::Row>> {
    tx.query(&format!("{STORED}{what}"), &[&schema]).await.context("listing what holds the plugin's data")
}

/// Unless an operator has agreed to every one of these losses.
pub(super) fn refusal(lost: &[String], agreed: &[String]) -> Option<ProvisionFault> {
    if lost.iter().all(|loss| agreed.contains(loss)) {
        return None;
    }
    let fault = ProvisionFault::refused(
        "destructive-migration",
        "schema.sql to keep what is there: tables and columns with their names and types, and the rows in them",
        lost.join("; "),
        "add new columns beside the old ones, change rows when the plugin runs, or have an operator confirm the loss: POST \
         /v1/admin/plugin-registry/{name}/confirm-migration with the package's sha256, after a backup",
    );
    Some(fault.losing(lost.to_vec()))
}

/// What is not there any more as it was, in the words that an operator confirms.
pub(super) fn lost(before: &Holders, after: &Holders) -> Vec<String> {
    let mut lost = Vec::new();
    for (id, old) in &before.tables {
        match after.tables.get(id) {
            // A type goes with the columns of that type, which are named by themselves.
            None if old.is_type => {}
            None => lost.push(format!("table {} is dropped", old.name)),
            Some(new) if new.name != old.name && !old.is_type => {
                lost.push(format!("table {} is renamed to {}", old.name, new.name));
            }
            Some(new) => {
                if old.is_logged && !new.is_logged {
                    lost.push(format!("table {} becomes UNLOGGED, which a crash empties", old.name));
                }
                lost.extend(lost_columns(old, new));
            }
        }
    }
    lost.extend(lost_labels(before, after));
    lost.extend(detached(before, after));
    lost
}

fn lost_columns(old: &Table, new: &Table) -> Vec<String> {
    let what = if old.is_type { "attribute" } else { "column" };
    let change = |(number, was): (&i16, &Column)| {
        let name = format!("{what} {}.{}", old.name, was.name);
        match new.columns.get(number) {
            None => Some(format!("{name} is dropped")),
            Some(is) if is.name != was.name => Some(format!("{name} is renamed to {}", is.name)),
            Some(is) if is.kind != was.kind => Some(format!("{name} changes from {} to {}", was.kind, is.kind)),
            Some(_) => None,
        }
    };
    old.columns.iter().filter_map(change).collect()
}

/// What a statement has converted, of columns that were there before the step: the values do not come back when the
/// next statement gives the column its old type again.
pub(super) fn converted(before: &Holders, last: &Holders, now: &Holders) -> Vec<String> {
    let mut converted = Vec::new();
    for (id, known) in before.tables.iter().filter(|(_, table)| !table.is_type) {
        let (Some(was), Some(is)) = (last.tables.get(id), now.tables.get(id)) else { continue };
        for (number, column) in &known.columns {
            let (Some(was), Some(is)) = (was.columns.get(number), is.columns.get(number)) else { continue };
            if was.type_id != is.type_id {
                let name = format!("{}.{}", known.name, column.name);
                converted.push(format!("column {name} changes from {} to {}", was.kind, is.kind));
            }
        }
    }
    converted
}

fn lost_labels(before: &Holders, after: &Holders) -> Vec<String> {
    let change = |(id, (kind, was)): (&u32, &(String, String))| {
        let (_, is) = after.labels.get(id)?;
        (is != was).then(|| format!("value {was} of type {kind} is renamed to {is}"))
    };
    before.labels.iter().filter_map(change).collect()
}

/// Whoever reads the one table does not find the other's rows there any more.
fn detached(before: &Holders, after: &Holders) -> Vec<String> {
    let name = |id: &u32| after.tables.get(id).map(|table| &table.name);
    let gone =
        |(child, parent): &(u32, u32)| Some(format!("table {} is detached from {}", name(child)?, name(parent)?));
    before.parents.difference(&after.parents).filter_map(gone).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn table(name: &str, columns: &[(i16, &str, &str)]) -> Table {
        let column = |(number, name, kind): &(i16, &str, &str)| {
            // As good as a number of the type.
            let type_id = (kind.bytes().map(u32::from).sum(), -1);
            (*number, Column { name: (*name).to_owned(), kind: (*kind).to_owned(), type_id })
        };
        Table { name: name.to_owned(), is_type: false, is_logged: true, columns: columns.iter().map(column).collect() }
    }

    pub(crate) fn holders(tables: impl IntoIterator<Item = (u32, Table)>) -> Holders {
        Holders { tables: tables.into_iter().collect(), ..Holders::default() }
    }

    #[test]
    fn additions_lose_nothing() {
        let before = holders([(1, table("items", &[(1, "id", "bigint")]))]);
        let mut after =
            holders([(1, table("items", &[(1, "id", "bigint"), (2, "v", "text")])), (2, table("more", &[]))]);
        after.parents.insert((2, 1));
        after.labels.insert(3, ("mood".to_owned(), "good".to_owned()));
        assert!(lost(&before, &after).is_empty());
    }

    #[test]
    fn what_was_agreed_to_may_be_lost_and_nothing_else() {
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let (one, both) = (words(&["table a is dropped"]), words(&["table a is dropped", "table b is dropped"]));
        assert_eq!((refusal(&[], &[]), refusal(&one, &one), refusal(&one, &both)), (None, None, None));
        let Some(ProvisionFault::Refused { code, losses, .. }) = refusal(&both, &one) else { panic!("a refusal") };
        assert_eq!((code.as_str(), losses), ("destructive-migration", both));
    }

    #[test]
    fn a_type_that_comes_back_has_converted_the_values() {
        let at = |kind| holders([(1, table("items", &[(1, "n", kind)]))]);
        let (before, there) = (at("numeric"), at("integer"));
        assert!(lost(&before, &before).is_empty() && converted(&before, &before, &before).is_empty());
        assert_eq!(converted(&before, &before, &there), ["column items.n changes from numeric to integer"]);
        assert_eq!(converted(&before, &there, &before), ["column items.n changes from integer to numeric"]);
        let new = holders([(1, table("items", &[]))]);
        assert!(converted(&new, &before, &there).is_empty(), "a column of this step");
    }

    #[test]
    fn each_loss_is_named() {
        let size = |columns| Table { is_type: true, ..table("size", columns) };
        let mut before = holders([
            (1, table("items", &[(1, "id", "bigint"), (2, "v", "text"), (3, "w", "text")])),
            (2, table("gone", &[])),
            (3, table("old", &[])),
            (5, size(&[(1, "width", "integer"), (2, "height", "integer")])),
            (6, Table { is_type: true, ..table("unused", &[]) }),
        ]);
        before.parents.extend([(3, 1), (2, 1)]);
        before.labels.insert(7, ("mood".to_owned(), "good".to_owned()));
        let mut after = holders([
            (1, table("items", &[(1, "id", "integer"), (3, "x", "text"), (4, "v", "text")])),
            (3, table("new", &[])),
            (4, table("gone", &[])),
            (5, size(&[(1, "width", "bigint")])),
        ]);
        after.labels.insert(7, ("mood".to_owned(), "fine".to_owned()));
        assert_eq!(
            lost(&before, &after),
            [
                "column items.id changes from bigint to integer",
                "column items.v is dropped",
                "column items.w is renamed to x",
                "table gone is dropped",
                "table old is renamed to new",
                "attribute size.width changes from integer to bigint",
                "attribute size.height is dropped",
                "value good of type mood is renamed to fine",
                "table new is detached from items",
            ]
        );
        let unlogged = holders([(1, Table { is_logged: false, ..table("items", &[]) })]);
        assert_eq!(
            lost(&holders([(1, table("items", &[]))]), &unlogged),
            ["table items becomes UNLOGGED, which a crash empties"]
        );
    }
}
