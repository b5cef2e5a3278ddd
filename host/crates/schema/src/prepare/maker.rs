//! The session of a login that may make roles, often a superuser's. It touches `pg_catalog` and schema `cardinal`
//! alone: the core's owner can make any object in `public`, and whatever such an object runs here would run as a
//! superuser.

use std::{convert::Infallible, time::Duration};

use anyhow::Context as _;
use tokio_postgres::{Client, GenericClient, Transaction};

use super::{
    roles_sql::{self, Passwords},
    unsupported,
};
use cardinal_database::{
    connect::{self, ConnectParams},
    roles::{RoleNames, RolePasswords},
    sql,
};

/// How long the making of roles waits before what keeps it waiting is ended.
const BLOCKER_WAIT: Duration = Duration::from_secs(1);

/// A login whose rights have been looked at.
pub(super) enum Login {
    MakesRoles(Maker),
    LacksRights,
}

pub(super) struct Maker {
    client: Client,
}

impl Maker {
    /// Finds out what a login may do.
    ///
    /// # Errors
    /// The server or the database will not do.
    pub(super) async fn examine(mut client: Client) -> anyhow::Result<Login> {
        let tx = begin(&mut client).await?;
        unsupported::check_server(&tx).await?;
        let makes_roles = owns_database_and(&tx, "rolcreaterole").await?;
        drop(tx);
        Ok(if makes_roles { Login::MakesRoles(Self { client }) } else { Login::LacksRights })
    }

    async fn begin(&mut self) -> anyhow::Result<Transaction<'_>> {
        begin(&mut self.client).await
    }

    /// Whether the owner is there and can do its work in this database; another of the same name may have made the
    /// role.
    pub(super) async fn has_owner(&mut self, names: &RoleNames) -> anyhow::Result<bool> {
        let sql = "SELECT FROM pg_catalog.pg_roles WHERE rolname = $1 AND rolcanlogin
                     AND pg_catalog.has_database_privilege(oid, pg_catalog.current_database(), 'CONNECT')
                     AND pg_catalog.has_schema_privilege(oid, 'public', 'CREATE')";
        let tx = self.begin().await?;
        Ok(tx.query_opt(sql, &[&names.owner()]).await.context("looking for the owner of the tables")?.is_some())
    }

    /// Whether the owner is not there yet, or this login's to change.
    pub(super) async fn may_change_roles(&mut self, names: &RoleNames) -> anyhow::Result<bool> {
        let sql = "SELECT pg_catalog.current_setting('server_version_num')::int < 160000
                       OR pg_catalog.pg_has_role(oid, 'MEMBER WITH ADMIN OPTION')
                     FROM pg_catalog.pg_roles WHERE rolname = $1";
        let tx = self.begin().await?;
        let row = tx.query_opt(sql, &[&names.owner()]).await.context("asking whose the roles are")?;
        Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or(true))
    }

    pub(super) async fn make_roles(
        &mut self,
        login: &ConnectParams,
        names: &RoleNames,
        passwords: Passwords<'_>,
    ) -> anyhow::Result<()> {
        let statements = roles_sql::filled(&login.dbname, names, passwords)?;
        let tx = self.begin().await?;
        let backend = connect::backend_pid(&tx).await.context("asking which session it is")?;
        tokio::select! {
            made = tx.batch_execute(&statements) => made.context("making the roles")?,
            never = end_blockers(login, names, backend) => match never {},
        }
        tx.commit().await.context("committing the roles")
    }

    /// Lets the owner log in with the password that these make.
    pub(super) async fn open_owner(&mut self, names: &RoleNames, passwords: &RolePasswords) -> anyhow::Result<()> {
        let role = names.owner();
        let open = format!("ALTER ROLE {} LOGIN {}", sql::identifier(&role), roles_sql::password(passwords, &role));
        let tx = self.begin().await?;
        tx.batch_execute(&open).await.context("letting the owner of the tables log in")?;
        tx.commit().await.context("letting the owner of the tables log in")
    }

    /// The bare session, with nothing but the server's own names in its search path.
    pub(super) async fn into_client(self) -> anyhow::Result<Client> {
        self.client.batch_execute("SET search_path = pg_catalog, pg_temp").await.context("preparing a session")?;
        Ok(self.client)
    }
}

/// Ends plugins' sessions that this one waits for, once it has waited for a second: they may have been left by a host
/// that was killed, and no host watches them before its start is over.
async fn end_blockers(login: &ConnectParams, names: &RoleNames, backend: i32) -> Infallible {
    let end =
        "SELECT pg_catalog.pg_terminate_backend(a.pid) FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids($1)) b (pid)
               JOIN pg_catalog.pg_stat_activity a ON a.pid = b.pid WHERE pg_catalog.starts_with(a.usename::text, $2)";
    loop {
        tokio::time::sleep(BLOCKER_WAIT).await;
        let ended = async { connect::connect(login).await?.query(end, &[&backend, &names.runtime_prefix()]).await };
        match ended.await {
            Ok(rows) if rows.is_empty() => {}
            Ok(rows) => tracing::warn!(sessions = rows.len(), "ended sessions of plugins that kept the start waiting"),
            // Not every login may.
            Err(error) => tracing::debug!(%error, "failed to end what keeps the start waiting"),
        }
    }
}

async fn begin(client: &mut Client) -> anyhow::Result<Transaction<'_>> {
    let tx = client.transaction().await.context("beginning a transaction")?;
    tx.batch_execute(sql::CATALOG_NAMES_ONLY).await.context("preparing a transaction")?;
    Ok(tx)
}

/// Whether this login is a superuser, or owns its database and has an attribute of `pg_roles`.
pub(crate) async fn owns_database_and(
    client: &(impl GenericClient + Sync),
    attribute: &'static str,
) -> anyhow::Result<bool> {
    let sql = format!(
        "SELECT r.rolsuper OR (r.{attribute} AND pg_catalog.pg_has_role(d.datdba, 'USAGE'))
         FROM pg_catalog.pg_roles r, pg_catalog.pg_database d
         WHERE r.rolname = current_user AND d.datname = pg_catalog.current_database()"
    );
    let row = client.query_one(&sql, &[]).await.context("asking what the login may do")?;
    Ok(row.try_get(0)?)
}
