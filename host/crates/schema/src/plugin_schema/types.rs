//! Types and domains that an earlier run of schema.sql made. There is no IF NOT EXISTS for them, and no other way to
//! say them in a file that runs again.
//!
//! One that is there is left as it is if the file says the same. To compare the two, PostgreSQL makes the file's beside
//! the other, under another name, and that is undone: nothing here has to know how it writes a default or a check.

use anyhow::Context as _;
use cardinal_base::printable::plain;
use cardinal_control::link::ProvisionFault;
use cardinal_database::sql::identifier;
use cardinal_schema_sql::{NewType, Statement};
use tokio_postgres::Transaction;

use super::{
    block::{in_block, random_tag},
    failure::Failure,
};

/// Whether the type that the statement makes is there: of the same sort, and an enum with all of its values. Any other
/// one of its name PostgreSQL refuses.
pub(super) async fn is_made(tx: &Transaction<'_>, schema: &str, statement: &Statement) -> anyhow::Result<bool> {
    let Some(NewType { name, letter, values }) = &statement.new_type else { return Ok(false) };
    let sql = format!(
        "SELECT EXISTS (
           SELECT FROM pg_catalog.pg_type t
           JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
           LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
           WHERE n.nspname = $1 AND t.typname = $2 AND t.typtype::text = $3 AND coalesce(c.relkind = 'c', true)
             AND ARRAY[{}]::text[] <@ ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid))",
        values.join(", ")
    );
    let there = tx.query_one(&sql, &[&schema, name, letter]).await.and_then(|row| row.try_get(0));
    there.context("looking for a type that schema.sql makes")
}

/// What a type consists of, as PostgreSQL writes it: attributes in their order, what a domain says, or a range's parts.
const DESCRIPTION: &str = "
    SELECT ARRAY(
      SELECT pg_catalog.format('%I %s%s', a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
                               (SELECT pg_catalog.format(' COLLATE %I', l.collname) FROM pg_catalog.pg_collation l
                                WHERE l.oid = a.attcollation AND l.oid <> p.typcollation))
      FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type p ON p.oid = a.atttypid
      WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
    || ARRAY(
      SELECT part FROM pg_catalog.unnest(ARRAY[
        'AS ' || pg_catalog.format_type(t.typbasetype, t.typtypmod),
        (SELECT pg_catalog.format('COLLATE %I', l.collname) FROM pg_catalog.pg_collation l
         JOIN pg_catalog.pg_type p ON p.oid = t.typbasetype WHERE l.oid = t.typcollation AND l.oid <> p.typcollation),
        'DEFAULT ' || pg_catalog.pg_get_expr(t.typdefaultbin, 0),
        CASE WHEN t.typnotnull THEN 'NOT NULL' END]) part
      WHERE t.typtype = 'd' AND part IS NOT NULL)
    || ARRAY(
      SELECT pg_catalog.regexp_replace(pg_catalog.pg_get_constraintdef(k.oid), ' NOT VALID$', '')
      FROM pg_catalog.pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c' ORDER BY 1)
    || ARRAY(
      SELECT pg_catalog.format('SUBTYPE = %s, SUBTYPE_OPCLASS = %s%s%s', pg_catalog.format_type(r.rngsubtype, NULL), o.opcname,
                               (SELECT pg_catalog.format(', COLLATION = %I', l.collname) FROM pg_catalog.pg_collation l
                                JOIN pg_catalog.pg_type p ON p.oid = r.rngsubtype WHERE l.oid = r.rngcollation AND l.oid <> p.typcollation),
                               CASE WHEN r.rngsubdiff::oid <> 0 THEN ', SUBTYPE_DIFF = ' || r.rngsubdiff::text END)
      FROM pg_catalog.pg_range r JOIN pg_catalog.pg_opclass o ON o.oid = r.rngsubopc WHERE r.rngtypid = t.oid)
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE n.nspname = $1 AND t.typname = $2";

/// Holds a composite type, a domain or a range that is there against the file, and refuses a difference, unless a
/// statement behind this one alters the type: then the author has seen to it. Nothing is added by itself, since a
/// backup has no more than the files to make the types again. Enums get their values by
/// `ALTER TYPE ... ADD VALUE IF NOT EXISTS`.
pub(super) async fn compare(
    tx: &Transaction<'_>,
    schema: &str,
    statement: &Statement,
    later: &[Statement],
    settings: &str,
) -> Result<(), Failure> {
    let Some(new) = statement.new_type.as_ref().filter(|new| new.letter != "e") else { return Ok(()) };
    if later.iter().any(|later| later.altered_type.as_ref() == Some(&new.name)) {
        return Ok(());
    }
    let (there, written) = both(tx, schema, statement, &new.name, settings).await?;
    if there == written {
        return Ok(());
    }
    Err(Failure::Refused(refusal(&new.name, statement, &there, &written)))
}

/// What is there, and what the file's statement makes.
async fn both(
    tx: &Transaction<'_>,
    schema: &str,
    statement: &Statement,
    name: &str,
    settings: &str,
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let there = describe(tx, schema, name).await?;
    let tag = random_tag()?;
    let aside = |number: usize| format!("aside_{number}_{tag}");
    let text = statement.with_type_names(|number| format!("{}.{}", identifier(schema), identifier(&aside(number))));
    let make = format!("SAVEPOINT aside; {settings}; {}", in_block(&text)?);
    tx.batch_execute(&make).await.map_err(|error| Failure::from_statement(error, Some(statement)))?;
    let written = describe(tx, schema, &aside(0)).await?;
    tx.batch_execute("ROLLBACK TO SAVEPOINT aside; RELEASE SAVEPOINT aside").await.context("undoing a comparison")?;
    Ok((there, written))
}

async fn describe(tx: &Transaction<'_>, schema: &str, name: &str) -> anyhow::Result<Vec<String>> {
    let row = tx.query_one(DESCRIPTION, &[&schema, &name]).await;
    row.and_then(|row| row.try_get(0)).context("looking at what a type consists of")
}

fn refusal(name: &str, statement: &Statement, there: &[String], written: &[String]) -> ProvisionFault {
    let (there, written) = differences(there, written);
    let found =
        format!("type {name} is there with {there}, and the statement at {} says {written}", statement.position);
    ProvisionFault::refused(
        "schema-failed",
        "types and domains that are there to be as schema.sql makes them",
        plain(&found),
        "Leave the CREATE as it was and change the type behind it with ALTER TYPE or ALTER DOMAIN, or make another one under a name \
         of its own and give it to the columns.",
    )
}

/// What only one of the two has; all of both when they differ in their order.
fn differences(there: &[String], written: &[String]) -> (String, String) {
    let shown = |these: &[String], others: &[String]| {
        let only: Vec<_> = these.iter().filter(|part| !others.contains(part)).map(String::as_str).collect();
        if only.is_empty() { "nothing more".to_owned() } else { format!("`{}`", only.join(", ")) }
    };
    let is_order = there.len() == written.len() && there.iter().all(|part| written.contains(part));
    let (others_there, others_written): (&[String], &[String]) = if is_order { (&[], &[]) } else { (written, there) };
    (shown(there, others_there), shown(written, others_written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_shown_and_nothing_else() {
        let parts = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let shown = |there: &[&str], written: &[&str]| differences(&parts(there), &parts(written));
        let pair = |there: &str, written: &str| (there.to_owned(), written.to_owned());
        assert_eq!(shown(&["a int", "b text"], &["a int", "b int"]), pair("`b text`", "`b int`"));
        assert_eq!(shown(&["AS text", "NOT NULL"], &["AS text"]), pair("`NOT NULL`", "nothing more"));
        assert_eq!(shown(&["a int", "b int"], &["b int", "a int"]), pair("`a int, b int`", "`b int, a int`"));
    }
}
