//! What supervisor and worker say to each other.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::provision::{PluginDatabase, ProvisionFault, PurgeReport};
use crate::{
    crash::{history::CrashHistory, record::Crash},
    sandbox::Sandbox,
};
use cardinal_base::config::{Config, Secret, TlsPair};
use cardinal_database::{connect::ConnectParams, roles::RoleNames};

/// All that a worker knows: its environment is empty.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerStart {
    /// The settings, without the credentials that are the supervisor's alone (`DATABASE_URL`).
    pub config: Config,
    pub database: WorkerDatabase,
    /// Opens the secrets among plugins' settings.
    pub sealing_key: Secret,
    pub host_id: Uuid,
    /// What each listening socket is for, in their order.
    pub listeners: Vec<ListenerUse>,
    /// How often a worker of this supervisor ended on its own.
    pub worker_restarts: u64,
    /// Crashes of this host, and the plugins that are not to be loaded because of them.
    pub crashes: CrashHistory,
    /// Packages, by their hash, that a probe process of this program has opened before.
    pub probed: Vec<String>,
    /// Signs logins.
    pub token_secret: Secret,
    /// What the worker keeps itself from before it opens a plugin.
    pub sandbox: Sandbox,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListenerUse {
    /// `LISTEN_ADDR`.
    Main,
    /// `ADMIN_LISTEN_ADDR`.
    Admin,
    /// `METRICS_ADDR`.
    Metrics,
}

/// The logins that a worker may know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerDatabase {
    pub core: ConnectParams,
    pub reaper: ConnectParams,
    pub roles: RoleNames,
    pub dbname: String,
}

/// Which package of which plugin wants its schema brought in line. Neither SQL nor a path comes from a worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProvisionRequest {
    pub plugin: String,
    pub sha256: String,
}

/// The account that the first start made, as far as its password is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstLogin {
    pub username: String,
    pub password_hash: Option<String>,
    /// Neither disabled nor removed.
    pub is_enabled: bool,
}

/// The certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsReading {
    /// The latest that could be used.
    pub pair: Option<TlsPair>,
    /// Why the files cannot be used as they lie there now.
    pub problem: Option<String>,
}

/// Worker to supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToSupervisor {
    /// Serving, and how the first user can log in now.
    Ready {
        first_login: Option<FirstLogin>,
    },
    /// A password was changed or an account removed: how the first user can log in since.
    FirstLogin(FirstLogin),
    Provision {
        id: u64,
        request: ProvisionRequest,
    },
    /// Drop a plugin's data.
    Purge {
        id: u64,
        plugin: String,
    },
    /// A probe process opened the package of this hash, and need not again.
    Probed {
        sha256: String,
    },
    /// A plugin held all its threads with calls that never return.
    Blocked {
        crash: Box<Crash>,
    },
    /// Lets a plugin out of quarantine.
    Release {
        id: u64,
        plugin: String,
    },
    /// What the plugins' lock file holds.
    ReadLock {
        id: u64,
    },
    /// Puts this in its place, where the lock file only records (`PLUGIN_TRUST=record`).
    WriteLock {
        id: u64,
        lock: String,
    },
    /// Leaves the first user's password for the operator, or takes it away again.
    BootstrapPassword {
        id: u64,
        password: Option<Secret>,
    },
    /// What the files of `TLS_CERT` and `TLS_KEY` hold now.
    ReadTls {
        id: u64,
    },
    /// The worker's tasks run.
    Alive,
}

/// Supervisor to worker, after [`WorkerStart`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToWorker {
    Drain,
    Provisioned {
        id: u64,
        result: Result<PluginDatabase, ProvisionFault>,
    },
    Purged {
        id: u64,
        result: Result<PurgeReport, ProvisionFault>,
    },
    /// Whether the plugin was in quarantine.
    Released {
        id: u64,
        was_quarantined: bool,
    },
    Lock {
        id: u64,
        lock: Result<String, String>,
    },
    Written {
        id: u64,
        result: Result<(), String>,
    },
    Tls {
        id: u64,
        tls: TlsReading,
    },
}
