//! The supervisor: the private PostgreSQL, the worker's processes, and the short-lived ones that make plugins' schemas.
//!
//! What is absent: plugins. No library is ever opened here.

pub mod access;
pub mod announce;
pub mod backoff;
mod bind;
pub mod control_service;
pub mod crashes;
pub mod data_dir;
pub mod files;
pub mod first_password;
pub mod launch;
pub mod lines;
pub mod liveness;
pub mod local;
pub mod output;
pub mod postgres;
pub mod provision;
pub mod provisioner;
pub mod serve;
mod server_memory;
pub mod temp_folder;
pub mod tls;
pub mod worker;
pub mod worker_account;
pub mod worker_log;
