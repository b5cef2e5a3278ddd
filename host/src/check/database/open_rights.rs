//! What only a superuser can close, and has not.

use tokio_postgres::Client;

use cardinal_database::roles::RoleNames;
use cardinal_schema::isolation;
use cardinal_serve::check::finding::Finding;

/// Each right that everybody has, as a warning.
pub(super) async fn find(session: &Client, names: &RoleNames) -> anyhow::Result<Vec<Finding>> {
    let mut findings = left_by_bootstrap(session).await?;
    findings.extend(temporary_files(session, names).await?);
    findings.extend(other_databases(session).await?);
    if isolation::transactions_can_be_prepared(session).await? {
        let message = "Plugins can prepare transactions, whose locks outlive the plugin and which only a superuser \
            can end.";
        let finding = Finding::warning("prepared-transactions-on", "database", message)
            .expected("max_prepared_transactions = 0, which is PostgreSQL's default")
            .fix("Set max_prepared_transactions = 0 and restart the server, unless another program needs it.");
        findings.push(finding);
    }
    Ok(findings)
}

/// What `cardinal database bootstrap-sql` closes.
async fn left_by_bootstrap(session: &Client) -> anyhow::Result<Vec<Finding>> {
    let rights = [
        (
            isolation::large_objects_are_open(session).await?,
            "large-objects-open",
            "Plugins can create large objects, which live outside their schema.",
            "EXECUTE on lo_create, lo_creat and lo_from_bytea revoked from PUBLIC",
        ),
        (
            isolation::advisory_locks_are_open(session).await?,
            "advisory-locks-open",
            "Plugins can take advisory locks until the server's lock table is full.",
            "EXECUTE on pg_advisory_lock and similar functions revoked from PUBLIC",
        ),
        (
            isolation::log_messages_are_open(session).await?,
            "log-messages-open",
            "Plugins can write messages of any size into the write-ahead log, so that a crashed server cannot start \
             again.",
            "EXECUTE on pg_logical_emit_message revoked from PUBLIC",
        ),
        (
            isolation::snapshots_are_open(session).await?,
            "snapshots-open",
            "Plugins can export snapshots, whose files keep the server from stopping and starting for minutes.",
            "EXECUTE on pg_export_snapshot revoked from PUBLIC",
        ),
        (
            isolation::object_locks_are_open(session).await?,
            "object-locks-open",
            "Plugins can lock objects that they do not own, and block other plugins from being started, updated or \
             removed.",
            "EXECUTE on pg_get_object_address revoked from PUBLIC",
        ),
        (
            isolation::json_deletion_is_open(session).await?,
            "json-deletion-open",
            "A plugin's schema.sql can hold a lock that nothing releases, and block the removal of cards.",
            "EXECUTE on jsonb_delete(jsonb, text[]) revoked from PUBLIC",
        ),
        (
            isolation::lock_looks_are_open(session).await?,
            "lock-looks-open",
            "Plugins can keep the server's table of locks busy, so that all work on cards takes seconds.",
            "EXECUTE on pg_blocking_pids and similar functions revoked from PUBLIC",
        ),
        (
            isolation::ddl_is_unfenced(session).await?,
            "ddl-unfenced",
            "Plugin code that gets into a foreign key's check could change tables.",
            "the event trigger cardinal_ddl_fence, which only a superuser can create",
        ),
    ];
    let fix = "Have a superuser run the output of `cardinal database bootstrap-sql` once.";
    let open = rights.into_iter().filter(|(is_open, ..)| *is_open);
    Ok(open
        .map(|(_, code, message, expected)| Finding::warning(code, "database", message).expected(expected).fix(fix))
        .collect())
}

async fn temporary_files(session: &Client, names: &RoleNames) -> anyhow::Result<Option<Finding>> {
    let is_unbounded = isolation::temporary_files_are_unbounded(session, names).await?;
    Ok(is_unbounded.then(|| {
        let message = "Plugins can fill the database's disk with temporary files of sorts and cursors.";
        Finding::warning("temporary-files-unbounded", "database", message)
            .expected("temp_file_limit set for the server, or for the plugins' logins")
            .fix(
                "Set temp_file_limit = '4GB' for the server, or have a superuser run the output of `cardinal database \
                 bootstrap-sql` once and start the host.",
            )
    }))
}

async fn other_databases(session: &Client) -> anyhow::Result<Option<Finding>> {
    let databases = isolation::open_databases(session).await?;
    if databases.is_empty() {
        return Ok(None);
    }
    let message = "Plugins' logins can connect to other databases of this server, where nothing restricts them: \
        they can block logins for a while, and leave objects behind that prevent their data from being dropped.";
    let finding = Finding::warning("other-databases-open", "database", message)
        .expected("CONNECT on every other database revoked from PUBLIC")
        .found(databases.join(", "))
        .fix(
            "Give Cardinal a server of its own, or revoke CONNECT on these databases from PUBLIC and grant it to the \
             roles that need it.",
        );
    Ok(Some(finding))
}
