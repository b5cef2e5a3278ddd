//! The server behind the `cardinal` binary. `host/README.md` tells its two walks and its invariants.

pub mod api;
pub mod app;
pub mod audit;
pub mod auth;
pub mod backup;
pub mod cards;
pub mod catalogue;
pub mod cli;
pub mod clock;
pub mod config;
pub mod db;
mod hex;
pub mod http;
pub mod keeper;
pub mod lifecycle;
pub mod limit;
pub mod link;
mod mac;
pub mod mcp;
pub mod observe;
pub mod plugin;
pub mod provision;
pub mod proxy;
pub mod request;
pub mod router;
mod secret_file;
pub mod server;
