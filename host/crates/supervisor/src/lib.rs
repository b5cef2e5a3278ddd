//! The supervisor: the private PostgreSQL, the worker's processes, and the short-lived ones that make plugins' schemas.
//!
//! What is absent: plugins. No library is ever opened here.

pub mod access;
mod announce;
mod backoff;
mod bind;
mod control_service;
pub mod crashes;
pub mod data_dir;
mod files;
mod first_password;
pub mod launch;
mod lines;
mod liveness;
pub mod local;
mod orphans;
mod output;
pub mod postgres;
mod process_stat;
pub mod provision;
pub mod provisioner;
pub mod serve;
mod server_memory;
mod starting;
mod temp_folder;
mod tls;
mod turns;
mod worker;
pub mod worker_account;
mod worker_log;
