//! The short-lived process that makes a plugin's roles and runs its schema.sql, or drops all of it. It is told on standard
//! input which package of which plugin, finds it in the plugins folder by itself, checks trust and hash again, and
//! answers on standard output. It never opens the library.

use serde::{Deserialize, Serialize};

pub mod package;

use crate::config::{Observe, Paths, Plugins};
use crate::db::connect::{ConnectParams, SocketDir};
use crate::db::fault::is_unavailable;
use crate::db::plugin_schema::purge::{Purge, Purged};
use crate::db::plugin_schema::{SCHEMA_TIMEOUT, Step, Trouble};
use crate::db::roles::{RoleNames, RolePasswords};
use crate::link::{PluginDatabase, ProvisionFault, ProvisionRequest};
use package::Package;

/// What is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Bring a plugin's roles and schema in line with a package.
    Provision(ProvisionRequest),
    /// Drop a plugin's data.
    Purge { plugin: String },
}

/// All that a schema step gets from the keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub task: Task,
    pub paths: Paths,
    pub plugins: Plugins,
    pub observe: Observe,
    pub provisioner: ConnectParams,
    pub names: RoleNames,
    pub passwords: RolePasswords,
    pub start_options: bool,
}

impl Job {
    /// Does the task; gives what the keeper is to be answered.
    ///
    /// # Errors
    /// The answer can't be written as JSON.
    pub async fn run(&self) -> serde_json::Result<Vec<u8>> {
        match &self.task {
            Task::Provision(request) => serde_json::to_vec(&self.provision(request).await),
            Task::Purge { plugin } => serde_json::to_vec(&self.purge(plugin).await),
        }
    }

    /// Finds the package that was asked for and makes the step.
    async fn provision(&self, request: &ProvisionRequest) -> Result<PluginDatabase, ProvisionFault> {
        let package = package::find(&self.paths, &self.plugins, request)?;
        self.make(request, &package).await
    }

    /// Whether a package of this plugin is there to be disabled is seen here: the worker is not believed.
    async fn purge(&self, plugin: &str) -> Result<Purged, ProvisionFault> {
        let is_installed = package::is_there(&self.paths.plugins_dir, plugin)?;
        let (_dir, provisioner) = self.provisioner()?;
        let purge = Purge { plugin, is_installed, provisioner: &provisioner, names: &self.names };
        purge.make().await.map_err(|trouble| told(plugin, trouble))
    }

    fn provisioner(&self) -> Result<(SocketDir, ConnectParams), ProvisionFault> {
        let dir = SocketDir::open(&self.provisioner.host, self.provisioner.port)
            .map_err(|error| ProvisionFault::Unavailable(format!("the database's socket folder: {error}")))?;
        let provisioner = self.provisioner.clone().through(&dir);
        Ok((dir, provisioner))
    }

    /// Makes the step for the package. What a plugin or the database did wrong is part of the answer.
    ///
    /// # Errors
    /// As [`ProvisionFault`] tells them apart.
    async fn make(&self, request: &ProvisionRequest, package: &Package) -> Result<PluginDatabase, ProvisionFault> {
        let (_dir, provisioner) = self.provisioner()?;
        let step = Step {
            plugin: &request.plugin,
            package: &request.sha256,
            version: &package.version,
            schema_sql: &package.schema_sql,
            provisioner: &provisioner,
            names: &self.names,
            passwords: &self.passwords,
            start_options: self.start_options,
            schema_timeout: SCHEMA_TIMEOUT,
            is_kept: package.is_kept,
            replay: false,
        };
        match step.make().await {
            // By the folder's real path again: the short way is this process's alone.
            Ok(made) => Ok(PluginDatabase {
                connect: ConnectParams { host: self.provisioner.host.clone(), ..made.connect },
                ..made
            }),
            Err(trouble) => Err(told(&request.plugin, trouble)),
        }
    }
}

fn told(plugin: &str, trouble: Trouble) -> ProvisionFault {
    match trouble {
        Trouble::Refused(fault) => fault,
        Trouble::Failed(error) => {
            tracing::error!(plugin, error = format!("{error:#}"), "the schema step failed");
            let said = error.chain().find_map(|cause| cause.downcast_ref::<tokio_postgres::Error>());
            match said.and_then(|said| said.code().filter(|_| !is_unavailable(said))) {
                Some(code) => ProvisionFault::Failed(format!("the database refused a part of it ({})", code.code())),
                None => ProvisionFault::Unavailable("the database could not be had for it".to_owned()),
            }
        }
    }
}
