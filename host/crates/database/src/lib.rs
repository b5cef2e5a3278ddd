//! Ways to the database: connection parameters, role names, pools, and what an outage looks like.
//!
//! No statement on a table stands here: those of the worker are in `cardinal-store`, those of the owner in
//! `cardinal-schema`.

pub mod bounded_rows;
pub mod connect;
pub mod heartbeat;
mod outage;
pub mod pool;
pub mod roles;
pub mod server;
pub mod sql;
