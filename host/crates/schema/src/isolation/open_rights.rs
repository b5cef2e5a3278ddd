//! What the server lets every login do, plugins' among them, unless a superuser takes it from PUBLIC.

use anyhow::Context as _;
use tokio_postgres::Client;

use cardinal_database::roles::RoleNames;

/// Whether plugins can make large objects, which lie outside of any schema.
///
/// # Errors
/// As the server reports them.
pub async fn large_objects_are_open(session: &Client) -> anyhow::Result<bool> {
    public_may_call(session, "pg_catalog.lo_from_bytea(oid, bytea)").await.context("asking who may make large objects")
}

/// Whether plugins can take advisory locks, which one session can have so many of that the server has no room for
/// others.
///
/// # Errors
/// As the server reports them.
pub async fn advisory_locks_are_open(session: &Client) -> anyhow::Result<bool> {
    public_may_call(session, "pg_catalog.pg_advisory_lock(bigint)").await.context("asking who may take advisory locks")
}

/// Whether plugins can export snapshots; many of them keep the server from stopping and starting.
///
/// # Errors
/// As the server reports them.
pub async fn snapshots_are_open(session: &Client) -> anyhow::Result<bool> {
    public_may_call(session, "pg_catalog.pg_export_snapshot()").await.context("asking who may export snapshots")
}

/// Whether plugins can write messages into the write-ahead log; one of a gigabyte keeps a crashed server from coming up
/// again.
///
/// # Errors
/// As the server reports them.
pub async fn log_messages_are_open(session: &Client) -> anyhow::Result<bool> {
    // Its arguments differ between versions.
    let sql =
        "SELECT coalesce(bool_or(has_function_privilege('public', oid, 'EXECUTE')), false) FROM pg_catalog.pg_proc
                 WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = 'pg_logical_emit_message'";
    let row = session.query_one(sql, &[]).await.context("asking who may write messages into the log")?;
    Ok(row.try_get(0)?)
}

/// Whether plugins can lock objects that are not theirs.
///
/// # Errors
/// As the server reports them.
pub async fn object_locks_are_open(session: &Client) -> anyhow::Result<bool> {
    public_may_call(session, "pg_catalog.pg_get_object_address(text, text[], text[])")
        .await
        .context("asking who may look up objects")
}

/// Whether a `schema.sql` may call `jsonb - text[]`, which PostgreSQL does not interrupt.
///
/// # Errors
/// As the server reports them.
pub async fn json_deletion_is_open(session: &Client) -> anyhow::Result<bool> {
    public_may_call(session, "pg_catalog.jsonb_delete(jsonb, text[])")
        .await
        .context("asking who may delete keys of JSON")
}

/// Whether the temporary files of a plugin's session have no bound: neither the server nor a step gives one.
///
/// # Errors
/// As the server reports them.
pub async fn temporary_files_are_unbounded(session: &Client, names: &RoleNames) -> anyhow::Result<bool> {
    let sql = "SELECT s.reset_val = '-1' AND NOT EXISTS (
                   SELECT FROM pg_catalog.pg_roles r
                   WHERE r.rolname = $1 AND has_parameter_privilege(r.oid, 'temp_file_limit', 'SET'))
                 FROM pg_catalog.pg_settings s WHERE s.name = 'temp_file_limit'";
    let row = session.query_one(sql, &[&names.role_maker()]).await.context("asking for temp_file_limit")?;
    Ok(row.try_get(0)?)
}

/// Whether plugins can make the server lock its whole table of locks.
///
/// # Errors
/// As the server reports them.
pub async fn lock_looks_are_open(session: &Client) -> anyhow::Result<bool> {
    public_may_call(session, "pg_catalog.pg_blocking_pids(integer)").await.context("asking who may look for blockers")
}

/// Whether plugins can prepare transactions, whose locks stay when their session has ended.
///
/// # Errors
/// As the server reports them.
pub async fn transactions_can_be_prepared(session: &Client) -> anyhow::Result<bool> {
    let sql = "SELECT pg_catalog.current_setting('max_prepared_transactions')::integer > 0";
    let row = session.query_one(sql, &[]).await.context("asking for max_prepared_transactions")?;
    Ok(row.try_get(0)?)
}

/// Other databases of the server that anybody with a login may connect to: what fences plugins stands in the host's
/// alone.
///
/// # Errors
/// As the server reports them.
pub async fn open_databases(session: &Client) -> anyhow::Result<Vec<String>> {
    let sql = "SELECT datname::text FROM pg_catalog.pg_database
                 WHERE datallowconn AND datname <> current_database() AND has_database_privilege('public', oid, 'CONNECT')
                 ORDER BY 1";
    let rows = session.query(sql, &[]).await.context("asking which databases are open to anybody")?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

async fn public_may_call(session: &Client, function: &str) -> anyhow::Result<bool> {
    let row = session.query_one("SELECT has_function_privilege('public', $1::text, 'EXECUTE')", &[&function]).await?;
    Ok(row.try_get(0)?)
}
