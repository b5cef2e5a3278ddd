//! The short-lived process that makes a plugin's roles and runs its schema.sql. It is told on standard input which
//! package of which plugin, finds it in the plugins folder by itself, checks trust and hash again, and answers on
//! standard output. It never opens the library.

use serde::{Deserialize, Serialize};

pub mod package;

use crate::config::{Observe, Paths, Plugins};
use crate::db::connect::{ConnectParams, SocketDir};
use crate::db::plugin_schema::{SCHEMA_TIMEOUT, Step, Trouble};
use crate::db::roles::{RoleNames, RolePasswords};
use crate::link::{PluginDatabase, ProvisionFault, ProvisionRequest};
use package::Package;

/// All that a schema step gets from the keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub request: ProvisionRequest,
    pub paths: Paths,
    pub plugins: Plugins,
    pub observe: Observe,
    pub provisioner: ConnectParams,
    pub names: RoleNames,
    pub passwords: RolePasswords,
    pub start_options: bool,
}

impl Job {
    /// Finds the package that was asked for and makes the step.
    ///
    /// # Errors
    /// As [`ProvisionFault`] tells them apart.
    pub async fn run(&self) -> Result<PluginDatabase, ProvisionFault> {
        let package = package::find(&self.paths.plugins_dir, &self.plugins, &self.request)?;
        self.make(&package).await
    }

    /// Makes the step for the package. What a plugin or the database did wrong is part of the answer.
    ///
    /// # Errors
    /// As [`ProvisionFault`] tells them apart.
    pub async fn make(&self, package: &Package) -> Result<PluginDatabase, ProvisionFault> {
        let dir = SocketDir::open(&self.provisioner.host, self.provisioner.port)
            .map_err(|error| ProvisionFault::Unavailable(format!("the database's socket folder: {error}")))?;
        let provisioner = self.provisioner.clone().through(&dir);
        let step = Step {
            plugin: &self.request.plugin,
            version: &package.version,
            schema_sql: &package.schema_sql,
            provisioner: &provisioner,
            names: &self.names,
            passwords: &self.passwords,
            start_options: self.start_options,
            schema_timeout: SCHEMA_TIMEOUT,
            replay: false,
        };
        match step.make().await {
            // By the folder's real path again: the short way is this process's alone.
            Ok(made) => Ok(PluginDatabase {
                connect: ConnectParams { host: self.provisioner.host.clone(), ..made.connect },
                ..made
            }),
            Err(Trouble::Refused(fault)) => Err(fault),
            Err(Trouble::Failed(error)) => {
                tracing::error!(plugin = self.request.plugin, error = format!("{error:#}"), "the schema step failed");
                Err(ProvisionFault::Unavailable("the database could not make the step".to_owned()))
            }
        }
    }
}
