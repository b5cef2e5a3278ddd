//! What a backup reads of a schema, and what a restore does to it: tables by COPY, sequences, and the keys and triggers
//! that have to stand aside while rows come in in any order. Names come back qualified, since `search_path` is
//! `pg_catalog` in these sessions.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, CopyInSink, CopyOutStream, error::SqlState};

use cardinal_database::sql;

mod checks;
mod databases;

pub use checks::{Check, checks_again, checks_aside};
pub use databases::{create_database, drop_database, exchange, may_replace};

/// Text forms that any version reads back, and no time-outs: a large table takes what it takes. Not every version knows
/// those of the last line.
const SESSION_SQL: &str =
    "SET search_path = pg_catalog, pg_temp; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'postgres';
    SET timezone = 'UTC'; SET bytea_output = 'hex'; SET extra_float_digits = 1; SET statement_timeout = 0;
    SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '60s'; SET client_encoding = 'UTF8';
    SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('idle_session_timeout', 'transaction_timeout')";

/// Made anew by whoever restores: history that the restore itself writes, and the secret. Events are of the database
/// that they happened in; their readers have to fetch anew, and so are those of changed rights. What is in service is
/// told by the hosts that live. An approval that was used since would be good once more. Lists' own tables are filled
/// from the cards.
const NOT_DUMPED: [&str; 14] = [
    "core_migrations",
    "cardinal_secret",
    "plugin_schema_state",
    "plugin_schema_steps",
    "plugin_service",
    "event_outbox",
    "events",
    "event_numbers",
    "identity_changes",
    "mcp_approvals",
    "card_groups",
    "card_list_index",
    "card_words",
    "card_times",
];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    pub schema: String,
    pub name: String,
    /// Without those that the server computes.
    pub columns: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    pub schema: String,
    pub name: String,
    pub last_value: i64,
    pub is_called: bool,
}

/// One schema.sql that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaStep {
    pub plugin: String,
    pub number: i32,
    pub version: String,
    pub schema_sql: String,
}

impl Table {
    fn qualified(&self) -> String {
        format!("{}.{}", sql::identifier(&self.schema), sql::identifier(&self.name))
    }

    fn columns(&self) -> String {
        if self.columns.is_empty() {
            return String::new();
        }
        let names: Vec<String> = self.columns.iter().map(|name| sql::identifier(name)).collect();
        format!(" ({})", names.join(", "))
    }
}

/// Begins to read everything as it is at this moment; the name by which other sessions see the same moment.
///
/// # Errors
/// As the server reports them.
pub async fn begin_reading(client: &Client) -> anyhow::Result<String> {
    client.batch_execute(SESSION_SQL).await.context("preparing a session")?;
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await.context("beginning to read")?;
    let row = client.query_one("SELECT pg_catalog.pg_export_snapshot()", &[]).await.context("taking a snapshot")?;
    Ok(row.try_get(0)?)
}

/// How long the steps that are under way are waited for: longer than one takes.
const STEPS_LIMIT: &str = "120s";

/// Waits until no step of a plugin is under way, and keeps others from beginning until the session ends: between its
/// commit and its record a step has made tables that the record does not know.
///
/// # Errors
/// As the server reports them.
pub async fn hold_steps(holder: &Client) -> anyhow::Result<()> {
    let hold =
        format!("BEGIN; SET LOCAL lock_timeout = '{STEPS_LIMIT}'; SELECT FROM public.plugin_schema_state FOR SHARE");
    holder.batch_execute(&hold).await.context("waiting for the steps of plugins that are under way")
}

/// # Errors
/// As the server reports them.
pub async fn read_at(client: &Client, moment: &str) -> anyhow::Result<()> {
    client.batch_execute(SESSION_SQL).await.context("preparing a session")?;
    let begin =
        format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT {}", sql::literal(moment));
    client.batch_execute(&begin).await.context("beginning to read")
}

/// `schema` is where unqualified names in its own checks and defaults are looked up, as they were when it was made.
///
/// # Errors
/// As the server reports them.
pub async fn begin_writing(client: &Client, schema: &str) -> anyhow::Result<()> {
    client.batch_execute(SESSION_SQL).await.context("preparing a session")?;
    let begin = format!("SET search_path = {}, pg_temp; BEGIN", sql::identifier(schema));
    client.batch_execute(&begin).await.context("beginning to write")
}

/// # Errors
/// As the server reports them.
pub async fn commit(client: &Client) -> anyhow::Result<()> {
    client.batch_execute("COMMIT").await.context("committing")
}

/// Tables of a schema with rows of their own, in the order of their names. In `public` only the core's.
///
/// # Errors
/// As the server reports them.
pub async fn tables(client: &Client, schema: &str) -> anyhow::Result<Vec<Table>> {
    let rows = client
        .query(
            "SELECT c.relname::text, coalesce(array_agg(a.attname::text ORDER BY a.attnum)
               FILTER (WHERE a.attname IS NOT NULL), '{}') AS columns
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             LEFT JOIN pg_attribute a
               ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
             WHERE n.nspname = $1 AND c.relkind = 'r' AND (n.nspname <> 'public' OR pg_has_role(c.relowner, 'USAGE'))
             GROUP BY c.relname ORDER BY c.relname",
            &[&schema],
        )
        .await
        .with_context(|| format!("listing the tables of {schema}"))?;
    let table = |row: &tokio_postgres::Row| -> anyhow::Result<Table> {
        Ok(Table { schema: schema.to_owned(), name: row.try_get("relname")?, columns: row.try_get("columns")? })
    };
    let tables: Vec<Table> = rows.iter().map(table).collect::<anyhow::Result<_>>()?;
    Ok(tables.into_iter().filter(|table| schema != "public" || !NOT_DUMPED.contains(&table.name.as_str())).collect())
}

/// # Errors
/// As the server reports them.
pub async fn sequences(client: &Client, schema: &str) -> anyhow::Result<Vec<Sequence>> {
    let rows = client
        .query(
            "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = $1 AND c.relkind = 'S' AND (n.nspname <> 'public' OR pg_has_role(c.relowner, 'USAGE'))
             ORDER BY 1",
            &[&schema],
        )
        .await
        .with_context(|| format!("listing the sequences of {schema}"))?;
    let mut sequences = Vec::with_capacity(rows.len());
    for row in rows {
        let name: String = row.try_get(0)?;
        let read = format!("SELECT last_value, is_called FROM {}.{}", sql::identifier(schema), sql::identifier(&name));
        let row =
            client.query_one(&read, &[]).await.with_context(|| format!("reading the sequence {schema}.{name}"))?;
        sequences.push(Sequence {
            schema: schema.to_owned(),
            name,
            last_value: row.try_get("last_value")?,
            is_called: row.try_get("is_called")?,
        });
    }
    Ok(sequences)
}

/// # Errors
/// As the server reports them.
pub async fn set_sequence(client: &Client, sequence: &Sequence) -> anyhow::Result<()> {
    let name = format!("{}.{}", sql::identifier(&sequence.schema), sql::identifier(&sequence.name));
    client
        .execute(
            "SELECT pg_catalog.setval($1::text::regclass, $2, $3)",
            &[&name, &sequence.last_value, &sequence.is_called],
        )
        .await
        .with_context(|| format!("setting the sequence {name}"))?;
    Ok(())
}

/// What schema.sql each plugin was given, in order. Read as the owner of the core's tables.
///
/// # Errors
/// As the server reports them.
pub async fn schema_steps(client: &Client) -> anyhow::Result<Vec<SchemaStep>> {
    let rows = client
        .query(
            "SELECT plugin, number, plugin_version, schema_sql FROM public.plugin_schema_steps ORDER BY plugin, number",
            &[],
        )
        .await
        .context("reading how the plugins' schemas were made")?;
    let step = |row: &tokio_postgres::Row| -> anyhow::Result<SchemaStep> {
        Ok(SchemaStep {
            plugin: row.try_get("plugin")?,
            number: row.try_get("number")?,
            version: row.try_get("plugin_version")?,
            schema_sql: row.try_get("schema_sql")?,
        })
    };
    rows.iter().map(step).collect()
}

/// Plugins with tables of which it is not recorded how they were made.
///
/// # Errors
/// As the server reports them.
pub async fn unrecorded(client: &Client) -> anyhow::Result<Vec<String>> {
    let rows = client
        .query(
            "SELECT s.plugin FROM public.plugin_schema_state s WHERE s.schema_sha256 IS NOT NULL
             AND NOT EXISTS (SELECT FROM public.plugin_schema_steps t WHERE t.plugin = s.plugin) ORDER BY 1",
            &[],
        )
        .await
        .context("looking for schemas of unknown making")?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// Whether the server would not do something with a plugin's tables, and is there for all others: not a server that has
/// no room on its disk, or is gone. A session that was ended may have been by the plugin, which may end those of its
/// own login: look at the server then.
pub fn is_of_the_tables(error: &anyhow::Error) -> bool {
    if error.chain().any(|cause| cause.is::<RewriteError>()) {
        return true;
    }
    let Some(pg_error) = error.chain().find_map(|cause| cause.downcast_ref::<tokio_postgres::Error>()) else {
        return false;
    };
    // Why a session was ended may come too late to be read.
    let Some(code) = pg_error.code().map(SqlState::code) else { return pg_error.is_closed() };
    !["08", "57P02", "57P03", "58", "53100"].iter().any(|other| code.starts_with(other))
}

/// The rows of a table lie elsewhere than at the moment that is read: a statement that makes them anew (TRUNCATE, many
/// kinds of ALTER TABLE) has run since, and whoever reads that moment would find none.
#[derive(Debug, thiserror::Error)]
#[error("it was written anew while the backup ran: back up again")]
pub struct RewriteError;

/// # Errors
/// The server is not there any more.
pub async fn look_at_server(client: &Client) -> anyhow::Result<()> {
    client.batch_execute("SELECT 1").await.context("looking whether the server is there")
}

/// # Errors
/// As the server reports them.
pub async fn copy_out(client: &Client, table: &Table) -> anyhow::Result<CopyOutStream> {
    let name = table.qualified();
    let reading = || format!("reading {name}");
    let lock = format!("LOCK TABLE ONLY {name} IN ACCESS SHARE MODE");
    client.batch_execute(&lock).await.with_context(reading)?;
    // The row is of the moment that is read, the function's answer of now.
    let is_the_same = "SELECT EXISTS (SELECT FROM pg_class
                       WHERE oid = $1::text::regclass AND relfilenode = pg_relation_filenode(oid))";
    if !client.query_one(is_the_same, &[&name]).await.and_then(|row| row.try_get(0)).with_context(reading)? {
        return Err(anyhow::Error::new(RewriteError).context(reading()));
    }
    let copy = format!("COPY {name}{} TO STDOUT", table.columns());
    client.copy_out(&copy).await.with_context(reading)
}

/// Rows of a partition go in by the table that it is a part of: the hash of a value of an enumeration, which says in
/// which partition its row lies, is another in each database.
///
/// # Errors
/// As the server reports them.
pub async fn copy_in(client: &Client, table: &Table) -> anyhow::Result<CopyInSink<bytes::Bytes>> {
    let name = table.qualified();
    let root =
        "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE c.oid = coalesce(pg_partition_root($1::text::regclass), $1::text::regclass)";
    let row = client.query_one(root, &[&name]).await.with_context(|| format!("looking what {name} is a part of"))?;
    let copy = format!("COPY {}{} FROM STDIN", row.try_get::<_, &str>(0)?, table.columns());
    client.copy_in(&copy).await.with_context(|| format!("writing {name}"))
}

/// Takes all rows out of the tables of a schema: what its `schema.sql` put in comes back with the others.
///
/// # Errors
/// As the server reports them.
pub async fn empty(client: &Client, schema: &str) -> anyhow::Result<()> {
    let tables: Vec<String> = tables(client, schema).await?.iter().map(Table::qualified).collect();
    if tables.is_empty() {
        return Ok(());
    }
    let truncate = format!("TRUNCATE {}", tables.join(", "));
    client.batch_execute(&truncate).await.with_context(|| format!("emptying the tables of {schema}"))
}

/// Takes foreign keys and triggers of a schema away, so that rows can come in in any order and nothing happens because
/// of them; gives what puts everything back.
///
/// # Errors
/// As the server reports them.
pub async fn stand_aside(client: &Client, schema: &str) -> anyhow::Result<Vec<String>> {
    let rows = client
        .query(
            "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', k.conrelid::regclass, k.conname) AS away,
                    format('ALTER TABLE %s ADD CONSTRAINT %I %s', k.conrelid::regclass, k.conname,
                           pg_get_constraintdef(k.oid)) AS back
             FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace JOIN pg_class c ON c.oid = k.conrelid
             WHERE n.nspname = $1 AND k.contype = 'f' AND k.conparentid = 0 AND pg_has_role(c.relowner, 'USAGE')
             UNION ALL
             SELECT format('ALTER TABLE %s DISABLE TRIGGER %I', t.tgrelid::regclass, t.tgname),
                    format('ALTER TABLE %s ENABLE %s TRIGGER %I', t.tgrelid::regclass,
                           CASE t.tgenabled WHEN 'A' THEN 'ALWAYS' WHEN 'R' THEN 'REPLICA' ELSE '' END, t.tgname)
             FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = $1 AND NOT t.tgisinternal AND t.tgparentid = 0 AND t.tgenabled <> 'D'
             AND pg_has_role(c.relowner, 'USAGE')",
            &[&schema],
        )
        .await
        .with_context(|| format!("listing keys and triggers of {schema}"))?;
    let mut back = Vec::with_capacity(rows.len());
    for row in rows {
        client.batch_execute(row.try_get("away")?).await.context("taking keys and triggers away")?;
        back.push(row.try_get("back")?);
    }
    // Views that keep their rows are filled again at the end, in the order in which they were made.
    let views = client
        .query(
            "SELECT format('REFRESH MATERIALIZED VIEW %s', c.oid::regclass) FROM pg_class c
             JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = $1 AND c.relkind = 'm' AND c.relispopulated ORDER BY c.oid",
            &[&schema],
        )
        .await
        .context("listing materialized views")?;
    for row in views {
        back.push(row.try_get(0)?);
    }
    Ok(back)
}

/// # Errors
/// As the server reports them; a row that a key refuses.
pub async fn stand_again(client: &Client, back: &[String]) -> anyhow::Result<()> {
    for statement in back {
        client.batch_execute(statement).await.context("putting keys and triggers back")?;
    }
    Ok(())
}

/// Fills what lists of cards are read from.
///
/// # Errors
/// As the server reports them.
pub async fn fill_card_lists(owner: &Client) -> anyhow::Result<()> {
    owner.execute("SELECT public.card_list_fill()", &[]).await.context("filling the lists of cards")?;
    Ok(())
}

/// Removes the core's tables and functions; for a restore that failed on a database that was empty before.
///
/// # Errors
/// As the server reports them.
pub async fn drop_core(owner: &Client) -> anyhow::Result<()> {
    let drop = "DO $$ DECLARE own record; BEGIN
        FOR own IN SELECT c.oid::regclass AS name FROM pg_class c
                   WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND pg_has_role(c.relowner, 'USAGE')
        LOOP EXECUTE format('DROP TABLE %s CASCADE', own.name); END LOOP;
        FOR own IN SELECT p.oid::regprocedure AS name FROM pg_proc p
                   WHERE p.pronamespace = 'public'::regnamespace AND pg_has_role(p.proowner, 'USAGE')
        LOOP EXECUTE format('DROP FUNCTION %s CASCADE', own.name); END LOOP;
      END $$";
    owner.batch_execute(drop).await.context("removing what was restored so far")
}

/// Whether any host or plugin has worked in this database.
///
/// # Errors
/// As the server reports them.
pub async fn is_used(client: &Client) -> anyhow::Result<bool> {
    let row = client
        .query_one(
            "SELECT to_regclass('public.core_migrations') IS NOT NULL
                 OR EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname LIKE 'plugin!_%' ESCAPE '!')",
            &[],
        )
        .await
        .context("looking at what the database holds")?;
    Ok(row.try_get(0)?)
}
