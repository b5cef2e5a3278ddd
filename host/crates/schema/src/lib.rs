//! The owner's side of the database: migrations, roles, plugins' schemas, dumps, and the check of their isolation.
//!
//! Only the supervisor's processes and the command line use it. No crate of the worker can name what is here.

pub mod dump;
pub mod host_database;
pub mod isolation;
mod keyed_tables;
pub mod migrate;
pub mod plugin_schema;
pub mod pooler;
pub mod prepare;
pub mod sealed_settings;
pub mod session_watch;
mod sql_failure;
