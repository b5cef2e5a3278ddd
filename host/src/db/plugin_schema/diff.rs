//! What a schema.sql did to the tables that were there: nothing may be lost without the operator's word.

use std::collections::BTreeMap;

use anyhow::Context as _;
use tokio_postgres::Transaction;

use super::ProvisionFault;

/// By what the server calls them inside, so that a table or column that was dropped and made again under the same
/// name counts as lost: its data is.
pub(super) type Tables = BTreeMap<u32, Table>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    name: String,
    columns: BTreeMap<i16, Column>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    name: String,
    kind: String,
}

const TABLES: &str = "
    SELECT c.oid, c.relname::text, a.attnum, a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod)
    FROM pg_catalog.pg_class c
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1) AND c.relkind IN ('r', 'p')";

pub(super) async fn tables(work: &Transaction<'_>, schema: &str) -> anyhow::Result<Tables> {
    let rows = work.query(TABLES, &[&schema]).await.context("listing the plugin's tables")?;
    let mut tables = Tables::new();
    for row in rows {
        let table = tables.entry(row.try_get(0)?).or_insert(Table { name: row.try_get(1)?, columns: BTreeMap::new() });
        // Absent for a table without columns.
        if let Some(number) = row.try_get::<_, Option<i16>>(2)? {
            table.columns.insert(number, Column { name: row.try_get(3)?, kind: row.try_get(4)? });
        }
    }
    Ok(tables)
}

/// Unless an operator has agreed to every one of these losses.
pub(super) fn refusal(lost: &[String], agreed: &[String]) -> Option<ProvisionFault> {
    if lost.iter().all(|loss| agreed.contains(loss)) {
        return None;
    }
    let fault = ProvisionFault::refused(
        "destructive-migration",
        "schema.sql to keep every table and column that is there, with its name and type",
        lost.join("; "),
        "add new columns beside the old ones, or have an operator confirm the loss: POST \
         /v1/admin/plugin-registry/{name}/confirm-migration with the package's sha256, after a backup",
    );
    Some(fault.losing(lost.to_vec()))
}

/// What is not there any more as it was, in the words that an operator confirms.
pub(super) fn lost(before: &Tables, after: &Tables) -> Vec<String> {
    let mut lost = Vec::new();
    for (id, old) in before {
        match after.get(id) {
            None => lost.push(format!("table {} is dropped", old.name)),
            Some(new) if new.name != old.name => lost.push(format!("table {} is renamed to {}", old.name, new.name)),
            Some(new) => lost.extend(lost_columns(old, new)),
        }
    }
    lost
}

fn lost_columns(old: &Table, new: &Table) -> Vec<String> {
    let change = |(number, was): (&i16, &Column)| {
        let name = format!("column {}.{}", old.name, was.name);
        match new.columns.get(number) {
            None => Some(format!("{name} is dropped")),
            Some(is) if is.name != was.name => Some(format!("{name} is renamed to {}", is.name)),
            Some(is) if is.kind != was.kind => Some(format!("{name} changes from {} to {}", was.kind, is.kind)),
            Some(_) => None,
        }
    };
    old.columns.iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, columns: &[(i16, &str, &str)]) -> Table {
        let column = |(number, name, kind): &(i16, &str, &str)| {
            (*number, Column { name: (*name).to_owned(), kind: (*kind).to_owned() })
        };
        Table { name: name.to_owned(), columns: columns.iter().map(column).collect() }
    }

    #[test]
    fn additions_lose_nothing() {
        let before = Tables::from([(1, table("items", &[(1, "id", "bigint")]))]);
        let mut after = Tables::from([(1, table("items", &[(1, "id", "bigint"), (2, "v", "text")]))]);
        after.insert(2, table("more", &[]));
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
    fn each_loss_is_named() {
        let before = Tables::from([
            (1, table("items", &[(1, "id", "bigint"), (2, "v", "text"), (3, "w", "text")])),
            (2, table("gone", &[])),
            (3, table("old", &[])),
        ]);
        let after = Tables::from([
            (1, table("items", &[(1, "id", "integer"), (3, "x", "text"), (4, "v", "text")])),
            (3, table("new", &[])),
            (4, table("gone", &[])),
        ]);
        assert_eq!(
            lost(&before, &after),
            [
                "column items.id changes from bigint to integer",
                "column items.v is dropped",
                "column items.w is renamed to x",
                "table gone is dropped",
                "table old is renamed to new",
            ]
        );
    }
}
