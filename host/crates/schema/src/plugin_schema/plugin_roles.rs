//! A plugin's two roles and its schema: made and altered by the provisioner, open to a login for the step alone.

use std::time::Duration;

use anyhow::Context as _;
use tokio_postgres::Client;

use super::{MAX_TRIES, Step, StepError};
use crate::sql_failure;
use cardinal_control::link::ProvisionFault;
use cardinal_database::{connect, sql};

const PLUGIN_SQL: &str = include_str!("../../../../../sql/plugin.sql");
/// How long making the roles may wait before the plugin's sessions in the way are ended.
const ROLES_WAIT: Duration = Duration::from_secs(1);

impl Step<'_> {
    pub(super) async fn make_roles(&self, session: &mut Client, login: bool) -> Result<(), StepError> {
        let places = self.places(login, self.connection_limit(session).await?)?;
        let statements = sql::fill(PLUGIN_SQL, &places).context("sql/plugin.sql")?;
        let mut tries = 1;
        loop {
            self.check_schema_owner(session).await?;
            let tx = session.transaction().await.context("beginning to make the plugin's roles")?;
            let backend = connect::backend_pid(&tx).await.context("asking which session it is")?;
            // A plugin may alter its own login; a transaction that did and stays open is ended.
            let made = self.past_blockers(backend, ROLES_WAIT, tx.batch_execute(&statements), |_| {}).await?;
            let made = match made {
                Ok(()) => tx.commit().await,
                Err(error) => Err(error),
            };
            match made {
                Ok(()) => break,
                Err(error) if tries < MAX_TRIES && sql_failure::is_race(&error) => tries += 1,
                Err(error) => {
                    return Err(StepError::Failed(anyhow::Error::new(error).context("making the plugin's roles")));
                }
            }
        }
        if login {
            // Those of a step that was killed would hold their locks against this one.
            self.end_backends(session).await?;
        }
        Ok(())
    }

    /// A login that the watch over plugins' sessions has closed for a while stays closed (`session_watch`).
    pub(super) async fn check_login(&self, session: &Client) -> Result<(), StepError> {
        let sql = format!(
            "SELECT ceil(extract(epoch FROM c.until - now()))::bigint FROM cardinal.closed_until({}) c (until) WHERE c.until > now()",
            self.plugin_literal()
        );
        let row = match session.query_opt(&sql, &[]).await {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(()),
            Err(error) if sql_failure::lacks_function(&error) => return Ok(()),
            Err(error) => {
                return Err(anyhow::Error::new(error).context("asking whether the plugin's login is closed").into());
            }
        };
        let left: i64 = row.try_get(0).context("reading how long the plugin's login is closed")?;
        Err(StepError::Refused(ProvisionFault::Unavailable(format!(
            "its database login is closed for {left} s more, since its sessions locked whole tables again and again and kept cards \
             from being removed; take LOCK TABLE out of the plugin"
        ))))
    }

    /// A schema of that name that is somebody else's is not taken over.
    async fn check_schema_owner(&self, session: &Client) -> Result<(), StepError> {
        let owner = session
            .query_opt(
                "SELECT pg_catalog.pg_get_userbyid(nspowner)::text FROM pg_catalog.pg_namespace WHERE nspname = $1",
                &[&self.schema()],
            )
            .await
            .context("looking for the plugin's schema")?;
        let Some(owner) = owner else { return Ok(()) };
        let owner: String = owner.try_get(0).context("reading the schema's owner")?;
        if owner == self.provisioner.user {
            return Ok(());
        }
        Err(StepError::Refused(ProvisionFault::refused(
            "schema-taken",
            format!("schema {} to be free or made by this host", self.schema()),
            format!("a schema of that name that belongs to {owner}"),
            "rename that schema or the plugin",
        )))
    }

    fn places(&self, login: bool, connections: i64) -> anyhow::Result<Vec<(&'static str, String)>> {
        let (schema_role, runtime_role) =
            (self.names.plugin_schema(self.plugin), self.names.plugin_runtime(self.plugin));
        let schema_password = if login { self.passwords.plugin_verifier(&schema_role)? } else { String::new() };
        Ok(vec![
            ("plugin_name", self.plugin_literal()),
            ("schema", sql::identifier(&self.schema())),
            ("connections", connections.to_string()),
            ("schema_login", login.to_string()),
            ("schema_usage", change_right(&self.schema(), &schema_role, "USAGE", true)),
            ("schema_create", self.schema_create(login)),
            ("schema_password", sql::literal(&schema_password)),
            ("runtime_password", sql::literal(&self.passwords.plugin_verifier(&runtime_role)?)),
        ])
    }

    /// Whether the schema role may make anything: in its step alone.
    fn schema_create(&self, given: bool) -> String {
        change_right(&self.schema(), &self.names.plugin_schema(self.plugin), "CREATE", given)
    }

    /// Nobody logs in as the schema role any more, it may make nothing, and what it still ran is ended.
    pub(super) async fn close_login(&self, session: &Client) -> anyhow::Result<()> {
        let plugin = self.plugin_literal();
        let close = format!("SELECT cardinal.close_plugin_login({plugin}); {}", self.schema_create(false));
        session.batch_execute(&close).await.context("closing the schema role's login")?;
        self.end_backends(session).await
    }

    /// A statement of its own: only a login that is closed for everybody to see keeps new sessions out.
    async fn end_backends(&self, session: &Client) -> anyhow::Result<()> {
        let end = format!("SELECT cardinal.end_plugin_backends({})", self.plugin_literal());
        session.batch_execute(&end).await.context("ending the schema role's sessions")
    }

    /// A plugin that was refused the first time leaves no roles behind. Never CASCADE: a schema with something in it
    /// is one whose step was made but not recorded, when the host was killed in between.
    pub(super) async fn unmake(&self, session: &mut Client) {
        let removed = session
            .batch_execute(&format!(
                "BEGIN; DROP SCHEMA {}; SELECT cardinal.drop_plugin_roles({}); COMMIT",
                sql::identifier(&self.schema()),
                self.plugin_literal(),
            ))
            .await;
        if let Err(error) = removed {
            tracing::info!(plugin = self.plugin, %error, "the refused plugin's roles stay");
        }
    }
}

/// Gives a role a right on a schema, or takes it, where it is otherwise: each change of a schema's rights makes every
/// session of the server plan everything anew.
pub(super) fn change_right(schema: &str, role: &str, right: &str, given: bool) -> String {
    let (schema_literal, role_literal) = (sql::literal(schema), sql::literal(role));
    let (schema, role) = (sql::identifier(schema), sql::identifier(role));
    let (unless, change) = match given {
        true => ("NOT ", format!("GRANT {right} ON SCHEMA {schema} TO {role}")),
        false => ("", format!("REVOKE {right} ON SCHEMA {schema} FROM {role}")),
    };
    format!(
        "DO $do$ BEGIN IF {unless}pg_catalog.has_schema_privilege({role_literal}, {schema_literal}, '{right}') \
         THEN {change}; END IF; END $do$"
    )
}
