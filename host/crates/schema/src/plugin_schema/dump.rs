//! The ways into a plugin's tables that a backup and a restore take: the run-time role reads, and the schema role, whose
//! tables they are, writes.

use anyhow::Context as _;
use tokio_postgres::Client;

use super::{Step, StepError};
use cardinal_database::connect;

impl Step<'_> {
    /// A session of the run-time role. Its password is put back first when the plugin has changed it.
    ///
    /// # Errors
    /// In words for an operator.
    pub async fn reader(&self) -> anyhow::Result<Client> {
        let login = self.database().connect;
        if let Ok(client) = connect::connect(&login).await {
            return Ok(client);
        }
        let mut first = connect::connect(self.provisioner).await.context("logging in as the provisioner")?;
        let mut second = connect::connect(self.provisioner).await.context("logging in as the provisioner")?;
        // A step that is under way keeps what this would take from it.
        let turn = first.transaction().await.context("waiting for a step of the plugin")?;
        self.take_turn(&turn).await?;
        self.make_roles(&mut second, false).await.map_err(failed)?;
        drop(turn);
        connect::connect(&login).await.with_context(|| format!("logging in as the role of plugin {}", self.plugin))
    }

    /// A session of the schema role, and the provisioner's that lets it in and is to close its door again.
    ///
    /// # Errors
    /// In words for an operator.
    pub async fn writer(&self) -> anyhow::Result<(Client, Client)> {
        let mut provisioner = connect::connect(self.provisioner).await.context("logging in as the provisioner")?;
        self.make_roles(&mut provisioner, true).await.map_err(failed)?;
        let role = self.names.plugin_schema(self.plugin);
        let login = self.provisioner.with_login(&role, self.passwords.for_role(&role));
        let writer = connect::connect(&login).await.context("logging in as the plugin's schema role")?;
        Ok((writer, provisioner))
    }

    /// # Errors
    /// As the server reports them.
    pub async fn close_writer(&self, provisioner: &Client) -> anyhow::Result<()> {
        self.close_login(provisioner).await
    }

    /// Takes a plugin with all of its tables away.
    ///
    /// # Errors
    /// As the server reports them.
    pub async fn drop_all(&self) -> anyhow::Result<()> {
        let provisioner = connect::connect(self.provisioner).await.context("logging in as the provisioner")?;
        let drop = format!(
            "BEGIN; DROP SCHEMA IF EXISTS {} CASCADE; SELECT cardinal.drop_plugin_roles({}); COMMIT",
            cardinal_database::sql::identifier(&self.schema()),
            self.plugin_literal()
        );
        provisioner.batch_execute(&drop).await.context("removing the plugin's schema")
    }
}

fn failed(trouble: StepError) -> anyhow::Error {
    match trouble {
        StepError::Refused(fault) => fault.into(),
        StepError::Failed(error) => error,
    }
}
