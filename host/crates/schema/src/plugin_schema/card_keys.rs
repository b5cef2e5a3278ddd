//! Keys to the cards: taken out of the statements of schema.sql and made last of all.
//!
//! While the file runs, a check that always holds stands in the place of each, under the name that the key will have.
//! PostgreSQL renames, drops and copies it as it would the key, so that what the file does to the key, its column or
//! its table afterwards comes out the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Context as _;
use tokio_postgres::Transaction;

use super::{constraints::Constraint, failure::Failure, late_checks::SMALL_TABLE_BYTES};
use crate::keyed_tables::{INDEXED, KEYED};
use cardinal_control::link::ProvisionFault;
use cardinal_database::sql;
use cardinal_schema_sql::{CardKey, KeyPlace, Position, Statement};

/// A session that waits for the cards gives up soon: their writers queue behind it. It is tried again a while later.
const CARDS_LOCK_TIMEOUT: &str = "200ms";
/// Nothing of the plugin's runs any more.
const LOCKED_SETTINGS: &str =
    "SET LOCAL statement_timeout = '1500ms'; SET LOCAL idle_in_transaction_session_timeout = '2s'";
/// Where PostgreSQL cuts names off.
const MAX_NAME_BYTES: usize = 63;
/// From here on a partitioned table can have a key that is not validated yet.
const PARTITIONED_NOT_VALID: i32 = 180_000;

const NAMES: &str =
    "SELECT k.conname::text FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace
    WHERE n.nspname = $1";
/// Every check that stands in a key's place, copies and inherited ones included. Reading an expression can lock its
/// table, so no other plugin's is: `MATERIALIZED` keeps the planner from asking for it first.
const PLACES: &str = "
    WITH checks AS MATERIALIZED (
      SELECT k.* FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace
      WHERE n.nspname = $1 AND k.contype = 'c'
    )
    SELECT k.conrelid, c.relname::text, k.conname::text, k.coninhcount > 0 AS is_inherited,
           c.relkind = 'p' AS is_partitioned, k.convalidated, pg_catalog.pg_get_expr(k.conbin, k.conrelid) AS condition,
           a.attname::text, a.atttypid = 'pg_catalog.uuid'::pg_catalog.regtype AS is_uuid,
           pg_catalog.obj_description(k.oid, 'pg_constraint') AS comment,
           pg_catalog.current_setting('server_version_num')::int AS server
    FROM checks k
    JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
    JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
    WHERE pg_catalog.strpos(pg_catalog.pg_get_expr(k.conbin, k.conrelid), $2) > 0
    ORDER BY k.oid";

/// Of a table and the name of a column.
static IS_INDEXED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {INDEXED} FROM (
           SELECT attrelid, attnum FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attname = $2) key (relation, number)"
    )
});

/// In a schema, keys to tables with a key to the cards, the tables $2 among them, and to tables with a key to those.
/// Asking for a table's size locks it, so no other plugin's table is asked for its own.
static FURTHER_KEYS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH RECURSIVE {KEYED}, further (relation) AS (
           SELECT relation FROM keyed UNION SELECT pg_catalog.unnest($2::pg_catalog.oid[])
           UNION SELECT k.conrelid FROM pg_catalog.pg_constraint k JOIN further f ON f.relation = k.confrelid WHERE k.contype = 'f'
         ),
         own AS MATERIALIZED (
           SELECT k.oid, k.conrelid, k.conkey, t.relname
           FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class t ON t.oid = k.conrelid
           JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace,
           LATERAL (SELECT k.conrelid, k.conkey[1]) key (relation, number)
           WHERE n.nspname = $1 AND k.contype = 'f' AND k.conparentid = 0 AND k.confrelid IN (SELECT relation FROM further) AND NOT {INDEXED}
         )
         SELECT k.oid, k.relname::text, ARRAY(
           SELECT a.attname::text FROM pg_catalog.unnest(k.conkey) WITH ORDINALITY c (number, place)
           JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = c.number ORDER BY c.place) AS columns
         FROM own k WHERE pg_catalog.pg_relation_size(k.conrelid) <= {SMALL_TABLE_BYTES}
         ORDER BY k.oid"
    )
});

/// The keys of one run.
pub(super) struct CardKeys<'a> {
    schema: &'a str,
    /// Random, so that no check of the file's can look like one of these.
    tag: String,
    keys: Vec<Pending>,
}

struct Pending {
    key: CardKey,
    position: Position,
    /// The table that has it. A check is copied to others, a key is not.
    table: Option<u32>,
}

/// A check that stands in a key's place, as the catalog has it.
struct Place {
    number: usize,
    relation: u32,
    table: String,
    name: String,
    is_inherited: bool,
    is_partitioned: bool,
    is_validated: bool,
    column: String,
    is_uuid: bool,
    comment: Option<String>,
    server: i32,
}

/// Keys that are ready to be made.
pub(super) struct ReadyKeys<'a> {
    schema: &'a str,
    keys: Vec<(Place, Pending)>,
}

/// A key that is there.
pub(super) struct NewKey {
    pub key: Constraint,
    /// Whether the rows that were there have to hold to it.
    pub is_checked: bool,
}

impl<'a> CardKeys<'a> {
    /// With a tag that no text of the file can know.
    pub(super) fn new(schema: &'a str, tag: &str) -> Self {
        Self { schema, tag: format!("key {tag}"), keys: Vec::new() }
    }

    /// What stands in the check of each place, and in no other.
    pub(super) fn tag(&self) -> &str {
        &self.tag
    }

    /// The statement's text, with a check in the place of each key.
    pub(super) async fn hold_places(&mut self, tx: &Transaction<'_>, statement: &Statement) -> Result<String, Failure> {
        if statement.card_keys.is_empty() {
            return Ok(statement.sql.clone());
        }
        let rows = tx.query(NAMES, &[&self.schema]).await.context("listing the names of constraints")?;
        let mut taken: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        // A name that the file gives is taken, whatever stands before it.
        taken.extend(statement.constraint_names.iter().cloned());
        let first = self.keys.len();
        let mut names = Vec::new();
        for key in &statement.card_keys {
            let name = key.name.clone().unwrap_or_else(|| free_name(key, &taken));
            taken.insert(name.clone());
            names.push(name);
            self.keys.push(Pending { key: key.clone(), position: statement.position, table: None });
        }
        Ok(statement.with_keys(|number, key| self.check(&names[number], first + number, key)))
    }

    fn check(&self, name: &str, number: usize, key: &CardKey) -> String {
        let column = sql::identifier(&key.column);
        let text = sql::literal(&format!("{} {number};", self.tag));
        let end = match key.place {
            KeyPlace::Table { is_partitioned: false } => " NO INHERIT",
            KeyPlace::Added => " NOT VALID",
            KeyPlace::Column | KeyPlace::Table { is_partitioned: true } => "",
        };
        format!("CONSTRAINT {} CHECK ({column} IS NULL OR {text} IS NOT NULL){end}", sql::identifier(name))
    }

    /// Notes which tables have got the keys of a statement that has run. Of a table that was there already, CREATE
    /// TABLE IF NOT EXISTS makes none.
    pub(super) async fn remember(&mut self, tx: &Transaction<'_>, statement: &Statement) -> Result<(), Failure> {
        if statement.card_keys.is_empty() {
            return Ok(());
        }
        let first = self.keys.len() - statement.card_keys.len();
        for place in self.places(tx).await?.into_iter().filter(|place| place.number >= first && !place.is_inherited) {
            if let Some(pending) = self.keys.get_mut(place.number) {
                pending.table = Some(place.relation);
            }
        }
        Ok(())
    }

    async fn places(&self, tx: &Transaction<'_>) -> Result<Vec<Place>, Failure> {
        let rows = tx.query(PLACES, &[&self.schema, &self.tag]).await.context("looking for the places of keys")?;
        let number = |check: &str| -> Option<usize> {
            check.split_once(&self.tag)?.1.trim_start().split_once(';')?.0.parse().ok()
        };
        Ok(rows
            .iter()
            .filter_map(|row| {
                Some(Place {
                    number: number(row.get("condition"))?,
                    relation: row.get("conrelid"),
                    table: row.get("relname"),
                    name: row.get("conname"),
                    is_inherited: row.get("is_inherited"),
                    is_partitioned: row.get("is_partitioned"),
                    is_validated: row.get("convalidated"),
                    column: row.get("attname"),
                    is_uuid: row.get("is_uuid"),
                    comment: row.get("comment"),
                    server: row.get("server"),
                })
            })
            .collect())
    }

    /// Takes the checks away again. The rows are held against the cards now, while nobody waits for anything.
    pub(super) async fn give_up_places(self, tx: &Transaction<'_>, left: Duration) -> Result<ReadyKeys<'a>, Failure> {
        let schema = self.schema;
        if self.keys.is_empty() {
            return Ok(ReadyKeys { schema, keys: Vec::new() });
        }
        let limit = format!("SET LOCAL statement_timeout = {}", left.as_millis().max(1));
        tx.batch_execute(&limit).await.context("preparing the keys to the cards")?;
        let places = self.places(tx).await?;
        let mut pending: BTreeMap<usize, Pending> = self.keys.into_iter().enumerate().collect();
        let mut keys = Vec::new();
        for place in places.into_iter().filter(|place| !place.is_inherited) {
            let drop = place.key(schema).alter("DROP CONSTRAINT");
            tx.batch_execute(&drop).await.map_err(|error| Failure::from_statement(error, None))?;
            match pending.remove(&place.number) {
                Some(key) if key.table == Some(place.relation) => {
                    check_rows(tx, schema, &place, &key).await?;
                    keys.push((place, key));
                }
                // A copy, made by LIKE; the key itself may come later in the list.
                Some(key) => std::mem::drop(pending.insert(place.number, key)),
                None => {}
            }
        }
        Ok(ReadyKeys { schema, keys })
    }
}

impl Place {
    fn key(&self, schema: &str) -> Constraint {
        Constraint { schema: schema.to_owned(), table: self.table.clone(), name: self.name.clone() }
    }

    fn is_checked(&self, pending: &Pending) -> bool {
        // Of one that the file leaves unchecked, until it validates it.
        !pending.key.is_unchecked || self.is_validated
    }
}

async fn check_rows(tx: &Transaction<'_>, schema: &str, place: &Place, pending: &Pending) -> Result<(), Failure> {
    let refuse = |code, expected, found: String, fix| {
        let found = format!("{found}, in the statement at {}", pending.position);
        Err(Failure::Refused(ProvisionFault::refused(code, expected, found, fix)))
    };
    let (table, column) = (&place.table, &place.column);
    if !place.is_uuid {
        let fix = "Write `card_id uuid REFERENCES public.master_cards (id)`, with any name for the column.";
        return refuse(
            "schema-unsafe",
            super::catalog::EXPECTED,
            format!("a key to the cards that is no uuid: {table}.{column}"),
            fix,
        );
    }
    if !place.is_checked(pending) {
        return Ok(());
    }
    let only = if place.is_partitioned { "" } else { "ONLY" };
    let sql = format!(
        "SELECT EXISTS (SELECT FROM {only} {schema}.{table} x WHERE x.{column} IS NOT NULL
           AND NOT EXISTS (SELECT FROM public.master_cards c WHERE c.id OPERATOR(pg_catalog.=) x.{column}))",
        schema = sql::identifier(schema),
        table = sql::identifier(table),
        column = sql::identifier(column),
    );
    let row = tx.query_one(&sql, &[]).await.map_err(|error| Failure::from_statement(error, None))?;
    if row.try_get(0).context("holding rows against the cards")? {
        let found =
            format!("23503 a row of {table} whose {column} is no card's id, which the key {} forbids", place.name);
        return refuse(
            "schema-failed",
            "schema.sql to run without an error",
            found,
            "Correct schema.sql, or the rows.",
        );
    }
    Ok(())
}

impl ReadyKeys<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Gives the column of each an index where it has none: the removal of any card looks for its rows in each such
    /// table, and would read the whole of it.
    pub(super) async fn index(&self, tx: &Transaction<'_>) -> Result<(), Failure> {
        for (place, _) in &self.keys {
            let row = tx.query_one(IS_INDEXED.as_str(), &[&place.relation, &place.column]).await;
            let is_indexed = row.and_then(|row| row.try_get(0)).context("looking for the index of a key")?;
            if is_indexed {
                continue;
            }
            // Of a name that no schema.sql gives by chance.
            let name = made_name(&format!("card_key_{}", place.relation), &place.column, "idx");
            let [schema, table, name, column] = [self.schema, &place.table, &name, &place.column].map(sql::identifier);
            let make = format!("CREATE INDEX {name} ON {schema}.{table} ({column})");
            tx.batch_execute(&make).await.map_err(|error| Failure::from_statement(error, None))?;
        }
        Ok(())
    }

    /// Keys to tables whose rows go with a card have their index, too: PostgreSQL looks for the rows of each row that
    /// goes. A large table keeps what it has: removals of cards would wait while its index is made.
    pub(super) async fn index_further(&self, tx: &Transaction<'_>) -> anyhow::Result<()> {
        let keyed: Vec<u32> = self.keys.iter().map(|(place, _)| place.relation).collect();
        let rows = tx.query(FURTHER_KEYS.as_str(), &[&self.schema, &keyed]).await;
        for row in rows.context("looking for keys without an index")? {
            let (table, columns): (String, Vec<String>) = (row.try_get("relname")?, row.try_get("columns")?);
            let name = made_name(&format!("key_{}", row.try_get::<_, u32>("oid")?), &columns.join("_"), "idx");
            let columns: Vec<String> = columns.iter().map(|column| sql::identifier(column)).collect();
            let [schema, identifier, name] = [self.schema, &table, &name].map(sql::identifier);
            let make =
                format!("SAVEPOINT further; CREATE INDEX {name} ON {schema}.{identifier} ({})", columns.join(", "));
            let end = match tx.batch_execute(&make).await {
                Ok(()) => "RELEASE further",
                Err(error) => {
                    tracing::warn!(schema = self.schema, table, error = ?error, "no index for a key: removing cards may take long");
                    "ROLLBACK TO further; RELEASE further"
                }
            };
            tx.batch_execute(end).await.context("ending the try of an index")?;
        }
        Ok(())
    }

    /// Makes them. Takes the lock on the cards, so nothing but the host's own may run from here to the commit.
    pub(super) async fn make(self, tx: &Transaction<'_>) -> Result<Vec<NewKey>, Failure> {
        if self.keys.is_empty() {
            return Ok(Vec::new());
        }
        let settings = format!("{LOCKED_SETTINGS}; SET LOCAL lock_timeout = '{CARDS_LOCK_TIMEOUT}'");
        let (mut all, mut made) = (settings, Vec::new());
        for (place, pending) in &self.keys {
            all.push_str(&format!("; {}", add(self.schema, place, pending)));
            made.push(NewKey { key: place.key(self.schema), is_checked: place.is_checked(pending) });
        }
        tx.batch_execute(&all).await.map_err(|error| Failure::from_statement(error, None))?;
        Ok(made)
    }
}

fn add(schema: &str, place: &Place, pending: &Pending) -> String {
    let (name, column) = (sql::identifier(&place.name), sql::identifier(&place.column));
    let options = &pending.key.options;
    let table = format!("{}.{}", sql::identifier(schema), sql::identifier(&place.table));
    // Without a look at the rows, but for a server that knows no such key of a partitioned table.
    let is_validated_now = place.is_partitioned && place.server < PARTITIONED_NOT_VALID;
    let not_valid = if is_validated_now { "" } else { "NOT VALID" };
    let key = format!("FOREIGN KEY ({column}) REFERENCES public.master_cards (id) {options} {not_valid}");
    let comment = place
        .comment
        .as_ref()
        .map(|comment| format!("; COMMENT ON CONSTRAINT {name} ON {table} IS {}", sql::literal(comment)));
    format!("ALTER TABLE {table} ADD CONSTRAINT {name} {key}{}", comment.unwrap_or_default())
}

/// The name that PostgreSQL would give the key, which is none that the schema has.
fn free_name(key: &CardKey, taken: &BTreeSet<String>) -> String {
    let names = (0..).map(|number| match number {
        0 => made_name(&key.table, &key.column, "fkey"),
        number => made_name(&key.table, &key.column, &format!("fkey{number}")),
    });
    names.into_iter().find(|name| !taken.contains(name)).unwrap_or_default()
}

/// As PostgreSQL's `makeObjectName`: the longer one of table and column is cut until both fit.
fn made_name(table: &str, column: &str, label: &str) -> String {
    let room = MAX_NAME_BYTES - label.len() - 2;
    let (mut table_length, mut column_length) = (table.len(), column.len());
    while table_length + column_length > room {
        if table_length > column_length { table_length -= 1 } else { column_length -= 1 }
    }
    let (table_end, column_end) = (table.floor_char_boundary(table_length), column.floor_char_boundary(column_length));
    format!("{}_{}_{label}", &table[..table_end], &column[..column_end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_as_postgresql_makes_them() {
        assert_eq!(made_name("notes", "card_id", "fkey"), "notes_card_id_fkey");
        let (long, other) = ("t".repeat(60), "c".repeat(60));
        let made = made_name(&long, &other, "fkey1");
        assert_eq!((made.len(), made.ends_with("_fkey1")), (MAX_NAME_BYTES, true));
        assert_eq!(made_name(&"é".repeat(40), "cc", "fkey").len(), MAX_NAME_BYTES - 1);
    }
}
