//! The ways into a plugin's tables that a backup and a restore take: the run-time role reads, and the schema role,
//! whose tables they are, writes.

use anyhow::Context as _;
use tokio_postgres::{Client, error::SqlState};

use super::{Step, StepError};
use cardinal_database::connect;

impl Step<'_> {
    /// A session of the run-time role. Its password is put back first when the plugin has changed it.
    ///
    /// # Errors
    /// In words for an operator.
    pub async fn reader(&self) -> anyhow::Result<Client> {
        match connect::connect(&self.database().connect).await {
            Ok(client) => Ok(client),
            Err(_) => self.reader_anew().await,
        }
    }

    /// The same with the login as a step makes it, whatever the plugin has made of it.
    ///
    /// # Errors
    /// In words for an operator.
    pub async fn reader_anew(&self) -> anyhow::Result<Client> {
        let login = self.database().connect;
        let mut first = connect::connect(self.provisioner).await.context("logging in as the provisioner")?;
        let mut second = connect::connect(self.provisioner).await.context("logging in as the provisioner")?;
        // A step that is under way keeps what this would take from it.
        let step_tx = first.transaction().await.context("waiting for a step of the plugin")?;
        self.lock_step(&step_tx).await?;
        self.make_roles(&mut second, false).await.map_err(failed)?;
        drop(step_tx);
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
        let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", cardinal_database::sql::identifier(&self.schema()));
        provisioner.batch_execute(&drop).await.context("removing the plugin's schema")?;
        let drop = format!("SELECT cardinal.drop_plugin_roles({})", self.plugin_literal());
        match provisioner.batch_execute(&drop).await {
            // Another database of the server has use for them, as the one has that a restored one is to replace.
            Err(error) if error.code() == Some(&SqlState::DEPENDENT_OBJECTS_STILL_EXIST) => Ok(()),
            dropped => dropped.context("removing the plugin's roles"),
        }
    }
}

fn failed(error: StepError) -> anyhow::Error {
    match error {
        StepError::Refused(fault) => fault.into(),
        StepError::Failed(error) => error,
    }
}
