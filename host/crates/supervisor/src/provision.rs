//! The short-lived process that makes plugins' roles and runs their schema.sql, or drops all of one. It reads on
//! standard input which packages of which plugins, finds them in the plugins folder by itself, checks trust and hash
//! again, and answers on standard output. It never opens a library.

use std::io;

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, Semaphore};

pub mod package;

use crate::turns::Turns;
use cardinal_base::{
    config::{Observe, Paths, Plugins},
    db_error::is_unavailable,
};
use cardinal_control::link::{PluginDatabase, ProvisionFault, ProvisionRequest, PurgeReport};
use cardinal_database::{
    connect::{ConnectParams, SocketDir},
    roles::{RoleNames, RolePasswords},
};
use cardinal_schema::plugin_schema::{LockLimits, SCHEMA_TIMEOUT, Sessions, Step, StepError, purge::Purge};
use package::Package;

/// Steps that one process makes side by side: each pair of sessions serves one after another.
const STEPS_AT_A_TIME: usize = 2;
/// The same where some hang. Each holds two connections of the provisioner's login, which may have 40.
pub(crate) const MAX_RUNNING_STEPS: usize = 16;

/// What is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Bring the roles and schema of each plugin in line with a package, each by itself.
    Provision(Vec<ProvisionRequest>),
    /// Drop a plugin's data.
    Purge { plugin: String },
}

/// What is told of one of the requests, `at` which place: each in a line of its own, as soon as it is so.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StepNews {
    Begun { at: usize },
    Ended { at: usize, result: Result<PluginDatabase, ProvisionFault> },
}

/// All that a schema step gets from the supervisor.
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
    /// Does the task, and has `tell` tell the supervisor what comes of it.
    ///
    /// # Errors
    /// The supervisor cannot be told.
    pub async fn run(&self, mut tell: impl FnMut(Vec<u8>) -> io::Result<()>) -> io::Result<()> {
        match &self.task {
            Task::Provision(requests) => self.provision_all(requests, tell).await,
            Task::Purge { plugin } => tell(serde_json::to_vec(&self.purge(plugin).await)?),
        }
    }

    async fn provision_all(
        &self,
        requests: &[ProvisionRequest],
        mut tell: impl FnMut(Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (turns, idle) = (Turns::new(STEPS_AT_A_TIME), Mutex::default());
        // Those that hang keep theirs.
        let places = Semaphore::new(MAX_RUNNING_STEPS);
        let tell = parking_lot::Mutex::new(|news: &StepNews| {
            let mut line = serde_json::to_vec(news)?;
            line.push(b'\n');
            tell(line)
        });
        let steps = requests.iter().enumerate().map(async |(at, request)| {
            let (_turn, _place) = (turns.take().await, places.acquire().await);
            (tell.lock())(&StepNews::Begun { at })?;
            let result = self.provision(request, &idle).await;
            turns.note_end();
            (tell.lock())(&StepNews::Ended { at, result })
        });
        try_join_all(steps).await.map(drop)
    }

    /// Finds the package that was asked for and makes the step.
    async fn provision(
        &self,
        request: &ProvisionRequest,
        idle: &Mutex<Vec<Sessions>>,
    ) -> Result<PluginDatabase, ProvisionFault> {
        let package = package::find(&self.paths, &self.plugins, request)?;
        self.make(request, &package, idle).await
    }

    /// Whether a package of this plugin is there to be disabled is seen here: the worker is not believed.
    async fn purge(&self, plugin: &str) -> Result<PurgeReport, ProvisionFault> {
        let is_installed = package::is_there(&self.paths.plugins_dir, plugin)?;
        let (_dir, provisioner) = self.provisioner()?;
        let purge = Purge { plugin, is_installed, provisioner: &provisioner, names: &self.names };
        purge.make().await.map_err(|error| describe(plugin, error))
    }

    /// The provisioner's login, by a way that is good while the folder lives.
    ///
    /// # Errors
    /// The database's socket folder cannot be opened.
    pub fn provisioner(&self) -> Result<(SocketDir, ConnectParams), ProvisionFault> {
        let dir = SocketDir::open(&self.provisioner.host, self.provisioner.port)
            .map_err(|error| ProvisionFault::Unavailable(format!("the database's socket folder: {error}")))?;
        let provisioner = self.provisioner.clone().through(&dir);
        Ok((dir, provisioner))
    }

    /// Makes the step for the package. What a plugin or the database did wrong is part of the answer.
    ///
    /// # Errors
    /// As [`ProvisionFault`] distinguishes them.
    async fn make(
        &self,
        request: &ProvisionRequest,
        package: &Package,
        idle: &Mutex<Vec<Sessions>>,
    ) -> Result<PluginDatabase, ProvisionFault> {
        let (_dir, provisioner) = self.provisioner()?;
        let step = Step {
            plugin: &request.plugin,
            package: &request.sha256,
            version: &package.version,
            schema_sql: &package.schema_sql,
            connections: package.connections,
            provisioner: &provisioner,
            names: &self.names,
            passwords: &self.passwords,
            start_options: self.start_options,
            schema_timeout: SCHEMA_TIMEOUT,
            lock_limits: LockLimits::default(),
            is_kept: package.is_kept,
            replay: false,
        };
        let known = idle.lock().await.pop();
        match step.make_with(known).await {
            // By the folder's real path again: the short way is this process's alone.
            Ok((made, sessions)) => {
                idle.lock().await.extend(sessions);
                let connect = ConnectParams { host: self.provisioner.host.clone(), ..made.connect };
                Ok(PluginDatabase { connect, ..made })
            }
            Err(error) => Err(describe(&request.plugin, error)),
        }
    }
}

fn describe(plugin: &str, failure: StepError) -> ProvisionFault {
    match failure {
        StepError::Refused(fault) => fault,
        StepError::Failed(error) => {
            tracing::error!(plugin, error = format!("{error:#}"), "the schema step failed");
            let pg_error = error.chain().find_map(|cause| cause.downcast_ref::<tokio_postgres::Error>());
            match pg_error.and_then(|pg_error| pg_error.code().filter(|_| !is_unavailable(pg_error))) {
                Some(code) => ProvisionFault::Failed(format!("the database refused a part of it ({})", code.code())),
                None => ProvisionFault::Unavailable("the database was not available for it".to_owned()),
            }
        }
    }
}
